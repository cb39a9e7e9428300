# SPDX-License-Identifier: Apache-2.0

"""Fine tuning beside static division, over simulated servers.

What is compared is slowdown: the time that a server takes against what it
would take with its maximum, alone. The learning of the tuner is in it: from
the first round on, everything counts.
"""

from collections.abc import Iterator, Mapping, Sequence
import os
import statistics
import tempfile

from bench.harness import rows as rows_mod
from bench.harness import timing
from nova_ext_resources.testing import workloads

MIXES = 100

#: An hour, at one round in ten seconds.
ROUNDS = 360

#: The worst server of a mix, on average over the mixes.
WORST_GOAL = 0.92
#: All servers of a mix: tuning is not to pay for one with all others.
MEAN_GOAL = 1.0

#: Milliseconds of CPU for a round; there is one in ten seconds.
ROUND_LIMIT = 5.0


def run() -> list[rows_mod.Row]:
    return [
        *_compare('steady', is_steady=True),
        *_compare('changing', is_steady=False),
        _measure_round(),
    ]


def _compare(what: str, *, is_steady: bool) -> Iterator[rows_mod.Row]:
    pairs = [_play_both(seed, is_steady) for seed in range(MIXES)]
    yield _make_row(
        f'worst server, {what} : divided evenly',
        [(max(mine), max(peer)) for mine, peer in pairs],
        WORST_GOAL,
    )
    yield _make_row(
        f'mean of servers, {what} : divided evenly',
        [
            (statistics.mean(mine), statistics.mean(peer))
            for mine, peer in pairs
        ],
        MEAN_GOAL,
    )
    # Traffic does not tell all: now and then it deceives, and this informs.
    unlucky = max(
        ((max(mine), max(peer)) for mine, peer in pairs),
        key=lambda pair: pair[0] / pair[1],
    )
    yield _make_row(
        f'worst server, {what}, unluckiest mix : divided evenly',
        [unlucky],
        None,
    )


def _play_both(
    seed: int, is_steady: bool
) -> tuple[Sequence[float], Sequence[float]]:
    mix = workloads.make_mix(seed, is_steady=is_steady)
    with tempfile.TemporaryDirectory() as folder:
        ours = _play(mix, seed, folder)
    peer = _play(mix, seed, None)
    return tuple(ours.values()), tuple(peer.values())


def _play(
    mix: workloads.Mix, seed: int, folder: str | None
) -> Mapping[str, float]:
    machine = workloads.Machine(mix, workloads.divide_evenly(mix), seed=seed)
    tuner = None
    if folder is not None:
        path = os.path.join(folder, 'audit.jsonl')
        tuner = workloads.make_tuner(machine, path)
    workloads.play(machine, ROUNDS, tuner)
    return machine.slowdowns


def _make_row(
    what: str, pairs: Sequence[tuple[float, float]], goal: float | None
) -> rows_mod.Row:
    return rows_mod.Row(
        what=what,
        ours=round(statistics.mean(mine for mine, _ in pairs), 3),
        peer=round(statistics.mean(peer for _, peer in pairs), 3),
        ratio=round(statistics.mean(mine / peer for mine, peer in pairs), 3),
        goal=goal,
        unit='times',
    )


def _measure_round() -> rows_mod.Row:
    """Measure a round of one domain with six servers."""
    mix = next(
        mix
        for mix in map(workloads.make_mix, range(MIXES))
        if len(mix.servers) == 6
    )
    machine = workloads.Machine(mix, workloads.divide_evenly(mix))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'audit.jsonl')
        tuner = workloads.make_tuner(machine, path)
        spent = timing.time_once(
            lambda: workloads.play(machine, ROUNDS, tuner)
        )
    return rows_mod.make_limit_row(
        'one round, 6 servers, with the simulation : its limit',
        round(spent / ROUNDS, 3),
        ROUND_LIMIT,
        'ms',
    )
