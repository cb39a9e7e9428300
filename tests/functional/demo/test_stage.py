# SPDX-License-Identifier: Apache-2.0


import io

from rich import console

from dev.cloud import told
from dev.demo import stage
from tests import base


class StageTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.printed = io.StringIO()
        self.stage = stage.Stage(console.Console(file=self.printed, width=80))

    def fail_in_step(self) -> None:
        with self.stage.step('Boot it'):
            told.expect(False, 'it boots', 'smoke')

    def test_a_step_that_works_is_marked_with_its_result(self) -> None:
        with self.stage.step('Boot it') as step:
            step.result = 'ACTIVE on node1'

        self.assertIn('  ok Boot it: ACTIVE on node1', self.printed.getvalue())

    def test_a_step_that_fails_is_marked_and_ends_the_story(self) -> None:
        self.assertRaises(told.NotAsTold, self.fail_in_step)

        self.assertIn('FAIL Boot it', self.printed.getvalue())

    def test_a_step_that_is_interrupted_has_not_failed(self) -> None:
        def interrupt() -> None:
            with self.stage.step('Boot it'):
                raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, interrupt)

        printed = self.printed.getvalue()
        self.assertIn('  -- Boot it: not finished', printed)
        self.assertNotIn('FAIL', printed)

    def test_a_broken_promise_says_what_was_told_and_what_is(self) -> None:
        error = self.assertRaises(told.NotAsTold, self.fail_in_step)

        self.assertEqual('it boots; saw instead: smoke', str(error))

    def test_without_a_terminal_there_is_no_control_character(self) -> None:
        with self.stage.step('Boot it'):
            self.stage.table('Servers', ('name',), [('[red]a[/red]',)])

        printed = self.printed.getvalue()
        self.assertNotIn('\x1b', printed)
        self.assertIn('[red]a[/red]', printed)

    def test_lines_to_copy_are_not_wrapped(self) -> None:
        self.stage.plain('x' * 200)

        self.assertIn('x' * 200, self.printed.getvalue())
