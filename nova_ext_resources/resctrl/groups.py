# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Control groups: what there is, and the steps that change it.

A group of ours is named after its server, ``nova-<uuid>``. All others are
of other software: they are read and never written.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
import contextlib
import dataclasses
import errno
from typing import TypeVar
import uuid

from nova_ext_resources.objects import bitmask
from nova_ext_resources.resctrl import errors
from nova_ext_resources.resctrl import files as files_mod
from nova_ext_resources.resctrl import info as info_mod
from nova_ext_resources.resctrl import schemata as schemata_mod

T = TypeVar('T')

#: The default group is the mount itself.
DEFAULT = ''

_INFO = 'info'

_CACHES = ('L3', 'L3CODE', 'L3DATA', 'L2', 'L2CODE', 'L2DATA')

#: Beside the groups in the root, in all kernels up to now.
_NO_GROUPS = frozenset(
    {
        _INFO,
        'cpus',
        'cpus_list',
        'ctrl_hw_id',
        'mba_MBps_event',
        'mode',
        'mon_data',
        'mon_groups',
        'mon_hw_id',
        'schemata',
        'size',
        'tasks',
    }
)

#: Of the names of our groups.
PREFIX = 'nova-'

#: The group of all servers that share one pool of ways.
SHARED = 'nova-shared'

EXCLUSIVE = 'exclusive'

#: A region that is locked needs no class of service any more.
PSEUDO_LOCKED = 'pseudo-locked'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One control group.

    :ivar consumer_uuid: the server that it was made for; '' when it is of
        other software
    """

    name: str
    schemata: schemata_mod.Schemata
    cpus: frozenset[int] = frozenset()
    mode: str = 'shareable'
    consumer_uuid: str = ''

    def get_ways(self, cache: schemata_mod.Cache) -> int:
        return schemata_mod.get_ways(self.schemata, cache)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Everything that was there when it was looked at.

    :ivar groups: all but the default one, by name
    """

    info: info_mod.Info
    default: Group
    groups: Mapping[str, Group] = dataclasses.field(default_factory=dict)

    @property
    def ours(self) -> dict[str, Group]:
        """Server -> its group."""
        return {
            one.consumer_uuid: one
            for one in self.groups.values()
            if one.consumer_uuid
        }

    @property
    def foreign(self) -> list[Group]:
        return [one for one in self.groups.values() if not is_ours(one.name)]

    @property
    def used_closids(self) -> int:
        """Classes in use, the default one among them."""
        taken = [
            one for one in self.groups.values() if one.mode != PSEUDO_LOCKED
        ]
        return 1 + len(taken)

    def with_group(self, group: Group) -> 'Tree':
        if group.name == DEFAULT:
            return dataclasses.replace(self, default=group)
        return dataclasses.replace(
            self, groups={**self.groups, group.name: group}
        )

    def without(self, name: str) -> 'Tree':
        left = {n: one for n, one in self.groups.items() if n != name}
        return dataclasses.replace(self, groups=left)


def make_name(consumer_uuid: str) -> str:
    return f'{PREFIX}{consumer_uuid}'


def parse_name(name: str) -> str:
    """Give the server of a group of ours, '' for others."""
    text = name.removeprefix(PREFIX)
    if not name.startswith(PREFIX):
        return ''
    try:
        return text if str(uuid.UUID(text)) == text else ''
    except ValueError:
        return ''


def is_ours(name: str) -> bool:
    return name == SHARED or bool(parse_name(name))


class Groups:
    """Reads and writes groups. Every call wants the lock to be held.

    Every method raises ResctrlError.

    """

    def __init__(self, files: files_mod.FileSystem) -> None:
        self.files = files

    # -- reading -------------------------------------------------------

    def look(self) -> Tree:
        """Read everything."""
        default = self._read_default()
        tree = Tree(info=self._read_info(default), default=default)
        return self._add(tree, self.list_names())

    def look_again(
        self, tree: Tree, *, name: str = '', is_quick: bool = False
    ) -> Tree:
        """Read the default group, those of others, and new ones.

        Groups of ours that are known are taken as they were, for they change
        by us alone, unless the default group has changed behind our back.

        :param name: a group of ours that is read anew all the same
        :param is_quick: the default group is only read where others have
            groups: without these it gets all that is not sold, whatever it
            has
        """
        names = set(self.list_names())
        if not is_quick or not all(map(is_ours, names)):
            default = self._read_schemata(DEFAULT)
            if default != tree.default.schemata:
                # Mounted anew with other options, CPUs of a whole cache were
                # offline, or somebody has written to it.
                return self.look()
        known = set(filter(is_ours, tree.groups)) - {name}
        for one in set(tree.groups) - (names & known):
            tree = tree.without(one)
        return self._add(tree, names - known)

    def _add(self, tree: Tree, names: Iterable[str]) -> Tree:
        found = dict(tree.groups)
        for name in sorted(names):
            try:
                found[name] = self._read_group(name)
            except errors.GroupGone:
                # Removed while this looked, or a file of a later kernel.
                continue
        return dataclasses.replace(tree, groups=found)

    def list_names(self) -> list[str]:
        """Give the names of all control groups but the default one."""
        with self._translated('list the groups'):
            names = self.files.listdir(DEFAULT)
        return [name for name in names if name not in _NO_GROUPS]

    def _read_group(self, name: str) -> Group:
        return Group(
            name=name,
            schemata=self._read_schemata(name),
            cpus=self._read_cpus(name),
            mode=self._read(f'{name}/mode').strip(),
            consumer_uuid=parse_name(name),
        )

    def _read_default(self) -> Group:
        # The CPUs of the default group are those that no other has.
        try:
            found = self._read_schemata(DEFAULT)
        except errors.GroupGone as err:
            raise errors.make_missing(
                self.files.root, 'there is no file "schemata"'
            ) from err
        return Group(name=DEFAULT, schemata=found)

    def _read_schemata(self, name: str) -> dict[str, dict[int, int]]:
        path = join(name, 'schemata')
        with _checked(path):
            return schemata_mod.parse(self._read(path))

    def _read_cpus(self, name: str) -> frozenset[int]:
        path = join(name, 'cpus_list')
        with _checked(path):
            return bitmask.parse_list(self._read(path))

    def _read(self, path: str) -> str:
        with self._translated(f'read {path}'):
            try:
                return self.files.read(path)
            except NotADirectoryError as err:
                raise FileNotFoundError(errno.ENOENT, 'no group') from err

    def _read_info(self, default: Group) -> info_mod.Info:
        with self._translated('list the controls'):
            names = self.files.listdir(_INFO)
        caches = {
            name: self._parse_info(name, info_mod.parse_cache)
            for name in _CACHES
            if name in names
        }
        bandwidth = None
        if schemata_mod.BANDWIDTH in names:
            limits = default.schemata.get(schemata_mod.BANDWIDTH, {})
            bandwidth = dataclasses.replace(
                self._parse_info('MB', info_mod.parse_bandwidth),
                highest=max(limits.values(), default=0),
            )
        return info_mod.Info(caches=caches, bandwidth=bandwidth)

    def _parse_info(
        self, name: str, parse: Callable[[Mapping[str, str]], T]
    ) -> T:
        path = join(_INFO, name)
        with self._translated(f'list {path}'):
            there = info_mod.FILES & set(self.files.listdir(path))
        with _checked(path):
            return parse({one: self._read(join(path, one)) for one in there})

    # -- changing ------------------------------------------------------

    def write_schemata(
        self,
        group: Group,
        wanted: schemata_mod.Schemata,
        *,
        is_checked: bool = True,
    ) -> Group:
        """Write what differs, and read it back.

        :param is_checked: False where it only gives to a group what nobody
            has been promised, and the next look is soon enough
        :raises NotInForce: the kernel shows something else
        """
        changed = schemata_mod.make_difference(group.schemata, wanted)
        if not changed:
            return group
        path = join(group.name, 'schemata')
        for control in set(changed) - {schemata_mod.BANDWIDTH}:
            # Some hardware takes it, and what runs there has no cache then.
            if not all(changed[control].values()):
                raise errors.ResctrlRefused(
                    action=f'set {path}',
                    reason=f'it would be left without any way of {control}',
                )
        with self._translated(f'write {path}'):
            for text in schemata_mod.list_texts(changed):
                self.files.write(path, text)
        if not is_checked:
            found = schemata_mod.merge([group.schemata, changed])
            return dataclasses.replace(group, schemata=found)
        found = self._read_schemata(group.name)
        deviation = schemata_mod.find_deviation(wanted, found)
        if deviation:
            raise errors.NotInForce(action=f'set {path}', reason=deviation)
        return dataclasses.replace(group, schemata=found)

    def make(self, name: str) -> Group:
        """Make a group of ours; nothing runs in it yet.

        :raises NoFreeClosid: no class of service is left
        """
        with self._translated(f'make group {name}'):
            self.files.mkdir(name)
        # What the kernel put into it is of no interest: all is written.
        return Group(name=name, schemata={}, consumer_uuid=parse_name(name))

    def write_cpus(self, group: Group, cpus: frozenset[int]) -> Group:
        """Move CPUs into a group, and read them back.

        :raises NotInForce: the kernel shows something else
        """
        if group.cpus == cpus:
            return group
        path = join(group.name, 'cpus_list')
        text = bitmask.format_list(cpus)
        with self._translated(f'write {path}'):
            self.files.write(path, f'{text}\n')
        found = self._read_cpus(group.name)
        if found != cpus:
            raise errors.NotInForce(
                action=f'set {path}',
                reason=f'{text} is wanted and '
                f'{bitmask.format_list(found)} is shown',
            )
        return dataclasses.replace(group, cpus=found)

    def read_tasks(self, name: str) -> frozenset[int]:
        """Give the threads of a group."""
        path = join(name, 'tasks')
        with _checked(path):
            found = frozenset(map(int, self._read(path).split()))
        # Those that this process cannot see (another PID namespace) are 0.
        return found - {0}

    def write_tasks(self, name: str, tids: Iterable[int]) -> None:
        """Move threads into a group; those that have ended do not matter."""
        path = join(name, 'tasks')
        with self._translated(f'write {path}'):
            self.files.assign(path, sorted(tids))

    def remove(self, name: str) -> None:
        """Remove a group; its CPUs and tasks go to the default one.

        What is gone already is a success.
        """
        try:
            with self._translated(f'remove group {name}'):
                self.files.rmdir(name)
        except errors.GroupGone:
            return

    def _translated(
        self, action: str
    ) -> contextlib.AbstractContextManager[None]:
        return files_mod.translated(self.files, action)


def join(name: str, file: str) -> str:
    return f'{name}/{file}' if name else file


@contextlib.contextmanager
def _checked(path: str) -> Iterator[None]:
    """:raises ResctrlMalformed: the block could not make sense of it"""
    try:
        yield
    except (KeyError, ValueError) as err:
        raise errors.ResctrlMalformed(
            action=f'understand {path}', reason=str(err)
        ) from err
