# SPDX-License-Identifier: Apache-2.0

"""Tests of the tracker of memory bandwidth."""

from typing import Any

from hypothesis import strategies as st

from nova_ext_resources.claims.trackers import bandwidth
from nova_ext_resources.objects import class_inventory
from tests.unit import builders
from tests.unit.claims.trackers import contract
from tests.unit.claims.trackers import ranges


class TestBandwidthTracker(contract.TrackerContract, ranges.RangeContract):
    tracker = bandwidth.BandwidthTracker()
    fresh = st.builds(
        bandwidth.BandwidthState,
        st.integers(min_value=1, max_value=1000),
        step=st.sampled_from((1, 10, 125)),
    )

    def make_inventory(self, fresh: Any) -> class_inventory.Inventory:
        return builders.make_inventory(fresh.capacity)

    def report(self, state: Any) -> dict[str, Any]:
        return {'free': state.free, 'step': state.step}

    def test_the_limits_of_others_take_nothing_away(self) -> None:
        # That is why no inventory provider reports what is free.
        given = builders.make_inventory(100)

        self.assertIs(given, self.tracker.observe(given, {'step': 10}, ()))

    def test_a_limit_is_rounded_up_to_what_the_hardware_can(self) -> None:
        state = self.tracker.initial(
            builders.make_inventory(100), {'step': 10}
        )

        after, units = self.tracker.allocate(state, 15)

        self.assertEqual({'limit': 20}, units)
        self.assertEqual(15, after.used)

    def test_a_limit_that_the_hardware_has_is_kept(self) -> None:
        state = bandwidth.BandwidthState(100, 0, 10)

        _after, units = self.tracker.allocate(state, 30)

        self.assertEqual({'limit': 30}, units)

    def test_what_a_server_holds_is_booked_as_it_is(self) -> None:
        state = bandwidth.BandwidthState(100, 90)

        after, units = self.tracker.allocate(state, 30, {'limit': 40})

        self.assertEqual((120, {'limit': 40}), (after.used, units))
        self.assertEqual(0, after.free)

    def test_a_published_step_that_is_none_is_refused(self) -> None:
        self.assertRaises(
            ValueError, self.tracker.from_dict, {'c': 100, 'u': 0, 's': 0}
        )
