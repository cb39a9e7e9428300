# SPDX-License-Identifier: Apache-2.0

"""What a run of the kernel tests makes of the rows of its guests."""

import json
import pathlib

import fixtures

from tests import base
from tools.kernel import report

HEAD = 'Kernels,Test,Reason\n'


class ReportTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.table = self.folder / 'known.csv'

    def judge(self, known: str, **outcomes: str) -> report.Result:
        """Return a result after tests with these outcomes."""
        rows = [
            json.dumps({'test': name, 'outcome': outcome, 'text': 'Error'})
            for name, outcome in outcomes.items()
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
        made = self.judge('all,a,reason\n', a='fail')

        self.assertEqual(([], []), (made.problems, made.stale))

    def test_one_that_is_listed_for_another_kernel_is_one(self) -> None:
        made = self.judge('6.12,a,reason\n', a='fail')

        self.assertEqual(['a: Error'], made.problems)

    def test_one_that_is_listed_and_passes_is_said(self) -> None:
        made = self.judge('all,a,reason\n', a='pass')

        self.assertEqual(['a passes'], made.stale)
