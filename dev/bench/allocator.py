# SPDX-License-Identifier: Apache-2.0

"""The allocator of cache ways beside first fit, best fit and the optimum.

The figure is what is accepted: ``ratio`` is the peer's to ours. First fit
takes the lowest run that is long enough, best fit the shortest.

The goals are on the requests of each kind of arrivals, and on requests and
ways of the six mixes of amounts together. They allow for ``NOISE``, about two
standard errors of a difference.
"""

import collections
from collections.abc import Callable, Iterator, Mapping
import functools
import itertools
import random
from typing import Any, TypeAlias

from dev.bench.harness import arrivals
from dev.bench.harness import optimum
from dev.bench.harness import rows as rows_mod
from dev.bench.harness import timing
from nova_ext_resources.claims.trackers import cache_ways

#: For each kind.
TRACES = 2880
ARRIVALS = 200
WAYS = (11, 12, 16, 20)
LOADS = (0.6, 0.9, 1.3)

NOISE = 0.001

#: Kinds where no rule was found that is as good as the better peer without
#: being worse elsewhere: (kind, peer) -> the largest ratio that is good.
EXCEPTIONS = {('long-lived small', 'best fit'): 1.005}

KINDS = (*arrivals.list_kinds(WAYS[0]),)

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
PEERS = ('first fit', 'best fit')

#: ('requests' or 'ways', rule) -> how many are accepted.
Sums: TypeAlias = collections.Counter[tuple[str, str]]


def run() -> list[rows_mod.Row]:
    return [
        *_run_traces(),
        *_run_optimum(),
        *itertools.chain(*map(_run_clairvoyant, SMALL_LOADS)),
        _measure_decision(),
    ]


def _run_traces() -> Iterator[rows_mod.Row]:
    """Play the same arrivals with each rule."""
    sums = {name: play_kind(name, TRACES) for name in KINDS}
    sums['amounts all'] = sum(
        (sums[f'amounts {name}'] for name in arrivals.MIXES),
        collections.Counter(),
    )
    for what, name, peer in itertools.product(WORTHS, sums, PEERS):
        is_goal = what == 'requests' or name == 'amounts all'
        goal = EXCEPTIONS.get((name, peer), 1 + NOISE)
        yield _make_row(
            f'{what} accepted, {name} : {peer}',
            sums[name][what, 'ours'],
            sums[name][what, peer],
            goal if is_goal else None,
            what,
        )


def play_kind(name: str, traces: int) -> Sums:
    """Return what each rule accepts of arrivals of one kind.

    The seeds go through all sizes of domain, all loads and all variants.
    """
    cases = [
        (ways, load, kind)
        for ways in WAYS
        for load in LOADS
        for kind in arrivals.list_kinds(ways)[name]
    ]
    sums: Sums = collections.Counter()
    for seed in range(traces):
        ways, load, kind = cases[seed % len(cases)]
        trace = arrivals.make_trace(seed, ways, kind, load, ARRIVALS)
        for rule, make in RULES.items():
            accepted = arrivals.play(trace, make(ways))
            for what, number in zip(WORTHS, accepted, strict=True):
                sums[what, rule] += number
    return sums


def _run_optimum() -> Iterator[rows_mod.Row]:
    """Compare with the best rule that does not know the future."""
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
    """Report what it would be worth to know the requests to come.

    No scheduler knows them, so these rows have no goal. More still is accepted
    if requests that fit may be refused because they are in the way of others.
    """
    traces = [
        arrivals.make_trace(
            number * SMALL_TRACES + seed,
            SMALL_WAYS,
            arrivals.Kind(mix=_cut(arrivals.MIXES[name])),
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
            (True, 'knows it and may refuse'),
        ):
            search = functools.partial(
                optimum.search,
                ways=SMALL_WAYS,
                worth=worth,
                may_refuse=may_refuse,
            )
            yield _make_row(
                f'{what} accepted, {SMALL_WAYS} ways, load {load} : '
                f'a rule that {title}',
                sum(one[number] for one in played),
                sum(search(one) for one in traces),
                None,
                what,
            )


def _cut(mix: arrivals.Mix) -> arrivals.Mix:
    """Leave out amounts that are nearly all of a small domain."""
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
    return rows_mod.make_row(
        f'decision, 20 ways, {HELD} servers, slowest',
        slowest * 1000 / CALLS,
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
            state = tracker.free(state, *held.pop(rng.randrange(HELD)))
        if tracker.fits(state, amount):
            after, units = tracker.allocate(state, amount)
            held.append((amount, units))
            assert isinstance(after, cache_ways.CacheWaysState)
            state = after
    assert len(held) == HELD

    def decide() -> None:
        for _ in range(CALLS):
            assert tracker.fits(state, 1)
            tracker.allocate(state, 1)

    return decide


def _make_row(
    what: str, ours: float, peer: float, goal: float | None, unit: str
) -> rows_mod.Row:
    """Make a row whose ratio is the peer's to ours: more is better."""
    return rows_mod.Row(
        what=what,
        ours=round(ours, 2),
        peer=round(peer, 2),
        ratio=round(peer / ours, 4),
        goal=goal,
        unit=unit,
    )
