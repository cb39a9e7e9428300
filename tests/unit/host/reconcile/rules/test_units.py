# SPDX-License-Identifier: Apache-2.0

import dataclasses

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.host.reconcile.rules import units as units_mod
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from tests import base
from tests.unit import builders
from tests.unit.host.inventory import test_view

WAYS = test_view.WAYS


class UncountedTest(base.TestCase):
    def test_units_of_another_tracker_are_named(self) -> None:
        good = test_view.make_entry('good', 0x30)
        for units in ({}, {'mask': 'zz'}, {'mask': 7}, {'mask': None}):
            odd = test_view.with_units(
                test_view.make_entry('odd', 0xC0), units
            )
            with self.subTest(units=units):
                (found,) = units_mod.list_uncounted(
                    test_view.make_view(), [good, odd], test_view.TRACKERS
                )

                self.assertEqual(alarm.UNREADABLE_UNITS, found.alarm)
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
            for one in units_mod.list_overallocated(view, self.ENTRIES)
        ]

    def test_as_much_as_there_is_may_be_held(self) -> None:
        self.assertEqual([], self.list_found(total=6))

    def test_what_is_closed_to_others_may_be_held(self) -> None:
        self.assertEqual([], self.list_found(total=6, reserved=6))
        self.assertNotEqual([], self.list_found(total=5, reserved=5))

    @hypothesis.given(
        free=st.integers(0, 10),
        amounts=st.lists(st.integers(1, 5), max_size=4),
    )
    def test_what_others_use_meanwhile_is_never_taken_for_it(
        self, free: int, amounts: list[int]
    ) -> None:
        """A server may come while the host is read: it counts as others."""
        hypothesis.assume(sum(amounts) <= 10)
        inventory = test_view.TRACKERS['count'].observe(
            builders.make_inventory(10),
            {'free': free},
            [builders.make_assignment(amount=one) for one in amounts],
        )

        self.assertLessEqual(sum(amounts), inventory.capacity)

    def test_all_holders_of_too_much_are_named(self) -> None:
        for inventory in ({'total': 5}, {'total': 8, 'reserved': 3}):
            with self.subTest(inventory=inventory):
                (found,) = self.list_found(**inventory)

                for words in (
                    'L3_0 CUSTOM_LLC_WAYS: ',
                    'hold 6 CUSTOM_LLC_WAYS of L3_0',
                    'can allocate only 5 (four 4, two 2)',
                ):
                    self.assertIn(words, found)


class OverlapsTest(base.TestCase):
    """Units that several servers hold, though each of them alone."""

    def list_overlaps(
        self, *entries: assignment.Entry
    ) -> list[tuple[str, str]]:
        found = units_mod.list_overlaps(
            test_view.make_view(), entries, test_view.TRACKERS
        )
        self.assertEqual(
            [alarm.UNITS_HELD_TWICE] * len(found),
            [one.alarm for one in found],
        )
        return [(one.subject, one.text) for one in found]

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
        going = test_view.make_entry('a', 0x30, assignment.State.RELEASING)

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
