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

"""The allocator of cache ways beside first fit, best fit and the optimum.

What is compared is what is accepted: ``ratio`` is the peer's to ours. First
fit takes the lowest run that will do, best fit the shortest.
"""

from collections.abc import Callable, Iterator, Mapping
import functools
import itertools
import random
from typing import Any

from bench.harness import arrivals
from bench.harness import optimum
from bench.harness import rows as rows_mod
from bench.harness import timing
from nova_ext_resources.trackers import cache_ways

TRACES = 1000
ARRIVALS = 200
WAYS = (11, 12, 16, 20)
LOADS = (0.6, 0.9, 1.3)

#: Where the optimum can be computed in some seconds.
SMALL_WAYS = 8
SMALL_MIXES = ('1 to 4', '1, 2, 4, 8', '2, 3, 4, 6', '3 and 5')
SMALL_LOADS = (0.6, 1.0)
SMALL_TRACES = 40
SMALL_ARRIVALS = 20

#: How much more the optimum may accept.
MAX_LEAD = 1.03

HELD = 16
STATES = 200
CALLS = 20
MAX_DECISION_US = 50.0

WORTHS: dict[str, optimum.Worth] = {
    'requests': lambda amount: 1,
    'ways': lambda amount: amount,
}

RULES = {
    'ours': arrivals.make_ours,
    'first fit': arrivals.make_first_fit,
    'best fit': arrivals.make_best_fit,
}


def run() -> list[rows_mod.Row]:
    return [
        *_run_traces(),
        *_run_optimum(),
        *itertools.chain(*map(_run_clairvoyant, SMALL_LOADS)),
        _measure_decision(),
    ]


def _run_traces() -> Iterator[rows_mod.Row]:
    """Play the same arrivals with each rule."""
    cases = itertools.cycle(
        itertools.product(arrivals.MIXES.items(), WAYS, LOADS)
    )
    sums: dict[tuple[str, str, str], int] = {}
    for seed, ((name, mix), ways, load) in zip(
        range(TRACES), cases, strict=False
    ):
        trace = arrivals.make_trace(seed, ways, mix, load, ARRIVALS)
        for rule, make in RULES.items():
            accepted = arrivals.play(trace, make(ways))
            for what, number in zip(WORTHS, accepted, strict=True):
                for key in ((name, what, rule), ('all', what, rule)):
                    sums[key] = sums.get(key, 0) + number
    for what, name in itertools.product(WORTHS, ('all', *arrivals.MIXES)):
        for peer in ('first fit', 'best fit'):
            yield _make_row(
                f'{what} accepted, amounts {name} : {peer}',
                sums[name, what, 'ours'],
                sums[name, what, peer],
                1.0 if name == 'all' else None,
                what,
            )


def _run_optimum() -> Iterator[rows_mod.Row]:
    """Compare with the best rule of who does not know the future."""
    worst: dict[tuple[str, str], tuple[float, float, float]] = {}
    for name, load in itertools.product(SMALL_MIXES, SMALL_LOADS):
        mix = _cut(arrivals.MIXES[name])
        model = _make_model(tuple(mix))
        for what, worth in WORTHS.items():
            rate = functools.partial(
                optimum.find_rate, model, mix, load, worth
            )
            best = rate()
            for rule, make in RULES.items():
                own = rate(make(SMALL_WAYS))
                found = (best / own, own, best)
                key = what, rule
                worst[key] = max(found, worst.get(key, found))
    for (what, rule), (_ratio, own, best) in sorted(worst.items()):
        is_ours = rule == 'ours'
        yield _make_row(
            f'{what} of 100, {SMALL_WAYS} ways, worst case'
            f'{"" if is_ours else f" of {rule}"} : best rule',
            own * 100,
            best * 100,
            MAX_LEAD if is_ours else None,
            what,
        )


@functools.cache
def _make_model(amounts: tuple[int, ...]) -> optimum.Model:
    return optimum.make_model(SMALL_WAYS, amounts)


def _run_clairvoyant(load: float) -> Iterator[rows_mod.Row]:
    """Tell what it would be worth to know what really comes.

    No scheduler does, so these rows have no goal. Who may also refuse what
    would fit does better still, by turning away who is in the way of others.
    """
    traces = [
        arrivals.make_trace(
            number * SMALL_TRACES + seed,
            SMALL_WAYS,
            _cut(arrivals.MIXES[name]),
            load,
            SMALL_ARRIVALS,
        )
        for number, name in enumerate(SMALL_MIXES)
        for seed in range(SMALL_TRACES)
    ]
    played = [arrivals.play(one, RULES['ours'](SMALL_WAYS)) for one in traces]
    for number, (what, worth) in enumerate(WORTHS.items()):
        for may_refuse, title in (
            (False, 'knows the future'),
            (True, 'knows it and refuses at will'),
        ):
            search = functools.partial(
                optimum.search,
                ways=SMALL_WAYS,
                worth=worth,
                may_refuse=may_refuse,
            )
            yield _make_row(
                f'{what} accepted, {SMALL_WAYS} ways, load {load} : '
                f'who {title}',
                sum(one[number] for one in played),
                sum(search(one) for one in traces),
                None,
                what,
            )


def _cut(mix: arrivals.Mix) -> arrivals.Mix:
    """Leave out what takes a small domain nearly whole."""
    return {
        amount: often
        for amount, often in mix.items()
        if amount <= SMALL_WAYS * 3 // 4
    }


def _measure_decision() -> rows_mod.Row:
    """Time a decision with 20 ways where 16 servers hold some."""
    slowest = max(
        timing.time_once(_make_call(random.Random(seed)))
        for seed in range(STATES)
    )
    return rows_mod.make_limit_row(
        f'decision, 20 ways, {HELD} servers, slowest : its limit',
        round(slowest * 1000 / CALLS, 1),
        MAX_DECISION_US,
        'us',
    )


def _make_call(rng: random.Random) -> Callable[[], None]:
    tracker = arrivals.TRACKER
    state = cache_ways.CacheWaysState((1 << 20) - 1)
    # 17 of 20 ways at most: where nothing fits there is no decision.
    amounts = [1] * (HELD - 1) + [rng.choice((1, 2))]
    held: list[tuple[int, Mapping[str, Any]]] = []
    for amount in (*amounts, *amounts):
        if len(held) == HELD:
            state = tracker.give(state, *held.pop(rng.randrange(HELD)))
        if tracker.fits(state, amount):
            after, units = tracker.take(state, amount)
            held.append((amount, units))
            assert isinstance(after, cache_ways.CacheWaysState)
            state = after
    assert len(held) == HELD

    def decide() -> None:
        for _ in range(CALLS):
            assert tracker.fits(state, 1)
            tracker.take(state, 1)

    return decide


def _make_row(
    what: str, ours: float, peer: float, goal: float | None, unit: str
) -> rows_mod.Row:
    return rows_mod.Row(
        what=what,
        ours=round(ours, 2),
        peer=round(peer, 2),
        ratio=round(peer / ours, 4),
        goal=goal,
        unit=unit,
    )
