# SPDX-License-Identifier: Apache-2.0

"""What placement shall have of a pool that belongs to no host. Pure: no I/O.

Each host that reaches the pool computes the same of what it reads. It removes
nothing that another host, or an operator, may have added.
"""

from collections.abc import Mapping
import dataclasses
import math

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool as pool_obj


def make_target(
    pool: pool_obj.SharedPool,
    reading: pool_obj.Reading | None,
    seen: host_provider.Provider,
    used: Mapping[str, int],
) -> host_provider.Provider:
    """Return the sharing provider as it shall be.

    :param reading: what :func:`settle` made of it; None: what was measured
        stays as it is
    :param seen: as it is
    :param used: resource class -> how much of it is allocated
    """
    # Of a class that the pool had before.
    closed = {
        name: dataclasses.replace(one, reserved=one.total)
        for name, one in seen.inventories.items()
        if name != pool.resource_class and used.get(name)
    }
    name = pool.resource_class
    before = seen.inventories.get(name)
    if reading is not None:
        total, reserved = _measure(pool, reading, before, used.get(name, 0))
    else:
        assert before is not None, 'without one, each reading is written'
        total, reserved = before.total, before.reserved
    inventory = _make_inventory(pool, total, reserved)
    return dataclasses.replace(
        seen,
        traits=seen.traits | pool.all_traits,
        aggregates=seen.aggregates | {pool.aggregate_uuid},
        inventories={**closed, name: inventory},
    )


def needs_allocated(
    pool: pool_obj.SharedPool, reading: pool_obj.Reading
) -> bool:
    """Return whether a reading means nothing without what was allocated."""
    return (
        reading.free is not None and pool.others_use == pool_obj.NOT_ALLOCATED
    )


def settle(
    pool: pool_obj.SharedPool, reading: pool_obj.Reading, allocated: int
) -> pool_obj.Reading:
    """Return a reading that says what others use, instead of what is free.

    :param allocated: when the reading was taken
    """
    if reading.free is None:
        return reading
    others = {
        pool_obj.NOT_FREE: reading.total - reading.free,
        pool_obj.NOT_ALLOCATED: reading.total - reading.free - allocated,
        pool_obj.RESERVED: 0,
    }
    return dataclasses.replace(
        reading, free=None, reserved=max(others[pool.others_use], 0)
    )


def find_problem(
    pool: pool_obj.SharedPool, reading: pool_obj.Reading, used: int
) -> alarm.Problem | None:
    """Report a pool that has less than servers were allocated, or will soon.

    Of what is not free, servers may have all that was allocated to them.
    """
    if pool.others_use != pool_obj.RESERVED:
        pool = dataclasses.replace(pool, others_use=pool_obj.NOT_ALLOCATED)
    elif (problem := _find_low(pool, reading)) is not None:
        return problem
    reserved = _count_reserved(pool, settle(pool, reading, used))
    capacity = _find_capacity(pool, reading.total - reserved)
    if used <= capacity:
        return None
    return alarm.Problem(
        alarm=alarm.POOL_OVERALLOCATED,
        subject=pool.name,
        text=f'servers hold {used} {pool.resource_class} of pool {pool.name}, '
        f'but its capacity is {capacity} (total {reading.total}, reserved '
        f'{reserved}): placement allocates no more units of the pool until '
        'units are free. Make the pool larger, or move or delete servers. If '
        'these numbers are wrong, correct the source of the pool',
    )


def _find_low(
    pool: pool_obj.SharedPool, reading: pool_obj.Reading
) -> alarm.Problem | None:
    """Report a pool that fills up, whoever fills it."""
    least = math.ceil(reading.total * pool.min_free_percent / 100)
    if reading.free is None or reading.free >= least:
        return None
    return alarm.Problem(
        alarm=alarm.POOL_OVERALLOCATED,
        subject=pool.name,
        text=f'pool {pool.name} has {reading.free} of {reading.total} '
        f'{pool.resource_class} free, less than min_free_percent '
        f'({pool.min_free_percent}) of the total: servers may soon lack '
        'resources that were allocated to them. Make the pool larger, or '
        'move or delete servers',
    )


def find_conflict(
    pool: pool_obj.SharedPool,
    written: class_inventory.Inventory,
    seen: class_inventory.Inventory | None,
) -> alarm.Problem | None:
    """Report a pool of which other hosts have another entry.

    :param written: as this host wrote it, with the entry that it has now
    :param seen: as it is now; None: it has another class
    """
    fields = [] if seen is None else _list_differing(pool, written, seen)
    if seen is not None and not fields:
        return None
    return alarm.Problem(
        alarm=alarm.POOL_DIFFERS,
        subject=pool.name,
        text=f'{", ".join(fields) or "the resource class"} of pool '
        f'{pool.name} differs from the values that this host wrote: another '
        'host has a different entry for the pool, and each host undoes the '
        'changes of the other. Give all hosts that reach the pool the same '
        'entry in pools_file',
    )


def _list_differing(
    pool: pool_obj.SharedPool,
    written: class_inventory.Inventory,
    seen: class_inventory.Inventory,
) -> list[str]:
    """Return the fields that are not measured, and are not as written."""
    max_unit = pool.rules.get('max_unit', max(seen.total, written.min_unit))
    expected = dataclasses.replace(
        written, total=seen.total, reserved=seen.reserved, max_unit=max_unit
    )
    return [
        name
        for name in ('allocation_ratio', 'min_unit', 'max_unit', 'step_size')
        if not math.isclose(
            getattr(expected, name), getattr(seen, name), rel_tol=1e-5
        )
    ]


def _measure(
    pool: pool_obj.SharedPool,
    reading: pool_obj.Reading,
    seen: class_inventory.Inventory | None,
    used: int,
) -> tuple[int, int]:
    """Return total and reserved, never below what is allocated.

    Where there is less, the total stays as it was, and all that is not
    allocated is reserved.
    """
    total, reserved = reading.total, _count_reserved(pool, reading)
    if _find_capacity(pool, total - reserved) < used:
        # With a low ratio, more than placement can store may be needed.
        needed = math.ceil(
            min(used / _find_ratio(pool), class_inventory.MAX_INT)
        )
        if total < needed:
            total = max(needed, seen.total if seen else 0)
        reserved = total - needed
    return total, reserved


def _make_inventory(
    pool: pool_obj.SharedPool, total: int, reserved: int
) -> class_inventory.Inventory:
    rules = {k: v for k, v in pool.rules.items() if k != 'reserved'}
    rules.setdefault('max_unit', max(total, rules.get('min_unit', 1)))
    return class_inventory.Inventory(total=total, reserved=reserved, **rules)


def _count_reserved(
    pool: pool_obj.SharedPool, reading: pool_obj.Reading
) -> int:
    """Return what is kept from servers: used by others, or by order."""
    kept: int = pool.rules.get('reserved', 0)
    return min((reading.reserved or 0) + kept, reading.total)


def _find_capacity(pool: pool_obj.SharedPool, units: int) -> int:
    return int(units * _find_ratio(pool))


def _find_ratio(pool: pool_obj.SharedPool) -> float:
    return float(pool.rules.get('allocation_ratio', 1.0))
