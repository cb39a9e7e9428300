# SPDX-License-Identifier: Apache-2.0

import dataclasses
from typing import Any

from nova_ext_resources.host.reconcile.rules import drift
from nova_ext_resources.objects import assignment
from tests import base
from tests.unit.host.claims import test_enforcement
from tests.unit.host.inventory import test_view

WAYS = test_view.WAYS

State = assignment.State
Kind = drift.DriftKind

make_entry = test_enforcement.make_entry


def compare(
    *entries: assignment.Entry, **fields: Any
) -> list[tuple[Kind, str]]:
    """Return what is wrong with entries that do not change meanwhile."""
    by_uuid = {one.consumer_uuid: one for one in entries}
    given: dict[str, Any] = {'before': by_uuid, 'applied': {}, **fields}
    found = drift.compare(drift.Observation(entries=by_uuid, **given))
    return [(one.kind, one.consumer_uuid) for one in found]


class EntriesTest(base.TestCase):
    def test_what_is_as_it_should_be_is_no_finding(self) -> None:
        self.assertEqual(
            [], compare(make_entry('a'), applied={'ways': frozenset('a')})
        )

    def test_releases_come_first_and_the_highest_ways_next(self) -> None:
        found = compare(
            make_entry('low', '3'),
            make_entry('high', 'c0'),
            make_entry('middle', '18'),
            make_entry('going', '300', State.RELEASING),
            lost={'low', 'high', 'middle'},
        )

        self.assertEqual(
            [
                (Kind.RELEASING, 'going'),
                (Kind.UNAPPLIED, 'high'),
                (Kind.UNAPPLIED, 'middle'),
                (Kind.UNAPPLIED, 'low'),
            ],
            found,
        )

    def test_what_is_kept_is_written_before_it_is_applied(self) -> None:
        kept, going = make_entry('kept'), make_entry('going', '300')

        found = compare(
            kept,
            dataclasses.replace(going, state=State.RELEASING),
            lost={'kept'},
            unwritten={'kept', 'going', 'no longer here'},
        )

        self.assertEqual(
            [
                # Its end is written when it is released.
                (Kind.RELEASING, 'going'),
                (Kind.UNWRITTEN, 'kept'),
                (Kind.UNWRITTEN, 'no longer here'),
                (Kind.UNAPPLIED, 'kept'),
            ],
            found,
        )

    def test_what_changes_meanwhile_is_written_by_what_changes_it(
        self,
    ) -> None:
        self.assertEqual(
            [], compare(make_entry('a'), before={}, unwritten='a')
        )

    def test_units_that_are_no_ways_come_last(self) -> None:
        found = compare(
            make_entry('odd', 'zz'),
            make_entry('low', '3'),
            lost={'odd', 'low'},
        )

        self.assertEqual(['low', 'odd'], [uuid for _kind, uuid in found])

    def test_a_claim_under_way_is_left_alone(self) -> None:
        entry = make_entry('a', state=State.CLAIMED)

        self.assertEqual([], compare(entry))

    def test_a_claim_that_nothing_will_apply_is_applied(self) -> None:
        entry = make_entry('a', state=State.CLAIMED)

        found = compare(entry, interrupted={'a'})

        self.assertEqual([(Kind.UNAPPLIED, 'a')], found)

    def test_what_changed_in_the_meantime_is_left_alone(self) -> None:
        for before in ({}, {'a': make_entry('a', '3')}):
            with self.subTest(before=before):
                found = compare(
                    make_entry('a', 'c'),
                    before=before,
                    lost={'a'},
                    live=frozenset(),
                )

                self.assertEqual([], found)


class GoneTest(base.TestCase):
    def test_nobody_is_gone_while_the_servers_are_not_known(self) -> None:
        self.assertEqual([], compare(make_entry('a')))

    def test_a_server_that_is_nowhere_is_gone(self) -> None:
        for state in State:
            found = compare(
                make_entry('a', state=state),
                make_entry('b'),
                live=frozenset('b'),
            )

            self.assertEqual([(Kind.GONE, 'a')], found)

    def test_what_a_move_holds_is_there_while_nova_knows_the_move(
        self,
    ) -> None:
        entry = dataclasses.replace(make_entry('migration'), server_uuid='a')

        self.assertEqual([], compare(entry, live=frozenset({'migration'})))
        self.assertEqual(
            [(Kind.GONE, 'migration')], compare(entry, live=frozenset('a'))
        )


class AppliedTest(base.TestCase):
    """What is applied and has no entry."""

    def compare(self, *applied: str, **fields: Any) -> list[tuple[Kind, str]]:
        return compare(
            make_entry('known'),
            applied={'ways': frozenset(applied), 'all': frozenset()},
            **fields,
        )

    def test_nothing_else_is_known_of_it(self) -> None:
        self.assertEqual([(Kind.UNKNOWN, 'x')], self.compare('x', 'known'))

    def test_a_hard_reboot_is_the_first_advice(self) -> None:
        text = drift._explain_unknown('ways', 'x', '')

        self.assertIn('If the server is on this host, reboot it hard', text)

    def test_one_that_was_released_here_is_left_over(self) -> None:
        self.assertEqual(
            [(Kind.ORPHAN, 'a'), (Kind.UNKNOWN, 'x')],
            self.compare('x', 'a', released={'a'}),
        )

    def test_one_that_is_nowhere_is_left_over(self) -> None:
        self.assertEqual(
            [(Kind.ORPHAN, 'x')],
            self.compare(
                'x', 'known', 'live', live=frozenset({'live', 'known'})
            )[:1],
        )

    def test_one_that_runs_here_is_never_left_over(self) -> None:
        found = self.compare('live', live=frozenset({'live', 'known'}))

        self.assertEqual([(Kind.UNKNOWN, 'live')], found)

    def test_one_that_nova_has_on_another_host_is_left_alone(self) -> None:
        found = self.compare(
            'x', 'y', live=frozenset({'known'}), hosts={'x': 'b', 'y': ''}
        )

        self.assertEqual([(Kind.ORPHAN, 'y'), (Kind.UNKNOWN, 'x')], found)

    def test_one_that_nova_was_not_asked_for_is_left_alone(self) -> None:
        found = self.compare('x', live=frozenset({'known'}), hosts={})

        self.assertEqual([(Kind.UNKNOWN, 'x')], found)

    def test_one_that_was_released_here_is_not_of_another_host(self) -> None:
        found = self.compare(
            'x', live=frozenset({'known'}), hosts={'x': 'b'}, released={'x'}
        )

        self.assertEqual([(Kind.ORPHAN, 'x')], found)

    def test_the_other_host_is_named(self) -> None:
        (found,) = drift.compare(
            drift.Observation(
                before={},
                entries={},
                applied={'ways': frozenset('x')},
                hosts={'x': 'compute-2'},
            )
        )

        self.assertIn('on host compute-2', found.text)

    def test_one_that_had_an_entry_is_known(self) -> None:
        before = {'gone': make_entry('gone')}

        self.assertEqual([], self.compare('gone', before=before))

    def test_it_is_named_with_what_to_do(self) -> None:
        (found,) = drift.compare(
            drift.Observation(
                before={}, entries={}, applied={'ways': frozenset('x')}
            )
        )

        for words in ('Enforcer ways', 'server x', 'shelve and unshelve'):
            self.assertIn(words, found.text)
