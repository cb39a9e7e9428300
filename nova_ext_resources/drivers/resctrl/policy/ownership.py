# SPDX-License-Identifier: Apache-2.0

"""Which server, pool or software has each way and each bandwidth. Pure.

Built once for a change, from the hardware, the control groups and the ledger.
What the ledger says goes before what control groups of ours show; what groups
of other software hold goes before both. Choosing, laying out and verifying
only read it.

Four servers on a cache of twelve ways, of which the host keeps one and the
burst pool has three. A and B have ways of their own, C burst ways, and D
memory bandwidth alone; ``dba`` is a group of other software::

    way      b  a  9  8  7  6  5  4  3  2  1  0
    owner    h  .  .  x  x  B  A  A  A  C  C  C

``h`` is the host's, ``x`` other software's, ``.`` free. The default group has
``e00``: the free ways in one run with the host's. D shares these with it.
"""

from collections.abc import Collection, Iterable, Mapping
import dataclasses
import functools

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import info as info_mod
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.policy import bandwidth
from nova_ext_resources.drivers.resctrl.policy import machine as machine_mod
from nova_ext_resources.drivers.resctrl.policy import regions
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask

#: Classes of ways that a server has for itself -> trait of the hosts on which
#: code and data can have ways of their own.
OWN_WAYS = {
    classes.WAYS: classes.CDP_TRAIT,
    classes.L2_WAYS: classes.L2_CDP_TRAIT,
}

#: States of entries whose units nobody else can have.
_CERTAIN = (assignment.State.APPLIED, assignment.State.PARKED)

_HARD = (groups.EXCLUSIVE, groups.PSEUDO_LOCKED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CacheOwnership:
    """The owners of the ways of one cache.

    :ivar default: ways that the default group has, or has lent
    :ivar runs: server -> the run that its group is to have
    :ivar servers: server -> all ways that count as its own: those that the
        ledger calls applied, and those that its group alone fills
    :ivar foreign: ways that groups of other software may fill
    :ivar exclusive: those of ``foreign`` that the kernel gives to no other
        group (group mode ``exclusive``)
    :ivar locked: ways that are pseudo-locked
    :ivar io: ways that the hardware fills too
    :ivar burst: ways of the burst pool, used or not
    :ivar shared: ways of the pool that servers share, used or not
    :ivar pools_fault: why there are no pools although the options want some
    :ivar host_ways: how many ways the host keeps at least
    """

    info: info_mod.CacheInfo
    default: int
    runs: Mapping[str, schemata.Ways] = dataclasses.field(default_factory=dict)
    servers: Mapping[str, int] = dataclasses.field(default_factory=dict)
    foreign: int = 0
    exclusive: int = 0
    locked: int = 0
    io: int = 0
    burst: int = 0
    shared: int = 0
    pools_fault: str = ''
    host_ways: int = 1

    @functools.cached_property
    def host(self) -> int:
        """The ways that the host keeps at all times.

        Those that the hardware fills too are never exclusive, so they are
        the first; else they are the highest.
        """
        usable = self.info.full & ~(
            self.taken | self.exclusive | self.locked | self.pools
        )
        return _find_host(usable, self.io, self.least)

    @property
    def least(self) -> int:
        """How many ways are enough for the host."""
        return max(self.host_ways, self.info.min_bits)

    @functools.cached_property
    def taken(self) -> int:
        return bitmask.unite(self.servers.values())

    @property
    def pools(self) -> int:
        return self.burst | self.shared

    @property
    def free(self) -> int:
        """Ways that a server can have for itself."""
        return self.info.full & ~(
            self.host
            | self.taken
            | self.foreign
            | self.locked
            | self.pools
            | self.io
        )

    def without(self, consumer_uuid: str) -> 'CacheOwnership':
        servers = {
            uuid: mask
            for uuid, mask in self.servers.items()
            if uuid != consumer_uuid
        }
        return dataclasses.replace(self, servers=servers)

    def with_runs(self, runs: Mapping[str, schemata.Ways]) -> 'CacheOwnership':
        """Return it with other runs of some servers, 0 for none."""
        masks = {uuid: ways.mask for uuid, ways in runs.items()}
        return dataclasses.replace(
            self,
            runs={**self.runs, **runs},
            servers={**self.servers, **masks},
        )

    def allows(self, mask: int) -> bool:
        """Return whether a server that has none can have these ways.

        Ways that the hardware fills too are not refused: a server that holds
        them got them from another backend, and loses nothing.
        """
        if mask & (self.foreign | self.exclusive | self.locked | self.taken):
            return False
        if mask & ~self.info.full:
            return False
        left = self.with_runs({'': schemata.Ways(mask)})
        return left.host.bit_count() >= self.least

    def find_default(self, grouped: int) -> int:
        """Return the ways that the default group is to have.

        Those it had, and those that are left; one run, with the host's own
        ways in it, where the hardware wants one.

        :param grouped: ways of servers and pools that have a group
        """
        usable = self.info.full & ~(grouped | self.exclusive | self.locked)
        mask = usable & (self.default | ~self.foreign) | self.host
        if self.info.is_sparse:
            return mask
        return bitmask.find_run_of(mask, self.host)

    def find_burst_run(self, consumer_uuid: str) -> int:
        """Return the burst ways that a server has now."""
        run = self.runs.get(consumer_uuid, schemata.Ways(0))
        return run.mask & self.burst

    def find_room(self, region: int, members: Collection[str] = ()) -> int:
        """Return the longest run of a pool that its servers can have.

        :param members: its servers; ways that others have are lost to it
        """
        others = bitmask.unite(
            m for u, m in self.servers.items() if u not in members
        )
        room = bitmask.find_longest(
            region & ~(self.foreign | self.exclusive | self.locked | others)
        )
        return room if room.bit_count() >= self.info.min_bits else 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The owner of each unit, and all that this was found out from.

    :ivar entries: the ledger
    :ivar caches: those that the kernel controls now
    :ivar bandwidths: last-level caches whose bandwidth it controls now
    """

    tree: groups.Tree
    machine: machine_mod.HostMachine
    entries: Mapping[str, assignment.Entry]
    caches: Mapping[schemata.Cache, CacheOwnership]
    bandwidths: Mapping[schemata.Cache, bandwidth.BandwidthOwnership]


def build(
    tree: groups.Tree,
    machine: machine_mod.HostMachine,
    entries: Mapping[str, assignment.Entry],
) -> Ownership:
    """Find out which server, pool or software has each unit."""
    records = {
        uuid: list_ways(entry.assignments)
        for uuid, entry in entries.items()
        if entry.assignments
    }
    masks = {
        name: schemata.get_masks(one.schemata)
        for name, one in tree.groups.items()
    }
    ours, foreign, caches = tree.ours, tree.foreign, {}
    for cache in sorted(masks[groups.DEFAULT]):
        if cache.level not in tree.info.levels:
            continue
        ways = {name: found.get(cache, 0) for name, found in masks.items()}
        info = tree.info.levels[cache.level]
        plain = _make_plain(info, cache, ways, foreign, machine)
        shown = {
            uuid: ways[one.name]
            for uuid, one in ours.items()
            if uuid not in records or cache in records[uuid]
        }
        recorded = {
            uuid: own
            for uuid, found in records.items()
            if (own := found.get(cache)) is not None
        }
        caches[cache] = _add_servers(plain, shown, recorded, entries)
    return Ownership(
        tree=tree,
        machine=machine,
        entries=entries,
        caches=caches,
        bandwidths=_build_bandwidths(tree, ours, machine),
    )


def _build_bandwidths(
    tree: groups.Tree,
    ours: Mapping[str, groups.Group],
    machine: machine_mod.HostMachine,
) -> dict[schemata.Cache, bandwidth.BandwidthOwnership]:
    info = tree.info.bandwidth
    if info is None or not _are_of_caches(tree, machine):
        return {}
    limits = {
        uuid: schemata.get_limits(one.schemata) for uuid, one in ours.items()
    }
    known = schemata.get_limits(tree.groups[groups.DEFAULT].schemata)
    return {
        schemata.Cache(schemata.LAST_LEVEL, n): bandwidth.BandwidthOwnership(
            info=info,
            maximum=machine.memory_bandwidth,
            limits={uuid: found.get(n, 0) for uuid, found in limits.items()},
        )
        for n in known
    }


def _are_of_caches(
    tree: groups.Tree, machine: machine_mod.HostMachine
) -> bool:
    """Return whether lines of bandwidth are numbered like the L3 caches.

    On some kernels for ARM they are of NUMA nodes. Without lines of the L3
    cache, those of caches that just went offline may be missing.
    """
    values = tree.groups[groups.DEFAULT].schemata
    limits = schemata.get_limits(values).keys()
    lines, known = (
        {one.number for one in caches if one.level == schemata.LAST_LEVEL}
        for caches in (schemata.get_masks(values), machine.cpus)
    )
    return limits == lines if lines else limits <= known


def list_ways(
    assignments: Iterable[assignment.Assignment],
) -> dict[schemata.Cache, schemata.Ways | None]:
    """Return the ways that a server has for itself, as they are on record.

    None for burst ways, which may have been moved since.
    """
    found: dict[schemata.Cache, schemata.Ways | None] = {}
    for one in assignments:
        if one.resource_class == classes.BURST:
            found.setdefault(schemata.parse_key(one.rp_key), None)
        elif one.resource_class in OWN_WAYS:
            mask = bitmask.parse_mask(str(one.units['mask']))
            code = int(one.units.get('code', 0))
            found[schemata.parse_key(one.rp_key)] = schemata.Ways(mask, code)
    return found


def _make_plain(
    info: info_mod.CacheInfo,
    cache: schemata.Cache,
    ways: Mapping[str, int],
    foreign: Iterable[groups.Group],
    machine: machine_mod.HostMachine,
) -> CacheOwnership:
    """Sum up a cache as if no server had any of it.

    :param ways: group -> its ways of the cache
    :param foreign: groups of other software
    """
    domain = CacheOwnership(
        info=info,
        default=ways[groups.DEFAULT] | machine.lent.get(cache, 0),
        locked=info.locked.get(cache.number, 0),
        io=(info.shareable | info.io.get(cache.number, 0)) & info.full,
        host_ways=machine.reserved_ways,
    )
    has_pools = machine.burst_ways or machine.shared_ways
    if has_pools and cache.level == schemata.LAST_LEVEL:
        domain = _add_pools(domain, machine)
    filled = exclusive = 0
    for one in foreign:
        filled |= ways[one.name]
        exclusive |= ways[one.name] if one.mode in _HARD else 0
    return dataclasses.replace(domain, foreign=filled, exclusive=exclusive)


def _add_pools(
    hardware: CacheOwnership, machine: machine_mod.HostMachine
) -> CacheOwnership:
    grouped = hardware.host | hardware.io | hardware.locked
    try:
        burst, shared = regions.place(
            hardware.info.full & ~grouped,
            hardware.host,
            burst=machine.burst_ways,
            shared=machine.shared_ways,
            least=hardware.info.min_bits,
        )
    except ValueError as err:
        # The inventory reports it, and offers none.
        return dataclasses.replace(hardware, pools_fault=str(err))
    return dataclasses.replace(hardware, burst=burst, shared=shared)


def _add_servers(
    plain: CacheOwnership,
    shown: Mapping[str, int],
    recorded: Mapping[str, schemata.Ways],
    entries: Mapping[str, assignment.Entry],
) -> CacheOwnership:
    """Add the ways of servers: those on record, and those that are seen.

    What is on record and not applied does not count, because its apply takes
    other ways if it must: a new claim, or after a reboot ways where a pool is
    now. Nor do ways count that the group of a server without an entry has: the
    ledger is an older copy, and its own server may be gone. A server that is
    being released has what its group still shows.

    :param shown: server -> ways of its group, if it can have some of its own
    :param recorded: server -> ways in the ledger
    """
    unknown = bitmask.unite(
        mask
        for uuid, mask in shown.items()
        if uuid not in entries and not mask & plain.default
    )
    applied = {
        uuid: ways.mask
        for uuid, ways in recorded.items()
        if entries[uuid].state in _CERTAIN
        and (
            not ways.mask & (plain.pools | unknown)
            or shown.get(uuid) == ways.mask
        )
    }
    seen = _list_seen(plain, shown, recorded, applied)
    return dataclasses.replace(
        plain,
        runs={
            **{uuid: schemata.Ways(mask) for uuid, mask in seen.items()},
            **{
                uuid: ways
                for uuid, ways in recorded.items()
                if seen.get(uuid, ways.mask) == ways.mask
            },
        },
        servers={
            uuid: applied.get(uuid, 0) | seen.get(uuid, 0)
            for uuid in applied.keys() | seen.keys()
        },
    )


def _list_seen(
    plain: CacheOwnership,
    shown: Mapping[str, int],
    recorded: Mapping[str, schemata.Ways],
    applied: Mapping[str, int],
) -> dict[str, int]:
    """Return the ways that groups of ours have for themselves.

    A group without a guarantee has a part of what the default group has,
    with the host's own ways in it. So has one that was only just made, or
    whose cache was offline. Ways of its own are left out by both; the host's
    own ways show it even where other software has given all ways back to the
    default group.

    :param shown: server -> ways of its group
    """
    if not shown:
        return {}
    known = bitmask.unite(ways.mask for ways in recorded.values())
    sure = bitmask.unite(
        mask
        for uuid, mask in shown.items()
        if uuid not in recorded and not mask & plain.default
    )
    grouped = dataclasses.replace(plain, servers={'': known | sure}).host
    found = {}
    for uuid, mask in shown.items():
        others = bitmask.unite(m for one, m in applied.items() if one != uuid)
        if mask and not mask & (grouped | others):
            found[uuid] = mask
    return found


def _find_host(usable: int, io: int, length: int) -> int:
    """Return the run of ``length`` ways that the host keeps."""

    def rank(run: int) -> tuple[bool, int, int]:
        return run.bit_count() >= length, (run & io).bit_count(), run

    run = max(bitmask.split(usable), key=rank, default=0)
    # Ways for I/O may lie at both ends of the cache: the host has one run.
    mask = bitmask.find_longest(run & io) or 1 << run.bit_length() >> 1
    while mask.bit_count() < min(length, run.bit_count()):
        wider = (mask >> 1 | mask) & run
        mask = wider if wider != mask else (mask << 1 | mask) & run
    return mask
