# SPDX-License-Identifier: Apache-2.0

"""What a run of the kernel tests makes of the rows of its guests."""

import json
import pathlib

import fixtures

from dev.kernel import report
from tests import base

HEAD = 'Kernels,Test,Reason\n'


class ReportTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.table = self.folder / 'known.csv'

    def judge(self, known: str, **outcomes: str) -> report.Result:
        """Return a result after tests with these outcomes."""
        rows = [
            json.dumps({'test': name, 'outcome': one, 'text': 'Error'})
            for name, outcome in outcomes.items()
            for one in dict.fromkeys(('loaded', outcome))
        ]
        (self.folder / 'tests.jsonl').write_text('\n'.join(rows) + '\n')
        self.table.write_text(HEAD + known)
        made = report.Result(name='6.1', folder=self.folder)
        made.add_tests('6.1', self.table)
        return made

    def test_a_failure_is_a_problem(self) -> None:
        made = self.judge('', a='fail', b='pass', c='skip')

        self.assertEqual(['a: Error'], made.problems)

    def test_one_that_is_listed_is_none(self) -> None:
        made = self.judge('all,a,reason\n', a='fail', b='pass')

        self.assertEqual(([], []), (made.problems, made.stale))

    def test_one_that_is_listed_for_another_kernel_is_one(self) -> None:
        made = self.judge('6.12,a,reason\n', a='fail', b='pass')

        self.assertEqual(['a: Error'], made.problems)

    def test_one_that_is_listed_and_passes_is_said(self) -> None:
        made = self.judge('all,a,reason\n', a='pass')

        self.assertEqual(['a: pass'], made.stale)

    def test_one_that_is_listed_and_skipped_is_said(self) -> None:
        made = self.judge('all,a,reason\n', a='skip', b='pass')

        self.assertEqual(['a: skip'], made.stale)

    def test_one_that_did_not_run_is_a_problem(self) -> None:
        made = self.judge('', a='pass', b='loaded', c='loaded')

        self.assertEqual(
            ['2 tests did not run, the first one is b'], made.problems
        )

    def test_a_guest_where_nothing_passed_has_failed(self) -> None:
        made = self.judge('', a='skip')

        self.assertEqual(['no test passed'], made.problems)

    def test_a_guest_that_wrote_nothing_has_failed(self) -> None:
        made = report.Result(name='6.1', folder=self.folder)

        made.add_tests('6.1')

        self.assertEqual(
            [f'the tests wrote nothing to {self.folder}/tests.jsonl'],
            made.problems,
        )

    def test_half_a_line_is_no_test(self) -> None:
        self.judge('', a='pass')
        with (self.folder / 'tests.jsonl').open('a') as stream:
            stream.write('{"test": "b", "outc')
        made = report.Result(name='6.1', folder=self.folder)

        made.add_tests('6.1', self.table)

        self.assertEqual(['no row: {"test": "b", "outc'], made.problems)

    def test_a_problem_of_one_guest_fails_the_run(self) -> None:
        good = self.judge('', a='pass')
        bad = self.judge('', a='fail', b='pass')

        self.assertEqual(
            (0, 1), (report.tell([good]), report.tell([good, bad]))
        )

    def test_a_difference_that_is_not_listed_is_a_problem(self) -> None:
        for name, answer in (('kernel', 'EIO'), ('model', 'done')):
            (self.folder / f'{name}.json').write_text(
                json.dumps([{'operation': 'mkdir a', 'answer': answer}])
            )
        made = report.Result(name='6.1', folder=self.folder)

        made.add_answers('6.1')

        (problem,) = made.problems
        for words in ('not in the table', 'mkdir a', '"EIO"', '"done"'):
            self.assertIn(words, problem)
        self.assertEqual(1, report.tell([made]))

    def test_a_run_without_guests_has_failed(self) -> None:
        self.assertEqual(1, report.tell([]))
