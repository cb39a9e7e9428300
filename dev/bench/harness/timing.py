# SPDX-License-Identifier: Apache-2.0

"""Fair timing of things side by side in one process."""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import gc
import time
from typing import NamedTuple, TypeAlias, TypeVar

Call: TypeAlias = Callable[[], object]

_T = TypeVar('_T')


class Spent(NamedTuple):
    """Milliseconds that something took: by the clock, and of CPU time."""

    wall: float
    cpu: float


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Collect before, not within.

    Garbage is charged to who made it, a collection to nobody.
    """
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def spend(call: Callable[[], _T]) -> tuple[_T, Spent]:
    """Call once, as a program does: with the collector as it is."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = call()
    return answer, Spent(
        (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000
    )


def time_once(
    call: Call, clock: Callable[[], float] = time.process_time
) -> float:
    """Give milliseconds; of CPU time, for others may share the machine.

    :param clock: another one, for a call that mostly waits
    """
    with _without_collector():
        start = clock()
        call()
        return (clock() - start) * 1000


def compare(
    prepare: Callable[[], tuple[Call, Call]], repetitions: int
) -> list[tuple[float, float]]:
    """Measure ours and the peer in turns.

    :param prepare: makes new input, the same for both; ours comes first
    :returns: both in ms, of each repetition
    """
    pairs: list[tuple[float, float]] = []
    # The first round only warms up: imports, caches of the interpreter.
    for number in range(repetitions + 1):
        ours, peer = prepare()
        if number % 2:
            pair = time_once(ours), time_once(peer)
        else:
            pair = time_once(peer), time_once(ours)
            pair = pair[1], pair[0]
        if number:
            pairs.append(pair)
    return pairs


def percentile(values: Sequence[float], percent: float) -> float:
    """Give the value that so many percent do not exceed."""
    ordered = sorted(values)
    index = min(int(len(ordered) * percent / 100), len(ordered) - 1)
    return ordered[index]
