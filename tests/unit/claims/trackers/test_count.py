# SPDX-License-Identifier: Apache-2.0

"""Tests of the tracker of alike units."""

from typing import Any

from hypothesis import strategies as st

from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import class_inventory
from tests.unit import builders
from tests.unit.claims.trackers import contract


class TestCountTracker(contract.TrackerContract):
    tracker = count.CountTracker()
    fresh = st.builds(
        count.CountState, st.integers(min_value=1, max_value=1000)
    )

    def make_inventory(self, fresh: Any) -> class_inventory.Inventory:
        return builders.make_inventory(fresh.capacity)

    def report(self, state: Any) -> dict[str, Any]:
        return {'free': state.free}

    def test_the_capacity_counts_and_not_the_total(self) -> None:
        given = builders.make_inventory(10, reserved=4, allocation_ratio=2.0)

        self.assertEqual(
            count.CountState(12, 0), self.tracker.initial(given, {})
        )

    def test_without_facts_only_the_given_units_are_reserved(self) -> None:
        given = builders.make_inventory(10, reserved=4)

        self.assertIs(given, self.tracker.observe(given, {}, ()))

    def test_the_given_reserve_stays_when_others_use_less(self) -> None:
        given = builders.make_inventory(10, reserved=4)

        after = self.tracker.observe(given, {'free': 9}, ())

        self.assertEqual(4, after.reserved)

    def test_more_foreign_use_than_there_is_reserves_everything(self) -> None:
        given = builders.make_inventory(10)

        after = self.tracker.observe(given, {'free': -3}, ())

        self.assertEqual(10, after.reserved)

    def test_a_host_that_was_cut_offers_nothing(self) -> None:
        cut = count.CountState(4, 6)

        self.assertEqual((0, 0), (cut.free, cut.available))
        self.assertFalse(self.tracker.fits(cut, 1))

    def test_what_a_server_holds_is_booked_even_after_a_cut(self) -> None:
        cut, _units = self.tracker.allocate(count.CountState(4, 3), 3, {})

        self.assertEqual(6, cut.used)

    def test_a_fraction_is_no_state(self) -> None:
        self.assertRaises(
            ValueError, self.tracker.from_dict, {'c': 1.5, 'u': 0}
        )

    def test_the_refusal_says_how_many_are_free(self) -> None:
        error = self.assertRaises(
            ValueError, self.tracker.allocate, count.CountState(4, 3), 2
        )

        self.assertIn('2 units, 1', str(error))

    def test_it_neither_needs_an_enforcer_nor_knows_cpus(self) -> None:
        self.assertFalse(self.tracker.NEEDS_ENFORCER)
        self.assertFalse(self.tracker.IS_CPU_LOCAL)

    def test_units_that_a_server_holds_are_booked_as_they_are(self) -> None:
        _after, units = self.tracker.allocate(count.CountState(4), 3, {'x': 1})

        self.assertEqual({'x': 1}, units)
