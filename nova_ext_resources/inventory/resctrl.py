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

"""What the kernel's resctrl lets this host give out.

The providers and classes are those of the inventory provider ``rmd``, so that
a host can go from one to the other and keep its place in placement.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import os
from typing import ClassVar, NamedTuple, TypeAlias

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf import resctrl as conf
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import resource
from nova_ext_resources.plugins import base
from nova_ext_resources import rdt
from nova_ext_resources.resctrl import bandwidth
from nova_ext_resources.resctrl import errors
from nova_ext_resources.resctrl import files as files_mod
from nova_ext_resources.resctrl import groups
from nova_ext_resources.resctrl import layout
from nova_ext_resources.resctrl import pools
from nova_ext_resources.resctrl import schemata
from nova_ext_resources.resctrl import topology

LOG = logging.getLogger(__name__)

#: Resource class, inventory, tracker, facts for it.
Offer: TypeAlias = tuple[
    str, inventory_obj.Inventory, str, Mapping[str, str | int]
]


class _Names(NamedTuple):
    """Resource class and traits of a cache level."""

    ways: str
    cat: str
    cdp: str


_LEVELS = {
    3: _Names(rdt.WAYS, rdt.CAT_TRAIT, rdt.CDP_TRAIT),
    2: _Names(rdt.L2_WAYS, rdt.L2_CAT_TRAIT, rdt.L2_CDP_TRAIT),
}

#: Options of the pools, which are of last-level caches.
_POOLS = ('burst_ways', 'shared_ways')

#: The default group's.
KEPT_CLOSIDS = 1


class ResctrlInventory(base.InventoryProvider):
    """Classes of service, and each cache, the last-level one with its memory.

    :param files: in place of the mount that ``path`` names
    """

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = conf.OPTS
    EXCLUDES = frozenset({'rmd'})

    def __init__(
        self,
        options: cfg.ConfigOpts.GroupAttr,
        host: str,
        files: files_mod.FileSystem | None = None,
    ) -> None:
        super().__init__(options, host)
        self._files = files or files_mod.RealFileSystem(options.path)
        self._groups = groups.Groups(self._files)
        self._left_out: frozenset[str] = frozenset()
        self._told: list[str] = []

    @property
    def left_out(self) -> frozenset[str]:
        return self._left_out

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return rdt.define(
            rdt.CLOS,
            rdt.WAYS,
            rdt.BURST,
            rdt.SHARED,
            rdt.L2_WAYS,
            rdt.PERCENT,
            rdt.MBPS,
        )

    def discover(self) -> tuple[provider.HostProvider, ...]:
        # Who comes or goes meanwhile is in one of both.
        before = self.list_entries()
        try:
            with files_mod.locked(self._files, exclusive=False):
                tree = self._groups.look()
            host = layout.Host(
                cpus=topology.read_known(
                    self.options.cpu_path, layout.list_levels(tree)
                ),
                online=topology.read_online(self.options.cpu_path),
                reserved_ways=self.options.reserved_ways,
                sizes=pools.Sizes(
                    burst=self.options.burst_ways,
                    shared=self.options.shared_ways,
                ),
            )
        except errors.ResctrlError as err:
            raise exception.DiscoveryFailed(
                plugin='resctrl', reason=str(err)
            ) from err
        entries = {**before, **self.list_entries()}
        tree = _add_offline(tree, host)
        controlled = _list_controlled(tree)
        caches = [one for one in controlled if one in host.cpus]
        self._left_out = _find_left_out(
            self.options.cpu_path, host
        ) | _find_without_cpus(self.options.cpu_path, host, controlled)
        if not caches:
            raise exception.DiscoveryFailed(
                plugin='resctrl',
                reason='the kernel controls neither a cache nor memory '
                'bandwidth here that belongs to CPUs of '
                f'{os.path.normpath(self.options.cpu_path)}; take resctrl '
                'out of [ext_resources] inventory_providers on this host',
            )
        self._tell_lost_pools(tree)
        return (
            _make_rdt(tree, host),
            *(self._make_cache(tree, host, one, entries) for one in caches),
        )

    def _tell_lost_pools(self, tree: groups.Tree) -> None:
        """Log once that options have no effect: they may be for others."""
        has_place = any(
            one.level == schemata.LAST_LEVEL
            for one in layout.list_caches(tree)
        )
        lost = [
            name for name in _POOLS if self.options[name] and not has_place
        ]
        if lost and lost != self._told:
            LOG.warning(
                'Host %(host)s: [ext_resources_resctrl] %(names)s have no '
                'effect: the kernel does not control the last-level cache of '
                'this CPU',
                {'host': self.host, 'names': ', '.join(lost)},
            )
        self._told = lost

    def _make_cache(
        self,
        tree: groups.Tree,
        host: layout.Host,
        cache: schemata.Cache,
        entries: Mapping[str, assignment.Entry],
    ) -> provider.HostProvider:
        offers = [
            one
            for one in (
                _offer_ways(tree, host, cache),
                _offer_burst_ways(tree, host, cache, entries),
                self._offer_places(tree, host, cache),
                self._offer_bandwidth(tree, cache),
            )
            if one is not None
        ]
        return provider.HostProvider(
            key=cache.key,
            parent_key=rdt.RDT,
            inventories={name: given for name, given, _, _ in offers},
            trackers={name: kind for name, _, kind, _ in offers},
            units={name: units for name, _, _, units in offers},
            implied={
                name: rdt.CLOS for name, *_ in offers if name != rdt.SHARED
            },
            cpus=bitmask.format_list(host.cpus[cache]),
            follows_tasks=True,
            traits=_list_traits(tree, cache, {name for name, *_ in offers}),
        )

    def _offer_places(
        self, tree: groups.Tree, host: layout.Host, cache: schemata.Cache
    ) -> Offer | None:
        if not _find_pools(tree, host, cache).shared:
            return None
        total = self.options.shared_servers
        is_left = layout.find_shared_room(tree, cache, host)
        given = inventory_obj.Inventory(
            total=total, reserved=0 if is_left else total, max_unit=1
        )
        return rdt.SHARED, given, 'shared_ways', {}

    def _offer_bandwidth(
        self, tree: groups.Tree, cache: schemata.Cache
    ) -> Offer | None:
        info = tree.info.bandwidth
        values = tree.default.schemata.get(schemata.BANDWIDTH, {})
        if (
            info is None
            or cache.level != schemata.LAST_LEVEL
            or cache.number not in values
        ):
            return None
        unit = bandwidth.find_unit(info, max(values.values()))
        if unit is bandwidth.Unit.PERCENT:
            total, name = bandwidth.MAX_PERCENT, rdt.PERCENT
        else:
            total, name = self.options.memory_bandwidth, rdt.MBPS
        step = bandwidth.find_step(info, unit)
        least = bandwidth.round_up(
            max(bandwidth.to_amount(unit, info.minimum), 1), step
        )
        if total < least:
            return None
        given = inventory_obj.Inventory(
            total=total, min_unit=least, step_size=step
        )
        return name, given, 'bandwidth', {'step': step}


def _add_offline(tree: groups.Tree, host: layout.Host) -> groups.Tree:
    """Add what the default group has where all CPUs are offline.

    Everything: the kernel forgets what it had when they come back.
    """
    default = tree.default
    values = {name: dict(one) for name, one in default.schemata.items()}
    for cache in filter(host.is_offline, host.cpus):
        info = tree.info.find_cache(cache.level)
        for name in schemata.find_controls(values, cache.level):
            if info is not None:
                values[name].setdefault(cache.number, info.full)
        limits = values.get(schemata.BANDWIDTH)
        if limits and cache.level == schemata.LAST_LEVEL:
            limits.setdefault(cache.number, max(limits.values()))
    return tree.with_group(dataclasses.replace(default, schemata=values))


def _find_left_out(cpu_path: str, host: layout.Host) -> frozenset[str]:
    """Name what may be there and cannot be told."""
    unknown = topology.read_unknown(cpu_path, host.cpus.values())
    sizes = [
        len(cpus)
        for cache, cpus in host.cpus.items()
        if cache.level == schemata.LAST_LEVEL
    ]
    # Fewer are of a cache of which others are online.
    if len(unknown) < min(sizes, default=1):
        return frozenset()
    return frozenset(
        {f'caches of offline CPUs {bitmask.format_list(unknown)}'}
    )


def _find_without_cpus(
    cpu_path: str, host: layout.Host, controlled: Iterable[schemata.Cache]
) -> frozenset[str]:
    """Name what the kernel controls and no CPU is known to use.

    The two are of different machines then, as in a test.
    """
    numbers: dict[int, set[int]] = {}
    for cache in controlled:
        if cache not in host.cpus:
            numbers.setdefault(cache.level, set()).add(cache.number)
    return frozenset(
        f'L{level} caches {bitmask.format_list(found)} '
        f'({os.path.normpath(cpu_path)} knows no CPU of them)'
        for level, found in numbers.items()
    )


def _list_controlled(tree: groups.Tree) -> list[schemata.Cache]:
    """Give the caches of which something is controlled, bandwidth too."""
    values = tree.default.schemata.get(schemata.BANDWIDTH, {})
    limited = {schemata.Cache(schemata.LAST_LEVEL, one) for one in values}
    return sorted(limited | set(layout.list_caches(tree)))


def _offer_ways(
    tree: groups.Tree, host: layout.Host, cache: schemata.Cache
) -> Offer | None:
    if cache not in layout.list_caches(tree):
        return None
    domain = layout.make_domain(tree, cache, host)
    # What can never be sold; the tracker adds what others use.
    kept = domain.host_ways + domain.pools.bit_count()
    given = inventory_obj.Inventory(
        total=domain.cache.ways,
        reserved=min(kept, domain.cache.ways),
        min_unit=domain.cache.min_bits,
    )
    units = {'free': bitmask.format_mask(domain.free)}
    return _LEVELS[cache.level].ways, given, 'cache_ways', units


def _offer_burst_ways(
    tree: groups.Tree,
    host: layout.Host,
    cache: schemata.Cache,
    entries: Mapping[str, assignment.Entry],
) -> Offer | None:
    """Give the pool of burst ways, without what is not its servers'.

    Ways that a server has for itself may lie in it, if they were sold before
    the options made it: the enforcer leaves them to that server.
    """
    size = _find_pools(tree, host, cache).burst.bit_count()
    if not size:
        return None
    info = tree.info.find_cache(cache.level)
    assert info is not None, 'it has a pool'
    members = {
        uuid
        for uuid, entry in entries.items()
        for one in rdt.pick(entry.assignments, rdt.BURST)
        if one.rp_key == cache.key
    }
    room = layout.find_room(
        tree,
        cache,
        host,
        # Without any record, as in a hand-over, all are taken for such.
        members=members if entries else tree.ours.keys(),
    )
    given = inventory_obj.Inventory(
        total=size,
        # What others have of the pool, and what that cuts off.
        reserved=size - room.bit_count(),
        min_unit=info.min_bits,
    )
    return rdt.BURST, given, 'burst_ways', {}


def _find_pools(
    tree: groups.Tree, host: layout.Host, cache: schemata.Cache
) -> pools.Regions:
    """Give the pools of a cache.

    :raises DiscoveryFailed: they do not fit
    """
    if cache not in layout.list_caches(tree):
        return pools.Regions()
    domain = layout.make_domain(tree, cache, host)
    try:
        return layout.check_pools(domain, cache, host)
    except ValueError as err:
        raise exception.DiscoveryFailed(
            plugin='resctrl',
            reason=f'{cache.key}: [ext_resources_resctrl] {err}',
        ) from err


def _list_traits(
    tree: groups.Tree, cache: schemata.Cache, offered: set[str]
) -> frozenset[str]:
    names = _LEVELS[cache.level]
    if names.ways not in offered:
        return frozenset()
    has_cdp = schemata.has_cdp(tree.default.schemata, cache.level)
    return frozenset({names.cat, names.cdp} if has_cdp else {names.cat})


def _make_rdt(tree: groups.Tree, host: layout.Host) -> provider.HostProvider:
    total = tree.info.num_closids
    # The pool's, whether or not a server is in it.
    kept = KEPT_CLOSIDS + bool(host.sizes.shared)
    waiting = host.sizes.shared and groups.SHARED not in tree.groups
    free = total - tree.used_closids - bool(waiting)
    return provider.HostProvider(
        key=rdt.RDT,
        inventories={
            rdt.CLOS: inventory_obj.Inventory(
                total=total, reserved=min(kept, total), max_unit=1
            )
        },
        units={rdt.CLOS: {'free': max(free, 0)}},
    )
