# SPDX-License-Identifier: Apache-2.0

"""What this host can allocate by way of the kernel's resctrl.

The providers and classes are those of the inventory provider ``rmd``, so that
a host can go from one to the other and keep its place in placement.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple, TypeAlias
import dataclasses
import fnmatch
import os

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf.drivers import resctrl
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import mon_groups
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.kernel import topology
from nova_ext_resources.drivers.resctrl.policy import bandwidth
from nova_ext_resources.drivers.resctrl.policy import constraints
from nova_ext_resources.drivers.resctrl.policy import machine
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.drivers.resctrl import writer
from nova_ext_resources import exception
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import reserved_units
from nova_ext_resources.objects import resource

LOG = logging.getLogger(__name__)

#: Resource class, inventory, tracker, facts for it.
Offer: TypeAlias = tuple[
    str, class_inventory.Inventory, str, Mapping[str, str | int]
]


class _Names(NamedTuple):
    """Resource class and traits of a cache level."""

    ways: str
    cat: str
    cdp: str


_LEVELS = {
    3: _Names(classes.WAYS, classes.CAT_TRAIT, classes.CDP_TRAIT),
    2: _Names(classes.L2_WAYS, classes.L2_CAT_TRAIT, classes.L2_CDP_TRAIT),
}

#: Options of the pools, which are of last-level caches.
_POOLS = ('burst_ways', 'shared_ways')

#: Of caches, see ``CacheInfo.is_open``.
_OPEN = (
    'any device may fill any way of {} (shareable_bits): other servers cannot '
    'use the ways of a server, but devices can'
)

#: The default group's.
KEPT_CLOSIDS = 1

#: Other plugin -> its groups. RMD makes one of each class of service when it
#: is started, and leaves them when it ends, some of them open to all ways.
_GROUPS_OF = {'rmd': 'COS[1-9]*'}

#: Other plugin -> what gives its groups the same names: libpqos chooses them,
#: the library below both.
_LIKE = {'rmd': 'pqos'}


class ResctrlInventory(base.InventoryProvider):
    """Classes of service, and each cache, the last-level one with its memory.

    :param files: in place of the mount that ``path`` names
    """

    problems: tuple[alarm.Problem, ...] = ()

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = resctrl.OPTS
    EXCLUDES = frozenset({'rmd'})

    def __init__(
        self,
        options: cfg.ConfigOpts.GroupAttr,
        host: str,
        entries: base.EntriesReader = dict,
        files: file_system.FileSystem | None = None,
    ) -> None:
        super().__init__(options, host, entries)
        files = files or file_system.RealFileSystem(options.path)
        # It only reads.
        self._writer = writer.Writer(
            files, options.cpu_path, machine.make(options, host)
        )
        self._mon_groups = mon_groups.MonGroups(files)
        self._left_out: frozenset[str] = frozenset()
        self._logged = log_on_change.LogOnChange(f'Host {host}: ')
        self._constraints: dict[str, host_constraints.ClassConstraints] = {}

    @property
    def left_out(self) -> frozenset[str]:
        return self._left_out

    @property
    def constraints(self) -> Mapping[str, host_constraints.ClassConstraints]:
        return self._constraints

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return tuple(classes.DEFINITIONS.values())

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        # A server that comes or goes in between is in one of both.
        before = self.list_entries()
        tree = self._read()
        return self._report(tree, {**before, **self.list_entries()})

    def discover_without(
        self, other: str
    ) -> tuple[host_provider.HostProvider, ...]:
        tree = self._read()
        left = tree.without(*_list_groups_of(tree, other))
        return self._report(left, self.list_entries())

    def find_remains(self, other: str) -> str:
        names = _list_groups_of(self._read(), other)
        if not names:
            return ''
        path = os.path.normpath(self.options.path)
        return (
            f'{path} has control groups of {other}, or of {_LIKE[other]} '
            f'({", ".join(names)}), and resctrl cannot use the ways and '
            f'classes of service of these groups. Stop {other} so that it '
            'does not make the groups again (systemctl disable --now '
            f'{other}), make sure that nothing needs the settings of '
            f'{_LIKE[other]}, and remove the groups (rmdir '
            f'{path}/{_GROUPS_OF[other]}).'
        )

    def _read(self) -> groups.Tree:
        with base.discovering('resctrl', errors.ResctrlError):
            tree = self._writer.read()
            listing = self._mon_groups.list_all()
        self._free_rmids = listing.free_rmids
        # Its group is there, or gets the id that it needs.
        self._has_pool = bool(tree.shared or listing.free_rmids)
        self.problems = tuple(_list_problems(tree, listing))
        return tree

    def _report(
        self, tree: groups.Tree, entries: Mapping[str, assignment.Entry]
    ) -> tuple[host_provider.HostProvider, ...]:
        host = self._writer.machine
        tree = _add_offline(tree, host)
        # Without the ledger: the trackers know what servers hold.
        owned = ownership.build(tree, host, {})
        self._report_useless(owned)
        controlled = sorted(owned.caches.keys() | owned.bandwidths.keys())
        caches = [one for one in controlled if one in host.cpus]
        self._left_out = _find_left_out(
            self.options.cpu_path, host
        ) | _find_without_cpus(self.options.cpu_path, host, controlled)
        if not caches:
            raise exception.DiscoveryFailed(
                plugin='resctrl',
                reason='the kernel controls neither cache nor memory '
                'bandwidth for any CPU of '
                f'{os.path.normpath(self.options.cpu_path)}; take resctrl out '
                'of [ext_resources] inventory_providers on this host',
            )
        self._constraints = constraints.make_code_constraints(
            {
                _LEVELS[level].ways: info.min_bits if info.has_cdp else None
                for level, info in tree.info.levels.items()
            }
        )
        limit, cpu_path = tree.info.bandwidth, self.options.cpu_path
        if limit and limit.is_of_cores and topology.has_siblings(cpu_path):
            self._constraints |= constraints.WHOLE_CORES
        return (
            _make_rdt(owned, self._free_rmids),
            *(self._make_cache(owned, one, entries) for one in caches),
        )

    def _report_useless(self, owned: ownership.Ownership) -> None:
        """Log once what has no effect: options may be for other hosts."""
        found = []
        lost = [name for name in _POOLS if self.options[name]]
        if lost and not any(
            one.level == schemata.LAST_LEVEL for one in owned.caches
        ):
            found.append(
                f'[ext_resources_resctrl] {", ".join(lost)} have no effect: '
                'the kernel does not control the last-level cache of this CPU'
            )
        reasons: dict[str, list[str]] = {}
        for cache, domain in owned.caches.items():
            if not domain.info.full & ~(domain.io | domain.host):
                reason = _explain_filled(domain)
                reasons.setdefault(reason, []).append(cache.key)
            if domain.info.is_open:
                reasons.setdefault(_OPEN, []).append(cache.key)
        found += [one.format(', '.join(keys)) for one, keys in reasons.items()]
        lines = schemata.get_limits(owned.tree.groups[groups.DEFAULT].schemata)
        if lines and not owned.bandwidths:
            numbers = ', '.join(map(str, sorted(lines)))
            found.append(
                f'no memory bandwidth is published: the MB lines {numbers} of '
                'schemata are not numbered like the L3 caches (NUMA nodes?), '
                'so the CPUs of each limit are unknown'
            )
        self._logged.log_new(LOG.warning, found)

    def _make_cache(
        self,
        owned: ownership.Ownership,
        cache: schemata.Cache,
        entries: Mapping[str, assignment.Entry],
    ) -> host_provider.HostProvider:
        offers = [_offer_bandwidth(owned.bandwidths.get(cache))]
        if cache in owned.caches:
            domain = owned.caches[cache]
            if domain.pools_fault:
                raise exception.DiscoveryFailed(
                    plugin='resctrl',
                    reason=f'{cache.key}: [ext_resources_resctrl] '
                    f'{domain.pools_fault}',
                )
            offers += [
                _offer_ways(domain, cache),
                _offer_burst_ways(owned, cache, entries),
                self._offer_places(domain),
            ]
        given = {one[0]: one for one in offers if one is not None}
        return host_provider.HostProvider(
            key=cache.key,
            parent_key=classes.RDT,
            inventories={name: one for name, one, _, _ in given.values()},
            trackers={name: kind for name, _, kind, _ in given.values()},
            units={name: units for name, _, _, units in given.values()},
            implied={
                name: classes.CLOS for name in given if name != classes.SHARED
            },
            cpus=bitmask.format_list(owned.machine.cpus[cache]),
            follows_tasks=True,
            traits=_list_traits(owned, cache, given.keys()),
            reserved=_explain_ways(owned, cache),
        )

    def _offer_places(self, domain: ownership.CacheOwnership) -> Offer | None:
        if not domain.shared:
            return None
        total = self.options.shared_servers
        is_left = self._has_pool and domain.find_room(domain.shared)
        given = class_inventory.Inventory(
            total=total, reserved=0 if is_left else total, max_unit=1
        )
        return classes.SHARED, given, 'shared_ways', {}


def _explain_filled(domain: ownership.CacheOwnership) -> str:
    """Return the line of the log, but for the caches."""
    reason = (
        'I/O devices fill all ways except those that are reserved for the host'
    )
    if domain.host_ways >= domain.info.full.bit_count():
        reason = (
            f'[ext_resources_resctrl] reserved_ways = {domain.host_ways} '
            'reserves all ways for the host; decrease this number'
        )
    return f'no way of {{}} can be allocated: {reason}'


def _list_groups_of(tree: groups.Tree, other: str) -> list[str]:
    pattern = _GROUPS_OF.get(other, '')
    return [
        one.name
        for one in tree.foreign
        if fnmatch.fnmatchcase(one.name, pattern)
    ]


def _add_offline(tree: groups.Tree, host: machine.HostMachine) -> groups.Tree:
    """Add what groups have where all CPUs are offline.

    The default one and those of other software have everything: the kernel
    forgets what they had when the CPUs come back.
    """
    added = _list_offline(tree, host)
    for one in (tree.groups[groups.DEFAULT], *tree.foreign):
        if one.has_class:
            values = {**added, **one.schemata}
            tree = tree.with_group(dataclasses.replace(one, schemata=values))
    return tree


def _list_offline(
    tree: groups.Tree, host: machine.HostMachine
) -> dict[tuple[str, int], int]:
    """Return all that there is where all CPUs are offline."""
    values = tree.groups[groups.DEFAULT].schemata
    found = {}
    for name in {name for name, _number in values}:
        level = schemata.LEVELS.get(name, schemata.LAST_LEVEL)
        if name == schemata.BANDWIDTH:
            value = max(schemata.get_limits(values).values())
        elif level in tree.info.levels:
            value = tree.info.levels[level].full
        else:
            continue
        for cache in filter(host.is_offline, host.cpus):
            if cache.level == level:
                found[name, cache.number] = value
    return found


def _find_left_out(cpu_path: str, host: machine.HostMachine) -> frozenset[str]:
    """Return names of caches that may exist and cannot be reported."""
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
    cpu_path: str,
    host: machine.HostMachine,
    controlled: Iterable[schemata.Cache],
) -> frozenset[str]:
    """Return names of caches that the kernel controls and no CPU uses.

    The two paths are of different machines then, as in a test.
    """
    numbers: dict[int, set[int]] = {}
    for cache in controlled:
        if cache not in host.cpus:
            numbers.setdefault(cache.level, set()).add(cache.number)
    return frozenset(
        f'L{level} caches {bitmask.format_list(found)} '
        f'({os.path.normpath(cpu_path)} has no CPU of these caches)'
        for level, found in numbers.items()
    )


def _offer_bandwidth(
    domain: bandwidth.BandwidthOwnership | None,
) -> Offer | None:
    if domain is None or domain.total < domain.least:
        return None
    given = class_inventory.Inventory(
        total=domain.total, min_unit=domain.least, step_size=domain.step
    )
    return domain.resource_class, given, 'bandwidth', {'step': domain.step}


def _offer_ways(
    domain: ownership.CacheOwnership, cache: schemata.Cache
) -> Offer:
    # What can never be allocated; the tracker adds what others use.
    kept = domain.host_ways + domain.pools.bit_count()
    given = class_inventory.Inventory(
        total=domain.info.ways,
        reserved=min(kept, domain.info.ways),
        min_unit=domain.info.min_bits,
    )
    units: dict[str, str | int] = {'free': bitmask.format_mask(domain.free)}
    if domain.info.is_sparse:
        units['sparse'] = 1
    return _LEVELS[cache.level].ways, given, 'cache_ways', units


def _explain_ways(
    owned: ownership.Ownership, cache: schemata.Cache
) -> Mapping[str, reserved_units.Reserved]:
    """Return what has the ways of a cache that servers cannot have."""
    domain = owned.caches.get(cache)
    if domain is None:
        return {}
    return {
        _LEVELS[cache.level].ways: reserved_units.Reserved(
            host=domain.host | domain.io,
            other=domain.foreign | domain.locked,
            pools=domain.pools,
        )
    }


def _offer_burst_ways(
    owned: ownership.Ownership,
    cache: schemata.Cache,
    entries: Mapping[str, assignment.Entry],
) -> Offer | None:
    """Return the pool of burst ways, without what is not its servers'.

    Ways that a server has for itself may lie in it, if they were allocated
    before the options made it: the enforcer leaves them to that server.
    """
    domain = owned.caches[cache]
    size = domain.burst.bit_count()
    if not size:
        return None
    members = {
        uuid
        for uuid, entry in entries.items()
        for one in classes.pick(entry.assignments, classes.BURST)
        if one.rp_key == cache.key
    }
    # Without any record, as in a hand-over, all are taken for such.
    room = domain.find_room(
        domain.burst, members if entries else owned.tree.ours.keys()
    )
    given = class_inventory.Inventory(
        total=size,
        # What others have of the pool, and what that cuts off.
        reserved=size - room.bit_count(),
        min_unit=domain.info.min_bits,
    )
    return classes.BURST, given, 'burst_ways', {}


def _list_traits(
    owned: ownership.Ownership,
    cache: schemata.Cache,
    offered: Collection[str],
) -> frozenset[str]:
    names = _LEVELS[cache.level]
    if names.ways not in offered:
        return frozenset()
    has_cdp = owned.caches[cache].info.has_cdp
    return frozenset({names.cat, names.cdp} if has_cdp else {names.cat})


def _list_problems(
    tree: groups.Tree, listing: mon_groups.Listing
) -> Iterator[alarm.Problem]:
    free = tree.info.num_closids - tree.used_closids
    if listing.free_rmids < free:
        yield alarm.Problem(
            alarm=alarm.RESOURCES_LEFT_OUT,
            subject='monitoring ids',
            text=f'{free - listing.free_rmids} of {free} free classes of '
            'service are not offered: each class needs a monitoring id, and '
            f'{listing.num_rmids} of {listing.total_rmids} ids are in use, '
            f'{len(listing.others)} of them by groups of other software '
            f'({", ".join(sorted(listing.others)[:3]) or "none"}). Remove '
            '(rmdir) the groups that nothing uses any more',
        )


def _make_rdt(
    owned: ownership.Ownership, free_rmids: int
) -> host_provider.HostProvider:
    tree, is_pooled = owned.tree, bool(owned.machine.shared_ways)
    total = tree.info.num_closids
    # The pool's, whether or not a server is in it; and that of I/O devices.
    kept = KEPT_CLOSIDS + is_pooled + tree.info.has_io_class
    is_waiting = is_pooled and tree.shared is None
    unused = total - tree.used_closids
    free = min(unused, free_rmids) - is_waiting
    return host_provider.HostProvider(
        key=classes.RDT,
        inventories={
            classes.CLOS: class_inventory.Inventory(
                total=total, reserved=min(kept, total), max_unit=1
            )
        },
        units={classes.CLOS: {'free': max(free, 0)}},
        reserved={
            classes.CLOS: reserved_units.Reserved(
                host=KEPT_CLOSIDS + tree.info.has_io_class,
                other=sum(one.has_class for one in tree.foreign)
                + max(unused - free_rmids, 0),
                pools=int(is_pooled or tree.shared is not None),
            )
        },
    )
