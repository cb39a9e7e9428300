# SPDX-License-Identifier: Apache-2.0

"""What every control group of ours is to have. Pure.

Ways are exclusive when every other class of service leaves them out. So the
default group, in which everything runs that has no class of its own, gives up
the ways that servers have for themselves, and the group of a server leaves
them out wherever it has none of its own.
"""

from collections.abc import Mapping
import dataclasses

from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.objects import bitmask


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What one server is to have.

    :ivar ways: its own, by cache
    :ivar limits: last-level cache -> bandwidth in the kernel's unit
    """

    ways: Mapping[schemata.Cache, schemata.Ways] = dataclasses.field(
        default_factory=dict
    )
    limits: Mapping[int, int] = dataclasses.field(default_factory=dict)

    def join(self, other: 'Wanted') -> 'Wanted':
        """Add what it is to have besides, elsewhere.

        :raises ValueError: it is of the same cache, and one would be lost
        """
        if common := self.ways.keys() & other.ways.keys():
            raise ValueError(f'two runs of ways in {min(common).key}')
        return Wanted(
            ways={**self.ways, **other.ways},
            limits={**self.limits, **other.limits},
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupMembers:
    """What runs in a group.

    :ivar floating: servers whose threads are in it
    """

    cpus: frozenset[int] = frozenset()
    floating: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DesiredGroup:
    """What one group is to have.

    :ivar members: None where these stay as they are
    """

    schemata: schemata.Schemata
    members: GroupMembers | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What is to be there; groups of ours that are not in it are to go.

    :ivar groups: name -> what it is to have
    :ivar host: cache -> the ways that the host keeps
    """

    groups: Mapping[str, DesiredGroup]
    host: Mapping[schemata.Cache, int] = dataclasses.field(
        default_factory=dict
    )


def layout(
    owned: ownership.Ownership,
    wanted: Mapping[str, Wanted] | None = None,
    *,
    members: Mapping[str, GroupMembers] | None = None,
) -> Desired:
    """Lay out all groups of ours.

    :param owned: without the servers whose groups are to go
    :param wanted: server -> what it is to have, where that changes. All of it
        where its group is in ``members``, else it keeps the rest
    :param members: group -> what is to run in it. It is made if it is not
        there; for all others that stays as it is
    """
    wanted, members, tree = wanted or {}, members or {}, owned.tree
    known = tree.groups[groups.DEFAULT].schemata
    names = {
        **{uuid: one.name for uuid, one in tree.ours.items()},
        **{uuid: groups.make_name(uuid) for uuid in wanted},
    }
    cpus = {
        name: one.cpus
        for name, one in tree.groups.items()
        if one.consumer_uuid or name == groups.SHARED
    }
    cpus.update({name: one.cpus for name, one in members.items()})
    whole = {uuid for uuid in wanted if names[uuid] in members}
    ways: dict[str, dict[schemata.Cache, schemata.Ways]] = {
        name: {} for name in (groups.DEFAULT, *cpus)
    }
    host = {}
    for cache, domain in owned.caches.items():
        changed = {
            uuid: one.ways.get(cache, schemata.Ways(0))
            for uuid, one in wanted.items()
            if uuid in whole or cache in one.ways
        }
        after = domain.with_runs(changed) if changed else domain
        host[cache] = after.host
        near = owned.machine.cpus.get(cache, frozenset())
        runs = {
            names[uuid]: run
            for uuid, run in after.runs.items()
            if run.mask and names.get(uuid) in cpus
        }
        for name, run in _lay_out(after, runs, cpus, near).items():
            ways[name][cache] = run
    limits = {
        name: _list_lifted(owned, name)
        for name in {groups.SHARED, *members} & cpus.keys()
    }
    for uuid, one in wanted.items():
        limits[names[uuid]] = {**limits.get(names[uuid], {}), **one.limits}
    return Desired(
        groups={
            name: DesiredGroup(
                schemata=schemata.make_values(
                    known, own, limits.get(name, {})
                ),
                members=members.get(name),
            )
            for name, own in ways.items()
        },
        host=host,
    )


def _list_lifted(owned: ownership.Ownership, name: str) -> dict[int, int]:
    """Return the limits of a group that holds no bandwidth, if it has some.

    It is as free as the default group: what limits it is of other software,
    or was left there. A group that is new has none.
    """
    info, group = owned.tree.info.bandwidth, owned.tree.groups.get(name)
    if info is None or group is None:
        return {}
    return {
        number: info.highest
        for number, limit in schemata.get_limits(group.schemata).items()
        if limit < info.highest
    }


def _lay_out(
    domain: ownership.CacheOwnership,
    runs: Mapping[str, schemata.Ways],
    cpus: Mapping[str, frozenset[int]],
    near: frozenset[int],
) -> dict[str, schemata.Ways]:
    """Return the ways of each group in one cache.

    :param runs: group -> its own ways
    :param cpus: group -> its CPUs
    :param near: CPUs of the cache
    """
    kept = bitmask.unite([one.mask for one in runs.values()])
    if kept & domain.burst:
        # Burst ways that no server uses now are kept for those of the pool;
        # without any such server everything may use them.
        kept |= domain.burst
    if groups.SHARED in cpus:
        kept |= domain.shared
    default = schemata.Ways(domain.find_default(kept))
    rest = schemata.Ways(domain.host)
    found = {
        groups.DEFAULT: default,
        # Where a group without CPUs runs is not known.
        **{n: default if not c or c & near else rest for n, c in cpus.items()},
        **runs,
    }
    if groups.SHARED in cpus:
        room = domain.find_room(domain.shared)
        found[groups.SHARED] = schemata.Ways(room) if room else default
    return found
