# SPDX-License-Identifier: Apache-2.0

"""What came of the guests, in numbers and in what is wrong."""

import collections
from collections.abc import Iterable, Sequence
import dataclasses
import json
import pathlib

from tools.kernel import differences
from tools.kernel import known


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
        self, series: str, table: pathlib.Path = known.TABLE
    ) -> None:
        """Read what tests said; a listed one may fail, and must."""
        path = self.folder / 'tests.jsonl'
        with path.open(encoding='utf-8') as stream:
            self.tests = [json.loads(line) for line in stream]
        listed = known.read(series, table)
        for row in self.tests:
            is_listed = row['test'] in listed
            if row['outcome'] == 'fail' and not is_listed:
                last = row['text'].strip().splitlines() or ['']
                self.problems.append(f'{row["test"]}: {last[-1]}')
            elif row['outcome'] == 'pass' and is_listed:
                self.stale.append(f'{row["test"]} passes')
            elif row['outcome'] == 'fail':
                row['outcome'] = 'known'

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
    """Print it; return a status for the shell."""
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
    return int(any(one.problems for one in results))


def _tell_skipped(rows: Iterable[dict[str, str]]) -> None:
    reasons = collections.Counter(
        row['text'] for row in rows if row['outcome'] == 'skip'
    )
    for reason, count in reasons.most_common():
        print(f'   {count} skipped: {reason}')
