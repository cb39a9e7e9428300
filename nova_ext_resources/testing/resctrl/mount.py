# SPDX-License-Identifier: Apache-2.0

"""One mount of resctrl: its groups, and what can be done to them."""

from collections.abc import Callable, Iterable, Iterator
import errno

from nova_ext_resources.testing.resctrl import controls
from nova_ext_resources.testing.resctrl import groups
from nova_ext_resources.testing.resctrl import monitoring
from nova_ext_resources.testing.resctrl import numbers
from nova_ext_resources.testing.resctrl import schemata
from nova_ext_resources.testing.resctrl import shape as shape_mod
from nova_ext_resources.testing.resctrl import tasks as tasks_mod

Group = groups.Group
Refused = controls.Refused

#: Bytes that ``last_cmd_status`` holds.
STATUS_SIZE = 512


class Mount:
    """What is gone after umount.

    Whoever calls holds the kernel's mutex. Refusals are
    :class:`.controls.Refused`.

    :ivar groups: control groups; '' is the default one
    :ivar online: the CPUs that are online
    """

    def __init__(
        self,
        shape: shape_mod.Shape,
        online: set[int],
        tasks: tasks_mod.Tasks,
        clock: Callable[[], float],
    ) -> None:
        _check_options(shape)
        self.shape = shape
        self.online = online
        self.tasks = tasks
        self.schemata = schemata.Schemata(shape)
        self.monitor = _make_monitor(shape, clock)
        self.status = ''
        has_io_class = any(cache.io_ways for cache in shape.caches)
        self._free_closids = list(
            range(1, self.schemata.num_closids - has_io_class)
        )
        self._group_of: dict[int, Group] = {}
        self.root = Group(
            name='',
            closid=0,
            rmid=0 if self.monitor else None,
            cpus=set(online),
            permissions=groups.ROOT_PERMISSIONS,
        )
        self.groups: dict[str, Group] = {'': self.root}
        self.schemata.modes[0] = groups.SHAREABLE
        self._follow_cpus()

    @property
    def num_free_closids(self) -> int:
        return len(self._free_closids)

    def say(self, words: str) -> None:
        """Add a line to ``last_cmd_status``, which has little room."""
        if words:
            self.status = f'{self.status}{words}\n'[:STATUS_SIZE]

    # Groups

    def make_group(
        self, name: str, permissions: int = groups.PERMISSIONS
    ) -> None:
        """Make a control group, with all that is not exclusive to others."""
        if name in self.groups:
            raise FileExistsError(errno.EEXIST, 'there is such a group', name)
        if not self._free_closids:
            raise Refused('Out of CLOSIDs', errno.ENOSPC)
        closid = self._free_closids[0]
        group = Group(
            name=name,
            closid=closid,
            rmid=self._take_rmid(),
            permissions=permissions,
        )
        try:
            self.schemata.open_class(closid)
        except Refused:
            self._give_rmid(group)
            raise
        self._free_closids.remove(closid)
        self.groups[name] = group
        self._note_mode(group, groups.SHAREABLE)

    def make_monitor_group(
        self,
        parent: Group,
        name: str,
        permissions: int = groups.PERMISSIONS,
    ) -> None:
        if parent.is_locking:
            raise Refused('Pseudo-locking in progress')
        if name in parent.children:
            raise FileExistsError(errno.EEXIST, 'there is such a group', name)
        parent.children[name] = Group(
            name=name,
            closid=parent.closid,
            rmid=self._take_rmid(),
            parent=parent,
            permissions=permissions,
        )

    def remove_group(self, group: Group) -> None:
        """Remove a group; its CPUs and tasks fall to the default one."""
        self.poll_tasks()
        for one in (*group.children.values(), group):
            self._give_rmid(one)
        for tid, holder in list(self._group_of.items()):
            if group in (holder, holder.parent):
                del self._group_of[tid]
        self.root.cpus |= group.cpus
        if group.locked is None:
            self._give_closid(group.closid)
        else:
            self.schemata.locked.pop(_locked_key(group.locked), None)
        del self.groups[group.name]

    def remove_monitor_group(self, group: Group) -> None:
        """Remove a group; its tasks fall to its parent, CPUs it has."""
        self.poll_tasks()
        assert group.parent is not None
        self._give_rmid(group)
        for tid, holder in list(self._group_of.items()):
            if holder is group:
                self._put_task(tid, group.parent)
        del group.parent.children[group.name]

    def move_monitor_group(
        self, group: Group, parent: Group, name: str
    ) -> None:
        """Rename a monitoring group, or put it under another parent."""
        if group.cpus and group.parent is not parent:
            raise Refused(
                'Cannot move a MON group that monitors CPUs', errno.EPERM
            )
        if name in parent.children:
            raise FileExistsError(errno.EEXIST, 'there is such a group', name)
        assert group.parent is not None
        del group.parent.children[group.name]
        parent.children[name] = group
        group.name, group.parent = name, parent
        group.closid = parent.closid

    def list_groups(self) -> Iterator[Group]:
        for group in self.groups.values():
            yield group
            yield from group.children.values()

    def _take_rmid(self) -> int | None:
        return self.monitor.allocate() if self.monitor else None

    def _give_rmid(self, group: Group) -> None:
        if self.monitor and group.rmid is not None:
            self.monitor.free(group.rmid)
            group.rmid = None

    def _give_closid(self, closid: int) -> None:
        del self.schemata.modes[closid]
        self._free_closids = sorted([*self._free_closids, closid])

    def _note_mode(self, group: Group, mode: str) -> None:
        group.mode = mode
        self.schemata.modes[group.closid] = mode

    # Schemata and modes

    def write_schemata(self, group: Group, text: str) -> None:
        if group.locked:
            raise Refused('Resource group is pseudo-locked')
        staged = self.schemata.parse(text, group)
        self.schemata.commit(staged, group.closid)
        if group.mode == groups.LOCKSETUP:
            self._lock(group, staged)

    def _lock(self, group: Group, staged: schemata.Staged) -> None:
        """Fill the cache and never let go: the class is free then."""
        (name, domain), mask = next(iter(staged.items()))
        group.locked = (name, domain, mask)
        self.schemata.locked[_locked_key(group.locked)] = mask
        group.mode = groups.LOCKED
        self._give_closid(group.closid)

    def restore(self, group: Group, text: str, mode: str) -> None:
        """Set what a group was captured with, whatever the rules say."""
        self.schemata.restore(text, group.closid)
        if mode in (groups.SHAREABLE, groups.EXCLUSIVE):
            self._note_mode(group, mode)

    def write_mode(self, group: Group, mode: str) -> None:
        if mode == group.mode:
            return
        if group.locked:
            raise Refused('Cannot change pseudo-locked group')
        if mode == groups.LOCKSETUP:
            self._enter_setup(group)
        elif mode in (groups.SHAREABLE, groups.EXCLUSIVE):
            if mode == groups.EXCLUSIVE:
                self.schemata.check_exclusive(group.closid)
            if group.mode == groups.LOCKSETUP:
                group.rmid = self._take_rmid()
        else:
            raise Refused('Unknown or unsupported mode')
        self._note_mode(group, mode)

    def _enter_setup(self, group: Group) -> None:
        if group is self.root:
            raise Refused('Cannot pseudo-lock default group')
        if any(self.schemata.has_cdp(cache) for cache in self.shape.caches):
            raise Refused('CDP enabled')
        if not self.shape.can_pseudo_lock:
            raise Refused('Pseudo-locking not supported')
        if group.children:
            raise Refused('Monitoring in progress')
        if self.list_tasks(group):
            raise Refused('Tasks assigned to resource group')
        if group.cpus:
            raise Refused('CPUs assigned to resource group')
        self._give_rmid(group)

    # CPUs

    def list_cpus(self, group: Group) -> set[int]:
        """Return the CPUs that a group shows.

        :raises Refused: those of the cache that it has locked are offline
        """
        if group.locked is None:
            return group.cpus
        name, number, _mask = group.locked
        domain = self.schemata.controls[name].domains[number]
        cpus = self.online & domain.cpus
        if not cpus:
            raise Refused('Cache domain offline', errno.ENODEV)
        return cpus

    def write_cpus(self, group: Group, cpus: set[int]) -> None:
        if not cpus <= self.online:
            raise Refused('Can only assign online CPUs')
        if group.parent is not None:
            self._write_monitored_cpus(group, group.parent, cpus)
        else:
            self._write_controlled_cpus(group, cpus)

    def _write_monitored_cpus(
        self, group: Group, parent: Group, cpus: set[int]
    ) -> None:
        if not cpus <= parent.cpus:
            raise Refused(
                'Can only add CPUs to mongroup that belong to parent'
            )
        for sibling in parent.children.values():
            sibling.cpus -= cpus
        group.cpus = set(cpus)

    def _write_controlled_cpus(self, group: Group, cpus: set[int]) -> None:
        dropped = group.cpus - cpus
        if dropped and group is self.root:
            raise Refused("Can't drop CPUs from default group")
        self.root.cpus |= dropped
        added = cpus - group.cpus
        for other in self.groups.values():
            if other is not group:
                other.drop_cpus(added)
        group.cpus = set(cpus)
        for child in group.children.values():
            child.cpus.clear()

    def set_offline(self, cpus: Iterable[int]) -> None:
        """Take CPUs offline, and out of their groups."""
        gone = set(cpus)
        self.online -= gone
        for group in self.groups.values():
            group.drop_cpus(gone)
        self._follow_cpus()

    def set_online(self, cpus: Iterable[int]) -> None:
        """Bring CPUs back: into the default group."""
        back = set(cpus) - self.online
        self.online |= back
        self.root.cpus |= back
        self._follow_cpus()

    def _follow_cpus(self) -> None:
        for control in self.schemata.controls.values():
            control.follow(self.online)
        if self.monitor:
            self.monitor.follow(self.online)

    # Tasks

    def poll_tasks(self) -> None:
        """Let threads that are new inherit, and forget those that died."""
        for tid, parent in self.tasks.list_changes(tuple(self._group_of)):
            if parent is None:
                self._group_of.pop(tid, None)
            elif parent in self._group_of:
                self._group_of[tid] = self._group_of[parent]

    def list_tasks(self, group: Group) -> list[int]:
        """Return the threads of a class, or of a monitoring group."""
        self.poll_tasks()
        if group is self.root:
            return [
                tid
                for tid in self.tasks.list_all()
                if self._find_control_group(tid) is group
            ]
        return [
            tid
            for tid, holder in self._group_of.items()
            if group in (holder, holder.parent)
        ]

    def write_tasks(self, group: Group, text: str, caller: int) -> None:
        self.poll_tasks()
        if group.is_locking:
            raise Refused('Pseudo-locking in progress')
        for part in self._split_tasks(text):
            tid = self._parse_task(part.strip()) or caller
            try:
                self._move_task(tid, group)
            except Refused as refused:
                if not self.shape.kernel >= shape_mod.TASK_LISTS:
                    raise
                self.say(refused.words)
                raise Refused(
                    f'Error while processing task {tid}', refused.errno or 0
                ) from None

    def _split_tasks(self, text: str) -> Iterator[str]:
        if self.shape.kernel < shape_mod.TASK_LISTS:
            yield text
            return
        while text and not text.startswith('\n'):
            part, _comma, text = text.partition(',')
            yield part

    def _parse_task(self, text: str) -> int:
        try:
            tid = numbers.parse_integer(text)
        except (ValueError, OverflowError):
            tid = None
        if self.shape.kernel < shape_mod.TASK_LISTS:
            if tid is None or tid < 0:
                raise Refused()
            # What is no number was refused before.
            self.status = ''
        elif tid is None:
            raise Refused(f'Task list parsing error pid {text}')
        elif tid < 0:
            raise Refused(f'Invalid pid {tid}')
        return tid

    def _move_task(self, tid: int, group: Group) -> None:
        if not self.tasks.exists(tid):
            raise Refused(f'No task {tid}', errno.ESRCH)
        if (
            group.parent is not None
            and self._find_control_group(tid) is not group.parent
        ):
            raise Refused("Can't move task to different control group")
        self.tasks.watch(tid)
        self._put_task(tid, group)

    def _put_task(self, tid: int, group: Group) -> None:
        if group is self.root:
            self._group_of.pop(tid, None)
        else:
            self._group_of[tid] = group

    def _find_control_group(self, tid: int) -> Group:
        group = self._group_of.get(tid, self.root)
        return group.parent or group


def _locked_key(locked: tuple[str, int, int]) -> tuple[str, int]:
    name, domain, _mask = locked
    return name, domain


def _check_options(shape: shape_mod.Shape) -> None:
    """Refuse what the machine cannot do, as mount(2) would."""
    capable = {'debug'}
    capable |= {
        {3: 'cdp', 2: 'cdpl2'}[cache.level]
        for cache in shape.caches
        if cache.is_cdp_capable
    }
    counts = shape.monitoring
    if (
        counts
        and 'mbm_local_bytes' in counts.events
        and not counts.has_clusters
        and any(one.is_linear for one in shape.bandwidths)
    ):
        capable.add('mba_MBps')
    wrong = sorted(shape.options - capable)
    if wrong:
        raise OSError(
            errno.EINVAL, f'{shape.name} cannot be mounted with {wrong}'
        )


def _make_monitor(
    shape: shape_mod.Shape, clock: Callable[[], float]
) -> monitoring.Monitor | None:
    if shape.monitoring is None:
        return None
    size = max((cache.size for cache in shape.caches), default=1 << 25)
    return monitoring.Monitor(shape.monitoring, size, clock)
