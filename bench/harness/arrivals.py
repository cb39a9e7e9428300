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

"""Servers that come and go, and ways to choose cache ways for them."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import heapq
import random
from typing import TypeAlias

from nova_ext_resources.objects import bitmask
from nova_ext_resources.trackers import cache_ways

#: (mask of taken ways, amount) -> lowest way of its run, None: no run.
Choose: TypeAlias = Callable[[int, int], int | None]

#: Amount -> how often it is asked for, compared with the others.
Mix: TypeAlias = Mapping[int, int]

TRACKER = cache_ways.CacheWaysTracker()

MIXES: Mapping[str, Mix] = {
    '1 to 4': {1: 1, 2: 1, 3: 1, 4: 1},
    '1 to 8': dict.fromkeys(range(1, 9), 1),
    '1, 2, 4, 8': {1: 4, 2: 4, 4: 2, 8: 1},
    'small and big': {1: 6, 2: 4, 6: 1, 8: 1},
    '2, 3, 4, 6': {2: 4, 3: 2, 4: 2, 6: 1},
    '3 and 5': {3: 1, 5: 1},
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    starts_at: float
    ends_at: float
    amount: int


def make_trace(
    seed: int, ways: int, mix: Mix, load: float, length: int
) -> list[Arrival]:
    """Make arrivals at random, of servers that stay for random times.

    :param load: mean of the ways that are asked for at a time, if nobody
        were refused, as a part of all ways
    """
    rng = random.Random(seed)
    stay = load * ways / get_mean(mix)
    now, trace = 0.0, []
    for _ in range(length):
        now += rng.expovariate(1)
        trace.append(
            Arrival(
                starts_at=now,
                ends_at=now + rng.expovariate(1 / stay),
                amount=rng.choices([*mix], [*mix.values()])[0],
            )
        )
    return trace


def get_mean(mix: Mix) -> float:
    """Give the mean amount."""
    asked = sum(amount * often for amount, often in mix.items())
    return asked / sum(mix.values())


def play(trace: Sequence[Arrival], choose: Choose) -> tuple[int, int]:
    """Let them come and go: how many are accepted, and of how many ways."""
    taken = accepted = accepted_ways = 0
    held: list[tuple[float, int]] = []
    for one in trace:
        while held and held[0][0] <= one.starts_at:
            taken ^= heapq.heappop(held)[1]
        start = choose(taken, one.amount)
        if start is not None:
            mask = bitmask.make_run(start, one.amount)
            assert not taken & mask, 'ways are sold twice'
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
        after, _units = TRACKER.take(state, amount)
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
