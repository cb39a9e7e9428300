# SPDX-License-Identifier: Apache-2.0

"""Divides pools between their servers, whenever one comes or goes. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rdt import refusals
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.policy import layout
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.drivers.resctrl.policy import pool as pool_mod
from nova_ext_resources.objects import assignment

#: Pool -> server -> the amount that fine tuning has set.
Amounts: TypeAlias = Mapping[pool_mod.Key, Mapping[str, int]]

CLASSES = frozenset({classes.BURST, *classes.BANDWIDTHS})


def list_keys(entries: Iterable[assignment.Entry]) -> list[pool_mod.Key]:
    """Return the pools that servers have a part of."""
    found = {
        (one.rp_key, one.resource_class)
        for entry in entries
        for one in entry.assignments
        if one.resource_class in CLASSES
    }
    return sorted(found)


def divide(
    pools: Iterable[pool_mod.Pool], amounts: Amounts
) -> dict[str, layout.Wanted]:
    """Return what each server of these pools is to have of them.

    :raises ValueError: the guaranteed amounts of a pool are too much
    """
    wanted: dict[str, layout.Wanted] = {}
    for pool in pools:
        divided = pool.divide(amounts.get(pool.key, {}))
        for uuid, part in pool.make_parts(divided):
            wanted[uuid] = wanted.get(uuid, layout.Wanted()).join(part)
    return wanted


def make_room(
    owned: ownership.Ownership,
    entry: assignment.Entry,
    assignments: Sequence[assignment.Assignment],
    own: layout.Wanted,
    amounts: Amounts,
) -> dict[str, layout.Wanted]:
    """Divide the pools anew of which a server gets a part.

    :param assignments: its assignments, as they were chosen
    :param own: what it is to have besides
    :return: server -> what it is to have, ``entry`` among them
    :raises CapacityExceeded: other software has taken too much of one
    """
    uuid, pools = entry.consumer_uuid, []
    was_applied = entry.state is assignment.State.APPLIED
    for one in assignments:
        if one.resource_class not in CLASSES:
            continue
        cache = schemata.parse_key(one.rp_key)
        if owned.machine.is_offline(cache):
            continue
        key = (one.rp_key, one.resource_class)
        pool = pool_mod.make_pool(owned, key, added={uuid: assignments})
        assert pool is not None, 'it has been chosen'
        if not pool.is_overdrawn:
            pools.append(pool)
        elif was_applied and uuid in owned.caches[cache].runs:
            # No server's run can be laid out; it keeps the one it has.
            ways = {cache: owned.caches[cache].runs[uuid]}
            own = own.join(layout.Wanted(ways=ways))
        else:
            raise refusals.make_busy(
                owned.machine.host, uuid, (one,), pool.explain_shortage()
            )
    wanted = divide(pools, amounts)
    return {**wanted, uuid: own.join(wanted.get(uuid, layout.Wanted()))}


def relax(
    owned: ownership.Ownership,
    keys: Iterable[pool_mod.Key],
    amounts: Amounts,
) -> dict[str, layout.Wanted]:
    """Divide pools anew for those that stay.

    Servers of a pool that is overdrawn keep what they have; the audit reports
    it.
    """
    pools = (pool_mod.make_pool(owned, key) for key in keys)
    there = [one for one in pools if one and not one.is_overdrawn]
    return divide(there, amounts)


def list_outdated(
    owned: ownership.Ownership,
    keys: Iterable[pool_mod.Key],
    amounts: Amounts,
) -> list[pool_mod.Key]:
    """Return the pools whose amounts are for other servers than there are."""
    found = []
    for key in set(keys) & amounts.keys():
        pool = pool_mod.make_pool(owned, key)
        if pool is None or pool.demands.keys() != amounts[key].keys():
            found.append(key)
    return found
