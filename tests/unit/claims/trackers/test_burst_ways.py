# SPDX-License-Identifier: Apache-2.0

"""Tests of the tracker of burst ways."""

from typing import Any

from hypothesis import strategies as st

from nova_ext_resources.claims.trackers import burst_ways
from nova_ext_resources.claims.trackers import count
from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from tests.unit import builders
from tests.unit.claims.trackers import contract
from tests.unit.claims.trackers import ranges


class TestBurstWaysTracker(contract.TrackerContract, ranges.RangeContract):
    tracker = burst_ways.BurstWaysTracker()
    fresh = st.builds(count.CountState, st.integers(1, 20))

    def make_inventory(self, fresh: Any) -> class_inventory.Inventory:
        return builders.make_inventory(fresh.capacity)

    def report(self, state: Any) -> dict[str, Any]:
        return {'free': state.free}

    def test_which_ways_they_are_is_left_to_the_enforcer(self) -> None:
        _after, units = self.tracker.allocate(count.CountState(8), 3)

        self.assertEqual({}, units)

    def test_minimums_are_never_sold_twice(self) -> None:
        given = builders.make_inventory(8, allocation_ratio=2.0)

        error = self.assertRaises(
            exception.InvalidResource, self.tracker.initial, given, {}
        )

        self.assertIn('each unit of burst ways has one owner', str(error))
