# SPDX-License-Identifier: Apache-2.0

"""Tests of the tracker of places in a shared pool of ways."""

from typing import Any

from hypothesis import strategies as st

from nova_ext_resources.claims.trackers import count
from nova_ext_resources.claims.trackers import shared_ways
from nova_ext_resources.objects import class_inventory
from tests.unit import builders
from tests.unit.claims.trackers import contract


class TestSharedWaysTracker(contract.TrackerContract):
    tracker = shared_ways.SharedWaysTracker()
    fresh = st.builds(count.CountState, st.integers(1, 100))

    def make_inventory(self, fresh: Any) -> class_inventory.Inventory:
        return builders.make_inventory(fresh.capacity)

    def report(self, state: Any) -> dict[str, Any]:
        return {'free': state.free}

    def test_a_server_takes_one_place(self) -> None:
        given = builders.make_inventory(40)

        after = self.tracker.observe(given, {}, ())

        self.assertEqual((40, 1), (after.capacity, after.max_unit))

    def test_places_that_others_take_are_reserved(self) -> None:
        given = builders.make_inventory(40)

        after = self.tracker.observe(given, {'free': 30}, ())

        self.assertEqual((30, 1), (after.capacity, after.max_unit))

    def test_more_places_may_be_sold_than_there_are(self) -> None:
        given = builders.make_inventory(40, allocation_ratio=2.0)

        self.assertEqual(count.CountState(80), self.tracker.initial(given, {}))

    def test_it_is_worth_nothing_without_an_enforcer(self) -> None:
        self.assertTrue(self.tracker.NEEDS_ENFORCER)
        self.assertTrue(self.tracker.IS_CPU_LOCAL)
