# SPDX-License-Identifier: Apache-2.0

"""What a server lacks of what is allocated to it, in words. Pure."""

from collections.abc import Iterator

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.policy import choice
from nova_ext_resources.drivers.resctrl.policy import layout
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.drivers.resctrl.policy import pool as pool_mod
from nova_ext_resources.drivers.resctrl.policy import pools
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask


def find_problem(owned: ownership.Ownership, entry: assignment.Entry) -> str:
    """Explain what a server lacks, or ''."""
    faults = _list_shared if choice.is_shared(entry) else _list_own
    return next(faults(owned, entry), '')


def _list_own(
    owned: ownership.Ownership, entry: assignment.Entry
) -> Iterator[str]:
    """Return the faults of a server that has a group.

    What may be moved between servers is right anywhere between the bounds
    of its allocation.
    """
    uuid = entry.consumer_uuid
    group = owned.tree.ours.get(uuid)
    if group is None:
        yield 'its control group is missing'
        return
    cpus = (entry.cpus or frozenset()) & owned.machine.online
    if group.cpus != cpus:
        yield (
            'its group has the CPUs '
            f'{bitmask.format_list(group.cpus) or "(none)"} instead of '
            f'{bitmask.format_list(cpus)}'
        )
    yield from _list_pool_faults(owned, entry)
    guaranteed = classes.pick(entry.assignments, classes.WAYS)
    keys = {one.rp_key for one in guaranteed}
    for one in classes.pick(entry.assignments, classes.BURST):
        if one.rp_key in keys:
            yield (
                'the server has allocations of two runs of ways in '
                f'{one.rp_key}, but can have only one run'
            )
    own = _list_ways(owned, entry)
    desired = layout.layout(
        owned,
        {uuid: layout.Wanted(ways=own, limits=_list_limits(group, entry))},
        members={group.name: layout.GroupMembers(cpus=group.cpus)},
    )
    yield from _compare(desired.groups[group.name], group)
    for cache, ways in own.items():
        for name in find_intruders(owned.tree, group.name, cache, ways.mask):
            yield (
                f'{name} may fill ways {ways.mask:x} of {cache.key}, which '
                'belong to the server'
            )


def _list_ways(
    owned: ownership.Ownership, entry: assignment.Entry
) -> dict[schemata.Cache, schemata.Ways]:
    uuid = entry.consumer_uuid
    return {
        cache: _find_burst_run(owned, uuid, cache) if ways is None else ways
        for cache, ways in ownership.list_ways(entry.assignments).items()
    }


def _list_limits(
    group: groups.Group, entry: assignment.Entry
) -> dict[int, int]:
    """Return the limits that a server has for bandwidth of its own.

    Whether these are right, its pools say.
    """
    limits = schemata.get_limits(group.schemata)
    assignments = classes.pick(
        entry.assignments, classes.PERCENT, classes.MBPS
    )
    numbers = {schemata.parse_key(one.rp_key).number for one in assignments}
    return {n: limit for n, limit in limits.items() if n in numbers}


def _find_burst_run(
    owned: ownership.Ownership, uuid: str, cache: schemata.Cache
) -> schemata.Ways:
    domain = owned.caches.get(cache)
    return schemata.Ways(domain.find_burst_run(uuid) if domain else 0)


def _list_pool_faults(
    owned: ownership.Ownership, entry: assignment.Entry
) -> Iterator[str]:
    for one in classes.pick(entry.assignments, *pools.CLASSES):
        if owned.machine.is_offline(schemata.parse_key(one.rp_key)):
            continue
        key = (one.rp_key, one.resource_class)
        pool = pool_mod.make_pool(
            owned, key, added={entry.consumer_uuid: entry.assignments}
        )
        if pool is None:
            yield f'{key[0]} no longer has any {key[1]}'
            continue
        if pool.is_overdrawn:
            yield pool.explain_shortage()
        least, most = pool.demands[entry.consumer_uuid]
        amount = pool.amounts[entry.consumer_uuid]
        if not least <= amount <= most:
            bounds = f'{least}' if least == most else f'{least} to {most}'
            yield (
                f'the server has {amount} of {key[1]} in {key[0]} instead of '
                f'{bounds}'
            )


def _list_shared(
    owned: ownership.Ownership, entry: assignment.Entry
) -> Iterator[str]:
    """Return the faults of a server that has a place in the shared pool."""
    group = owned.tree.shared
    if group is None:
        yield 'the control group of the shared pool is missing'
        return
    missing = (entry.cpus or frozenset()) & owned.machine.online - group.cpus
    if missing:
        yield (
            f'CPUs {bitmask.format_list(missing)} of the server are not in '
            'the group of the shared pool'
        )
    yield from _compare(layout.layout(owned).groups[group.name], group)
    for one in classes.pick(entry.assignments, classes.SHARED):
        cache = schemata.parse_key(one.rp_key)
        domain = owned.caches.get(cache)
        if domain is None:
            continue
        room = domain.find_room(domain.shared)
        if not room:
            yield (
                f'other software uses ways {domain.shared:x} of {cache.key}, '
                'which belong to the shared pool'
            )
        for name in find_intruders(owned.tree, group.name, cache, room):
            yield f'{name} may fill ways {room:x} of the pool of {cache.key}'


def _compare(goal: layout.DesiredGroup, group: groups.Group) -> Iterator[str]:
    deviation = schemata.find_deviation(goal.schemata, group.schemata)
    if deviation:
        yield deviation


def find_io_fault(owned: ownership.Ownership, entry: assignment.Entry) -> str:
    """Explain which ways of a server I/O devices were let into, or ''.

    Ways that they always fill (``shareable_bits``) are none that it was sold
    for itself alone.
    """
    if choice.is_shared(entry):
        return ''
    for cache, ways in _list_ways(owned, entry).items():
        domain = owned.caches.get(cache)
        if domain is None:
            continue
        opened = domain.info.io.get(cache.number, 0) & ~domain.info.shareable
        if found := opened & ways.mask:
            return (
                f'I/O devices may fill ways {found:x} of {cache.key}, which '
                'belong to the server: narrow '
                f'info/L{cache.level}/io_alloc_cbm, or write 0 to '
                f'info/L{cache.level}/io_alloc'
            )
    return ''


def find_intruders(
    tree: groups.Tree, name: str, cache: schemata.Cache, ways: int
) -> list[str]:
    """Name the other groups that may fill some of these ways."""
    return [
        f'the control group {one.name}' if one.name else 'the default group'
        for one in tree.groups.values()
        if one.name != name and ways & one.get_ways(cache)
    ]
