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


def list_wishes(state: cache_ways.CacheWaysState, amount: int) -> list[str]:
    """Give the masks that could be chosen, the best first.

    Walks from way to way, where the tracker calculates with bits.
    """
    sold = {n for n in range(strategies.MASK_BITS) if state.ways >> n & 1}
    free = {n for n in sold if state.free_mask >> n & 1}

    def walk(numbers: set[int], way: int, direction: int) -> int:
        length = 0
        while way in numbers:
            way, length = way + direction, length + 1
        return length

    wishes = []
    for start in range(strategies.MASK_BITS):
        run = set(range(start, start + amount))
        below = walk(free, start - 1, -1)
        above = walk(free, start + amount, 1)
        is_cut_off = max(sold) in run and below > amount
        if run <= free and 0 in (below, above) and not is_cut_off:
            wall = min(
                walk(sold, start - 1, -1), walk(sold, start + amount, 1)
            )
            mask = bitmask.format_mask(bitmask.from_numbers(run))
            wishes.append((below + above, wall % amount, wall, start, mask))
    return [wish[-1] for wish in sorted(wishes)]


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

    def choose(self, ways: str, taken: str, amount: int) -> str:
        """Take ways of a domain that is drawn, the lowest way last."""
        drawn = [int(one.replace(' ', '') or '0', 2) for one in (ways, taken)]
        state = cache_ways.CacheWaysState(*drawn)
        _after, units = self.tracker.take(state, amount)
        return str(units['mask'])

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

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_no_other_end_of_such_a_run_would_have_been_better(
        self, data: st.DataObject, steps: contract.Steps
    ) -> None:
        before, _held = self.play(data.draw(self.fresh), steps)
        amount = self.draw_amount(data, before)

        _after, units = self.tracker.take(before, amount)

        self.assertEqual(list_wishes(before, amount)[0], units['mask'])

    def test_the_lowest_of_equal_runs_is_taken(self) -> None:
        self.assertEqual('6', self.choose('0110 0110', '', 2))

    def test_an_empty_domain_is_filled_from_its_lower_wall(self) -> None:
        self.assertEqual('7', self.choose('1111 1111', '', 3))

    def test_the_end_at_a_wall_is_taken(self) -> None:
        self.assertEqual('3', self.choose('1111 1111', '1111 0000', 2))
        self.assertEqual('c0', self.choose('1111 1111', '0000 1111', 2))

    def test_the_middle_is_taken_last(self) -> None:
        # Five ways are below the free run, one is above it.
        self.assertEqual(
            '400', self.choose('1111 1111 1111', '1000 0001 1111', 1)
        )

    def test_a_distance_of_whole_amounts_goes_before_a_short_one(
        self,
    ) -> None:
        # Four ways are below the free run, one is above it.
        self.assertEqual(
            '30', self.choose('1111 1111 1111 1111', '1000 0000 0000 1111', 2)
        )

    def test_where_no_distance_is_whole_the_rest_counts(self) -> None:
        # Four ways are below the free run, two are above it.
        self.assertEqual(
            '70', self.choose('1111 1111 1111 1111', '1100 0000 0000 1111', 3)
        )

    def test_nobody_cuts_the_host_off_from_many_free_ways(self) -> None:
        # The host's own ways are above.
        self.assertEqual('4', self.choose('1111 1111', '0000 0011', 1))
        self.assertEqual('1c', self.choose('1 1111 1111', '0 0000 0011', 3))

    def test_few_free_ways_may_be_cut_off(self) -> None:
        # Exactly as many are left as the server takes.
        self.assertEqual('e0', self.choose('1111 1111', '0000 0011', 3))
        self.assertEqual('c0', self.choose('1111 1111', '0000 1111', 2))

    def test_what_can_never_be_sold_is_a_wall(self) -> None:
        ways, taken = '0111 1110 1111', '0000 0000 0001'

        self.assertEqual('c', self.choose('0000 0000 1111', taken, 2))
        self.assertEqual('c', self.choose(ways, taken, 2))

    def test_a_domain_can_be_filled_to_the_last_way(self) -> None:
        state = cache_ways.CacheWaysState(0x7FF)
        masks = []
        for amount in (4, 2, 3, 2):
            state, units = self.tracker.take(state, amount)
            masks.append(units['mask'])

        self.assertEqual(0x7FF, state.taken)
        self.assertEqual(['f', '30', '700', 'c0'], masks)

    def test_code_goes_into_the_ledger_as_a_number(self) -> None:
        for code in (1, 2, 3):
            with self.subTest(code=code):
                attributes = {'code': str(code), 'pool': 'guaranteed'}
                self.assertEqual(
                    {'code': code},
                    self.tracker.read_attributes(4, attributes),
                )

    def test_a_way_at_least_is_left_for_data(self) -> None:
        for code in ('4', '5'):
            with self.subTest(code=code):
                error = self.assertRaises(
                    ValueError,
                    self.tracker.read_attributes,
                    4,
                    {'code': code},
                )
                self.assertIn('must be left for data', str(error))

    def test_code_that_is_no_number_is_refused(self) -> None:
        for code in ('', '0', '-1', '1.5', 'all', '\u0661'):
            with self.subTest(code=code):
                self.assertRaises(
                    ValueError,
                    self.tracker.read_attributes,
                    4,
                    {'code': code},
                )

    def test_the_pool_adds_nothing_to_the_units(self) -> None:
        self.assertEqual(
            {}, self.tracker.read_attributes(4, {'pool': 'guaranteed'})
        )

    def test_free_ways_that_are_not_side_by_side_do_not_fit(self) -> None:
        state = cache_ways.CacheWaysState(0b0101_0101)

        self.assertEqual((4, 1), (state.free, state.available))
        self.assertFalse(self.tracker.fits(state, 2))

    def test_the_refusal_says_how_many_there_are_in_a_row(self) -> None:
        state = cache_ways.CacheWaysState(0b0111_0011)

        error = self.assertRaises(ValueError, self.tracker.take, state, 4)

        self.assertEqual('no 4 ways in a row are free, 3 at most', str(error))

    def test_the_refusal_says_when_nothing_is_free(self) -> None:
        state = cache_ways.CacheWaysState(0)

        error = self.assertRaises(ValueError, self.tracker.take, state, 2)

        self.assertEqual('no way is free', str(error))

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
