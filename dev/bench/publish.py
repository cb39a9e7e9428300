# SPDX-License-Identifier: Apache-2.0

"""Publishing the providers of a host, beside Nova's own client.

Both publish the same providers to the same placement, each for hosts of its
own, in turns. Requests are counted, and the time is that of the clock,
because most of it is waiting for placement.

Nova's client caches what placement has, and reads aggregates and traits of
each provider again after five minutes, as by default. So what costs where
nothing changes is that of the rounds of five minutes.
"""

import argparse
from collections.abc import Iterator, Sequence
import sys
import tempfile
from typing import TypeAlias

from dev.bench.harness import placements
from dev.bench.harness import publishing
from dev.bench.harness import rows as rows_mod

FEW, MANY = 5, 67

#: Hosts of each side, after one that warms up.
HOSTS = 5

#: Of one L3 domain: at first, and after each change.
WAYS = (11, 10, 9, 8, 7, 6)

#: The largest number of requests, with many providers.
LIMITS = {'nothing changed': 1, 'one inventory changed': 2, 'restart': 14}

#: Of Nova's requests, and of its time, with many providers.
MAX_FIRST = 0.4

FIRST, NOTHING, CHANGED, RESTART = 'first', *LIMITS
MINUTES = 'nothing changed, 5 minutes'

#: Phase -> cost, of one host.
_Costs: TypeAlias = dict[str, publishing.Cost]

#: Ours, and that of the peer.
_Pair: TypeAlias = tuple[publishing.Cost, publishing.Cost]


def run(arguments: Sequence[str] = ()) -> list[rows_mod.Row]:
    parser = argparse.ArgumentParser('python -m dev.bench publish')
    parser.add_argument(
        '--hosts',
        type=int,
        default=HOSTS,
        help='hosts of each side that are measured. By default %(default)s',
    )
    placements.add_option(parser)
    options = parser.parse_args(arguments)
    with (
        placements.started(is_sqlite=options.sqlite) as placement,
        tempfile.TemporaryDirectory() as folder,
    ):
        print(f'placement with {placement.database} ...', file=sys.stderr)
        sides = (
            publishing.Publisher(placement, folder),
            publishing.Nova(placement),
        )
        return [
            row
            for count in (FEW, MANY)
            for row in _make_rows(count, _measure(sides, count, options.hosts))
        ]


def _measure(
    sides: Sequence[publishing.Side], count: int, hosts: int
) -> dict[str, list[_Pair]]:
    """Return the costs of the hosts by phase; ours come first."""
    found: dict[str, list[_Pair]] = {}
    for number in range(hosts + 1):
        turns = reversed(sides) if number % 2 else sides
        costs = {id(one): _measure_host(one, count) for one in turns}
        ours, peer = (costs[id(one)] for one in sides)
        if number:
            for phase in ours:
                pair = ours[phase], peer[phase]
                found.setdefault(phase, []).append(pair)
    return found


def _measure_host(side: publishing.Side, count: int) -> _Costs:
    """Publish one host, in all phases."""
    # Nova's client copies all trees that it knows.
    side.start()
    node = side.add_node()
    before, *changed = (
        publishing.make_providers(node, count, ways) for ways in WAYS
    )
    costs = {FIRST: side.publish(node, before)}
    costs[NOTHING] = _find_middle(side, node, [before] * len(changed))
    costs[MINUTES] = _publish_minutes(side, node, before)
    costs[CHANGED] = _find_middle(side, node, changed)
    side.start()
    costs[RESTART] = side.publish(node, changed[-1])
    return costs


def _find_middle(
    side: publishing.Side,
    node: publishing.Node,
    versions: Sequence[Sequence[publishing.Provider]],
) -> publishing.Cost:
    """Publish one after the other; return the cost that is in the middle."""
    costs = [side.publish(node, one) for one in versions]
    return sorted(costs, key=lambda one: one.ms)[len(costs) // 2]


def _publish_minutes(
    side: publishing.Side,
    node: publishing.Node,
    wanted: Sequence[publishing.Provider],
) -> publishing.Cost:
    side.let_pass()
    rounds = [side.publish(node, wanted) for _ in range(5)]
    return publishing.Cost(
        requests=sum(one.requests for one in rounds),
        ms=sum(one.ms for one in rounds),
    )


def _make_rows(
    count: int, found: dict[str, list[_Pair]]
) -> Iterator[rows_mod.Row]:
    for phase, pairs in found.items():
        what = f'{count} providers, {phase}'
        goal = _find_goal(count, phase)
        yield _compare(f'{what}, requests', 'requests', pairs, goal)
        yield _compare(f'{what}, time', 'ms', pairs, goal)
        if count == MANY and phase in LIMITS:
            yield rows_mod.make_row(
                f'{what}, requests',
                max(ours.requests for ours, _peer in pairs),
                LIMITS[phase],
                'requests',
            )


def _find_goal(count: int, phase: str) -> float | None:
    """Return the largest ratio to Nova's cost; None only informs."""
    if phase == NOTHING:
        # In one round, Nova asks placement for nothing.
        return None
    if count == FEW:
        return 1.0
    return MAX_FIRST if phase == FIRST else None


def _compare(
    what: str, unit: str, pairs: Sequence[_Pair], goal: float | None
) -> rows_mod.Row:
    found = [(getattr(a, unit), getattr(b, unit)) for a, b in pairs]
    return rows_mod.compare_pairs(f"{what} : Nova's client", found, goal, unit)
