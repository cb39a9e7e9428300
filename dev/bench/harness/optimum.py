# SPDX-License-Identifier: Apache-2.0

"""The best use of the ways of a small cache domain that is possible.

There are two optima. Without knowledge of the requests to come there is a rule
that is best on average: this is a Markov decision process (arrivals and stays
as :mod:`dev.bench.harness.arrivals` draws them), and its solution is exact.
With the future known, a search over all choices finds the best of each single
case; no scheduler can.
"""

from collections.abc import Callable, Iterable, Sequence
import dataclasses
import functools
from typing import TypeAlias

from dev.bench.harness import arrivals
from nova_ext_resources.objects import bitmask

#: The runs that are held, as (lowest way, amount).
Layout: TypeAlias = tuple[tuple[int, int], ...]

#: The servers that hold ways, the first to leave first: (end, mask) each.
Holders: TypeAlias = tuple[tuple[float, int], ...]

#: What an accepted amount is worth: 1, or its ways.
Worth: TypeAlias = Callable[[int], int]

MAX_ROUNDS = 3000
TOLERANCE = 1e-5


@dataclasses.dataclass(slots=True, kw_only=True)
class Model:
    """All layouts that a domain can have.

    :ivar starts: for each layout and each amount: where it may go, and the
        number of the layout that this makes
    :ivar leaves: for each layout: the layouts that a departure makes
    """

    ways: int
    amounts: list[int]
    layouts: list[Layout] = dataclasses.field(default_factory=list)
    starts: list[list[dict[int, int]]] = dataclasses.field(
        default_factory=list
    )
    leaves: list[list[int]] = dataclasses.field(default_factory=list)


def make_model(ways: int, amounts: Iterable[int]) -> Model:
    model = Model(ways=ways, amounts=list(amounts), layouts=[()])
    numbers: dict[Layout, int] = {(): 0}

    def find(layout: Iterable[tuple[int, int]]) -> int:
        key = tuple(sorted(layout))
        if key not in numbers:
            numbers[key] = len(model.layouts)
            model.layouts.append(key)
        return numbers[key]

    # It grows while it is walked through.
    for layout in model.layouts:
        model.starts.append(
            [
                {start: find((*layout, (start, amount))) for start in found}
                for amount in model.amounts
                for found in (list_starts(ways, get_taken(layout), amount),)
            ]
        )
        model.leaves.append([find(set(layout) - {one}) for one in layout])
    return model


@functools.cache
def list_starts(ways: int, taken: int, amount: int) -> tuple[int, ...]:
    return tuple(
        start
        for start in range(ways - amount + 1)
        if not taken & bitmask.make_run(start, amount)
    )


def get_taken(layout: Layout) -> int:
    return sum(bitmask.make_run(*one) for one in layout)


def find_rate(
    model: Model,
    mix: arrivals.Mix,
    load: float,
    worth: Worth,
    choose: arrivals.Choose | None = None,
) -> float:
    """Compute what is accepted for each arrival in the long run, exactly.

    By relative value iteration on the uniformised chain.

    :param choose: the rule to follow; None: the best there is of those that
        accept everything that fits
    """
    choices = _list_choices(model, choose)
    chances = [mix[amount] / sum(mix.values()) for amount in model.amounts]
    worths = [worth(amount) for amount in model.amounts]
    departs = arrivals.get_mean(mix) / (load * model.ways)
    total = 1 + model.ways * departs
    values = [0.0] * len(model.layouts)
    for _ in range(MAX_ROUNDS):
        after = []
        for own, found, leaves in zip(
            values, choices, model.leaves, strict=True
        ):
            value = (model.ways - len(leaves)) * own
            value += sum([values[number] for number in leaves])
            value *= departs
            for chance, gain, numbers in zip(
                chances, worths, found, strict=True
            ):
                value += chance * (
                    gain + max([values[n] for n in numbers])
                    if numbers
                    else own
                )
            after.append(value / total)
        steps = [new - old for new, old in zip(after, values, strict=True)]
        values = [value - after[0] for value in after]
        if max(steps) - min(steps) < TOLERANCE:
            break
    return (max(steps) + min(steps)) / 2 * total


def _list_choices(
    model: Model, choose: arrivals.Choose | None
) -> list[list[list[int]]]:
    """Return, for each layout and amount, the layouts that may follow."""
    choices = []
    for layout, starts in zip(model.layouts, model.starts, strict=True):
        own = []
        for amount, found in zip(model.amounts, starts, strict=True):
            if choose is not None and found:
                start = choose(get_taken(layout), amount)
                assert start is not None, 'a run that fits is refused'
                own.append([found[start]])
            else:
                own.append(sorted(set(found.values())))
        choices.append(own)
    return choices


def search(
    trace: Sequence[arrivals.Arrival],
    ways: int,
    worth: Worth,
    *,
    may_refuse: bool,
) -> int:
    """Compute the most that can be accepted where the future is known.

    :param may_refuse: whether it may also refuse what would fit
    """
    best: dict[Holders, int] = {(): 0}
    for one in trace:
        after: dict[Holders, int] = {}
        gain = worth(one.amount)
        for left, value in _leave(best, one.starts_at).items():
            taken = sum([mask for _ends_at, mask in left])
            starts = list_starts(ways, taken, one.amount)
            for start in starts:
                mask = bitmask.make_run(start, one.amount)
                key = tuple(sorted((*left, (one.ends_at, mask))))
                if after.get(key, 0) < value + gain:
                    after[key] = value + gain
            if (may_refuse or not starts) and after.get(left, 0) <= value:
                after[left] = value
        best = after
    return max(best.values())


def _leave(best: dict[Holders, int], now: float) -> dict[Holders, int]:
    """Drop the servers that have ended; of equal states keep the better."""
    after: dict[Holders, int] = {}
    for held, value in best.items():
        gone = 0
        while gone < len(held) and held[gone][0] <= now:
            gone += 1
        left = held[gone:]
        if after.get(left, -1) < value:
            after[left] = value
    return after
