# SPDX-License-Identifier: Apache-2.0

"""What the environment ``functional`` leaves to ``functional-full``."""

import itertools
import re

from dev.matrix import plan
from dev.matrix import suites
from tests import base

PATH = suites.ROOT.joinpath(*suites.FUNCTIONAL, 'full_only.txt')


def read_patterns() -> list[re.Pattern[str]]:
    """Return them, read as stestr reads an exclude list."""
    lines = PATH.read_text(encoding='utf-8').splitlines()
    parts = (one.partition('#')[0].strip() for one in lines)
    return [re.compile(one) for one in parts if one]


class FullOnlyTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.patterns = read_patterns()

    def is_left_out(self, name: str) -> bool:
        return any(one.search(name) for one in self.patterns)

    def test_each_line_is_of_tests_that_there_are(self) -> None:
        classes = suites.read()
        # Tests of a class can be of one outside the folder.
        names = [
            f'{name}.{test}'
            for name, made in classes.items()
            if suites.is_run(name)
            for test in itertools.chain(made.tests, [''])
        ]

        unused = [
            one.pattern
            for one in self.patterns
            if not any(map(one.search, names))
        ]

        self.assertEqual([], unused)

    def test_each_operation_stays_with_each_backend(self) -> None:
        for operation, row in plan.read().cells.items():
            for backend in ('static', 'rmd', 'resctrl'):
                all_of_it = {
                    test
                    for column, cell in row.items()
                    if column.split()[0] == backend
                    and not isinstance(cell, plan.Reason)
                    for test in cell
                }
                left = {one for one in all_of_it if not self.is_left_out(one)}

                self.assertEqual(
                    bool(all_of_it), bool(left), f'{operation}, {backend}'
                )
