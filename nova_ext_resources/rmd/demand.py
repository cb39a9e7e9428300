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

"""What one server asks of RMD, read from its ledger entry. Pure.

RMD decides by two numbers which pool a workload is of: equal ones take
guaranteed ways, a larger maximum takes best-effort ways, and two zeros take
the shared ones. Both are the same on every cache that the server runs on, and
so is a limit of memory bandwidth, which goes with guaranteed ways only.

A policy's name is never sent. RMD would enforce nothing of one that comes
from a YAML file, and no memory bandwidth of any, nor beside any.
"""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Any

from nova_ext_resources.objects import assignment
from nova_ext_resources import rdt
from nova_ext_resources.rmd import values

#: A server has ways of one of these.
WAY_CLASSES = (rdt.WAYS, rdt.BURST, rdt.SHARED)

#: Resource class of memory bandwidth -> RMD's unit.
UNITS: Mapping[str, values.MbaUnit] = {
    rdt.PERCENT: 'percentage',
    rdt.MBPS: 'mbps',
}

#: RMD's plugin for P-states.
PSTATE = 'pstate'


class Impossible(Exception):
    """RMD can never do what the flavor says; a sentence.

    :ivar held: the assignments that are the reason
    """

    def __init__(
        self, held: Iterable[assignment.Assignment], reason: str
    ) -> None:
        super().__init__(reason)
        self.held = tuple(held)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A workload of RMD, but for its CPUs.

    :ivar plugins: plugin -> key -> value; numbers are floats
    """

    max_ways: int
    min_ways: int
    mba: values.MbaLimit | None = None
    plugins: Mapping[str, Mapping[str, Any]] = dataclasses.field(
        default_factory=dict
    )


def find_ways(entry: assignment.Entry) -> tuple[assignment.Assignment, ...]:
    """Give the ways, or places in the shared pool, of a server."""
    return rdt.pick(entry.assignments, *WAY_CLASSES)


def is_shared(entry: assignment.Entry) -> bool:
    """Tell whether a server has a place in the shared pool."""
    return bool(rdt.pick(entry.assignments, rdt.SHARED))


def make(
    entry: assignment.Entry,
    *,
    burst_ways: int,
    policy: values.Policy | None = None,
) -> Demand:
    """Read what a server asks for.

    :param burst_ways: ways of the best-effort pool
    :param policy: the one that its flavor names
    :raises Impossible: RMD can never do it
    """
    ways = find_ways(entry)
    _check_ways(entry, ways)
    resource_class, amount = ways[0].resource_class, ways[0].amount
    most, least = amount, amount
    if resource_class == rdt.BURST:
        most = _find_most(ways, burst_ways, policy)
    elif resource_class == rdt.SHARED:
        most = least = 0
    mba = _find_limit(entry, ways)
    if policy is not None:
        _check_policy(ways, (most, least), mba, policy)
    return Demand(
        max_ways=most,
        min_ways=least,
        mba=mba,
        plugins=_find_plugins(entry, ways, policy),
    )


def is_like(found: values.Workload, entry: assignment.Entry) -> bool:
    """Tell whether a workload on record can be the one of a server.

    Without knowing a policy's maximum; ``is_exactly`` compares that too.
    """
    ways = find_ways(entry)
    is_guaranteed = ways and ways[0].resource_class == rdt.WAYS
    return bool(
        ways
        and found.core_ids == entry.cpus
        and found.min_ways == ways[0].amount
        and (found.max_ways == found.min_ways) == is_guaranteed
        and found.mba == _read_limit(entry)
    )


def is_exactly(
    found: values.Workload, entry: assignment.Entry, demand: Demand
) -> bool:
    """Tell whether a workload on record is what a server asks for."""
    return (
        found.core_ids == entry.cpus
        and found.max_ways == demand.max_ways
        and found.min_ways == demand.min_ways
        and found.mba == demand.mba
        # RMD stores 3.0 as 3, which Python takes for equal.
        and found.plugins == demand.plugins
    )


def _check_ways(
    entry: assignment.Entry, ways: tuple[assignment.Assignment, ...]
) -> None:
    if not ways:
        raise Impossible(
            entry.assignments,
            'RMD gives a class of service, or memory bandwidth, together '
            f'with cache ways only; ask for resources:{rdt.WAYS} too (it '
            'brings the class by itself)',
        )
    classes = sorted({one.resource_class for one in ways})
    if len(classes) > 1:
        raise Impossible(
            ways,
            'RMD gives a server ways of one pool only, but it asks for '
            f'{" and ".join(classes)}; have its flavor ask for one of them',
        )
    if len({one.amount for one in ways}) > 1:
        raise Impossible(
            ways,
            'RMD gives a server the same number of ways on every cache, but '
            f'it asks for {_list_amounts(ways)}; make the amounts of its '
            'request groups equal',
        )
    if any('code' in one.units for one in ways):
        raise Impossible(
            ways,
            'RMD does not tell code from data; let its flavor require a '
            f'host that does, with trait:{rdt.CDP_TRAIT}=required',
        )
    if not entry.cpus:
        raise Impossible(
            ways,
            'its CPUs float, and RMD limits pinned CPUs only; set '
            'hw:cpu_policy=dedicated on the flavor',
        )


def _find_most(
    ways: tuple[assignment.Assignment, ...],
    burst_ways: int,
    policy: values.Policy | None,
) -> int:
    """Give the most ways that a server of the best-effort pool may have.

    The flavor says it, else its policy, else it is the whole pool.
    """
    amount, most = ways[0].amount, ways[0].units.get('max')
    if most is None and policy is not None:
        most = policy.max_ways
    if most is None:
        return max(burst_ways, amount + 1)
    if most <= amount:
        raise Impossible(
            ways,
            f'RMD takes {amount} to {most} ways for guaranteed ones; ask '
            f'for resources:{rdt.WAYS}={amount}, or let '
            f'resource:{rdt.BURST}:max be {amount + 1} or more',
        )
    return int(most)


def _read_limit(entry: assignment.Entry) -> values.MbaLimit | None:
    for one in rdt.pick(entry.assignments, *rdt.BANDWIDTHS):
        return values.MbaLimit(
            unit=UNITS[one.resource_class],
            value=int(one.units.get('limit', one.amount)),
        )
    return None


def _find_limit(
    entry: assignment.Entry, ways: tuple[assignment.Assignment, ...]
) -> values.MbaLimit | None:
    limited = rdt.pick(entry.assignments, *rdt.BANDWIDTHS)
    if not limited:
        return None
    if ways[0].resource_class != rdt.WAYS:
        raise Impossible(
            limited,
            'RMD limits memory bandwidth of servers with guaranteed ways '
            f'only; ask for resources:{rdt.WAYS} instead of '
            f'{ways[0].resource_class}, or for no bandwidth',
        )
    if {one.rp_key for one in limited} != {one.rp_key for one in ways}:
        raise Impossible(
            limited,
            'RMD limits memory bandwidth on every cache that the server '
            f'runs on, but it asks for {_list_amounts(limited)} and for '
            f'{_list_amounts(ways)}; ask for both on each',
        )
    if len({one.units.get('limit', one.amount) for one in limited}) > 1:
        raise Impossible(
            limited,
            'RMD has one limit of memory bandwidth for each server, but it '
            f'asks for {_list_amounts(limited)}; make the amounts of its '
            'request groups equal',
        )
    return _read_limit(entry)


def _check_policy(
    ways: tuple[assignment.Assignment, ...],
    asked: tuple[int, int],
    mba: values.MbaLimit | None,
    policy: values.Policy,
) -> None:
    """Hold the flavor's policy against the amounts that were claimed."""
    if (policy.max_ways, policy.min_ways) != asked:
        amount = f'{ways[0].resource_class}={ways[0].amount}'
        raise Impossible(
            ways,
            f'RMD policy {policy.name} stands for {policy.min_ways} to '
            f'{policy.max_ways} ways, but the flavor asks for '
            f'resources:{amount}, which is {asked[1]} to {asked[0]}; make '
            'them equal',
        )
    if policy.mba is not None and policy.mba != mba:
        name = next(c for c, unit in UNITS.items() if unit == policy.mba.unit)
        raise Impossible(
            ways,
            f'RMD policy {policy.name} says {policy.mba.value} '
            f'({policy.mba.unit}) of memory bandwidth, which RMD never puts '
            f'into force by a policy; ask for '
            f'resources:{name}={policy.mba.value} too',
        )


def _find_plugins(
    entry: assignment.Entry,
    ways: tuple[assignment.Assignment, ...],
    policy: values.Policy | None,
) -> dict[str, dict[str, Any]]:
    """Give the settings of plugins: the policy's, and those of the flavor."""
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
    if plugins and ways[0].resource_class == rdt.SHARED:
        raise Impossible(
            ways,
            'all servers of the shared pool are one workload of RMD, which '
            'has one P-state; ask for ways of its own, or for no P-state',
        )
    return plugins


def _list_amounts(held: Iterable[assignment.Assignment]) -> str:
    return ', '.join(
        f'{one.amount} {one.resource_class} of {one.rp_key}'
        for one in sorted(held, key=lambda one: one.rp_key)
    )
