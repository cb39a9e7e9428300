# SPDX-License-Identifier: Apache-2.0

"""The files of control groups: all of them are read, one is changed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar
import contextlib
import dataclasses

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import info
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.objects import bitmask

T = TypeVar('T')
U = TypeVar('U')

_INFO = 'info'

#: What a folder needs to be a control group.
_SCHEMATA = 'schemata'

_MODE = 'mode'

_TOO_OLD = (
    'the kernel has no such file. Update the kernel of this host to Linux '
    '4.19 or later, or to a distribution kernel that has this file, or remove '
    'resctrl from [ext_resources] inventory_providers and enforcers on this '
    'host'
)


class GroupFiles:
    """Reads and writes groups while the caller holds the lock of the mount.

    Every method raises ResctrlError.
    """

    def __init__(self, files: file_system.FileSystem) -> None:
        self.files = files
        # Name in the root -> whether it is a group; those of ours are.
        self._kinds: dict[str, bool] = {}
        self._bandwidth: info.BandwidthInfo | None = None

    @contextlib.contextmanager
    def locked(self, *, exclusive: bool) -> Iterator[None]:
        """Hold the lock of the mount.

        :raises ResctrlMissing: there is no mount
        :raises ResctrlBusy: another program does not release it
        """
        root = self.files.root
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self.files.lock(exclusive))
            except (FileNotFoundError, NotADirectoryError) as err:
                raise errors.make_missing(
                    root, 'there is no such folder'
                ) from err
            except OSError as err:
                raise errors.from_os_error(f'lock {root}', err, '') from err
            yield

    # -- reading -------------------------------------------------------

    def read(self) -> groups.Tree:
        """Read everything."""
        try:
            found = self._read_schemata(groups.DEFAULT)
        except errors.GroupGone as err:
            raise self._explain_no_control() from err
        # Kernels that lack this lack more that groups need.
        self._read(_MODE)
        # The CPUs of the default group are those that no other has.
        default = groups.Group(name=groups.DEFAULT, schemata=found)
        return self._add(
            groups.Tree(
                info=self._read_info(found), groups={default.name: default}
            ),
            self.list_names(),
        )

    def _explain_no_control(self) -> errors.ResctrlError:
        """Return the error of a root without control groups."""
        root = self.files.root
        try:
            self.files.listdir(_INFO)
        except OSError:
            return errors.make_missing(root, 'there is no file "schemata"')
        return errors.ResctrlFailed(
            action=f'read {root}',
            reason='resctrl is mounted, but the kernel can only monitor here '
            'and control nothing; if the CPU supports control, check rdt= on '
            'the kernel command line, otherwise remove resctrl from '
            '[ext_resources] inventory_providers and enforcers on this host',
        )

    def read_again(
        self, tree: groups.Tree, *, name: str = '', is_quick: bool = False
    ) -> groups.Tree:
        """Read the default group, those of others, and new ones.

        Groups of ours that are known are taken as they were, for they change
        by us alone, unless the default group has changed behind our back.

        :param name: a group of ours that is read anew all the same
        :param is_quick: the default group is only read where others have
            groups: without these it gets all ways that are not allocated,
            whatever it has
        """
        names = self.list_names()
        ours = set(filter(groups.is_ours, names))
        if not is_quick or len(ours) < len(names):
            default = self._read_schemata(groups.DEFAULT)
            if default != tree.groups[groups.DEFAULT].schemata:
                # Mounted anew with other options, CPUs of a whole cache were
                # offline, or other software has written to it.
                return self.read()
        known = {groups.DEFAULT, *(ours & tree.groups.keys() - {name})}
        left = tree.without(*(tree.groups.keys() - known))
        return self._add(left, set(names) - known)

    def _add(self, tree: groups.Tree, names: Iterable[str]) -> groups.Tree:
        found = dict(tree.groups)
        for name in sorted(names):
            # One that was removed in the meantime is no error.
            with contextlib.suppress(errors.GroupGone):
                found[name] = self._read_group(name)
        return dataclasses.replace(tree, groups=found)

    def list_names(self) -> list[str]:
        """Return the names of all control groups but the default one."""
        names = self._do('list the groups', self.files.listdir, groups.DEFAULT)
        self._kinds = {
            name: self._kinds[name] for name in names if name in self._kinds
        }
        # Nothing ever runs in the group for trials, so it holds nothing.
        return [
            name
            for name in names
            if name != groups.TRIAL and self._is_group(name)
        ]

    def read_rights(self) -> tuple[int, ...]:
        """Return what decides whether groups can be made."""
        return self._do('read the mount', self.files.get_rights)

    def find_problem(self) -> str:
        """Return why no group could be made, as far as reading shows."""
        return self._do('read the mount', self.files.find_problem)

    def _is_group(self, name: str) -> bool:
        """Return whether a name in the root is that of a control group.

        Beside groups there are files and folders of the default group, more
        of them with each kernel. A group has a file ``schemata``, but for
        the folders of monitoring groups and what is no folder.
        """
        if name not in self._kinds:
            if groups.is_ours(name):
                return True
            try:
                inside = self._do(f'list {name}', self.files.listdir, name)
            except errors.GroupGone:
                return False
            except errors.NoFolder:
                inside = []
            self._kinds[name] = _SCHEMATA in inside
        return self._kinds[name]

    def _read_group(self, name: str) -> groups.Group:
        group = groups.Group(
            name=name,
            schemata=self._read_schemata(name),
            mode=self._read(f'{name}/{_MODE}', groups.SHAREABLE).strip(),
            consumer_uuid=groups.parse_name(name),
        )
        # Until the region is locked, not even root may read the CPUs; then
        # the kernel shows those of the whole cache, which this group does
        # not have (fs/resctrl/rdtgroup.c, rdtgroup_cpus_show).
        if group.is_locking:
            return group
        return dataclasses.replace(group, cpus=self._read_cpus(name))

    def _read_schemata(self, name: str) -> dict[tuple[str, int], int]:
        path = join(name, _SCHEMATA)
        found = understand(path, schemata.parse, self._read(path))
        for key, value in found.items():
            if self._bandwidth and key[0] == schemata.BANDWIDTH:
                found[key] = self._bandwidth.find_written(value)
        return found

    def _read_cpus(self, name: str) -> frozenset[int]:
        path = join(name, 'cpus_list')
        return understand(path, bitmask.parse_list, self._read(path, ''))

    def _read(self, path: str, default: str | None = None) -> str:
        """Read a file.

        :param default: of a group without this file, which has not gone for
            that; None: no group is without it
        :raises GroupGone: the group is not there
        """
        try:
            return self._do(f'read {path}', self.files.read, path)
        except errors.GroupGone as err:
            name, _slash, file = path.rpartition('/')
            there = self._do(f'list {name}', self.files.listdir, name)
            if path == _SCHEMATA or file in there:
                raise
            if default is None:
                raise errors.ResctrlFailed(
                    action=f'read {path}', reason=_TOO_OLD
                ) from err
            return default

    def _read_info(self, default: schemata.Schemata) -> info.ControlInfo:
        names = self._do('list the controls', self.files.listdir, _INFO)
        levels, bandwidth = {}, None
        for level, (plain, code, _data) in schemata.CONTROLS.items():
            name = code if code in names else plain
            if name in names:
                levels[level] = dataclasses.replace(
                    self._parse_info(name, info.parse_cache),
                    has_cdp=name == code,
                )
        if schemata.BANDWIDTH in names:
            limits = schemata.get_limits(default)
            bandwidth = dataclasses.replace(
                self._parse_info('MB', info.parse_bandwidth),
                highest=max(limits.values(), default=0),
            )
        self._bandwidth = bandwidth
        return info.ControlInfo(levels=levels, bandwidth=bandwidth)

    def _parse_info(
        self, name: str, parse: Callable[[Mapping[str, str]], T]
    ) -> T:
        path = f'{_INFO}/{name}'
        there = set(self._do(f'list {path}', self.files.listdir, path))
        texts = {
            one: self._read(f'{path}/{one}') for one in info.FILES & there
        }
        if info.has_io_class(texts):
            # Can be read only while I/O devices have a class.
            texts[info.IO_WAYS] = self._read(f'{path}/{info.IO_WAYS}')
        return understand(path, parse, texts)

    # -- changing ------------------------------------------------------

    def write_schemata(
        self,
        group: groups.Group,
        changed: schemata.Schemata,
        *,
        is_checked: bool = True,
    ) -> groups.Group:
        """Write values, and read them back.

        :param is_checked: False where the group only gets what is promised
            to no server, and the next reading is soon enough
        :raises NotApplied: the kernel shows other values
        """
        path = join(group.name, _SCHEMATA)
        for (control, _domain), value in changed.items():
            # Some hardware takes it, and what runs there has no cache then.
            if control != schemata.BANDWIDTH and not value:
                raise errors.ResctrlRefused(
                    action=f'set {path}',
                    reason=f'the group would have no way of {control}',
                )
        for text in schemata.list_texts(changed):
            self._do(f'write {path}', self.files.write, path, text)
        found = {**group.schemata, **changed}
        if is_checked:
            found = self._read_schemata(group.name)
            if reason := schemata.find_deviation(changed, found):
                raise errors.NotApplied(action=f'set {path}', reason=reason)
        return dataclasses.replace(group, schemata=found)

    def make(self, name: str) -> groups.Group:
        """Make a group of ours; nothing runs in it yet.

        :raises NoFreeClosid: no class of service is left
        :raises NoFreeRmid: the monitoring ids that are free are in limbo;
            some are free soon
        """
        action = f'make group {name}'
        try:
            self._do(action, self.files.mkdir, name)
        except errors.ResctrlBusy as err:
            raise errors.NoFreeRmid(
                action=action, reason=errors.IN_LIMBO
            ) from err
        # What the kernel put into it does not matter: all is written.
        return groups.Group(
            name=name, schemata={}, consumer_uuid=groups.parse_name(name)
        )

    def write_cpus(
        self, group: groups.Group, cpus: frozenset[int]
    ) -> groups.Group:
        """Move CPUs into a group, and read them back.

        :raises NotApplied: the kernel shows other CPUs
        """
        path = join(group.name, 'cpus_list')
        text = bitmask.format_list(cpus)
        self._do(f'write {path}', self.files.write, path, f'{text}\n')
        found = self._read_cpus(group.name)
        if found != cpus:
            raise errors.NotApplied(
                action=f'set {path}',
                reason=f'{text} is expected, but the kernel shows '
                f'{bitmask.format_list(found)}',
            )
        return dataclasses.replace(group, cpus=found)

    def read_tasks(self, name: str) -> frozenset[int]:
        """Return the threads of a group."""
        path = join(name, 'tasks')
        found = understand(path, _parse_tasks, self._read(path))
        # Those that this process cannot see (another PID namespace) are 0.
        return found - {0}

    def write_tasks(self, name: str, tids: Iterable[int]) -> None:
        """Move threads into a group; those that have ended do not matter."""
        path = join(name, 'tasks')
        self._do(f'write {path}', self.files.assign, path, sorted(tids))

    def remove(self, name: str) -> None:
        """Remove a group; its CPUs and tasks go to the default one.

        One that is gone already is a success.
        """
        with contextlib.suppress(errors.GroupGone):
            self._do(f'remove group {name}', self.files.rmdir, name)

    def _do(self, action: str, call: Callable[..., T], *arguments: Any) -> T:
        try:
            return call(*arguments)
        except OSError as err:
            raise file_system.translate(self.files, action, err) from err


def join(name: str, file: str) -> str:
    return f'{name}/{file}' if name else file


def _parse_tasks(text: str) -> frozenset[int]:
    return frozenset(map(int, text.split()))


def understand(path: str, parse: Callable[[U], T], content: U) -> T:
    """:raises ResctrlMalformed: the content makes no sense"""
    try:
        return parse(content)
    except (KeyError, ValueError) as err:
        raise errors.ResctrlMalformed(
            action=f'understand {path}', reason=str(err)
        ) from err
