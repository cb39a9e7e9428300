# SPDX-License-Identifier: Apache-2.0

"""Kernel, model, and the table of what differs."""

import pathlib

import fixtures

from tests import base
from tools.kernel import differences
from tools.kernel import known

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

    def test_the_tables_of_the_documentation_can_be_read(self) -> None:
        differences.read()
        known.read('6.1')
