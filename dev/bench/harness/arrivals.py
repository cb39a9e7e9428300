# SPDX-License-Identifier: Apache-2.0

"""Servers that come and go, and rules that choose cache ways for them."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import heapq
import math
import random
from typing import Any, TypeAlias

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.objects import bitmask

#: (mask of taken ways, amount) -> lowest way of its run, None: no run.
Choose: TypeAlias = Callable[[int, int], int | None]

#: Amount -> how often it is asked for, compared with the others.
Mix: TypeAlias = Mapping[int, float]

TRACKER = cache_ways.CacheWaysTracker()

MIXES: Mapping[str, Mix] = {
    '1 to 4': {1: 1, 2: 1, 3: 1, 4: 1},
    '1 to 8': dict.fromkeys(range(1, 9), 1),
    '1, 2, 4, 8': {1: 4, 2: 4, 4: 2, 8: 1},
    'small and big': {1: 6, 2: 4, 6: 1, 8: 1},
    '2, 3, 4, 6': {2: 4, 3: 2, 4: 2, 6: 1},
    '3 and 5': {3: 1, 5: 1},
}

#: The three tenths to one half of the ways that a large server asks for.
LARGE = 0.3, 0.5

#: A length of life at random, 1 on average.
Draw: TypeAlias = Callable[[random.Random], float]


def draw_exponential(rng: random.Random) -> float:
    return rng.expovariate(1)


def draw_bimodal(rng: random.Random) -> float:
    """Draw short lives, and one in five that is 20 times as long."""
    return rng.expovariate(1) * rng.choice((1, 1, 1, 1, 20)) / 4.8


def draw_pareto(rng: random.Random) -> float:
    """Draw lives with a heavy tail: their variance is infinite."""
    return rng.paretovariate(1.5) / 3


def draw_constant(rng: random.Random) -> float:
    return 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What servers are like, and how they arrive.

    :ivar lives: for some amounts, how many times as long as the others such
        servers live on average
    :ivar burst: mean number of servers that arrive at the same time
    :ivar is_equal: whether the servers of a burst have the same amount
    """

    mix: Mix
    draw: Draw = draw_exponential
    lives: Mapping[int, float] = dataclasses.field(default_factory=dict)
    burst: float = 1.0
    is_equal: bool = False

    @property
    def mean(self) -> float:
        """Ways times life, on average; a life of 1 where all are alike."""
        asked = sum(
            amount * often * self.lives.get(amount, 1)
            for amount, often in self.mix.items()
        )
        return asked / sum(self.mix.values())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    starts_at: float
    ends_at: float
    amount: int


def list_kinds(ways: int) -> Mapping[str, Sequence[Kind]]:
    """Return all kinds; those of one name are measured together."""

    def list_mixed(**how: Any) -> list[Kind]:
        return [Kind(mix=mix, **how) for mix in MIXES.values()]

    return {
        **{f'amounts {name}': [Kind(mix=mix)] for name, mix in MIXES.items()},
        'long-lived large': [
            _make_unequal(ways, share, large=longer)
            for share in (0.1, 0.3)
            for longer in (10, 30)
        ],
        'long-lived small': [
            _make_unequal(ways, 0.3, small=longer) for longer in (10, 30)
        ],
        'bimodal lives': list_mixed(draw=draw_bimodal),
        'Pareto lives': list_mixed(draw=draw_pareto),
        'equal lives': list_mixed(draw=draw_constant),
        'bursts': list_mixed(burst=6.0),
        'bursts of equal servers': list_mixed(burst=5.0, is_equal=True),
    }


def _make_unequal(
    ways: int, share: float, *, small: float = 1, large: float = 1
) -> Kind:
    """Make servers of 1 to 3 ways, and large ones.

    :param share: how many of all servers are large
    :param small: life of the small ones
    :param large: life of the large ones
    """
    amounts = range(math.ceil(ways * LARGE[0]), int(ways * LARGE[1]) + 1)
    return Kind(
        mix={
            **dict.fromkeys((1, 2, 3), (1 - share) / 3),
            **dict.fromkeys(amounts, share / len(amounts)),
        },
        lives={
            **dict.fromkeys((1, 2, 3), small),
            **dict.fromkeys(amounts, large),
        },
    )


def make_trace(
    seed: int, ways: int, kind: Kind, load: float, length: int
) -> list[Arrival]:
    """Make arrivals at random, of servers that stay for random times.

    :param load: mean of the ways that are asked for at a time, if every
        server were accepted, as a part of all ways
    """
    rng = random.Random(seed)
    amounts, often = [*kind.mix], [*kind.mix.values()]
    stay = load * ways / kind.mean
    now, amount = 0.0, 0
    trace: list[Arrival] = []
    while len(trace) < length:
        is_first = not trace or rng.random() * kind.burst < 1
        if is_first:
            now += rng.expovariate(1 / kind.burst)
        if is_first or not kind.is_equal:
            amount = rng.choices(amounts, often)[0]
        life = stay * kind.lives.get(amount, 1) * kind.draw(rng)
        trace.append(Arrival(starts_at=now, ends_at=now + life, amount=amount))
    return trace


def get_mean(mix: Mix) -> float:
    """Return the mean amount."""
    return Kind(mix=mix).mean


def play(trace: Sequence[Arrival], choose: Choose) -> tuple[int, int]:
    """Return how many servers are accepted, and of how many ways."""
    taken = accepted = accepted_ways = 0
    held: list[tuple[float, int]] = []
    for one in trace:
        while held and held[0][0] <= one.starts_at:
            taken ^= heapq.heappop(held)[1]
        start = choose(taken, one.amount)
        if start is not None:
            mask = bitmask.make_run(start, one.amount)
            assert not taken & mask, 'ways are allocated twice'
            taken |= mask
            heapq.heappush(held, (one.ends_at, mask))
            accepted += 1
            accepted_ways += one.amount
    return accepted, accepted_ways


@functools.cache
def make_ours(ways: int) -> Choose:
    @functools.cache
    def choose(taken: int, amount: int) -> int | None:
        state = cache_ways.CacheWaysState(bitmask.make_run(0, ways), taken)
        if not TRACKER.fits(state, amount):
            return None
        after, _units = TRACKER.allocate(state, amount)
        new = after.taken ^ taken
        return (new & -new).bit_length() - 1

    return choose


@functools.cache
def make_first_fit(ways: int) -> Choose:
    @functools.cache
    def choose(taken: int, amount: int) -> int | None:
        fitting = _list_fitting(ways, taken, amount)
        return min((start for start, _ in fitting), default=None)

    return choose


@functools.cache
def make_best_fit(ways: int) -> Choose:
    @functools.cache
    def choose(taken: int, amount: int) -> int | None:
        fitting = [
            (n, start) for start, n in _list_fitting(ways, taken, amount)
        ]
        return min(fitting)[1] if fitting else None

    return choose


def _list_fitting(ways: int, taken: int, amount: int) -> list[tuple[int, int]]:
    free = bitmask.make_run(0, ways) & ~taken
    return [run for run in bitmask.list_runs(free) if run[1] >= amount]
