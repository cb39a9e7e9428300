# SPDX-License-Identifier: Apache-2.0

import dataclasses
import datetime
from typing import Any

from nova_ext_resources.host import audit
from nova_ext_resources.objects import assignment
from tests import base
from tests.unit import builders
from tests.unit.host import test_enforcement
from tests.unit.host import test_view

WAYS = test_view.WAYS

State = assignment.State
Kind = audit.Kind

make_entry = test_enforcement.make_entry


def compare(
    *entries: assignment.Entry, **fields: Any
) -> list[tuple[Kind, str]]:
    """Return what is wrong with entries that do not change meanwhile."""
    by_uuid = {one.consumer_uuid: one for one in entries}
    given: dict[str, Any] = {'before': by_uuid, 'applied': {}, **fields}
    found = audit.compare(audit.Seen(entries=by_uuid, **given))
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

    def test_a_claim_that_a_former_process_left_is_applied(self) -> None:
        entry = make_entry('a', state=State.CLAIMED)

        found = compare(entry, interrupted={('a', entry.claimed_at)})

        self.assertEqual([(Kind.UNAPPLIED, 'a')], found)

    def test_one_that_was_claimed_anew_since_is_left_alone(self) -> None:
        entry = dataclasses.replace(
            make_entry('a', state=State.CLAIMED),
            claimed_at=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        )

        self.assertEqual([], compare(entry, interrupted={('a', None)}))

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

    def test_one_side_of_a_move_is_there_while_its_server_is(self) -> None:
        entry = dataclasses.replace(make_entry('migration'), server_uuid='a')

        self.assertEqual([], compare(entry, live=frozenset('a')))


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

    def test_one_that_had_an_entry_is_known(self) -> None:
        before = {'gone': make_entry('gone')}

        self.assertEqual([], self.compare('gone', before=before))

    def test_it_is_named_with_what_to_do(self) -> None:
        (found,) = audit.compare(
            audit.Seen(before={}, entries={}, applied={'ways': frozenset('x')})
        )

        for words in ('Enforcer ways', 'server x', 'shelve and unshelve'):
            self.assertIn(words, found.text)


class UncountedTest(base.TestCase):
    def test_units_of_another_tracker_are_named(self) -> None:
        good = test_view.make_entry('good', 0x30)
        for units in ({}, {'mask': 'zz'}, {'mask': 7}, {'mask': None}):
            odd = test_view.with_units(
                test_view.make_entry('odd', 0xC0), units
            )
            with self.subTest(units=units):
                (found,) = audit.list_uncounted(
                    test_view.make_view(), [good, odd], test_view.TRACKERS
                )

                self.assertEqual(Kind.UNCOUNTED, found.kind)
                for words in ('server odd', 'cache_ways', 'L3_0'):
                    self.assertIn(words, found.text)


class OverallocatedTest(base.TestCase):
    ENTRIES = (
        test_view.make_entry('four', 0xF0),
        test_view.make_entry('two', 0x300),
    )

    def list_found(self, **inventory: int) -> list[str]:
        view = test_view.make_view()
        place = self.ENTRIES[0].assignments[0]
        key = place.rp_uuid, place.resource_class
        smaller = dataclasses.replace(
            view.tracked[key],
            inventory=builders.make_inventory(**inventory),
        )
        view = dataclasses.replace(
            view, tracked={**view.tracked, key: smaller}
        )
        return [
            f'{one.subject}: {one.text}'
            for one in audit.list_overallocated(view, self.ENTRIES)
        ]

    def test_as_much_as_there_is_may_be_held(self) -> None:
        self.assertEqual([], self.list_found(total=6))

    def test_all_holders_of_too_much_are_named(self) -> None:
        for inventory in ({'total': 5}, {'total': 8, 'reserved': 3}):
            with self.subTest(inventory=inventory):
                (found,) = self.list_found(**inventory)

                for words in (
                    'L3_0 CUSTOM_LLC_WAYS: ',
                    'hold 6 CUSTOM_LLC_WAYS of L3_0',
                    'can allocate 5 (four 4, two 2)',
                ):
                    self.assertIn(words, found)


class OverlapsTest(base.TestCase):
    """Units that several servers hold, though each of them alone."""

    def list_overlaps(
        self, *entries: assignment.Entry
    ) -> list[tuple[str, str]]:
        found = audit.list_overlaps(
            test_view.make_view(), entries, test_view.TRACKERS
        )
        self.assertEqual(
            [Kind.OVERLAP] * len(found), [one.kind for one in found]
        )
        return [(one.consumer_uuid, one.text) for one in found]

    def test_units_side_by_side_are_fine(self) -> None:
        self.assertEqual(
            [],
            self.list_overlaps(
                test_view.make_entry('a', 0x30),
                test_view.make_entry('b', 0xC0),
                test_view.make_entry('c', 0x300),
            ),
        )

    def test_a_common_unit_is_named_with_both_servers(self) -> None:
        found = self.list_overlaps(
            test_view.make_entry('a', 0x30),
            test_view.make_entry('b', 0xC0),
            test_view.make_entry('c', 0x60),
            test_view.make_entry('d', 0x100),
        )

        ((uuid, text),) = found
        self.assertEqual('c', uuid)
        for words in (
            'server c',
            'server a (30)',
            'server b (c0)',
            '60',
            WAYS,
            'L3_0',
            'shelve and unshelve',
        ):
            self.assertIn(words, text)
        self.assertNotIn('server d', text)

    def test_one_is_named_for_each_server_too_many(self) -> None:
        found = self.list_overlaps(
            *(test_view.make_entry(uuid, 0x30) for uuid in 'abc')
        )

        self.assertEqual(['b', 'c'], [uuid for uuid, _text in found])

    def test_what_is_only_counted_has_no_common_units(self) -> None:
        many = [test_view.make_entry(f'{n}', 1 << n) for n in range(4, 11)]

        # More classes of service than there are.
        self.assertEqual([], self.list_overlaps(*many))

    def test_units_that_nobody_understands_are_passed_over(self) -> None:
        odd = test_view.with_units(test_view.make_entry('odd', 0x30), {})

        self.assertEqual(
            [], self.list_overlaps(odd, test_view.make_entry('a', 0x30))
        )

    def test_what_is_being_released_counts_no_longer(self) -> None:
        going = test_view.make_entry('a', 0x30, State.RELEASING)

        for entries in (
            (going, test_view.make_entry('b', 0x30)),
            (test_view.make_entry('b', 0x30), going),
        ):
            self.assertEqual([], self.list_overlaps(*entries))

    def test_providers_that_are_not_known_are_passed_over(self) -> None:
        strange = [
            dataclasses.replace(
                entry,
                assignments=tuple(
                    dataclasses.replace(one, rp_uuid='x')
                    for one in entry.assignments
                ),
            )
            for entry in (
                test_view.make_entry('a', 0x30),
                test_view.make_entry('b', 0x30),
            )
        ]

        self.assertEqual([], self.list_overlaps(*strange))
