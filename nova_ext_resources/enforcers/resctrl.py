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

"""Puts cache ways and memory bandwidth into force through the kernel."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
from typing import ClassVar, NoReturn

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf import resctrl as conf
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import share as share_obj
from nova_ext_resources.plugins import base
from nova_ext_resources import rdt
from nova_ext_resources.resctrl import arranging
from nova_ext_resources.resctrl import checking
from nova_ext_resources.resctrl import choosing
from nova_ext_resources.resctrl import errors
from nova_ext_resources.resctrl import files as files_mod
from nova_ext_resources.resctrl import groups
from nova_ext_resources.resctrl import layout
from nova_ext_resources.resctrl import members
from nova_ext_resources.resctrl import partition
from nova_ext_resources.resctrl import pools
from nova_ext_resources.resctrl import processes as processes_mod
from nova_ext_resources.resctrl import sharing
from nova_ext_resources.trackers import cache_ways

LOG = logging.getLogger(__name__)


class ResctrlEnforcer(base.Enforcer):
    """One control group per server, with the CPUs that it is pinned to.

    A server whose CPUs float has its threads in the group instead: they use
    the group's ways and bandwidth on whatever CPU they run, also on one that
    belongs to another group ("User Interface for Resource Control feature",
    resource allocation rules).

    The default group, and servers without ways of their own, leave out what
    is sold; :mod:`.choosing` says what a server has.

    :param files: in place of the mount that ``path`` names
    :param processes: in place of those that ``/proc`` shows
    """

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = conf.OPTS
    RESOURCE_CLASSES = frozenset(
        {rdt.CLOS, rdt.SHARED, *choosing.OWN_WAYS, *arranging.CLASSES}
    )
    EXCLUDES = frozenset({'rmd'})

    def __init__(
        self,
        options: cfg.ConfigOpts.GroupAttr,
        host: str,
        files: files_mod.FileSystem | None = None,
        processes: processes_mod.Processes | None = None,
    ) -> None:
        super().__init__(options, host)
        self._processes = processes or processes_mod.Processes()
        self._partition = partition.Partition(
            files or files_mod.RealFileSystem(options.path),
            options.cpu_path,
            options.reserved_ways,
            pools.Sizes(burst=options.burst_ways, shared=options.shared_ways),
            list_held=lambda: choosing.list_held(self.list_entries()),
        )
        # What fine tuning has said; changed while the mount is locked.
        self._amounts: dict[arranging.Key, Mapping[str, int]] = {}
        # What list_applied saw; never changed by a change under way.
        self._seen: groups.Tree | None = None
        # The same, with what was changed since.
        self._last: groups.Tree | None = None
        self._members: Mapping[str, members.Membership] = {}

    # -- what the host asks for ----------------------------------------

    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        with self._translated(entry):
            # Before the lock is held: others wait for it.
            server = self._find_server(entry)
        name = choosing.make_group_name(entry)
        with (
            self._translated(entry),
            self._partition.changing(name=name) as tree,
        ):
            cpus = self._find_cpus(entry)
            self._check_cpus(tree, entry, cpus)
            scene = self._make_scene(tree)
            held = choosing.choose(scene, entry)
            if choosing.is_shared(entry):
                self._fill_shared(cpus, [*self._list_others(entry), entry])
                return held
            real = dataclasses.replace(entry, assignments=held)
            wanted = arranging.make_room(scene, real, self._amounts)
            own = wanted.pop(entry.consumer_uuid, layout.Wanted())
            self._partition.put(
                entry.consumer_uuid,
                wanted=layout.Wanted(ways=choosing.list_ways(held)).join(own),
                cpus=cpus,
                server=server,
                others=wanted,
            )
            self._forget_amounts(arranging.list_keys([entry]))
            return held

    def release(self, entry: assignment.Entry) -> None:
        # Of a server that is gone nothing may be known but that.
        is_shared = choosing.is_shared(entry) or not entry.assignments
        name = groups.SHARED if is_shared else ''
        with (
            self._translated(entry),
            self._partition.changing(name=name, is_quick=True) as tree,
        ):
            if is_shared:
                self._leave_shared(tree, entry)
            uuid = entry.consumer_uuid
            if choosing.is_shared(entry) and uuid not in tree.ours:
                return
            keys = arranging.list_keys(
                [entry] if entry.assignments else self.list_entries().values()
            )
            left = self._make_scene(
                self._partition.tree.without(groups.make_name(uuid))
            )
            self._partition.remove(
                uuid, others=arranging.relax(left, keys, self._amounts)
            )
            self._forget_amounts(keys)

    def _leave_shared(
        self, tree: groups.Tree, entry: assignment.Entry
    ) -> None:
        others = self._list_others(entry)
        if others and groups.SHARED in tree.groups:
            self._fill_shared(frozenset(), others)
        elif not others:
            sharing.check_left(tree, entry, self._members)
            # Even if it is gone: the ways may not have been given back.
            self._partition.remove_shared()

    def _fill_shared(
        self, cpus: frozenset[int], members: list[assignment.Entry]
    ) -> None:
        """Have the servers of the shared pool in its group, nobody else.

        :param cpus: that come in
        """
        floating = sharing.list_floating(members)
        # While the mount is locked, or one that has just come is thrown out.
        server = self._processes.scan().get(*floating) if floating else None
        kept = sharing.find_cpus(self._partition.tree, members)
        self._partition.put_shared(cpus | kept, server)

    def _list_others(self, entry: assignment.Entry) -> list[assignment.Entry]:
        """Give the other servers with a place in the shared pool."""
        return sharing.list_members(
            self.list_entries(), without=entry.consumer_uuid
        )

    def list_applied(self) -> frozenset[str]:
        with self._translated(None):
            seen = self._partition.look()
            self._members = self._look_at_members(seen)
            self._seen = self._last = seen
            return frozenset(seen.ours) | sharing.list_applied(
                seen, self.list_entries()
            )

    def is_in_force(self, entry: assignment.Entry) -> bool:
        assert self._seen is not None, 'list_applied comes first'
        reason = self._find_fault(self._seen, entry) or (
            self._find_members_fault(entry)
        )
        if reason:
            LOG.warning(
                'Host %(host)s: server %(uuid)s does not have what was '
                'sold to it: %(reason)s',
                {
                    'host': self.host,
                    'uuid': entry.consumer_uuid,
                    'reason': reason,
                },
            )
        return not reason

    def find_fault(self, entry: assignment.Entry) -> str:
        tree = self._partition.known
        return '' if tree is None else self._find_fault(tree, entry)

    # -- what may be moved while servers run -----------------------------

    def list_shares(self) -> tuple[share_obj.Share, ...]:
        if self._last is None:
            return ()
        scene = self._make_scene(self._last)
        pools = (
            arranging.make_pool(scene, key)
            for key in arranging.list_keys(scene.entries.values())
        )
        return tuple(
            one
            for pool in pools
            # Of what is not there nothing can be moved; healing tells.
            if pool and not pool.is_overdrawn
            for one in arranging.list_shares(pool)
        )

    def set_shares(self, shares: Sequence[share_obj.Share]) -> None:
        with (
            self._translated(None),
            self._partition.changing(is_quick=True) as tree,
        ):
            scene = self._make_scene(tree)
            for key in {(one.rp_key, one.resource_class) for one in shares}:
                known = self._amounts.get(key, {})
                try:
                    pool = arranging.make_pool(scene, key)
                    if pool is None:
                        raise ValueError('nobody has any')
                    amounts = arranging.read_shares(pool, shares, known)
                except ValueError as err:
                    self._refuse('', f'{key[1]} of {key[0]}: {err}')
                self._partition.rearrange(
                    arranging.arrange(scene, [pool], {key: amounts})
                )
                self._amounts[key] = amounts
                self._last = self._partition.tree

    def _forget_amounts(self, keys: Iterable[arranging.Key]) -> None:
        """Forget what was said for other servers than there are now."""
        self._last = self._partition.tree
        scene = self._make_scene(self._last)
        for key in arranging.list_outdated(scene, keys, self._amounts):
            del self._amounts[key]

    # -- what the server shall have ------------------------------------

    def _find_cpus(self, entry: assignment.Entry) -> frozenset[int]:
        """Give its CPUs that are online.

        There are none where Nova has switched them off and is about to start
        the server: it is applied again when they are online, or healed.
        """
        return (entry.cpus or frozenset()) & self._partition.host.online

    def _find_server(
        self, entry: assignment.Entry
    ) -> processes_mod.Server | None:
        """Find whose threads go into the group; None: it has CPUs."""
        if entry.cpus or choosing.is_shared(entry):
            return None
        return self._processes.scan().get(entry.consumer_uuid)

    def _check_cpus(
        self, tree: groups.Tree, entry: assignment.Entry, cpus: frozenset[int]
    ) -> None:
        # What is left in the shared pool's is not used by anybody.
        own = {groups.make_name(entry.consumer_uuid), groups.SHARED}
        for name, group in sorted(tree.groups.items()):
            common = cpus & group.cpus
            if name not in own and common:
                raise rdt.make_busy(
                    self.host,
                    entry.consumer_uuid,
                    entry.assignments,
                    f'its CPUs {bitmask.format_list(common)} are in the '
                    f'control group {name}, which is left alone',
                )

    def _make_scene(self, tree: groups.Tree) -> choosing.Scene:
        return choosing.Scene(
            host=self.host,
            tree=tree,
            layout=self._partition.host,
            find_run=_find_run,
            entries=self.list_entries(),
            memory_bandwidth=self.options.memory_bandwidth,
        )

    # -- looking closer ------------------------------------------------

    def _find_fault(self, tree: groups.Tree, entry: assignment.Entry) -> str:
        """Say in what a server's group is not what it should be, or ''."""
        if choosing.is_shared(entry):
            return sharing.find_fault(self._make_scene(tree), entry)
        group = tree.ours.get(entry.consumer_uuid)
        if group is None:
            return 'its control group is not there'
        cpus = self._find_cpus(entry)
        if group.cpus != cpus:
            return (
                f'its group has the CPUs '
                f'{bitmask.format_list(group.cpus) or "(none)"} and not '
                f'{bitmask.format_list(cpus)}'
            )
        return checking.find_fault(self._make_scene(tree), entry, group)

    def _look_at_members(
        self, tree: groups.Tree
    ) -> dict[str, members.Membership]:
        """See who is in each group; processes only where CPUs do not say."""
        switched_off = {
            uuid
            for uuid, one in self.list_entries().items()
            if one.cpus and not self._find_cpus(one)
        }
        without = {uuid for uuid, one in tree.ours.items() if not one.cpus}
        floating = without - switched_off
        servers: dict[str, processes_mod.Server] = {
            uuid: processes_mod.Nobody() for uuid in tree.ours
        }
        in_pool = sharing.list_floating(
            sharing.list_members(self.list_entries(), without='')
        )
        if groups.SHARED in tree.groups:
            servers[groups.SHARED] = processes_mod.Nobody()
        if floating or in_pool:
            scan = self._processes.scan()
            servers.update((uuid, scan.get(uuid)) for uuid in floating)
            if groups.SHARED in servers:
                servers[groups.SHARED] = scan.get(*in_pool)
        return members.look(servers, self._partition.read_tasks)

    def _find_members_fault(self, entry: assignment.Entry) -> str:
        if choosing.is_shared(entry):
            pool = self._members.get(groups.SHARED, members.Membership())
            return pool.fault
        seen = self._members.get(entry.consumer_uuid, members.Membership())
        if entry.cpus:
            # Its CPUs do, and no thread is in it wherever that runs.
            seen = members.Membership(
                inside=seen.inside, strangers=seen.inside
            )
        return seen.fault

    # -- refusing ------------------------------------------------------

    @contextlib.contextmanager
    def _translated(self, entry: assignment.Entry | None) -> Iterator[None]:
        try:
            yield
        except errors.ResctrlError as err:
            if entry is not None and isinstance(err, errors.NoFreeClosid):
                self._refuse_class(entry, err)
            raise exception.EnforcementFailed(
                host=self.host,
                enforcer='resctrl',
                consumer_uuid=entry.consumer_uuid if entry else '',
                reason=str(err),
            ) from err

    def _refuse_class(
        self, entry: assignment.Entry, err: errors.NoFreeClosid
    ) -> NoReturn:
        classes = rdt.pick(entry.assignments, rdt.CLOS)
        raise rdt.make_busy(
            self.host,
            entry.consumer_uuid,
            classes or entry.assignments,
            f'something else on the host uses it: {err}',
        )

    def _refuse(self, consumer_uuid: str, reason: str) -> NoReturn:
        raise exception.EnforcementFailed(
            host=self.host,
            enforcer='resctrl',
            consumer_uuid=consumer_uuid,
            reason=reason,
        )


def _find_run(free: int, amount: int) -> int:
    """Choose ways as the tracker would.

    :raises ValueError: there are not as many side by side
    """
    state = cache_ways.CacheWaysState(free)
    _state, units = cache_ways.CacheWaysTracker().take(state, amount)
    return bitmask.parse_mask(str(units['mask']))
