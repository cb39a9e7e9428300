# SPDX-License-Identifier: Apache-2.0

"""The table of operations, and what is refused in its plan."""

import pathlib
from typing import Any

import subunit

from dev.matrix import outcomes
from dev.matrix import plan
from dev.matrix import suites
from dev.matrix import table
from tests import base

_TESTS = 'tests.functional.'


def make_class(*bases: str, tests: tuple[str, ...] = ()) -> suites.Class:
    return suites.Class(
        bases=tuple(_TESTS + one for one in bases), tests=frozenset(tests)
    )


#: A suite that two backends play, one of which derives from the other.
CLASSES = {
    _TESTS + name: made
    for name, made in {
        'backends.Kernel': make_class(),
        'backends.Floating': make_class('backends.Kernel'),
        'life.Suite': make_class(tests=('test_stop', 'test_pause')),
        'test_life.KernelTest': make_class('backends.Kernel', 'life.Suite'),
        'test_life.FloatingTest': make_class(
            'backends.Floating', 'life.Suite'
        ),
        'test_other.OtherTest': make_class(tests=('test_stop',)),
    }.items()
}

PINNED, FLOATING = 'kernel pinned fake', 'kernel floating fake'

KERNEL_STOPS = f'{_TESTS}test_life.KernelTest.test_stop'
FLOATING_STOPS = f'{_TESTS}test_life.FloatingTest.test_stop'


def make_document(**changes: Any) -> dict[str, Any]:
    return {
        'columns': {
            PINNED: ['backends.Kernel'],
            FLOATING: ['backends.Floating'],
            'kernel pinned libvirt': [],
        },
        'operations': {'stop': ['life.Suite.test_stop']},
        'reasons': [{'text': 'Too slow.', 'columns': ['* libvirt']}],
        **changes,
    }


class PlanTest(base.TestCase):
    def make(self, **changes: Any) -> plan.Plan:
        return plan.make(make_document(**changes), CLASSES)

    def assert_refused(self, words: str, **changes: Any) -> None:
        err = self.assertRaises(plan.PlanError, self.make, **changes)
        self.assertIn(words, str(err))

    def test_a_suite_is_played_by_each_class_that_derives_of_it(self) -> None:
        row = self.make().cells['stop']

        self.assertEqual({KERNEL_STOPS}, row[PINNED])
        self.assertEqual({FLOATING_STOPS}, row[FLOATING])

    def test_one_test_may_be_of_another_column_than_its_class(self) -> None:
        name = 'test_life.KernelTest.test_stop'
        columns = {
            PINNED: ['backends.Kernel'],
            FLOATING: ['backends.Floating', name],
        }
        reasons = [{'text': 'Too slow.', 'columns': [PINNED]}]

        row = self.make(columns=columns, reasons=reasons).cells['stop']

        self.assertEqual({KERNEL_STOPS, FLOATING_STOPS}, row[FLOATING])

    def test_a_class_may_be_of_two_columns(self) -> None:
        columns = {PINNED: ['life.Suite'], FLOATING: ['life.Suite']}

        row = self.make(columns=columns, reasons=[]).cells['stop']

        self.assertEqual({KERNEL_STOPS, FLOATING_STOPS}, row[PINNED])
        self.assertEqual(row[PINNED], row[FLOATING])

    def test_what_does_not_exist_is_refused(self) -> None:
        for names in (['life.Suite.test_gone'], ['life.Gone.test_stop']):
            self.assert_refused('no test', operations={'stop': names})
        columns = {**make_document()['columns'], 'rmd': ['backends.Gone']}
        reasons = [{'text': 'Too slow.', 'columns': ['* libvirt', 'rmd']}]
        self.assert_refused('backends.Gone', columns=columns, reasons=reasons)

    def test_a_test_without_a_column_is_refused(self) -> None:
        names = ['test_other.OtherTest.test_stop']
        self.assert_refused('of no column', operations={'stop': names})

    def test_a_cell_with_neither_tests_nor_reason_is_refused(self) -> None:
        self.assert_refused("no test plays 'stop'", reasons=[])
        self.assert_refused("no test plays 'boot'", operations={'boot': []})

    def test_a_reason_for_no_cell_is_refused(self) -> None:
        reason = {'text': 'Too old.', 'columns': [PINNED]}
        reasons = [*make_document()['reasons'], reason]
        self.assert_refused('no cell needs this', reasons=reasons)

    def test_so_is_one_for_an_operation_that_has_tests_there(self) -> None:
        reason = {
            'text': 'Too old.',
            'columns': ['* fake', '* libvirt'],
            'operations': ['stop'],
        }
        self.assert_refused('and a reason', reasons=[reason])


class SuitesTest(base.TestCase):
    def test_classes_are_read_from_their_source(self) -> None:
        root = pathlib.Path(self.make_folder())
        folder = root.joinpath(*suites.FUNCTIONAL)
        folder.mkdir(parents=True)
        (folder / 'life.py').write_text(
            'class Suite:\n'
            '    def test_stop(self): pass\n'
            '    def do(self): pass\n'
        )
        (folder / 'test_life.py').write_text(
            'from tests.functional import life as suite\n'
            'class First(suite.Suite): pass\n'
            'class Second(First):\n    def test_pause(self): pass\n'
        )

        found = suites.read(root)

        self.assertEqual(
            {
                f'{_TESTS}test_life.{one}.test_stop'
                for one in ('First', 'Second')
            },
            suites.find_tests(found, f'{_TESTS}life.Suite.test_stop'),
        )
        self.assertEqual(
            {f'{_TESTS}test_life.Second.test_pause'},
            suites.find_tests(found, f'{_TESTS}test_life.Second.test_pause'),
        )


class OutcomesTest(base.TestCase):
    def write(self, **statuses: str) -> pathlib.Path:
        path = pathlib.Path(self.make_folder(), 'run')
        with path.open('wb') as stream:
            result = subunit.StreamResultToBytes(stream)
            for name, status in statuses.items():
                result.status(test_id=name, test_status=status)
        return path

    def test_a_later_run_counts_where_it_did_not_skip(self) -> None:
        first = self.write(a='success', b='fail', c='success', d='skip')
        second = self.write(a='skip', b='success', c='fail')

        self.assertEqual(
            {'a': True, 'b': True, 'c': False},
            outcomes.read([first, second]),
        )


class TableTest(base.TestCase):
    def make(self, passed: dict[str, bool]) -> dict[str, list[list[str]]]:
        return table.make(plan.make(make_document(), CLASSES), passed)

    def test_a_cell_has_an_outcome_or_the_letter_of_a_reason(self) -> None:
        made = self.make({KERNEL_STOPS: True, FLOATING_STOPS: True})

        self.assertEqual(
            [
                ['Operation', 'kernel pinned', 'kernel floating'],
                ['stop', 'passed (1)', 'passed (1)'],
            ],
            made['fake'],
        )
        self.assertEqual(['stop', 'a'], made['libvirt'][1])
        self.assertEqual(['a', 'Too slow.'], made['reasons'][1])

    def test_what_failed_or_did_not_run_is_shown(self) -> None:
        made = self.make({KERNEL_STOPS: False})

        self.assertEqual(
            ['stop', 'failed (1 of 1)', 'not run (1 of 1)'], made['fake'][1]
        )


class CommittedTest(base.TestCase):
    """The files of this checkout."""

    def test_they_are_of_the_tests_that_there_are(self) -> None:
        planned = plan.read()
        passed = dict.fromkeys(planned.list_tests(), True)

        for name, rows in table.make(planned, passed).items():
            found = table.find_path(name).read_text(encoding='utf-8')
            self.assertEqual(
                table.render(rows),
                found,
                f'{name}: run the tests, then python -m dev.matrix',
            )
