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

from collections.abc import Iterator, Mapping
import contextlib
import dataclasses
from typing import ClassVar, NoReturn

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf import resctrl as conf
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.plugins import base
from nova_ext_resources import rdt
from nova_ext_resources.resctrl import bandwidth
from nova_ext_resources.resctrl import errors
from nova_ext_resources.resctrl import files as files_mod
from nova_ext_resources.resctrl import groups
from nova_ext_resources.resctrl import layout
from nova_ext_resources.resctrl import members
from nova_ext_resources.resctrl import partition
from nova_ext_resources.resctrl import processes as processes_mod
from nova_ext_resources.resctrl import schemata as schemata_mod
from nova_ext_resources.trackers import cache_ways

LOG = logging.getLogger(__name__)


class ResctrlEnforcer(base.Enforcer):
    """One control group per server, with the CPUs that it is pinned to.

    A server whose CPUs float has its threads in the group instead: they use
    the group's ways and bandwidth on whatever CPU they run, also on one that
    belongs to another group ("User Interface for Resource Control feature",
    resource allocation rules).

    The default group, and servers without ways of their own, leave out what
    is sold. What cannot be had where the tracker wanted it (other software
    came first) is taken elsewhere in the same domain.

    :param files: in place of the mount that ``path`` names
    :param processes: in place of those that ``/proc`` shows
    """

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = conf.OPTS
    RESOURCE_CLASSES = frozenset({rdt.CLOS, rdt.WAYS, *rdt.BANDWIDTHS})
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
        )
        # What list_applied saw; never changed by a change under way.
        self._seen: groups.Tree | None = None
        self._members: Mapping[str, members.Membership] = {}

    # -- what the host asks for ----------------------------------------

    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        with self._translated(entry):
            # Before the lock is held: others wait for it.
            server = self._find_server(entry)
        with self._translated(entry), self._partition.changing() as tree:
            cpus = self._find_cpus(entry)
            self._check_cpus(tree, entry, cpus)
            held = tuple(
                self._choose(tree, entry, one) for one in entry.assignments
            )
            self._partition.put(
                entry.consumer_uuid,
                ways=_list_ways(held),
                limits=_list_limits(tree, held),
                cpus=cpus,
                server=server,
            )
            return held

    def release(self, entry: assignment.Entry) -> None:
        with (
            self._translated(entry),
            self._partition.changing(is_known=True),
        ):
            self._partition.remove(entry.consumer_uuid)

    def list_applied(self) -> frozenset[str]:
        with self._translated(None):
            seen = self._partition.look()
            self._members = self._look_at_members(seen)
            self._seen = seen
            return frozenset(seen.ours)

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

    # -- what the server shall have ------------------------------------

    def _find_cpus(self, entry: assignment.Entry) -> frozenset[int]:
        if not entry.cpus:
            return frozenset()
        cpus = entry.cpus & self._partition.host.online
        if not cpus:
            self._refuse(
                entry,
                f'its CPUs {bitmask.format_list(entry.cpus)} are all offline',
            )
        return cpus

    def _find_server(
        self, entry: assignment.Entry
    ) -> processes_mod.Server | None:
        """Find whose threads go into the group; None: it has CPUs."""
        if entry.cpus:
            return None
        return self._processes.scan().get(entry.consumer_uuid)

    def _check_cpus(
        self, tree: groups.Tree, entry: assignment.Entry, cpus: frozenset[int]
    ) -> None:
        own = groups.make_name(entry.consumer_uuid)
        for name, group in sorted(tree.groups.items()):
            common = cpus & group.cpus
            if name != own and common:
                self._refuse_busy(
                    entry,
                    entry.assignments,
                    f'its CPUs {bitmask.format_list(common)} are in the '
                    f'control group {name}, which is left alone',
                )

    def _choose(
        self,
        tree: groups.Tree,
        entry: assignment.Entry,
        one: assignment.Assignment,
    ) -> assignment.Assignment:
        """Give an assignment with the units that it can have."""
        if one.resource_class in rdt.BANDWIDTHS:
            return self._choose_limit(tree, entry, one)
        if one.resource_class != rdt.WAYS:
            return one
        cache, number = tree.info.l3, rdt.find_domain(one)
        controls = schemata_mod.find_l3_controls(tree.default.schemata)
        if (
            cache is None
            or not controls
            or number not in tree.default.schemata[controls[0]]
        ):
            self._refuse_place(entry, one, 'ways')
        domain = layout.make_domain(
            tree, number, self._partition.host, ignored=entry.consumer_uuid
        )
        mask = bitmask.parse_mask(str(one.units['mask']))
        if domain.allows(mask):
            return one
        tracker = cache_ways.CacheWaysTracker()
        try:
            _state, units = tracker.take(
                cache_ways.CacheWaysState(domain.free), one.amount
            )
        except ValueError as err:
            self._refuse_busy(
                entry, (one,), f'something else on the host uses it: {err}'
            )
        return dataclasses.replace(one, units=units)

    def _choose_limit(
        self,
        tree: groups.Tree,
        entry: assignment.Entry,
        one: assignment.Assignment,
    ) -> assignment.Assignment:
        unit = _find_unit(tree)
        is_percent = one.resource_class == rdt.PERCENT
        values = tree.default.schemata.get(schemata_mod.BANDWIDTH, {})
        if (
            unit is None
            or is_percent != (unit is bandwidth.Unit.PERCENT)
            or rdt.find_domain(one) not in values
        ):
            self._refuse_place(entry, one, 'memory bandwidth in this unit')
        info = tree.info.bandwidth
        assert info is not None, 'it has a unit'
        value = bandwidth.to_kernel(info, unit, _get_limit(one))
        limit = bandwidth.to_amount(unit, value)
        return dataclasses.replace(one, units={'limit': limit})

    # -- looking closer ------------------------------------------------

    def _find_fault(self, tree: groups.Tree, entry: assignment.Entry) -> str:
        """Say in what a server's group is not what it should be, or ''."""
        group = tree.ours.get(entry.consumer_uuid)
        if group is None:
            return 'its control group is not there'
        cpus = (entry.cpus or frozenset()) & self._partition.host.online
        if group.cpus != cpus:
            return (
                f'its group has the CPUs '
                f'{bitmask.format_list(group.cpus) or "(none)"} and not '
                f'{bitmask.format_list(cpus)}'
            )
        ways = _list_ways(entry.assignments)
        plan = layout.plan(
            tree, self._partition.host, wanted={entry.consumer_uuid: ways}
        )
        wanted = dict(plan[group.name])
        limits = _list_limits(tree, entry.assignments)
        if limits:
            wanted[schemata_mod.BANDWIDTH] = limits
        return schemata_mod.find_deviation(
            wanted, group.schemata
        ) or _find_intruder(tree, group, ways)

    def _look_at_members(
        self, tree: groups.Tree
    ) -> dict[str, members.Membership]:
        """See who is in each group; processes only where CPUs do not say."""
        floating = [uuid for uuid, one in tree.ours.items() if not one.cpus]
        scan = self._processes.scan() if floating else None
        servers = {
            uuid: scan.get(uuid)
            if scan and uuid in floating
            else processes_mod.Nobody()
            for uuid in tree.ours
        }
        return members.look(servers, self._partition.read_tasks)

    def _find_members_fault(self, entry: assignment.Entry) -> str:
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
        self._refuse_busy(
            entry,
            classes or entry.assignments,
            f'something else on the host uses it: {err}',
        )

    def _refuse_busy(
        self,
        entry: assignment.Entry,
        held: tuple[assignment.Assignment, ...],
        reason: str,
    ) -> NoReturn:
        raise rdt.make_busy(self.host, entry.consumer_uuid, held, reason)

    def _refuse_place(
        self,
        entry: assignment.Entry,
        one: assignment.Assignment,
        what: str,
    ) -> NoReturn:
        self._refuse(
            entry,
            f'the kernel does not control {what} in {one.rp_key}; was '
            'resctrl mounted anew with other options, or are all CPUs of it '
            'offline?',
        )

    def _refuse(self, entry: assignment.Entry, reason: str) -> NoReturn:
        raise exception.EnforcementFailed(
            host=self.host,
            enforcer='resctrl',
            consumer_uuid=entry.consumer_uuid,
            reason=reason,
        )


def _get_limit(one: assignment.Assignment) -> int:
    return int(one.units.get('limit', one.amount))


def _find_unit(tree: groups.Tree) -> bandwidth.Unit | None:
    info = tree.info.bandwidth
    values = tree.default.schemata.get(schemata_mod.BANDWIDTH)
    if info is None or not values:
        return None
    return bandwidth.find_unit(info, max(values.values()))


def _list_limits(
    tree: groups.Tree, held: tuple[assignment.Assignment, ...]
) -> dict[int, int]:
    """Give domain -> bandwidth in the kernel's unit."""
    info, unit = tree.info.bandwidth, _find_unit(tree)
    if info is None or unit is None:
        return {}
    return {
        rdt.find_domain(one): bandwidth.to_kernel(info, unit, _get_limit(one))
        for one in held
        if one.resource_class in rdt.BANDWIDTHS
    }


def _list_ways(
    held: tuple[assignment.Assignment, ...],
) -> dict[int, int]:
    """Give domain -> mask."""
    return {
        rdt.find_domain(one): bitmask.parse_mask(str(one.units['mask']))
        for one in held
        if one.resource_class == rdt.WAYS
    }


def _find_intruder(
    tree: groups.Tree, group: groups.Group, ways: dict[int, int]
) -> str:
    for domain, mask in ways.items():
        for name in layout.find_intruders(tree, group.name, domain, mask):
            return (
                f'{name} may fill its ways {mask:x} of '
                f'{rdt.make_l3_key(domain)}'
            )
    return ''
