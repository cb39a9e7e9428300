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

"""The groups of this host, changed one at a time.

The lock of the mount is held over every change: others that follow the
kernel's documentation wait, and so do the threads of this process.
"""

from collections.abc import Iterable, Iterator, Mapping
import contextlib
import dataclasses

from oslo_log import log as logging

from nova_ext_resources.resctrl import errors
from nova_ext_resources.resctrl import files as files_mod
from nova_ext_resources.resctrl import groups
from nova_ext_resources.resctrl import layout
from nova_ext_resources.resctrl import members
from nova_ext_resources.resctrl import processes
from nova_ext_resources.resctrl import schemata as schemata_mod
from nova_ext_resources.resctrl import topology

LOG = logging.getLogger(__name__)


class Partition:
    """Who may fill which ways. Every method raises ResctrlError.

    :param cpu_path: ``/sys/devices/system/cpu``
    :ivar host: the CPUs of each domain, and what the host keeps
    """

    def __init__(
        self, files: files_mod.FileSystem, cpu_path: str, reserved_ways: int
    ) -> None:
        self._files = files
        self._cpu_path = cpu_path
        self._groups = groups.Groups(files)
        # Both are read and changed while the lock of the mount is held.
        self._tree: groups.Tree | None = None
        self.host = layout.Host(cpus={}, reserved_ways=reserved_ways)

    def look(self) -> groups.Tree:
        """Read everything that is there."""
        with files_mod.locked(self._files, exclusive=False):
            self._tree = None
            tree = self._groups.look()
            self._read_host(tree)
            self._tree = tree
            return tree

    def read_tasks(
        self, consumers: Iterable[str]
    ) -> dict[str, frozenset[int]]:
        """Give server -> the threads in its group, if it has one."""
        found = {}
        with files_mod.locked(self._files, exclusive=False):
            for uuid in consumers:
                with contextlib.suppress(errors.GroupGone):
                    name = groups.make_name(uuid)
                    found[uuid] = self._groups.read_tasks(name)
        return found

    @contextlib.contextmanager
    def changing(self, *, is_known: bool = False) -> Iterator[groups.Tree]:
        """Hold the lock of the mount, and know what is there.

        :param is_known: what was seen last will do
        """
        with files_mod.locked(self._files, exclusive=True):
            try:
                if self._tree is None:
                    self._tree = self._groups.look()
                elif not is_known:
                    self._tree = self._groups.look_again(self._tree)
                self._read_host(self._tree)
                yield self._tree
            except errors.ResctrlError:
                # Whatever it was, what is remembered may be wrong.
                self._tree = None
                raise

    def _read_host(self, tree: groups.Tree) -> None:
        """Find the CPUs of each cache; they change with CPUs offline."""
        path = self._cpu_path
        online = topology.read_online(path)
        if online != self.host.online:
            levels = layout.list_levels(tree)
            self.host = dataclasses.replace(
                self.host, cpus=topology.read_caches(path, levels)
            )

    @property
    def tree(self) -> groups.Tree:
        assert self._tree is not None, 'the lock of the mount is held'
        return self._tree

    def put(
        self,
        consumer_uuid: str,
        *,
        ways: Mapping[schemata_mod.Cache, schemata_mod.Ways],
        limits: Mapping[int, int],
        cpus: frozenset[int],
        server: processes.Server | None = None,
    ) -> None:
        """Give a server its ways, bandwidth, CPUs or threads; again is once.

        A group that was not there before is removed again when it fails.

        :param ways: its own, by cache
        :param limits: last-level cache -> bandwidth in the kernel's unit
        :param server: whose threads go into the group; None: it has CPUs,
            and no thread is in it wherever it runs
        """
        group = self.tree.ours.get(consumer_uuid)
        if group is not None:
            return self._fill(group, ways, limits, cpus, server)
        group = self._groups.make(consumer_uuid)
        self._tree = self.tree.with_group(group)
        try:
            self._fill(group, ways, limits, cpus, server)
        except errors.ResctrlError:
            self._undo(consumer_uuid)
            raise

    def _fill(
        self,
        group: groups.Group,
        ways: Mapping[schemata_mod.Cache, schemata_mod.Ways],
        limits: Mapping[int, int],
        cpus: frozenset[int],
        server: processes.Server | None,
    ) -> None:
        """Narrow all others, fill the group, then widen all others.

        At no time two groups may fill ways that are sold, and the CPUs or
        threads come last.
        """
        uuid = group.consumer_uuid
        is_new = not group.schemata
        tree = self.tree.with_group(dataclasses.replace(group, cpus=cpus))
        had = layout.find_own(self.tree, group, self.host)
        both = {
            cache: schemata_mod.Ways(own.mask | had.get(cache, 0))
            for cache, own in ways.items()
        }
        self._write_others(
            group.name,
            layout.plan(tree, self.host, wanted={uuid: both}),
        )
        final = layout.plan(tree, self.host, wanted={uuid: ways})
        wanted = dict(final[group.name])
        if limits:
            wanted[schemata_mod.BANDWIDTH] = limits
        group = self._groups.write_schemata(group, wanted)
        group = self._move(group, cpus, server, is_new=is_new)
        self._tree = self.tree.with_group(group)
        self._write_others(group.name, final)

    def _move(
        self,
        group: groups.Group,
        cpus: frozenset[int],
        server: processes.Server | None,
        *,
        is_new: bool,
    ) -> groups.Group:
        """Bring CPUs or threads in, then let the other kind out.

        A server that was pinned and now floats, or the other way round, is
        in its group all the time.
        """
        if server is not None:
            members.settle(self._groups, group.name, server, is_new=is_new)
        group = self._groups.write_cpus(group, cpus)
        if server is None and not is_new:
            members.settle(self._groups, group.name, processes.Nobody())
        return group

    def _write_others(
        self, name: str, plan: dict[str, schemata_mod.Schemata]
    ) -> None:
        tree = self.tree
        for other, wanted in plan.items():
            if other != name:
                group = tree.groups.get(other, tree.default)
                after = self._groups.write_schemata(group, wanted)
                self._tree = self.tree.with_group(after)
                if other == groups.DEFAULT:
                    self._remember_shared(group, after)

    def _remember_shared(
        self, before: groups.Group, after: groups.Group
    ) -> None:
        """Remember what the default group has shared, to give it back.

        It cannot be told from the groups: somebody may have kept the
        default group out of another's ways on purpose.
        """
        taken = {
            cache: (
                schemata_mod.get_ways(before.schemata, cache)
                | self.host.shared.get(cache, 0)
            )
            & ~schemata_mod.get_ways(after.schemata, cache)
            for cache in layout.list_caches(self.tree)
        }
        self.host = dataclasses.replace(self.host, shared=taken)

    def remove(self, consumer_uuid: str) -> None:
        name = groups.make_name(consumer_uuid)
        self._groups.remove(name)
        self._tree = self.tree.without(name)
        plan = layout.plan(self._tree, self.host, wanted={})
        self._write_others(name, plan)

    def _undo(self, consumer_uuid: str) -> None:
        """Clean up after a failure, which matters more than this one."""
        try:
            self.remove(consumer_uuid)
        except errors.ResctrlError as err:
            LOG.error(
                'The group of server %(uuid)s could not be removed again: '
                '%(err)s',
                {'uuid': consumer_uuid, 'err': err},
            )
