# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Tests of the tracker of burst ways."""

from typing import Any

from hypothesis import strategies as st

from nova_ext_resources import exception
from nova_ext_resources.objects import inventory
from nova_ext_resources.trackers import burst_ways
from nova_ext_resources.trackers import count
from tests.unit import builders
from tests.unit.trackers import contract
from tests.unit.trackers import ranges


class TestBurstWaysTracker(contract.TrackerContract, ranges.RangeContract):
    tracker = burst_ways.BurstWaysTracker()
    fresh = st.builds(count.CountState, st.integers(1, 20))

    def make_inventory(self, fresh: Any) -> inventory.Inventory:
        return builders.make_inventory(fresh.capacity)

    def report(self, state: Any) -> dict[str, Any]:
        return {'free': state.free}

    def test_which_ways_they_are_is_left_to_the_enforcer(self) -> None:
        _after, units = self.tracker.take(count.CountState(8), 3)

        self.assertEqual({}, units)

    def test_minimums_are_never_sold_twice(self) -> None:
        given = builders.make_inventory(8, allocation_ratio=2.0)

        error = self.assertRaises(
            exception.InvalidResource, self.tracker.initial, given, {}
        )

        self.assertIn('burst ways cannot be sold twice', str(error))
