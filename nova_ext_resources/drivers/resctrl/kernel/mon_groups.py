# SPDX-License-Identifier: Apache-2.0

"""Monitoring groups: for servers that have no control group of their own.

They are named as control groups are, ``nova-<uuid>``, and lie below the
control group in which the server's threads are: the default one, or that of
the shared pool. A thread in one of them uses the ways of the control group it
is in, or of its CPU's, and is counted apart (kernel documentation, "Resource
allocation rules" and "Resource monitoring rules").
"""

from collections.abc import Iterable, Mapping
import contextlib
import dataclasses
import errno
import itertools
import os

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources.drivers.resctrl.kernel import group_files
from nova_ext_resources.drivers.resctrl.kernel import groups

#: The control group of the pool of ways that servers share.
SHARED = groups.SHARED

_FOLDER = 'mon_groups'

_INFO = 'info'

_NONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ENOTDIR})

#: Control groups that have monitoring groups of ours.
_PARENTS = (groups.DEFAULT, SHARED)

#: A group has gone, or is for a region of a cache: nothing runs there.
_CLOSED = (errors.GroupGone, errors.ResctrlFailed)

_USED_UP = {
    errno.ENOSPC: 'all monitoring ids are in use; every group of this host '
    'takes one id, also the groups of other software',
    errno.EBUSY: errors.IN_LIMBO,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, order=True)
class MonGroup:
    """One monitoring group of ours.

    :ivar parent: its control group, '' for the default one
    """

    parent: str
    consumer_uuid: str

    @property
    def path(self) -> str:
        """Return its folder."""
        name = groups.make_name(self.consumer_uuid)
        return f'{group_files.join(self.parent, _FOLDER)}/{name}'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The groups that there are.

    :ivar controls: servers with a control group of their own
    :ivar mon_groups: monitoring groups of ours
    :ivar num_controls: all control groups, the default one among them
    :ivar num_closids: control groups that there can be; 0 where nothing is
        controlled
    :ivar num_rmids: monitoring ids that are in use by all groups, other
        software's too; those in limbo are not among them, as the kernel does
        not show these
    :ivar total_rmids: monitoring ids, the default group's among them; 0
        where nothing is monitored
    :ivar has_shared: whether the group of the shared pool is there
    :ivar others: path of a group of other software -> the threads in it,
        which are counted there
    """

    controls: frozenset[str]
    mon_groups: frozenset[MonGroup]
    num_controls: int
    num_closids: int
    num_rmids: int
    total_rmids: int
    has_shared: bool
    others: Mapping[str, frozenset[int]]

    @property
    def free_rmids(self) -> int:
        """Return how many more groups can get an id.

        With fewer ids than classes, as some kernels on ARM show, each class
        has ids of its own.
        """
        if self.total_rmids < self.num_closids:
            return self.num_closids
        return max(self.total_rmids - self.num_rmids, 0)


class MonGroups:
    """Lists, makes, fills and removes them; each takes the mount's lock.

    Every method raises ResctrlError.
    """

    def __init__(self, files: file_system.FileSystem) -> None:
        self._files = files
        self._groups = group_files.GroupFiles(files)

    def list_all(self) -> Listing:
        """List all groups.

        :raises ResctrlMissing: there is no mount
        """
        with self._groups.locked(exclusive=False):
            controls = [groups.DEFAULT, *self._groups.list_names()]
            below = {name: self._list_below(name) for name in controls}
            num_closids = self._find_least('num_closids')
            total_rmids = self._find_least('num_rmids')
            others = self._read_others(below)
        return Listing(
            controls=frozenset(filter(None, map(groups.parse_name, controls))),
            mon_groups=_find_ours(below),
            num_controls=len(controls),
            num_closids=num_closids,
            num_rmids=len(controls) + sum(map(len, below.values())),
            total_rmids=total_rmids,
            has_shared=SHARED in below,
            others=others,
        )

    def _read_others(
        self, below: Mapping[str, Iterable[str]]
    ) -> dict[str, frozenset[int]]:
        """Read the threads of groups that are not ours, by path.

        What is below a server's own group is counted for it, too.
        """
        found = {}
        for name in itertools.filterfalse(groups.parse_name, below):
            folder = group_files.join(name, _FOLDER)
            for path in (name, *(f'{folder}/{one}' for one in below[name])):
                if path and not groups.is_ours(os.path.basename(path)):
                    with contextlib.suppress(*_CLOSED):
                        found[path] = self._groups.read_tasks(path)
        return found

    def _list_below(self, name: str) -> list[str]:
        path = group_files.join(name, _FOLDER)
        with file_system.translated(self._files, f'list {path}'):
            try:
                return self._files.listdir(path)
            except OSError as err:
                # The kernel closes the folder where a group is for a region
                # that is locked into the cache: nothing is monitored there.
                is_closed = err.errno == errno.EACCES and name not in _PARENTS
                if err.errno not in _NONE and not is_closed:
                    raise
                # Or removed since, or no group at all but a file of a later
                # kernel.
                return []

    def _find_least(self, file: str) -> int:
        """Return the least number that a control or a monitor shows."""
        found = []
        with file_system.translated(self._files, 'list the controls'):
            for name in self._files.listdir(_INFO):
                try:
                    text = self._files.read(f'{_INFO}/{name}/{file}')
                except (FileNotFoundError, NotADirectoryError):
                    continue
                found.append(int(text) if text.strip().isdecimal() else 0)
        return min(found, default=0)

    def make(self, group: MonGroup) -> None:
        """Make a group; one that is there already is a success.

        :raises NoFreeRmid: all ids are in use, or in limbo
        """
        action = f'make monitoring group {group.path}'
        with self._groups.locked(exclusive=True):
            with file_system.translated(self._files, action):
                try:
                    self._files.mkdir(group.path)
                except FileExistsError:
                    return
                except OSError as err:
                    if err.errno not in _USED_UP:
                        raise
                    raise errors.NoFreeRmid(
                        action=action, reason=_USED_UP[err.errno]
                    ) from err

    def remove(self, group: MonGroup) -> None:
        """Remove a group; one that has gone already is a success.

        Its threads stay in the control group.
        """
        with self._groups.locked(exclusive=True):
            self._groups.remove(group.path)

    def join(self, group: MonGroup, threads: Iterable[int]) -> None:
        """Put threads into a group; what they start later is there too.

        A thread that has ended is passed over.

        :raises ResctrlRefused: one is in another control group
        """
        with self._groups.locked(exclusive=True):
            there = self._groups.read_tasks(group.path)
            new = frozenset(threads) - there
            if new:
                self._groups.write_tasks(group.path, new)

    def remove_all(self) -> None:
        """Remove those of ours: nothing is monitored from now on.

        Where there is no resctrl, there are none.
        """
        below = {parent: self._list_below(parent) for parent in _PARENTS}
        for group in sorted(_find_ours(below)):
            self.remove(group)


def _find_ours(below: Mapping[str, Iterable[str]]) -> frozenset[MonGroup]:
    """Find our groups among the names below each control group."""
    return frozenset(
        MonGroup(parent=parent, consumer_uuid=uuid)
        for parent in _PARENTS
        for uuid in map(groups.parse_name, below.get(parent, ()))
        if uuid
    )
