# SPDX-License-Identifier: Apache-2.0

"""What came of the guests, in numbers and in what is wrong."""

import collections
from collections.abc import Container, Iterable, Sequence
import dataclasses
import json
import pathlib

from dev.kernel import differences


@dataclasses.dataclass(slots=True, kw_only=True)
class Result:
    """Of one guest.

    :ivar folder: where it wrote to
    :ivar problems: for which the run has failed
    :ivar stale: lines of the tables that did not occur
    :ivar tests: rows that ``tests.kernel.run`` wrote
    """

    name: str
    folder: pathlib.Path
    minutes: float = 0.0
    problems: list[str] = dataclasses.field(default_factory=list)
    stale: list[str] = dataclasses.field(default_factory=list)
    tests: list[dict[str, str]] = dataclasses.field(default_factory=list)
    answers: str = ''

    def add_status(self, status: int) -> None:
        if status:
            self.problems.append(f'a step ended with the status {status}')

    def add_tests(
        self, series: str, table: pathlib.Path = differences.TESTS
    ) -> None:
        """Read what tests said; a listed one may fail, and must.

        A test that was loaded and never ended is missed, whatever the status
        of the run; without one that passed, nothing was tested.
        """
        rows = self._read_rows(self.folder / 'tests.jsonl')
        self.tests = [one for one in rows if one['outcome'] != 'loaded']
        ended = {one['test'] for one in self.tests}
        missed = [one['test'] for one in rows if one['test'] not in ended]
        if missed:
            self.problems.append(
                f'{len(missed)} tests did not run, the first one is '
                f'{missed[0]}'
            )
        if rows and not any(one['outcome'] == 'pass' for one in self.tests):
            self.problems.append('no test passed')
        self._judge_tests(differences.read_tests(series, table))

    def _read_rows(self, path: pathlib.Path) -> list[dict[str, str]]:
        rows = []
        if path.exists():
            for line in path.read_text(encoding='utf-8').splitlines():
                try:
                    rows.append(json.loads(line))
                except ValueError:
                    # A guest was lost while it wrote.
                    self.problems.append(f'no row: {line[:40]}')
        if not rows:
            self.problems.append(f'the tests wrote nothing to {path}')
        return rows

    def _judge_tests(self, listed: Container[str]) -> None:
        for row in self.tests:
            is_listed = row['test'] in listed
            if row['outcome'] == 'fail' and not is_listed:
                last = row['text'].strip().splitlines() or ['']
                self.problems.append(f'{row["test"]}: {last[-1]}')
            elif row['outcome'] == 'fail':
                row['outcome'] = 'known'
            elif is_listed:
                self.stale.append(f'{row["test"]}: {row["outcome"]}')

    def add_answers(self, series: str) -> None:
        """Compare what kernel and model have answered."""
        kernel, model = (
            json.loads((self.folder / name).read_text(encoding='utf-8'))
            for name in ('kernel.json', 'model.json')
        )
        found = differences.compare(kernel, model)
        unlisted, stale = differences.judge(found, series, differences.read())
        self.problems += [f'not in the table: {one}' for one in unlisted]
        self.stale += [f'did not occur: {one}' for one in stale]
        self.answers = (
            f'{len(kernel)} operations, {len(found)} differences, '
            f'{len(unlisted)} of them unlisted'
        )


def tell(results: Sequence[Result]) -> int:
    """Print it; return a status for the shell.

    Without any guest, the run has failed.
    """
    for one in results:
        counts = collections.Counter(row['outcome'] for row in one.tests)
        print(
            f'== {one.name}: {counts["pass"]} passed, {counts["fail"]} '
            f'failed, {counts["known"]} failed as listed, {counts["skip"]} '
            f'skipped, in {one.minutes:.0f} min'
        )
        if one.answers:
            print(f'   {one.answers}')
        _tell_skipped(one.tests)
        for problem in one.problems:
            print(f'   {problem}')
        for stale in one.stale:
            print(f'   take it out of the table: {stale}')
    return int(not results or any(one.problems for one in results))


def _tell_skipped(rows: Iterable[dict[str, str]]) -> None:
    reasons = collections.Counter(
        row['text'] for row in rows if row['outcome'] == 'skip'
    )
    for reason, count in reasons.most_common():
        print(f'   {count} skipped: {reason}')
