# SPDX-License-Identifier: Apache-2.0

"""Carries out steps: the only module that changes control groups.

The lock of the mount is held over every change: others that follow the
kernel's documentation wait, and so do the threads of this process.
"""

from collections.abc import Callable, Iterable, Iterator
import contextlib
import dataclasses

from oslo_log import log as logging

from nova_ext_resources.drivers.resctrl.guest import threads
from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources.drivers.resctrl.kernel import group_files
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.kernel import tasks
from nova_ext_resources.drivers.resctrl.kernel import topology
from nova_ext_resources.drivers.resctrl.policy import machine as machine_mod
from nova_ext_resources.drivers.resctrl.policy import write_order
from nova_ext_resources import exception

LOG = logging.getLogger(__name__)

#: How often the threads of a server are listed and moved. Each time only
#: those are left that threads outside have cloned since the time before.
ROUNDS = 8


class Writer:
    """The groups of this host. Every method raises ResctrlError.

    :param cpu_path: ``/sys/devices/system/cpu``
    :param machine: as far as the options say
    :ivar machine: with the CPUs of each cache
    """

    def __init__(
        self,
        files: file_system.FileSystem,
        cpu_path: str,
        machine: machine_mod.HostMachine,
    ) -> None:
        self._cpu_path = cpu_path
        self._groups = group_files.GroupFiles(files)
        # Both are read and changed while the lock of the mount is held.
        self._tree: groups.Tree | None = None
        self._rights: tuple[int, ...] = ()
        self.machine = machine

    def check_ready(self) -> None:
        """Make a group of no server and remove it, once for each mount.

        :raises ResctrlError: nor could a group of a server be made
        """
        rights = self._groups.read_rights()
        if rights == self._rights:
            return
        with self._groups.locked(exclusive=True):
            # A crash may have left it.
            self._groups.remove(groups.TRIAL)
            # Linux looks at the right to make a group before the kernel's
            # resctrl finds that it has no class or monitoring id for one.
            with contextlib.suppress(errors.NoFreeClosid, errors.NoFreeRmid):
                self._groups.make(groups.TRIAL)
                self._groups.remove(groups.TRIAL)
        self._rights = rights

    def find_problem(self) -> str:
        """Return why no group could be made, as far as reading shows."""
        return self._groups.find_problem()

    def read(self) -> groups.Tree:
        """Read everything that is there."""
        with self._groups.locked(exclusive=False):
            self._tree = None
            self._tree = self._read()
            return self._tree

    def _read(self) -> groups.Tree:
        tree = self._groups.read()
        # Memory bandwidth belongs to a last-level cache, controlled or not.
        levels = {schemata.LAST_LEVEL, *tree.info.levels}
        self.machine = dataclasses.replace(
            self.machine,
            cpus=topology.read_known(self._cpu_path, levels),
            online=topology.read_online(self._cpu_path),
        )
        return tree

    def read_tasks(
        self, consumers: Iterable[str]
    ) -> dict[str, frozenset[int]]:
        """Return server -> the threads in its group, if it has one.

        :param consumers: servers; ``groups.SHARED`` stands for all those in
            the shared pool
        """
        names = {
            uuid if uuid == groups.SHARED else groups.make_name(uuid): uuid
            for uuid in consumers
        }
        found = self.read_tasks_of(names)
        return {names[name]: tids for name, tids in found.items()}

    def read_tasks_of(self, names: Iterable[str]) -> dict[str, frozenset[int]]:
        """Return group -> the threads in it, for those that are there."""
        found = {}
        with self._groups.locked(exclusive=False):
            for name in names:
                with contextlib.suppress(errors.GroupGone):
                    found[name] = self._groups.read_tasks(name)
        return found

    @contextlib.contextmanager
    def changing(
        self, *, name: str = '', is_quick: bool = False
    ) -> Iterator[groups.Tree]:
        """Hold the lock of the mount, and know what is there.

        :param name: the group that is to change, and is read anew
        :param is_quick: see :meth:`.group_files.GroupFiles.read_again`
        """
        with self._groups.locked(exclusive=True):
            try:
                online = topology.read_online(self._cpu_path)
                if self._tree is None or online != self.machine.online:
                    # The kernel takes CPUs that go offline out of their
                    # groups, and caches that come back are open to all.
                    self._tree = self._read()
                else:
                    self._tree = self._groups.read_again(
                        self._tree, name=name, is_quick=is_quick
                    )
                yield self._tree
            except (exception.ClaimError, exception.EnforcementFailed):
                # Refused before anything was changed.
                raise
            except BaseException:
                # Whatever it was, what is remembered may be wrong.
                self._tree = None
                raise

    @property
    def known(self) -> groups.Tree | None:
        """What was there last; None: nothing that could be relied on."""
        return self._tree

    @property
    def tree(self) -> groups.Tree:
        assert self._tree is not None, 'the lock of the mount is held'
        return self._tree

    def run(
        self,
        steps: Iterable[write_order.GroupChange],
        *,
        find_server: Callable[..., threads.Server] = threads.NoServer,
        undo: Callable[[groups.Tree], Iterable[write_order.GroupChange]]
        | None = None,
    ) -> None:
        """Carry steps out, one by one, up to the first that fails.

        :param find_server: returns some servers, as one
        :param undo: returns the steps that remove a group which the steps
            have made, for the case that one fails
        """
        is_made = False
        try:
            for step in steps:
                LOG.debug('resctrl: %(step)s', {'step': step})
                self._do(step, find_server)
                is_made = is_made or isinstance(step, write_order.Make)
        except BaseException:
            if is_made and undo:
                self._undo(undo)
            raise

    def _undo(
        self, undo: Callable[[groups.Tree], Iterable[write_order.GroupChange]]
    ) -> None:
        """Remove a new group. Errors here are logged only.

        So the first error is the one that is raised.
        """
        try:
            self.run(undo(self.tree))
        except Exception as err:
            LOG.error(
                'A new control group could not be removed again: %(err)s',
                {'err': err},
            )

    def _do(
        self,
        step: write_order.GroupChange,
        find_server: Callable[..., threads.Server],
    ) -> None:
        there = self.tree.groups
        match step:
            case write_order.Make(name=name):
                group = self._groups.make(name)
            case write_order.Remove(name=name):
                self._groups.remove(name)
                self._tree = self.tree.without(name)
                return
            case write_order.Write(name=name):
                group = self._write(step, there[name])
            case write_order.SetCpus(name=name, cpus=cpus):
                group = self._groups.write_cpus(there[name], cpus)
            case write_order.SetTasks(name=name, servers=servers):
                server = (
                    find_server(*servers) if servers else threads.NoServer()
                )
                settle(self._groups, name, server, is_new=step.is_new)
                return
            case write_order.TakeBack(name=name, server=uuid):
                take_back(self._groups, name, find_server(uuid))
                return
            case _:
                raise AssertionError(step)
        self._tree = self.tree.with_group(group)

    def _write(
        self, step: write_order.Write, group: groups.Group
    ) -> groups.Group:
        is_default = group.name == groups.DEFAULT
        # The default group is read before each change anyway.
        is_free = is_default and step.kind is write_order.WriteKind.WIDEN
        after = self._groups.write_schemata(
            group, step.values, is_checked=not is_free
        )
        if is_default:
            self.machine = self.machine.with_default(
                schemata.get_masks(group.schemata),
                schemata.get_masks(after.schemata),
            )
        return after


def settle(
    files: group_files.GroupFiles,
    name: str,
    server: threads.Server,
    *,
    is_new: bool = False,
) -> None:
    """Have all threads of a server, and no others, in its group.

    All others go to the default group. It ends when all that was listed is
    seen in the group: whatever a server starts later is in it, because a
    thread starts in the group of the one that clones it. A clone that is under
    way while its maker is moved may come up outside; the next read finds it.

    :param is_new: nothing was ever put into the group
    :raises NotApplied: the threads do not stay where they were put
    """
    for number in range(ROUNDS):
        wanted = server.list_threads()
        if is_new and not number:
            if not wanted:
                return
            inside = frozenset[int]()
        else:
            inside = files.read_tasks(name)
        missing = wanted - inside
        if missing and inside:
            # Those that ended between the two readings are not outside.
            missing &= server.list_threads()
        foreign = server.list_foreign(inside - wanted)
        if not missing and not foreign:
            return
        if foreign:
            files.write_tasks(groups.DEFAULT, foreign)
        if missing:
            files.write_tasks(name, missing)
    outside, others = map(tasks.format_threads, (missing, foreign))
    raise errors.NotApplied(
        action=f'move the threads of the server into {name}',
        reason=f'after {ROUNDS} attempts, threads {outside} are still outside '
        f'and threads {others} of other processes inside; another program '
        'moves threads, or threads are started faster than they can be moved',
    )


def take_back(
    files: group_files.GroupFiles, name: str, server: threads.Server
) -> None:
    """Have all threads of a server that are in a group in the default one.

    What they start from then on is there too.

    :raises NotApplied: they do not stay there
    """
    for _ in range(ROUNDS):
        try:
            inside = files.read_tasks(name) & server.list_threads()
        except errors.GroupGone:
            return
        if not inside:
            return
        files.write_tasks(groups.DEFAULT, inside)
    raise errors.NotApplied(
        action=f'take the threads of the server out of {name}',
        reason=f'after {ROUNDS} attempts, threads '
        f'{tasks.format_threads(inside)} are in the group again; configure '
        'the software of this group to leave these threads out',
    )
