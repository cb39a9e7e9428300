# SPDX-License-Identifier: Apache-2.0

"""Boots and resizes of servers, on Nova alone and on Nova with this package.

Wall time of eight servers at a time, whose threads wait for each of them.
"""

from collections.abc import Iterator
import dataclasses
import statistics

from dev.bench.harness import locks
from dev.bench.harness import rows as rows_mod
from dev.bench.harness import variants

SERVERS, THREADS = 40, 8

#: With nothing enabled, and with two resources claimed and applied.
MAX_NOTHING, MAX_RESOURCES = 1.03, 1.10


@dataclasses.dataclass(frozen=True, slots=True)
class _Batch:
    """What one batch took in milliseconds, and each holder of Nova's lock."""

    boot: float
    resize: float
    held: list[float]


def run() -> list[rows_mod.Row]:
    with variants.started('dev.bench.harness.locks:install') as clouds:
        return [
            *_compare(
                'nothing enabled',
                clouds.nothing,
                clouds.nova,
                variants.PLAIN,
                MAX_NOTHING,
            ),
            *_compare(
                'two resources',
                clouds.resources,
                clouds.nothing,
                variants.PINNED,
                MAX_RESOURCES,
            ),
        ]


def _compare(
    what: str,
    ours: variants.Variant,
    peer: variants.Variant,
    kind: str,
    goal: float,
) -> Iterator[rows_mod.Row]:
    """Run batches in turns; the first of each only warms up."""
    pairs = []
    for number in range(1 + SERVERS // THREADS):
        both = [ours, peer] if number % 2 else [peer, ours]
        found = {id(one): _run_batch(one, kind) for one in both}
        pairs.append((found[id(ours)], found[id(peer)]))
    del pairs[0]
    for name in ('boot', 'resize'):
        yield _make_row(
            f'{name}, {what}',
            [(getattr(a, name), getattr(b, name)) for a, b in pairs],
            goal,
        )
    mine, theirs = (
        statistics.median([ms for one in batches for ms in one.held])
        for batches in zip(*pairs, strict=True)
    )
    # Only informs: all services share one process, so that a holder also waits
    # for the interpreter.
    yield rows_mod.compare(f"Nova's lock held, {what}", mine, theirs, None)


def _make_row(
    what: str, pairs: list[tuple[float, float]], goal: float
) -> rows_mod.Row:
    mine, theirs = zip(*pairs, strict=True)
    return rows_mod.Row(
        what=what,
        ours=statistics.median(mine) / THREADS,
        peer=statistics.median(theirs) / THREADS,
        ratio=round(sum(mine) / sum(theirs), 3),
        goal=goal,
        unit='ms a server',
    )


def _run_batch(variant: variants.Variant, kind: str) -> _Batch:
    uuids = [''] * THREADS

    def boot(number: int) -> None:
        uuids[number] = variant.start(kind)

    locks.read(variant.etc)
    booted = variants.time_threads(THREADS, boot)
    resized = variants.time_threads(
        THREADS, lambda number: variant.resize(uuids[number], kind)
    )
    held = locks.read(variant.etc)
    variants.time_threads(
        THREADS, lambda number: variant.delete(uuids[number])
    )
    return _Batch(booted, resized, held)
