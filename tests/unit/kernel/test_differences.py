# SPDX-License-Identifier: Apache-2.0

"""Kernel, model, and the table of what differs."""

import csv
import pathlib
import unittest

import fixtures

from dev.kernel import differences
from dev.kernel import plan
from tests import base
from tests.kernel import operations

HEAD = 'Kernels,Operation,Kernel,Model,Reason\n'


def make(
    operation: str, kernel: str = 'EIO', model: str = 'done'
) -> differences.Difference:
    return differences.Difference(
        operation=operation, kernel=kernel, model=model
    )


class DifferencesTest(base.TestCase):
    def write(self, text: str) -> pathlib.Path:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'table')
        path.write_text(text)
        return path

    def test_what_differs_is_found_once(self) -> None:
        kernel = [{'operation': 'a', 'answer': 'EIO'}] * 2
        kernel.append({'operation': 'b', 'answer': 'done'})
        model = [{**one, 'answer': 'done'} for one in kernel]

        self.assertEqual([make('a')], differences.compare(kernel, model))

    def test_answers_to_other_operations_are_not_compared(self) -> None:
        kernel = [{'operation': 'a', 'answer': 'done'}]
        model = [{'operation': 'b', 'answer': 'done'}]

        err = self.assertRaises(ValueError, differences.compare, kernel, model)

        self.assertIn('"a", and the model "b"', str(err))

    def test_fewer_answers_are_not_compared(self) -> None:
        one = {'operation': 'a', 'answer': 'done'}

        self.assertRaises(ValueError, differences.compare, [one], [one, one])

    def test_no_answers_are_not_compared(self) -> None:
        self.assertRaises(ValueError, differences.compare, [], [])

    def test_the_table_is_of_some_kernels(self) -> None:
        table = differences.read(
            self.write(
                f'{HEAD}6.1,``a``,``EIO``,done,old\nall,b,EIO,done,both\n'
            )
        )
        found = [make('a'), make('b')]

        old = differences.judge(found, '6.1', table)
        new = differences.judge(found, '6.12', table)

        self.assertEqual(([], []), old)
        self.assertEqual(([make('a')], []), new)

    def test_another_answer_is_another_difference(self) -> None:
        table = differences.read(self.write(f'{HEAD}all,a,EIO,done,yes\n'))
        now = [make('a', 'EPERM')]

        unlisted, stale = differences.judge(now, '6.1', table)

        self.assertEqual((now, [make('a')]), (unlisted, stale))

    def test_a_row_has_a_reason(self) -> None:
        path = self.write(f'{HEAD}all,a,EIO,done, \n')

        self.assertRaises(ValueError, differences.read, path)

    def test_a_row_is_for_some_kernel(self) -> None:
        path = self.write(f'{HEAD},a,EIO,done,yes\n')

        self.assertRaises(ValueError, differences.read, path)

    def test_a_listed_test_is_for_some_kernel_and_has_a_reason(self) -> None:
        for row in (',a,reason', 'all,a, '):
            with self.subTest(row=row):
                path = self.write(f'Kernels,Test,Reason\n{row}\n')

                self.assertRaises(
                    ValueError, differences.read_tests, '6.1', path
                )

    def test_each_line_of_the_tables_is_for_a_kernel_of_the_plan(self) -> None:
        planned = {one.series for one in plan.JOBS} | {differences.ALL}

        for path in (differences.TABLE, differences.TESTS):
            with path.open(encoding='utf-8', newline='') as stream:
                for row in csv.DictReader(stream):
                    with self.subTest(path=path.name, row=row):
                        series = set(row['Kernels'].split())

                        self.assertTrue(series)
                        self.assertEqual(set(), series - planned)

    def test_each_operation_of_the_table_is_asked(self) -> None:
        asked = {
            one.words for chapter in operations.CHAPTERS for one in chapter()
        }

        named = {row.difference.operation for row in differences.read()}

        self.assertEqual(set(), named - asked)

    def test_each_test_of_the_table_is_there(self) -> None:
        loader = unittest.TestLoader()
        named = {
            *differences.read_tests('6.1'),
            *differences.read_tests('6.12'),
        }

        loader.loadTestsFromNames(sorted(named))

        self.assertEqual([], loader.errors)
