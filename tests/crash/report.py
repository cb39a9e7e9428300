# SPDX-License-Identifier: Apache-2.0

"""Prints at which steps hosts were killed, and what came of it."""

from collections.abc import Sequence

from tests.crash import every_step


class Table:
    """One line for each kill, as soon as it is known."""

    def __init__(self) -> None:
        self.failures = 0
        self._runs = 0
        self._kills = 0
        self._novas = 0

    def add_operation(
        self, name: str, kills: Sequence[every_step.Kill]
    ) -> None:
        print(f'== {name}: {len(kills)} places to kill at', flush=True)

    def show(self, kills: Sequence[every_step.Kill]) -> None:
        for one in kills:
            print(one, flush=True)

    def add(self, outcome: every_step.Outcome, seconds: float) -> None:
        self._runs += 1
        self._kills += outcome.was_killed
        self.failures += bool(outcome.faults)
        self._novas += bool(outcome.novas)
        word = 'killed' if outcome.was_killed else 'not reached'
        verdict = 'FAILED' if outcome.faults else 'agrees'
        left = ', Nova left allocations' if outcome.novas else ''
        print(
            f'{outcome.kill} | {word} | {outcome.status} | {verdict}{left} '
            f'| {seconds:.0f} s',
            flush=True,
        )
        for fault in outcome.faults:
            print(f'    {fault}', flush=True)
        for text in outcome.novas:
            print(f'    Nova: {text}', flush=True)

    def show_end(self) -> None:
        print(
            f'== {self._runs} runs, {self._kills} kills, {self.failures} '
            f'failed; {self._novas} times Nova left allocations',
            flush=True,
        )
