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

from collections.abc import Callable, Iterable, Iterator, Mapping
import contextlib
import dataclasses

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.resctrl import bursts
from nova_ext_resources.resctrl import errors
from nova_ext_resources.resctrl import files as files_mod
from nova_ext_resources.resctrl import groups
from nova_ext_resources.resctrl import layout
from nova_ext_resources.resctrl import members
from nova_ext_resources.resctrl import pools
from nova_ext_resources.resctrl import processes
from nova_ext_resources.resctrl import schemata as schemata_mod
from nova_ext_resources.resctrl import topology

LOG = logging.getLogger(__name__)


class Partition:
    """Who may fill which ways. Every method raises ResctrlError.

    :param cpu_path: ``/sys/devices/system/cpu``
    :param list_held: gives what servers have for themselves, see
        :class:`.layout.Host`
    :ivar host: the CPUs of each domain, and what the host keeps
    """

    def __init__(
        self,
        files: files_mod.FileSystem,
        cpu_path: str,
        reserved_ways: int,
        sizes: pools.Sizes | None = None,
        *,
        list_held: Callable[[], layout.Held] = dict,
    ) -> None:
        self._files = files
        self._cpu_path = cpu_path
        self._list_held = list_held
        self._groups = groups.Groups(files)
        # Both are read and changed while the lock of the mount is held.
        self._tree: groups.Tree | None = None
        self.host = layout.Host(
            cpus={},
            reserved_ways=reserved_ways,
            sizes=sizes or pools.Sizes(),
        )

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
        """Give server -> the threads in its group, if it has one.

        :param consumers: servers; ``groups.SHARED`` stands for all those in
            the shared pool
        """
        found = {}
        with files_mod.locked(self._files, exclusive=False):
            for uuid in consumers:
                with contextlib.suppress(errors.GroupGone):
                    is_pool = uuid == groups.SHARED
                    name = uuid if is_pool else groups.make_name(uuid)
                    found[uuid] = self._groups.read_tasks(name)
        return found

    @contextlib.contextmanager
    def changing(
        self, *, name: str = '', is_quick: bool = False
    ) -> Iterator[groups.Tree]:
        """Hold the lock of the mount, and know what is there.

        :param name: the group that is to change, and is read anew
        :param is_quick: see :meth:`.groups.Groups.look_again`
        """
        with files_mod.locked(self._files, exclusive=True):
            try:
                self._tree = self._find(name, is_quick=is_quick)
                yield self._tree
            except (exception.ClaimError, exception.EnforcementFailed):
                # Refused before anything was changed.
                raise
            except BaseException:
                # Whatever it was, what is remembered may be wrong.
                self._tree = None
                raise

    def _find(self, name: str, *, is_quick: bool) -> groups.Tree:
        self.host = dataclasses.replace(self.host, held=self._list_held())
        online = topology.read_online(self._cpu_path)
        if self._tree is None or online != self.host.online:
            # The kernel takes CPUs that go offline out of their groups, and
            # caches that come back are open to all groups.
            tree = self._groups.look()
            self._read_host(tree)
            return tree
        return self._groups.look_again(
            self._tree, name=name, is_quick=is_quick
        )

    def _read_host(self, tree: groups.Tree) -> None:
        """Find the CPUs of each cache; they change with CPUs offline."""
        levels = layout.list_levels(tree)
        self.host = dataclasses.replace(
            self.host,
            cpus=topology.read_known(self._cpu_path, levels),
            online=topology.read_online(self._cpu_path),
            held=self._list_held(),
        )

    @property
    def known(self) -> groups.Tree | None:
        """What was seen last; None: nothing that could be relied on."""
        return self._tree

    @property
    def tree(self) -> groups.Tree:
        assert self._tree is not None, 'the lock of the mount is held'
        return self._tree

    def put(
        self,
        consumer_uuid: str,
        *,
        wanted: layout.Wanted,
        cpus: frozenset[int],
        server: processes.Server | None = None,
        others: Mapping[str, layout.Wanted] | None = None,
    ) -> None:
        """Give a server its ways, bandwidth, CPUs or threads; again is once.

        A group that was not there before is removed again when it fails.

        :param server: whose threads go into the group; None: it has CPUs,
            and no thread is in it wherever it runs
        :param others: what other servers shall have then of what can be
            moved; nothing else of theirs changes
        """
        group = self.tree.ours.get(consumer_uuid)
        if group is not None:
            return self._fill(group, wanted, others or {}, cpus, server)
        group = self._groups.make(groups.make_name(consumer_uuid))
        self._tree = self.tree.with_group(group)
        try:
            self._fill(group, wanted, others or {}, cpus, server)
        except BaseException:
            self._undo(group.name)
            raise

    def _fill(
        self,
        group: groups.Group,
        wanted: layout.Wanted,
        others: Mapping[str, layout.Wanted],
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
        after = {**others, uuid: wanted}
        self._narrow(tree, after, whole=uuid)
        # What is in a new group does not matter yet: nothing runs in it.
        self._shift(others if is_new else after)
        final = self._plan(tree, after, whole=uuid)
        group = self._groups.write_schemata(
            self.tree.groups[group.name],
            schemata_mod.merge(
                [
                    final[group.name],
                    wanted.make_schemata(tree.default.schemata),
                ]
            ),
        )
        group = self._move(group, cpus, server, is_new=is_new)
        self._tree = self.tree.with_group(group)
        self._widen(others, final)

    def put_shared(
        self, cpus: frozenset[int], server: processes.Server | None
    ) -> None:
        """Have the group of the shared pool, with these CPUs and threads.

        One that was not there before is removed again when it fails.

        :param cpus: of all its servers that are pinned
        :param server: all of those that float, as one, if there are any
        """
        is_new = groups.SHARED not in self.tree.groups
        if is_new:
            self._tree = self.tree.with_group(self._groups.make(groups.SHARED))
        try:
            plan = self._plan(self.tree, {})
            shared = plan.pop(groups.SHARED)
            self._write_rest(plan)
            self._write(groups.SHARED, shared)
            group = self._move(
                self.tree.groups[groups.SHARED], cpus, server, is_new=is_new
            )
            self._tree = self.tree.with_group(group)
        except BaseException:
            if is_new:
                self._undo(groups.SHARED)
            raise

    def remove_shared(self) -> None:
        """Take the group of the shared pool away; none is a success."""
        if groups.SHARED in self.tree.groups:
            self._groups.remove(groups.SHARED)
            self._tree = self.tree.without(groups.SHARED)
        self.rearrange({})

    def rearrange(self, others: Mapping[str, layout.Wanted]) -> None:
        """Move what can be moved between servers that run."""
        tree = self.tree
        if others:
            self._narrow(tree, others)
            self._shift(others)
        self._widen(others, self._plan(tree, others))

    def _plan(
        self,
        tree: groups.Tree,
        after: Mapping[str, layout.Wanted],
        *,
        whole: str = '',
    ) -> dict[str, schemata_mod.Schemata]:
        sold = {uuid: one.masks for uuid, one in after.items()}
        return layout.plan(tree, self.host, sold=sold, whole=whole)

    def _narrow(
        self,
        tree: groups.Tree,
        after: Mapping[str, layout.Wanted],
        *,
        whole: str = '',
    ) -> None:
        """Take from all others what is sold now, or then."""
        sold = {}
        for uuid, one in after.items():
            had = layout.find_own(self.tree, uuid, self.host)
            sold[uuid] = {
                cache: mask | had.get(cache, 0)
                for cache, mask in {**had, **one.masks}.items()
            }
        plan = layout.plan(tree, self.host, sold=sold, whole=whole)
        plan.pop(groups.make_name(whole), None)
        self._write_rest(plan)
        for uuid, one in after.items():
            if uuid != whole:
                self._limit(uuid, one, is_less=True)

    def _shift(self, after: Mapping[str, layout.Wanted]) -> None:
        """Bring ways from one server to another, so that none overlap."""
        before = {
            uuid: layout.find_own(self.tree, uuid, self.host)
            for uuid in self.tree.ours.keys() & after.keys()
        }
        masks = {uuid: one.masks for uuid, one in after.items()}
        known = self.tree.default.schemata
        for uuid, step in bursts.list_steps(before, masks):
            ways = {cache: after[uuid].ways[cache] for cache in step}
            self._write(
                groups.make_name(uuid), schemata_mod.make_values(known, ways)
            )

    def _widen(
        self,
        others: Mapping[str, layout.Wanted],
        plan: Mapping[str, schemata_mod.Schemata],
    ) -> None:
        for uuid, one in others.items():
            self._limit(uuid, one, is_less=False)
        self._write_rest(plan, is_checked=False)

    def _limit(
        self, uuid: str, wanted: layout.Wanted, *, is_less: bool
    ) -> None:
        """Lower or raise the bandwidth of a server."""
        group = self.tree.ours[uuid]
        now = group.schemata.get(schemata_mod.BANDWIDTH, {})
        limits = {
            number: limit
            for number, limit in wanted.limits.items()
            if number in now and (limit < now[number]) == is_less
        }
        self._write(group.name, {schemata_mod.BANDWIDTH: limits})

    def _move(
        self,
        group: groups.Group,
        cpus: frozenset[int],
        server: processes.Server | None,
        *,
        is_new: bool,
    ) -> groups.Group:
        """Bring CPUs or threads in, then let the other kind out.

        Who was pinned and now floats is in its group all the time.
        """
        if server is not None:
            members.settle(self._groups, group.name, server, is_new=is_new)
        group = self._groups.write_cpus(group, cpus)
        if server is None and not is_new:
            members.settle(self._groups, group.name, processes.Nobody())
        return group

    def _write_rest(
        self,
        plan: Mapping[str, schemata_mod.Schemata],
        *,
        is_checked: bool = True,
    ) -> None:
        """Write what nobody has for himself.

        :param is_checked: whether the default group must have it at once
        """
        for name, wanted in plan.items():
            before = self.tree.default
            is_default = name == groups.DEFAULT
            self._write(name, wanted, is_checked or not is_default)
            if is_default:
                self.host = layout.remember_shared(
                    self.host, before, self.tree
                )

    def _write(
        self, name: str, wanted: schemata_mod.Schemata, is_checked: bool = True
    ) -> None:
        group = self.tree.groups.get(name, self.tree.default)
        after = self._groups.write_schemata(
            group, wanted, is_checked=is_checked
        )
        self._tree = self.tree.with_group(after)

    def remove(
        self,
        consumer_uuid: str,
        *,
        others: Mapping[str, layout.Wanted] | None = None,
    ) -> None:
        """Take a server's group away, if any; others as in :meth:`put`."""
        self._remove(groups.make_name(consumer_uuid), others or {})

    def _remove(self, name: str, others: Mapping[str, layout.Wanted]) -> None:
        self._groups.remove(name)
        self._tree = self.tree.without(name)
        self.rearrange(others)

    def _undo(self, name: str) -> None:
        """Clean up after a failure, which matters more than this one."""
        try:
            self._remove(name, {})
        except Exception as err:
            LOG.error(
                'The control group %(name)s could not be removed again: '
                '%(err)s',
                {'name': name, 'err': err},
            )
