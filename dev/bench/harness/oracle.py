# SPDX-License-Identifier: Apache-2.0

"""The best division of a mix, by one that knows every server.

It has the same limits as tuning: the minimum and maximum of each server and
the capacity. Unlike tuning, it knows how much time each server would take
with any amount, and needs no trials.
"""

from collections.abc import Mapping, Sequence
import functools

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.testing import workloads

#: (ways, percent) -> time of a server against its time with its maximum.
_Costs = Mapping[tuple[int, int], float]

#: What a server has: (ways, percent).
_Amounts = tuple[int, int]

_STEP = 10


def find_fixed(mix: workloads.Mix, rounds: int) -> float:
    """Return the worst server's slowdown with the best fixed division."""
    best = _divide(mix, [_weigh(mix, i, rounds) for i in _indices(mix)])
    return max(best[1])


def find_following(mix: workloads.Mix, rounds: int) -> float:
    """Return the same if the division follows the phases at once."""
    times = [0.0 for _ in mix.servers]
    alone = [0.0 for _ in mix.servers]
    divide = functools.cache(functools.partial(_divide_moment, mix))
    for round_ in range(rounds):
        moment = tuple(_find_phase(one, round_) for one in mix.servers)
        for i, (amounts, server) in enumerate(
            zip(divide(moment), mix.servers, strict=True)
        ):
            times[i] += _find_time(server, round_, amounts)
            alone[i] += _find_time(server, round_, _find_maximum(mix, i))
    return max(a / b for a, b in zip(times, alone, strict=True))


def _indices(mix: workloads.Mix) -> range:
    return range(len(mix.servers))


def _find_phase(server: workloads.Server, round_: int) -> int:
    """Return a round with the same phase: the first one of the period."""
    phase = server.find_phase(round_)
    return next(r for r in range(round_ + 1) if server.find_phase(r) is phase)


def _divide_moment(
    mix: workloads.Mix, moment: Sequence[int]
) -> Sequence[_Amounts]:
    tables = [
        _weigh(mix, i, 1, first=round_) for i, round_ in enumerate(moment)
    ]
    return _divide(mix, tables)[0]


def _find_maximum(mix: workloads.Mix, i: int) -> _Amounts:
    return (
        mix.allocated[classes.BURST][i][1],
        mix.allocated[classes.PERCENT][i][1],
    )


def _find_time(
    server: workloads.Server, round_: int, amounts: _Amounts
) -> float:
    ways, percent = amounts
    limit = percent * workloads.BANDWIDTH / 100
    return server.find_time(round_, ways, limit)[0]


def _weigh(
    mix: workloads.Mix, i: int, rounds: int, *, first: int = 0
) -> _Costs:
    server = mix.servers[i]
    least_ways, most_ways = mix.allocated[classes.BURST][i]
    least, most = mix.allocated[classes.PERCENT][i]
    period = sum(phase.rounds for phase in server.phases)
    span = min(rounds, period * (rounds // period) or rounds)

    def add_up(amounts: _Amounts) -> float:
        return sum(
            _find_time(server, round_, amounts)
            for round_ in _sample(server, first, span)
        )

    alone = add_up((most_ways, most))
    return {
        (ways, percent): add_up((ways, percent)) / alone
        for ways in range(least_ways, most_ways + 1)
        for percent in range(least, most + 1, _STEP)
    }


def _sample(server: workloads.Server, first: int, span: int) -> Sequence[int]:
    """Return rounds that stand for all: one period, or one round."""
    if len(server.phases) == 1:
        return [first]
    period = sum(phase.rounds for phase in server.phases)
    return range(first, first + min(span, period))


def _divide(
    mix: workloads.Mix, tables: Sequence[_Costs]
) -> tuple[Sequence[_Amounts], Sequence[float]]:
    """Return the division with the least cost of the worst server.

    Bisects over all costs: the least that every server can keep at once.
    """
    costs = sorted({cost for table in tables for cost in table.values()})
    low, high = 0, len(costs) - 1
    best = _fit(mix, tables, costs[high])
    while low < high:
        middle = (low + high) // 2
        found = _fit(mix, tables, costs[middle])
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle
    assert best is not None
    return best, [table[one] for table, one in zip(tables, best, strict=True)]


def _fit(
    mix: workloads.Mix, tables: Sequence[_Costs], limit: float
) -> tuple[_Amounts, ...] | None:
    """Return a division that keeps every cost at or below the limit."""
    # Ways in use -> (least percent in use, what each server has).
    states: dict[int, tuple[int, tuple[_Amounts, ...]]] = {0: (0, ())}
    for table in tables:
        following: dict[int, tuple[int, tuple[_Amounts, ...]]] = {}
        for ways, percent in _list_least(table, limit):
            for used, (spent, path) in states.items():
                ways_used, total = used + ways, spent + percent
                old = following.get(ways_used)
                if (
                    ways_used <= mix.capacities[classes.BURST]
                    and total <= mix.capacities[classes.PERCENT]
                    and (old is None or total < old[0])
                ):
                    following[ways_used] = total, (*path, (ways, percent))
        states = following
    return min(states.values())[1] if states else None


def _list_least(table: _Costs, limit: float) -> Sequence[_Amounts]:
    """Return for each number of ways the least percent that suffices."""
    least: dict[int, int] = {}
    for (ways, percent), cost in table.items():
        if cost <= limit and percent < least.get(ways, 1000):
            least[ways] = percent
    return tuple(least.items())
