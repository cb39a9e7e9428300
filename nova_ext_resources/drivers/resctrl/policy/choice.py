# SPDX-License-Identifier: Apache-2.0

"""Which units a server is to have. Pure.

Ways that cannot be had where the tracker wanted them (other software came
first) are taken elsewhere in the same cache.

Four servers on a cache of twelve ways. A and B run, C has claimed two ways as
``003``, and D bandwidth alone. Before C starts, ``dba`` of other software has
taken these. C gets ``180``, side by side with B::

    way      b  a  9  8  7  6  5  4  3  2  1  0
    before   h  .  .  .  .  B  A  A  A  .  x  x
    after    h  .  .  C  C  B  A  A  A  .  x  x
"""

import dataclasses

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rdt import refusals
from nova_ext_resources.drivers.resctrl.kernel import schemata
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
    chooser = _Chooser(owned, entry)
    assignments = []
    for one in entry.assignments:
        if one.resource_class in _OF_CACHES:
            cache = schemata.parse_key(one.rp_key)
            # What is offline is applied as soon as something can run there.
            if not owned.machine.is_offline(cache):
                one = chooser.choose(one, cache)
        assignments.append(one)
    return tuple(assignments)


def is_shared(entry: assignment.Entry) -> bool:
    """Return whether a server has a place in the shared pool."""
    return any(
        one.resource_class == classes.SHARED for one in entry.assignments
    )


class _Chooser:
    """Chooses the units of one server."""

    def __init__(
        self, owned: ownership.Ownership, entry: assignment.Entry
    ) -> None:
        self._owned = owned
        self._entry = entry
        self._was_applied = entry.state is assignment.State.APPLIED

    def choose(
        self, one: assignment.Assignment, cache: schemata.Cache
    ) -> assignment.Assignment:
        if one.resource_class in classes.BANDWIDTHS:
            return self._choose_limit(one, cache)
        domain = self._owned.caches.get(cache)
        if domain is None:
            raise self._make_misplaced(one, 'ways')
        if one.resource_class in _POOLS:
            self._check_pool(one, domain)
            return one
        self._check_code(one, domain)
        return self._choose_ways(one, cache, domain)

    def _choose_limit(
        self, one: assignment.Assignment, cache: schemata.Cache
    ) -> assignment.Assignment:
        domain = self._owned.bandwidths.get(cache)
        if domain is None or domain.resource_class != one.resource_class:
            raise self._make_misplaced(one, 'memory bandwidth in this unit')
        limit = domain.round(classes.get_limit(one))
        return dataclasses.replace(one, units={**one.units, 'limit': limit})

    def _check_pool(
        self, one: assignment.Assignment, domain: ownership.CacheOwnership
    ) -> None:
        """Make sure that there is such a pool, and something of it left.

        :raises EnforcementFailed: there is none
        :raises CapacityExceeded: other software has all of a shared one
        """
        is_burst = one.resource_class == classes.BURST
        if not (domain.burst if is_burst else domain.shared):
            raise self._make_failed(
                f'{one.rp_key} no longer has a pool for {one.resource_class}; '
                f'keep [ext_resources_resctrl] {_POOLS[one.resource_class]} '
                'until no server uses the pool'
            )
        if is_burst or self._was_applied:
            return
        if not domain.find_room(domain.shared):
            raise self._make_busy(one, 'no way of the shared pool is left')

    def _check_code(
        self, one: assignment.Assignment, domain: ownership.CacheOwnership
    ) -> None:
        """Check again what claims have: mount options may have changed.

        :raises ConstraintsViolated: code and data cannot have ways of their
            own
        """
        if 'code' not in one.units:
            return
        code, least = int(one.units['code']), domain.info.min_bits
        if not domain.info.has_cdp:
            reason = (
                'code/data prioritization (CDP) is not enabled for this cache '
                '(mount option cdp or cdpl2); let the flavor require it with '
                f'trait:{ownership.OWN_WAYS[one.resource_class]}=required'
            )
        elif min(code, one.amount - code) < least:
            reason = (
                f'{code} of {one.amount} ways are for code, but this CPU '
                f'needs at least {least} ways for code and {least} for data'
            )
        else:
            return
        raise refusals.make_violated(
            self._owned.machine.host,
            self._entry.consumer_uuid,
            (one,),
            reason,
        )

    def _choose_ways(
        self,
        one: assignment.Assignment,
        cache: schemata.Cache,
        domain: ownership.CacheOwnership,
    ) -> assignment.Assignment:
        uuid, tree = self._entry.consumer_uuid, self._owned.tree
        mask = bitmask.parse_mask(str(one.units['mask']))
        others, in_pools = domain.without(uuid), mask & domain.pools
        # What the servers of the shared pool fill.
        filled = tree.shared.get_ways(cache) if tree.shared else 0
        # Fewer, if the ledger was damaged.
        is_whole = mask.bit_count() >= one.amount
        is_allowed = is_whole and others.allows(mask) and not filled & in_pools
        group = tree.ours.get(uuid)
        has_it = group is not None and group.get_ways(cache) == mask
        # A pool may have come to lie there since the ways were allocated.
        if is_allowed and (not in_pools or has_it):
            return one
        try:
            mask = find_ways(others.free, one.amount, domain.info.is_sparse)
        except ValueError as err:
            # Refused, it could not even be started again, and its CPUs,
            # threads and all else of it would not be put back. The audit
            # reports it.
            is_kept = (
                self._was_applied
                and is_whole
                and (
                    has_it
                    or dataclasses.replace(others, foreign=0).allows(mask)
                )
            )
            if is_allowed or is_kept:
                return one
            raise self._make_busy(one, str(err)) from err
        units = {**one.units, 'mask': bitmask.format_mask(mask)}
        return dataclasses.replace(one, units=units)

    # -- refusing ------------------------------------------------------

    def _make_busy(
        self, one: assignment.Assignment, reason: str
    ) -> exception.CapacityExceeded:
        """Return the error of a host whose units other software has."""
        names = sorted(
            group.name
            for group in self._owned.tree.foreign
            if group.get_ways(schemata.parse_key(one.rp_key))
        )
        owner = f' (control groups: {", ".join(names)})' if names else ''
        return refusals.make_busy(
            self._owned.machine.host,
            self._entry.consumer_uuid,
            (one,),
            f'other software on the host uses this resource{owner}: {reason}',
        )

    def _make_misplaced(
        self, one: assignment.Assignment, kind: str
    ) -> exception.EnforcementFailed:
        """Return the error of a resource that the kernel does not control."""
        return self._make_failed(
            f'the kernel does not control {kind} in {one.rp_key}; check '
            'whether resctrl was mounted again with other options, or all '
            f'CPUs of {one.rp_key} are offline'
        )

    def _make_failed(self, reason: str) -> exception.EnforcementFailed:
        return exception.EnforcementFailed(
            host=self._owned.machine.host,
            enforcer='resctrl',
            consumer_uuid=self._entry.consumer_uuid,
            reason=reason,
        )


def find_ways(free: int, amount: int, is_sparse: bool = False) -> int:
    """Choose ways as the tracker would.

    :raises ValueError: there are not as many, or not side by side
    """
    state = cache_ways.CacheWaysState(free, is_sparse=is_sparse)
    _state, units = cache_ways.CacheWaysTracker().allocate(state, amount)
    return bitmask.parse_mask(str(units['mask']))
