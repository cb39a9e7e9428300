# SPDX-License-Identifier: Apache-2.0

"""The workload that one server needs, derived from its ledger entry. Pure.

RMD decides by two numbers which pool a workload is of: equal ones take
guaranteed ways, a larger maximum takes best-effort ways, and two zeros take
the shared ones. Both are the same on every cache that the server runs on, and
so is a limit of memory bandwidth, which goes with guaranteed ways only.

A policy's name is never sent. RMD would enforce nothing of one that comes
from a YAML file, and no memory bandwidth of any, nor beside any.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rmd.api import request
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.objects import assignment

#: A server has ways of one of these.
WAY_CLASSES = (classes.WAYS, classes.BURST, classes.SHARED)

#: Resource class of memory bandwidth -> RMD's unit.
UNITS: Mapping[str, values.MbaUnit] = {
    classes.PERCENT: 'percentage',
    classes.MBPS: 'mbps',
}

#: RMD's unit -> resource class of memory bandwidth.
CLASSES = {unit: name for name, unit in UNITS.items()}

#: RMD's plugin for P-states.
PSTATE = 'pstate'

_Assignments: TypeAlias = tuple[assignment.Assignment, ...]


class Impossible(Exception):
    """RMD can never do what the flavor requests; a sentence.

    :ivar assignments: the assignments that are the reason
    """

    def __init__(self, assignments: _Assignments, reason: str) -> None:
        super().__init__(reason)
        self.assignments = assignments


def find_ways(entry: assignment.Entry) -> _Assignments:
    """Return the ways, or places in the shared pool, of a server."""
    return classes.pick(entry.assignments, *WAY_CLASSES)


def is_shared(entry: assignment.Entry) -> bool:
    """Return whether a server has a place in the shared pool."""
    return bool(classes.pick(entry.assignments, classes.SHARED))


def make(
    entry: assignment.Entry,
    *,
    burst_ways: int,
    policy: values.RmdPolicy | None = None,
) -> request.WorkloadRequest:
    """Return the workload that a server needs.

    A server with a place in the shared pool gets no workload of its own, but
    its demands must be possible all the same.

    :param burst_ways: ways of the best-effort pool
    :param policy: the one that its flavor names
    :raises Impossible: RMD can never do it
    """
    ways = find_ways(entry)
    if not ways:
        raise Impossible(
            entry.assignments,
            'RMD allocates nothing without cache ways; request '
            f'resources:{classes.WAYS} too',
        )
    if not entry.cpus:
        raise Impossible(
            ways,
            'the CPUs of the server float, but RMD limits only pinned CPUs; '
            'set hw:cpu_policy=dedicated on the flavor',
        )
    resource_class, amount = ways[0].resource_class, ways[0].amount
    most, least = amount, amount
    if resource_class == classes.BURST:
        most = _find_most(ways, burst_ways, policy)
    elif resource_class == classes.SHARED:
        most = least = 0
    mba = _find_limit(entry)
    if policy is not None:
        _check_policy(ways, (most, least), mba, policy)
    return request.WorkloadRequest(
        uuid=entry.consumer_uuid,
        core_ids=entry.cpus or frozenset(),
        max_ways=most,
        min_ways=least,
        mba=mba,
        plugins=_find_plugins(entry, ways, policy),
    )


def is_like(found: values.RmdWorkload, entry: assignment.Entry) -> bool:
    """Return whether a workload on record can be the one of a server.

    Without knowing a policy's maximum, which ``WorkloadRequest.matches``
    compares too.
    """
    ways = find_ways(entry)
    is_guaranteed = ways and ways[0].resource_class == classes.WAYS
    return bool(
        ways
        and found.core_ids == entry.cpus
        and found.min_ways == ways[0].amount
        and (found.max_ways == found.min_ways) == is_guaranteed
        and found.mba == _find_limit(entry)
    )


def _find_most(
    ways: _Assignments, burst_ways: int, policy: values.RmdPolicy | None
) -> int:
    """Return the most ways that a server of the best-effort pool may have.

    From the flavor, else from its policy, else it is the whole pool.
    """
    amount, most = ways[0].amount, ways[0].units.get('max')
    if most is None and policy is not None:
        most = policy.max_ways
    if most is None:
        return max(burst_ways, amount + 1)
    if most <= amount:
        raise Impossible(
            ways,
            f'RMD treats {amount} to {most} ways as guaranteed ways; request '
            f'resources:{classes.WAYS}={amount}, or set '
            f'resource:{classes.BURST}:max to {amount + 1} or more',
        )
    return int(most)


def _find_limit(entry: assignment.Entry) -> values.MbaLimit | None:
    for one in classes.pick(entry.assignments, *classes.BANDWIDTHS):
        return values.MbaLimit(
            unit=UNITS[one.resource_class], value=classes.get_limit(one)
        )
    return None


def _check_policy(
    ways: _Assignments,
    requested: tuple[int, int],
    mba: values.MbaLimit | None,
    policy: values.RmdPolicy,
) -> None:
    """Compare the flavor's policy with the amounts that were claimed."""
    if (policy.max_ways, policy.min_ways) != requested:
        raise Impossible(
            ways,
            f'RMD policy {policy.name} means {policy.min_ways} to '
            f'{policy.max_ways} ways, but the flavor requests '
            f'resources:{ways[0].resource_class}={ways[0].amount}, which '
            f'means {requested[1]} to {requested[0]} ways; make the policy '
            'and the flavor equal',
        )
    if policy.mba is not None and policy.mba != mba:
        raise Impossible(
            ways,
            f'RMD policy {policy.name} contains memory bandwidth '
            f'({policy.mba.value}, {policy.mba.unit}), which RMD never '
            'applies by a policy; request resources:'
            f'{CLASSES[policy.mba.unit]}={policy.mba.value} too',
        )


def _find_plugins(
    entry: assignment.Entry,
    ways: _Assignments,
    policy: values.RmdPolicy | None,
) -> dict[str, dict[str, Any]]:
    """Return settings of plugins; the flavor's replace the policy's."""
    wishes = entry.enforcers.get('rmd', {})
    pstate: dict[str, Any] = {}
    if 'pstate_ratio' in wishes:
        pstate['ratio'] = float(wishes['pstate_ratio'])
    if 'pstate_monitoring' in wishes:
        pstate['monitoring'] = wishes['pstate_monitoring']
    plugins = {
        name: dict(items)
        for name, items in (policy.plugins if policy else {}).items()
    }
    if pstate:
        plugins[PSTATE] = {**plugins.get(PSTATE, {}), **pstate}
    if plugins and ways[0].resource_class == classes.SHARED:
        raise Impossible(
            ways,
            'all servers of the shared pool are one workload of RMD, which '
            'has one P-state; request ways for this server alone, or no '
            'P-state',
        )
    return plugins
