# SPDX-License-Identifier: Apache-2.0

"""Who has each way of each cache. Pure.

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

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import info as info_mod
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask

#: Classes of ways that a server has for itself -> trait of the hosts on which
#: code and data can have ways of their own.
OWN_WAYS = {
    classes.WAYS: classes.CDP_TRAIT,
    classes.L2_WAYS: classes.L2_CDP_TRAIT,
}

_HARD = (groups.EXCLUSIVE, groups.PSEUDO_LOCKED)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a host is, besides its groups.

    :ivar host: its name, for errors
    :ivar cpus: cache -> its CPUs, online or not
    :ivar online: all CPUs that are online
    :ivar reserved_ways: how many ways of each cache the host keeps
    :ivar burst_ways: how many of each last-level cache are for burst ways
    :ivar shared_ways: how many are for the servers that share a pool
    :ivar memory_bandwidth: of each last-level cache in MB/s, 0 if unknown
    :ivar lent: cache -> ways that the default group has shared with groups
        of other software until we took them from it
    """

    host: str = ''
    cpus: Mapping[schemata.Cache, frozenset[int]] = dataclasses.field(
        default_factory=dict
    )
    online: frozenset[int] = frozenset()
    reserved_ways: int = 1
    burst_ways: int = 0
    shared_ways: int = 0
    memory_bandwidth: int = 0
    lent: Mapping[schemata.Cache, int] = dataclasses.field(
        default_factory=dict
    )

    def is_offline(self, cache: schemata.Cache) -> bool:
        """Return whether a cache is there, and all its CPUs are offline.

        The kernel shows nothing of it then, and nothing fills it.
        """
        return cache in self.cpus and not self.cpus[cache] & self.online

    def with_default(
        self, before: groups.Group, after: groups.Group
    ) -> 'Machine':
        """Remember what the default group has lost, to give it back.

        The groups do not show it: other software may have kept the default
        group out of its ways on purpose.
        """
        had = before.masks
        lent = {
            cache: (had.get(cache, 0) | self.lent.get(cache, 0)) & ~mask
            for cache, mask in after.masks.items()
        }
        return dataclasses.replace(self, lent=lent)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CacheOwnership:
    """Who has each way of one cache.

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
    host_ways: int = 1

    @property
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

    @property
    def taken(self) -> int:
        return unite(self.servers.values())

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
        left = dataclasses.replace(self, servers={**self.servers, '': mask})
        return left.host.bit_count() >= self.least

    def find_default(self, kept: int, host: int) -> int:
        """Return the ways that the default group is to have.

        Those it had, and those that are left; one run, with the host's own
        ways in it, where the hardware wants one.

        :param kept: ways of servers and pools that have a group
        :param host: the host's own ways
        """
        usable = self.info.full & ~(kept | self.exclusive | self.locked)
        mask = usable & (self.default | ~self.foreign) | host
        return mask if self.info.is_sparse else find_run_of(mask, host)

    def find_room(self, region: int, members: Collection[str] = ()) -> int:
        """Return the longest run of a pool that its servers can have.

        :param members: its servers; ways that others have are lost to it
        """
        others = unite(m for u, m in self.servers.items() if u not in members)
        room = find_longest(
            region & ~(self.foreign | self.exclusive | self.locked | others)
        )
        return room if room.bit_count() >= self.info.min_bits else 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Who has each way, and all that this was found out from.

    A server's part of memory bandwidth is a number, in its group's schemata.

    :ivar entries: the ledger
    :ivar caches: those that the kernel controls now
    """

    tree: groups.Tree
    machine: Machine
    entries: Mapping[str, assignment.Entry]
    caches: Mapping[schemata.Cache, CacheOwnership]


def build(
    tree: groups.Tree,
    machine: Machine,
    entries: Mapping[str, assignment.Entry],
) -> Ownership:
    """Find out who has each way."""
    records = {
        uuid: list_ways(entry.assignments)
        for uuid, entry in entries.items()
        if entry.assignments
    }
    masks = {
        name: schemata.get_masks(one.schemata)
        for name, one in tree.all.items()
    }
    infos, ours, foreign = tree.info.levels, tree.ours, tree.foreign
    caches = {}
    for cache in sorted(masks[groups.DEFAULT]):
        if cache.level not in infos:
            continue
        ways = {name: found.get(cache, 0) for name, found in masks.items()}
        hardware = _make_hardware(infos[cache.level], cache, machine)
        plain = _make_plain(hardware, cache, machine, ways, foreign)
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
        tree=tree, machine=machine, entries=entries, caches=caches
    )


def list_ways(
    held: Iterable[assignment.Assignment],
) -> dict[schemata.Cache, schemata.Ways | None]:
    """Return the ways that a server has for itself, as they are on record.

    None for burst ways, which may have been moved since.
    """
    found: dict[schemata.Cache, schemata.Ways | None] = {}
    for one in held:
        if one.resource_class == classes.BURST:
            found.setdefault(find_cache(one), None)
        elif one.resource_class in OWN_WAYS:
            mask = bitmask.parse_mask(str(one.units['mask']))
            code = int(one.units.get('code', 0))
            found[find_cache(one)] = schemata.Ways(mask, code)
    return found


def find_cache(one: assignment.Assignment) -> schemata.Cache:
    return schemata.Cache(classes.find_level(one), classes.find_domain(one))


def _make_plain(
    hardware: CacheOwnership,
    cache: schemata.Cache,
    machine: Machine,
    ways: Mapping[str, int],
    foreign: Iterable[groups.Group],
) -> CacheOwnership:
    """Sum up a cache as if no server had any of it.

    :param ways: group -> its ways of the cache
    :param foreign: groups of other software
    """
    try:
        burst, shared = place_pools(hardware, cache, machine)
    except ValueError:
        # The inventory reports it, and offers none.
        burst = shared = 0
    return dataclasses.replace(
        hardware,
        default=ways[groups.DEFAULT] | machine.lent.get(cache, 0),
        foreign=unite(ways[one.name] for one in foreign),
        exclusive=unite(
            ways[one.name] for one in foreign if one.mode in _HARD
        ),
        burst=burst,
        shared=shared,
    )


def _make_hardware(
    info: info_mod.CacheInfo, cache: schemata.Cache, machine: Machine
) -> CacheOwnership:
    return CacheOwnership(
        info=info,
        default=info.full,
        locked=info.locked.get(cache.number, 0),
        io=(info.shareable | info.io.get(cache.number, 0)) & info.full,
        host_ways=machine.reserved_ways,
    )


def check_pools(
    tree: groups.Tree, cache: schemata.Cache, machine: Machine
) -> None:
    """:raises ValueError: the pools do not fit; says why"""
    info = tree.info.levels[cache.level]
    place_pools(_make_hardware(info, cache, machine), cache, machine)


def place_pools(
    plain: CacheOwnership, cache: schemata.Cache, machine: Machine
) -> tuple[int, int]:
    """Return the ways of the burst pool and of the shared pool.

    They follow from the hardware and the options alone, so that they are
    where they were after every restart: beside the ways of the host, as far
    from them as can be. The ways between are those that servers have for
    themselves, and the default group keeps what is free of these for as long
    as it is one run with the host's.

    :param plain: the cache as if nothing were allocated or used
    :raises ValueError: they do not fit; says why
    """
    is_wanted = machine.burst_ways or machine.shared_ways
    if cache.level != schemata.LAST_LEVEL or not is_wanted:
        return 0, 0
    usable = plain.info.full & ~(plain.host | plain.io | plain.locked)
    burst = _place(plain, usable, machine.burst_ways, 'burst_ways')
    # Whose pool it is that is too large, only the deployer can tell.
    before = f' and of burst_ways = {machine.burst_ways}' if burst else ''
    shared = _place(
        plain, usable & ~burst, machine.shared_ways, 'shared_ways', before
    )
    return burst, shared


def _place(
    plain: CacheOwnership, usable: int, size: int, name: str, before: str = ''
) -> int:
    if not size:
        return 0
    if size < plain.info.min_bits:
        raise ValueError(
            f'{name} is {size}, and this CPU gives no group fewer than '
            f'{plain.info.min_bits} ways'
        )
    runs = [run for run in split(usable) if run.bit_count() >= size]
    if not runs:
        longest = find_longest(usable).bit_count()
        raise ValueError(
            f'{name} is {size}, and {longest} ways in a row are left beside '
            f'those of the host, of I/O devices{before}'
        )
    if plain.host > usable:
        return runs[0] & ~(runs[0] << size)
    return runs[-1] & ~(runs[-1] >> size)


def _add_servers(
    plain: CacheOwnership,
    shown: Mapping[str, int],
    recorded: Mapping[str, schemata.Ways],
    entries: Mapping[str, assignment.Entry],
) -> CacheOwnership:
    """Add the ways of servers: those on record, and those that are seen.

    What is on record and not applied does not count, because its apply takes
    other ways if it must: a new claim, or after a reboot ways where a pool is
    now. A server that is being released has what its group still shows.

    :param shown: server -> ways of its group, if it can have some of its own
    :param recorded: server -> ways in the ledger
    """
    applied = {
        uuid: ways.mask
        for uuid, ways in recorded.items()
        if entries[uuid].state is assignment.State.APPLIED
        and (not ways.mask & plain.pools or shown.get(uuid) == ways.mask)
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
    known = unite(ways.mask for ways in recorded.values())
    sure = unite(
        mask
        for uuid, mask in shown.items()
        if uuid not in recorded and not mask & plain.default
    )
    kept = dataclasses.replace(plain, servers={'': known | sure}).host
    found = {}
    for uuid, mask in shown.items():
        others = unite(m for one, m in applied.items() if one != uuid)
        if mask and not mask & (kept | others):
            found[uuid] = mask
    return found


def unite(masks: Iterable[int]) -> int:
    together = 0
    for mask in masks:
        together |= mask
    return together


def split(mask: int) -> list[int]:
    """Return the runs of a mask, the lowest first."""
    runs = []
    while mask:
        # Adding its lowest bit carries over the lowest run.
        runs.append(mask & ~(mask + (mask & -mask)))
        mask &= ~runs[-1]
    return runs


def find_longest(mask: int) -> int:
    """Return the longest run of a mask, the lowest of these, or 0."""
    return max(split(mask), key=int.bit_count, default=0)


def find_run_of(mask: int, part: int) -> int:
    """Return the run of a mask in which a part of it lies, or 0."""
    return next((run for run in split(mask) if run & part), 0)


def _find_host(usable: int, io: int, length: int) -> int:
    """Return the run of ``length`` ways that the host keeps."""

    def rank(run: int) -> tuple[bool, int, int]:
        return run.bit_count() >= length, (run & io).bit_count(), run

    run = max(split(usable), key=rank, default=0)
    # Ways for I/O may lie at both ends of the cache: the host has one run.
    mask = find_longest(run & io) or 1 << run.bit_length() >> 1
    while mask.bit_count() < min(length, run.bit_count()):
        wider = (mask >> 1 | mask) & run
        mask = wider if wider != mask else (mask << 1 | mask) & run
    return mask
