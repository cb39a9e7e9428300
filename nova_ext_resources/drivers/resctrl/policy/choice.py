# SPDX-License-Identifier: Apache-2.0

"""Which units a server is to have. Pure.

Ways that cannot be had where the tracker wanted them (other software came
first) are taken elsewhere in the same cache.
"""

import dataclasses

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rdt import refusals
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.policy import bandwidth
from nova_ext_resources.drivers.resctrl.policy import constraints
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask

#: Classes of pools of ways -> the option that makes them.
_POOLS = {classes.BURST: 'burst_ways', classes.SHARED: 'shared_ways'}

_OF_CACHES = frozenset({*ownership.OWN_WAYS, *_POOLS, *classes.BANDWIDTHS})


def choose(
    owned: ownership.Ownership, entry: assignment.Entry
) -> tuple[assignment.Assignment, ...]:
    """Return its assignments with the units that it can have.

    :raises EnforcementFailed, ClaimError: this host cannot
    """
    return tuple(_choose(owned, entry, one) for one in entry.assignments)


def _choose(
    owned: ownership.Ownership,
    entry: assignment.Entry,
    one: assignment.Assignment,
) -> assignment.Assignment:
    if one.resource_class not in _OF_CACHES:
        return one
    cache = ownership.find_cache(one)
    if owned.machine.is_offline(cache):
        # It is applied as soon as something can run there.
        return one
    if one.resource_class in classes.BANDWIDTHS:
        return _choose_limit(owned, entry, one)
    domain = owned.caches.get(cache)
    if domain is None:
        raise make_misplaced(owned, entry, one, 'ways')
    if one.resource_class in _POOLS:
        _check_pool(owned, entry, one, domain)
        return one
    code = constraints.find_code(
        one,
        has_cdp=schemata.has_cdp(owned.tree.default.schemata, cache.level),
        least=domain.info.min_bits,
    )
    _refuse(owned, entry, code)
    return _choose_ways(owned, entry, one, domain)


def _refuse(
    owned: ownership.Ownership,
    entry: assignment.Entry,
    violation: constraints.Violation | None,
) -> None:
    """:raises ConstraintsViolated: there is one"""
    if violation:
        held, reason = violation
        raise refusals.make_violated(
            owned.machine.host, entry.consumer_uuid, held, reason
        )


def _check_pool(
    owned: ownership.Ownership,
    entry: assignment.Entry,
    one: assignment.Assignment,
    domain: ownership.CacheOwnership,
) -> None:
    """Make sure that there is such a pool, and something of it left.

    :raises EnforcementFailed: there is none
    :raises CapacityExceeded: other software has all of a shared one
    """
    is_burst = one.resource_class == classes.BURST
    if not (domain.burst if is_burst else domain.shared):
        raise make_failed(
            owned,
            entry,
            f'{one.rp_key} no longer has such a pool of ways; keep '
            f'[ext_resources_resctrl] {_POOLS[one.resource_class]} until no '
            'server has any of it',
        )
    if is_burst or is_applied(entry):
        return
    if not domain.find_room(domain.shared):
        raise make_busy(owned, entry, one, 'no way of the shared pool is left')


def _choose_ways(
    owned: ownership.Ownership,
    entry: assignment.Entry,
    one: assignment.Assignment,
    domain: ownership.CacheOwnership,
) -> assignment.Assignment:
    mask = bitmask.parse_mask(str(one.units['mask']))
    others = domain.without(entry.consumer_uuid)
    is_allowed = others.allows(mask) and not mask & _find_filled(owned, one)
    group = owned.tree.ours.get(entry.consumer_uuid)
    has_it = (
        group is not None and group.get_ways(ownership.find_cache(one)) == mask
    )
    # A pool may have come to lie there since the ways were allocated.
    if is_allowed and (not mask & others.pools or has_it):
        return one
    try:
        mask = find_run(others.free, one.amount)
    except ValueError as err:
        # Refused, it could not even be started again, and its CPUs, threads
        # and all else of it would not be put back. The audit reports it.
        is_kept = is_applied(entry) and (
            has_it or dataclasses.replace(others, foreign=0).allows(mask)
        )
        if is_allowed or is_kept:
            return one
        raise make_busy(owned, entry, one, str(err)) from err
    units = {**one.units, 'mask': bitmask.format_mask(mask)}
    return dataclasses.replace(one, units=units)


def _find_filled(
    owned: ownership.Ownership, one: assignment.Assignment
) -> int:
    """Return the ways that the servers of the shared pool fill."""
    pool = owned.tree.shared
    if pool is None:
        return 0
    cache = ownership.find_cache(one)
    return owned.caches[cache].pools & pool.get_ways(cache)


def find_run(free: int, amount: int) -> int:
    """Choose ways as the tracker would.

    :raises ValueError: there are not as many side by side
    """
    state = cache_ways.CacheWaysState(free)
    _state, units = cache_ways.CacheWaysTracker().take(state, amount)
    return bitmask.parse_mask(str(units['mask']))


def is_applied(entry: assignment.Entry) -> bool:
    """Return whether what a server holds was applied before."""
    return entry.state is assignment.State.APPLIED


def is_shared(entry: assignment.Entry) -> bool:
    """Return whether a server has a place in the shared pool."""
    return bool(classes.pick(entry.assignments, classes.SHARED))


def _choose_limit(
    owned: ownership.Ownership,
    entry: assignment.Entry,
    one: assignment.Assignment,
) -> assignment.Assignment:
    tree = owned.tree
    unit = bandwidth.find_unit_of(tree.info, tree.default.schemata)
    values = tree.default.schemata.get(schemata.BANDWIDTH, {})
    is_percent = one.resource_class == classes.PERCENT
    if (
        unit is None
        or is_percent != (unit is bandwidth.Unit.PERCENT)
        or classes.find_domain(one) not in values
    ):
        raise make_misplaced(
            owned, entry, one, 'memory bandwidth in this unit'
        )
    info = tree.info.bandwidth
    assert info is not None, 'it has a unit'
    limit = bandwidth.round_amount(info, unit, get_limit(one))
    return dataclasses.replace(one, units={**one.units, 'limit': limit})


def get_limit(one: assignment.Assignment) -> int:
    """Return the allocated bandwidth, in the unit of the class."""
    return int(one.units.get('limit', one.amount))


# -- refusing ----------------------------------------------------------


def make_busy(
    owned: ownership.Ownership,
    entry: assignment.Entry,
    one: assignment.Assignment,
    reason: str,
) -> exception.CapacityExceeded:
    """Return the error of a host whose units other software has."""
    return refusals.make_busy(
        owned.machine.host,
        entry.consumer_uuid,
        (one,),
        f'something else on the host uses it: {reason}',
    )


def make_misplaced(
    owned: ownership.Ownership,
    entry: assignment.Entry,
    one: assignment.Assignment,
    kind: str,
) -> exception.EnforcementFailed:
    """Return the error of a resource that the kernel does not control."""
    return make_failed(
        owned,
        entry,
        f'the kernel does not control {kind} in {one.rp_key}; was '
        'resctrl mounted anew with other options, or are all CPUs of it '
        'offline?',
    )


def make_failed(
    owned: ownership.Ownership, entry: assignment.Entry, reason: str
) -> exception.EnforcementFailed:
    return exception.EnforcementFailed(
        host=owned.machine.host,
        enforcer='resctrl',
        consumer_uuid=entry.consumer_uuid,
        reason=reason,
    )
