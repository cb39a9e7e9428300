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

"""What every group must say so that sold ways are exclusive. Pure.

Stateless on purpose: all is told from the groups themselves, so that nothing
is lost with a process.
"""

from collections.abc import Collection, Iterable, Mapping
import dataclasses
from typing import TypeAlias

from nova_ext_resources.resctrl import bursts
from nova_ext_resources.resctrl import groups
from nova_ext_resources.resctrl import masks
from nova_ext_resources.resctrl import pools
from nova_ext_resources.resctrl import schemata as schemata_mod

#: Server -> cache -> ways.
Held: TypeAlias = Mapping[str, Mapping[schemata_mod.Cache, schemata_mod.Ways]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What the layout depends on besides the groups.

    :ivar cpus: cache -> its CPUs, online or not
    :ivar online: all CPUs that are online
    :ivar reserved_ways: how many ways of each cache the host keeps
    :ivar sizes: how many ways of each last-level cache are for pools
    :ivar shared: cache -> ways that the default group has shared with groups
        of other software until we took them from it
    :ivar held: server -> cache -> ways of its own that are on record, none
        where these are not to be known; servers without a record are not in
        it, and what they have is told from their groups
    """

    cpus: Mapping[schemata_mod.Cache, frozenset[int]]
    online: frozenset[int] = frozenset()
    reserved_ways: int = 1
    sizes: pools.Sizes = dataclasses.field(default_factory=pools.Sizes)
    shared: Mapping[schemata_mod.Cache, int] = dataclasses.field(
        default_factory=dict
    )
    held: Held = dataclasses.field(default_factory=dict)

    def is_offline(self, cache: schemata_mod.Cache) -> bool:
        """Tell whether a cache is there, and all its CPUs are offline.

        The kernel shows nothing of it then, and nothing fills it.
        """
        return cache in self.cpus and not self.cpus[cache] & self.online


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What one server shall have.

    :ivar ways: its own, by cache
    :ivar limits: last-level cache -> bandwidth in the kernel's unit
    """

    ways: Mapping[schemata_mod.Cache, schemata_mod.Ways] = dataclasses.field(
        default_factory=dict
    )
    limits: Mapping[int, int] = dataclasses.field(default_factory=dict)

    @property
    def masks(self) -> dict[schemata_mod.Cache, int]:
        return {cache: ways.mask for cache, ways in self.ways.items()}

    def make_schemata(
        self, known: schemata_mod.Schemata
    ) -> dict[str, dict[int, int]]:
        """Make what is written so that a group has it.

        :param known: of any group; the controls that there are
        """
        there = known.get(schemata_mod.BANDWIDTH, {})
        limits = {n: one for n, one in self.limits.items() if n in there}
        return {
            **schemata_mod.make_values(known, self.ways),
            **({schemata_mod.BANDWIDTH: limits} if limits else {}),
        }

    def join(self, other: 'Wanted') -> 'Wanted':
        """Add what it shall have besides, elsewhere.

        :raises ValueError: it is of the same cache, and one would be lost
        """
        if common := self.ways.keys() & other.ways.keys():
            raise ValueError(f'two runs of ways in {min(common).key}')
        return Wanted(
            ways={**self.ways, **other.ways},
            limits={**self.limits, **other.limits},
        )


def list_levels(tree: groups.Tree) -> list[int]:
    """Give the levels whose CPUs must be known.

    Memory bandwidth belongs to a last-level cache, controlled or not.
    """
    found = {one.level for one in list_caches(tree)}
    return sorted(found | {schemata_mod.LAST_LEVEL})


def list_caches(tree: groups.Tree) -> list[schemata_mod.Cache]:
    """Give the caches whose ways are controlled."""
    return [
        one
        for one in schemata_mod.list_caches(tree.default.schemata)
        if tree.info.find_cache(one.level) is not None
    ]


def make_domain(
    tree: groups.Tree,
    cache: schemata_mod.Cache,
    host: Host,
    *,
    ignored: str = '',
) -> masks.Domain:
    """Sum up what the groups have of one cache.

    :param ignored: server whose group counts as if it were not there
    """
    plain = _make_plain(tree, cache, host)
    own = _list_own(plain, tree, cache, host)
    sold = masks.unite(mask for uuid, mask in own.items() if uuid != ignored)
    return dataclasses.replace(plain, sold=sold)


def _make_plain(
    tree: groups.Tree, cache: schemata_mod.Cache, host: Host
) -> masks.Domain:
    """Sum up a cache as if nothing were sold."""
    info = tree.info.find_cache(cache.level)
    assert info is not None, 'asked for ways where none can be had'
    foreign = [
        (one.mode, schemata_mod.get_ways(one.schemata, cache))
        for one in tree.foreign
    ]
    hard = (groups.EXCLUSIVE, groups.PSEUDO_LOCKED)
    plain = masks.Domain(
        cache=info,
        default=schemata_mod.get_ways(tree.default.schemata, cache),
        foreign=masks.unite(mask for _mode, mask in foreign),
        exclusive=masks.unite(m for mode, m in foreign if mode in hard),
        locked=info.locked.get(cache.number, 0),
        host_ways=host.reserved_ways,
    )
    regions = find_regions(plain, cache, host)
    return dataclasses.replace(plain, pools=regions.together)


def find_regions(
    plain: masks.Domain, cache: schemata_mod.Cache, host: Host
) -> pools.Regions:
    """Give the pools of a cache, none where they do not fit.

    The inventory says so then, and sells none.
    """
    try:
        return check_pools(plain, cache, host)
    except ValueError:
        return pools.Regions()


def check_pools(
    plain: masks.Domain, cache: schemata_mod.Cache, host: Host
) -> pools.Regions:
    """Give the pools of a cache.

    :raises ValueError: they do not fit; says why
    """
    if cache.level != schemata_mod.LAST_LEVEL:
        return pools.Regions()
    return pools.find_regions(plain, host.sizes)


def find_pools(
    tree: groups.Tree, cache: schemata_mod.Cache, host: Host
) -> pools.Regions:
    """Give the pools of a cache."""
    return find_regions(_make_plain(tree, cache, host), cache, host)


def _list_own(
    plain: masks.Domain,
    tree: groups.Tree,
    cache: schemata_mod.Cache,
    host: Host,
) -> dict[str, int]:
    """Give server -> the ways that its group has for itself, 0 for none.

    A group without a guarantee has a part of what the default group has,
    with the host's own ways in it. So has one that was only just made, or
    whose cache was offline. Ways of its own are left out by both; the host's
    own ways tell it even where somebody has given all ways back to the
    default group. What is on record goes before all that.

    :param plain: the cache as if nothing were sold
    """
    ways = {
        uuid: schemata_mod.get_ways(one.schemata, cache)
        for uuid, one in tree.ours.items()
    }
    # The host's own ways are not those of who leaves out the default group.
    sure = masks.unite(m for m in ways.values() if not m & plain.default)
    kept = dataclasses.replace(plain, sold=sure).host
    found = {}
    for uuid, mask in ways.items():
        found[uuid] = 0 if mask & kept else mask
        if uuid in host.held:
            own = host.held[uuid].get(cache)
            if own is None:
                found[uuid] = 0
            elif mask & kept:
                found[uuid] = own.mask
    return found


def find_room(
    tree: groups.Tree,
    cache: schemata_mod.Cache,
    host: Host,
    *,
    members: Collection[str],
) -> int:
    """Give the ways of the burst pool that its servers can have.

    :param members: its servers; what anybody else has there is lost to them
    """
    plain = _make_plain(tree, cache, host)
    region = find_regions(plain, cache, host).burst
    return bursts.find_room(
        region & ~_find_taken(plain, tree, cache, host, members)
    )


def find_shared_room(
    tree: groups.Tree, cache: schemata_mod.Cache, host: Host
) -> int:
    """Give the ways of the shared pool that its servers can have."""
    plain = _make_plain(tree, cache, host)
    region = find_regions(plain, cache, host).shared
    room = bursts.find_room(
        region & ~_find_taken(plain, tree, cache, host, ())
    )
    return room if room.bit_count() >= plain.cache.min_bits else 0


def _find_taken(
    plain: masks.Domain,
    tree: groups.Tree,
    cache: schemata_mod.Cache,
    host: Host,
    members: Collection[str],
) -> int:
    """Give the ways that others hold than the members of a pool."""
    own = _list_own(plain, tree, cache, host)
    others = masks.unite(m for uuid, m in own.items() if uuid not in members)
    return plain.foreign | plain.exclusive | plain.locked | others


def find_own(
    tree: groups.Tree, consumer_uuid: str, host: Host
) -> dict[schemata_mod.Cache, int]:
    """Give the ways that a server has for itself, cache by cache."""
    found = {
        cache: _list_own(_make_plain(tree, cache, host), tree, cache, host)
        for cache in list_caches(tree)
    }
    return {
        cache: own[consumer_uuid]
        for cache, own in found.items()
        if own.get(consumer_uuid)
    }


def plan(
    tree: groups.Tree,
    host: Host,
    *,
    sold: Mapping[str, Mapping[schemata_mod.Cache, int]],
    whole: str = '',
) -> dict[str, schemata_mod.Schemata]:
    """Give the masks of ways that nobody has for himself.

    Those of the default group, those that groups of ours have in caches where
    they have none of their own, and those of the shared pool.

    :param sold: server -> cache -> ways of its own, where these are not to
        be told from its group (yet)
    :param whole: server of which ``sold`` says all
    :return: group name -> schemata, of caches only
    """
    result: dict[str, dict[schemata_mod.Cache, schemata_mod.Ways]] = {
        groups.DEFAULT: {}
    }
    result.update({one.name: {} for one in tree.ours.values()})
    is_shared = groups.SHARED in tree.groups
    if is_shared:
        result[groups.SHARED] = {}
    # Where there is bandwidth alone, there are no ways to lay out.
    for cache in list_caches(tree):
        plain = _make_plain(tree, cache, host)
        own = _list_sold(plain, tree, cache, host, sold, whole)
        regions = find_regions(plain, cache, host)
        domain = dataclasses.replace(
            plain,
            default=plain.default | host.shared.get(cache, 0),
            sold=regions.widen(masks.unite(own.values()))
            | (regions.shared if is_shared else 0),
        )
        default = domain.wanted_default
        result[groups.DEFAULT][cache] = schemata_mod.Ways(default)
        if is_shared:
            room = find_shared_room(tree, cache, host)
            result[groups.SHARED][cache] = schemata_mod.Ways(room or default)
        for uuid, one in tree.ours.items():
            if not own[uuid]:
                rest = default if _runs_on(one, cache, host) else domain.host
                result[one.name][cache] = schemata_mod.Ways(rest)
            elif cache not in sold.get(uuid, {}) and own[uuid] != (
                one.get_ways(cache)
            ):
                # It has lost them.
                result[one.name][cache] = host.held[uuid][cache]
    return {
        name: schemata_mod.make_values(tree.default.schemata, ways)
        for name, ways in result.items()
    }


def _list_sold(
    plain: masks.Domain,
    tree: groups.Tree,
    cache: schemata_mod.Cache,
    host: Host,
    sold: Mapping[str, Mapping[schemata_mod.Cache, int]],
    whole: str,
) -> dict[str, int]:
    """Give server -> the ways that it has for itself in a cache."""
    found = _list_own(plain, tree, cache, host)
    if whole:
        found[whole] = 0
    told = {uuid: own[cache] for uuid, own in sold.items() if cache in own}
    return {**found, **told}


def _runs_on(
    group: groups.Group, cache: schemata_mod.Cache, host: Host
) -> bool:
    # Nobody knows where a group without CPUs runs.
    return not group.cpus or bool(
        group.cpus & host.cpus.get(cache, frozenset())
    )


def remember_shared(
    host: Host, before: groups.Group, tree: groups.Tree
) -> Host:
    """Remember what the default group has shared, to give it back.

    It cannot be told from the groups: somebody may have kept the default
    group out of another's ways on purpose.

    :param before: the default group before it was changed
    """
    shared = {
        cache: (before.get_ways(cache) | host.shared.get(cache, 0))
        & ~tree.default.get_ways(cache)
        for cache in list_caches(tree)
    }
    return dataclasses.replace(host, shared=shared)


def find_intruders(
    tree: groups.Tree, name: str, cache: schemata_mod.Cache, ways: int
) -> list[str]:
    """Give the other groups that may fill some of these ways."""
    others: Iterable[groups.Group] = (tree.default, *tree.groups.values())
    return [
        one.name or 'the default group'
        for one in others
        if one.name != name
        and ways & schemata_mod.get_ways(one.schemata, cache)
    ]
