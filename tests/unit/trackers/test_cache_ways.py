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

"""Tests of the allocator of cache ways."""

from typing import Any

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources import exception
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import inventory
from nova_ext_resources.objects import view
from nova_ext_resources.trackers import cache_ways
from tests.unit import builders
from tests.unit import strategies
from tests.unit.trackers import contract


def list_lengths(mask: int) -> list[int]:
    return [length for _start, length in bitmask.list_runs(mask)]


class TestCacheWaysTracker(contract.TrackerContract):
    tracker = cache_ways.CacheWaysTracker()
    fresh = st.builds(cache_ways.CacheWaysState, strategies.masks)

    def make_inventory(self, fresh: Any) -> inventory.Inventory:
        return builders.make_inventory(strategies.MASK_BITS)

    def report(self, state: Any) -> dict[str, Any]:
        return {'free': bitmask.format_mask(state.free_mask)}

    def check(self, state: view.State, held: list[contract.Held]) -> None:
        super().check(state, held)
        assert isinstance(state, cache_ways.CacheWaysState)
        taken = 0
        for amount, units in held:
            mask = bitmask.parse_mask(units['mask'])
            self.assertEqual(amount, mask.bit_count())
            self.assertTrue(bitmask.is_contiguous(mask))
            self.assertEqual(0, mask & taken)
            self.assertEqual(mask, mask & state.ways)
            taken |= mask
        self.assertEqual(taken, state.taken)

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_the_longest_run_stays_whole_when_a_shorter_one_will_do(
        self, data: st.DataObject, steps: contract.Steps
    ) -> None:
        before, _held = self.play(data.draw(self.fresh), steps)
        lengths = sorted(list_lengths(before.free_mask))
        hypothesis.assume(len(lengths) > 1)
        amount = data.draw(st.integers(min_value=1, max_value=lengths[-2]))

        after, _units = self.tracker.take(before, amount)

        self.assertEqual(lengths[-1], after.available)

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_no_shorter_run_would_have_done(
        self, data: st.DataObject, steps: contract.Steps
    ) -> None:
        before, _held = self.play(data.draw(self.fresh), steps)
        amount = self.draw_amount(data, before)
        lengths = list_lengths(before.free_mask)
        best = min(length for length in lengths if length >= amount)

        after, _units = self.tracker.take(before, amount)

        lengths.remove(best)
        if best > amount:
            lengths.append(best - amount)
        self.assertEqual(
            sorted(lengths), sorted(list_lengths(after.free_mask))
        )

    def test_the_lowest_of_equal_runs_is_taken(self) -> None:
        state = cache_ways.CacheWaysState(0b0110_0110)

        _after, units = self.tracker.take(state, 2)

        self.assertEqual({'mask': '6'}, units)

    def test_free_ways_that_are_not_side_by_side_do_not_fit(self) -> None:
        state = cache_ways.CacheWaysState(0b0101_0101)

        self.assertEqual((4, 1), (state.free, state.available))
        self.assertFalse(self.tracker.fits(state, 2))

    def test_the_refusal_says_how_many_there_are_in_a_row(self) -> None:
        state = cache_ways.CacheWaysState(0b0111_0011)

        error = self.assertRaises(ValueError, self.tracker.take, state, 4)

        self.assertIn('4 of 3 ways in a row', str(error))

    def test_units_that_a_server_holds_are_booked_as_they_are(self) -> None:
        # The enforcer had to choose others than the tracker did.
        state = cache_ways.CacheWaysState(0b0000_1111)

        after, units = self.tracker.take(state, 2, {'mask': '30'})

        self.assertEqual({'mask': '30'}, units)
        self.assertEqual(0b0011_0000, after.taken)
        self.assertEqual(0b0000_1111, after.free_mask)

    def test_the_largest_amount_follows_the_longest_run(self) -> None:
        given = builders.make_inventory(11)

        after = self.tracker.observe(given, {'free': '77'}, ())

        self.assertEqual((5, 3), (after.reserved, after.max_unit))

    def test_the_largest_amount_counts_what_servers_will_give_back(
        self,
    ) -> None:
        held = builders.make_assignment(amount=1, units={'mask': '8'})

        after = self.tracker.observe(
            builders.make_inventory(11), {'free': '77'}, [held]
        )

        self.assertEqual((4, 7), (after.reserved, after.max_unit))

    def test_a_largest_amount_that_was_given_stays(self) -> None:
        given = builders.make_inventory(11, max_unit=2)

        after = self.tracker.observe(given, {'free': '7ff'}, ())

        self.assertEqual(2, after.max_unit)

    def test_a_domain_without_free_ways_is_all_reserved(self) -> None:
        given = builders.make_inventory(11)

        after = self.tracker.observe(given, {'free': '0'}, ())

        self.assertEqual((0, 11, 1), (after.capacity, 11, after.max_unit))

    def test_ways_are_never_sold_twice(self) -> None:
        given = builders.make_inventory(11, allocation_ratio=2.0)

        error = self.assertRaises(
            exception.InvalidResource,
            self.tracker.initial,
            given,
            {'free': '7ff'},
        )

        self.assertIn('allocation_ratio must be 1.0', str(error))

    def test_a_report_without_the_mask_is_an_error(self) -> None:
        given = builders.make_inventory(11)

        self.assertRaises(KeyError, self.tracker.observe, given, {}, ())

    def test_ways_mean_nothing_without_an_enforcer(self) -> None:
        self.assertTrue(self.tracker.NEEDS_ENFORCER)
        self.assertTrue(self.tracker.IS_CPU_LOCAL)
