# SPDX-License-Identifier: Apache-2.0

from tests import base
from tests.explore import bugs
from tests.explore import machine
from tests.explore import walk

#: Much longer than it takes, on a machine under load, too.
SECONDS = 500.0


class WalkTest(base.TestCase):
    def test_the_first_states_break_no_invariant(self) -> None:
        found = walk.walk(
            machine.Protocol(),
            machine.Scope(max_faults=2),
            limit=8000,
            seconds=SECONDS,
        )

        self.assertIsNone(found.counterexample, str(found.counterexample))
        self.assertLessEqual(8000, found.count)
        self.assertFalse(found.is_complete)

    def test_two_processes_find_the_same_states_as_one(self) -> None:
        scope = machine.Scope(
            max_faults=0,
            servers=(0,),
            names=frozenset({'boot', 'delete'}),
        )

        one, two = (
            walk.walk(
                machine.Protocol(),
                scope,
                limit=10**6,
                seconds=SECONDS,
                processes=processes,
            )
            for processes in (1, 2)
        )

        self.assertTrue(one.is_complete)
        self.assertTrue(two.is_complete)
        self.assertEqual(one.count, two.count)

    def test_two_processes_trace_a_counterexample(self) -> None:
        bug = bugs.BUGS[0]

        found = walk.walk(
            bug.make_protocol(),
            bug.scope,
            limit=10**6,
            seconds=SECONDS,
            processes=2,
        )

        assert found.counterexample is not None
        self.assertIn('begin to boot', str(found.counterexample))


class BugsTest(base.TestCase):
    def test_each_seeded_bug_is_found(self) -> None:
        for bug in bugs.BUGS:
            with self.subTest(bug.name):
                found = walk.walk(
                    bug.make_protocol(),
                    bug.scope,
                    limit=100_000,
                    seconds=SECONDS,
                )

                self.assertIsNotNone(found.counterexample)

    def test_without_them_their_scopes_break_no_invariant(self) -> None:
        for scope in {bug.scope for bug in bugs.BUGS}:
            with self.subTest(scope=scope):
                found = walk.walk(
                    machine.Protocol(), scope, limit=2000, seconds=SECONDS
                )

                self.assertIsNone(found.counterexample)

    def test_there_are_twenty_of_them(self) -> None:
        self.assertLessEqual(20, len({bug.name for bug in bugs.BUGS}))
