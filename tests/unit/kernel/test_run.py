# SPDX-License-Identifier: Apache-2.0

"""What is written of each test in a guest."""

import contextlib
import io
import json
import unittest

from tests import base
from tests.kernel import run


class Cases:
    """Tests to run, where the ones who look for tests do not see them."""

    class Plain(unittest.TestCase):
        def test_one(self) -> None:
            pass

    class Broken(Plain):
        @classmethod
        def setUpClass(cls) -> None:
            raise OSError('no kernel')

    class BrokenEnd(Plain):
        @classmethod
        def tearDownClass(cls) -> None:
            raise OSError('still mounted')

    class Skipped(Plain):
        @classmethod
        def setUpClass(cls) -> None:
            raise unittest.SkipTest('no mount')

    class Unexpected(unittest.TestCase):
        @unittest.expectedFailure
        def test_one(self) -> None:
            pass

    class Leaving(Plain):
        def run(self, result: unittest.TestResult | None = None) -> None:
            raise SystemExit(0)


class RunTest(base.TestCase):
    def run_cases(self, *cases: type[unittest.TestCase]) -> list[list[str]]:
        """Return the words of each row: name, outcome, last line."""
        loader = unittest.TestLoader()
        suite = unittest.TestSuite(map(loader.loadTestsFromTestCase, cases))
        out = io.StringIO()
        with contextlib.suppress(SystemExit):
            run.run(suite, out)
        rows = map(json.loads, out.getvalue().splitlines())
        return [
            [
                one['test'].removeprefix(f'{__name__}.Cases.'),
                one['outcome'],
                one['text'].strip().split('\n')[-1],
            ]
            for one in rows
        ]

    def test_each_test_is_named_before_one_runs(self) -> None:
        self.assertEqual(
            [
                ['Plain.test_one', 'loaded', ''],
                ['Plain.test_one', 'pass', ''],
            ],
            self.run_cases(Cases.Plain),
        )

    def test_what_ends_the_run_leaves_the_names(self) -> None:
        self.assertEqual(
            [['Leaving.test_one', 'loaded', '']],
            self.run_cases(Cases.Leaving),
        )

    def test_a_class_that_cannot_be_set_up_fails(self) -> None:
        name = f'setUpClass ({__name__}.Cases.Broken)'

        self.assertIn(
            [name, 'fail', 'OSError: no kernel'], self.run_cases(Cases.Broken)
        )

    def test_a_class_that_cannot_be_cleaned_up_fails(self) -> None:
        name = f'tearDownClass ({__name__}.Cases.BrokenEnd)'

        rows = self.run_cases(Cases.BrokenEnd, Cases.Plain)

        self.assertIn([name, 'fail', 'OSError: still mounted'], rows)
        self.assertIn(['BrokenEnd.test_one', 'pass', ''], rows)

    def test_a_class_can_be_skipped(self) -> None:
        name = f'setUpClass ({__name__}.Cases.Skipped)'

        rows = self.run_cases(Cases.Skipped)

        self.assertIn([name, 'skip', 'no mount'], rows)

    def test_an_unexpected_success_fails(self) -> None:
        rows = self.run_cases(Cases.Unexpected)

        self.assertEqual('fail', rows[-1][1])
