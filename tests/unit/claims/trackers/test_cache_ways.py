# SPDX-License-Identifier: Apache-2.0

"""Tests of the allocator of cache ways."""

import re
from typing import Any

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources import exception
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_view
from tests.unit import builders
from tests.unit.claims.trackers import contract
from tests.unit import strategies


def list_lengths(mask: int) -> list[int]:
    return [length for _start, length in bitmask.list_runs(mask)]


def read_mask(drawn: str, name: str) -> str:
    """Read the ways of one server where the lowest way is drawn last."""
    ways = (n for n, one in enumerate(reversed(drawn)) if one == name)
    return bitmask.format_mask(bitmask.from_numbers(ways))


def list_wishes(state: cache_ways.CacheWaysState, amount: int) -> list[str]:
    """Return the masks that could be chosen, the best first.

    Walks from way to way, where the tracker calculates with bits.
    """
    all_ways = {n for n in range(strategies.MASK_BITS) if state.ways >> n & 1}
    free = {n for n in all_ways if state.free_mask >> n & 1}

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
        is_upper = start + amount + above > max(all_ways)
        is_cut_off = is_upper and not above and below > amount
        if run <= free and 0 in (below, above) and not is_cut_off:
            length = below + amount + above
            is_middle = length // amount > 1 and 2 * length < len(all_ways)
            wall = min(
                walk(all_ways, start - 1, -1),
                walk(all_ways, start + amount, 1),
            )
            is_small = amount < 0.3 * len(all_ways)
            end = (wall % amount, wall) if is_small else (0, 0)
            mask = bitmask.format_mask(bitmask.from_numbers(run))
            waste = length % amount + is_middle
            wishes.append((waste, -is_upper, *end, start, mask))
    return [wish[-1] for wish in sorted(wishes)]


class TestCacheWaysTracker(contract.TrackerContract):
    tracker = cache_ways.CacheWaysTracker()
    fresh = st.builds(cache_ways.CacheWaysState, strategies.masks)

    def make_inventory(self, fresh: Any) -> class_inventory.Inventory:
        return builders.make_inventory(strategies.MASK_BITS)

    def report(self, state: Any) -> dict[str, Any]:
        return {'free': bitmask.format_mask(state.free_mask)}

    def check(
        self, state: host_view.TrackerState, held: list[contract.Held]
    ) -> None:
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
        state = cache_ways.CacheWaysState(drawn[0], drawn[1])
        _after, units = self.tracker.allocate(state, amount)
        return str(units['mask'])

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_one_run_is_shortened_and_none_is_parted(
        self, data: st.DataObject, steps: contract.Steps
    ) -> None:
        before, _held = self.play(data.draw(self.fresh), steps)
        amount = self.draw_amount(data, before)

        after, _units = self.tracker.allocate(before, amount)

        runs = {*bitmask.list_runs(before.free_mask)}
        left = {*bitmask.list_runs(after.free_mask)}
        self.assertEqual(1, len(runs - left))
        self.assertLessEqual(len(left - runs), 1)

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_no_other_place_would_have_been_better(
        self, data: st.DataObject, steps: contract.Steps
    ) -> None:
        before, _held = self.play(data.draw(self.fresh), steps)
        amount = self.draw_amount(data, before)

        _after, units = self.tracker.allocate(before, amount)

        self.assertEqual(list_wishes(before, amount)[0], units['mask'])

    def test_the_worked_example_is_what_happens(self) -> None:
        steps = re.findall(
            r'^    ([A-Z-])([1-9A-Z])   ([.A-Z]{12})(?!\S)',
            cache_ways.__doc__ or '',
            re.MULTILINE,
        )
        self.assertEqual(9, len(steps))
        before, state = '.' * 12, cache_ways.CacheWaysState(0xFFF)
        for name, what, drawn in steps:
            with self.subTest(after=name + what):
                if name == '-':
                    mask = read_mask(before, what)
                    state = self.tracker.free(state, 1, {'mask': mask})
                    self.assertEqual(before.replace(what, '.'), drawn)
                else:
                    state, units = self.tracker.allocate(state, int(what))
                    self.assertEqual(read_mask(drawn, name), units['mask'])
                    self.assertEqual(before, drawn.replace(name, '.'))
            before = drawn

    def test_the_uppermost_of_equal_runs_is_taken(self) -> None:
        self.assertEqual('60', self.choose('0110 0110', '', 2))

    def test_the_run_is_taken_of_which_least_is_left_over(self) -> None:
        # Six ways are free at the top, then three, then five.
        self.assertEqual(
            'f',
            self.choose(
                '1111 1111 1111 1111 1111', '0000 0011 1000 1110 0000', 4
            ),
        )

    def test_an_exact_fit_goes_before_a_run_of_middle_length(self) -> None:
        # Eight of twenty ways are free at the top, then ten.
        ways = '1111 1111 1111 1111 1111'
        self.assertEqual('3', self.choose(ways, '0000 0000 1111 1111 1100', 2))
        self.assertEqual(
            'c00', self.choose(ways, '0000 0000 0011 1111 1100', 2)
        )

    def test_a_large_server_gets_the_lower_end(self) -> None:
        # Of twelve ways three are small, and four large.
        ways, taken = '1111 1111 1111', '0000 0111 1111'
        self.assertEqual('e00', self.choose(ways, taken, 3))
        self.assertEqual('780', self.choose(ways, taken, 4))

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

    def test_no_server_cuts_the_host_off_from_many_free_ways(self) -> None:
        # The host's own ways are above.
        self.assertEqual('4', self.choose('1111 1111', '0000 0011', 1))
        self.assertEqual(
            'e0', self.choose('1111 1111 1111', '0000 0001 1111', 3)
        )

    def test_few_free_ways_may_be_cut_off(self) -> None:
        # Exactly as many are left as the server takes.
        self.assertEqual(
            'e00', self.choose('1111 1111 1111', '0000 0011 1111', 3)
        )
        self.assertEqual('c0', self.choose('1111 1111', '0000 1111', 2))

    def test_ways_that_are_never_allocated_are_a_wall(self) -> None:
        # Without the wall two ways would be below, and three above the other.
        self.assertEqual(
            '18', self.choose('0111 1101 1111', '0111 1100 0011', 2)
        )
        self.assertEqual(
            'c', self.choose('0111 1111 1111', '0111 1110 0011', 2)
        )

    def test_a_domain_can_be_filled_to_the_last_way(self) -> None:
        state = cache_ways.CacheWaysState(0x7FF)
        masks = []
        for amount in (4, 2, 3, 2):
            state, units = self.tracker.allocate(state, amount)
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
                self.assertIn('way for data', str(error))

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

    def test_where_masks_may_have_gaps_they_fit(self) -> None:
        state = self.tracker.initial(
            builders.make_inventory(11), {'free': '575', 'sparse': 1}
        )
        for amount, mask in ((3, '70'), (4, '35'), (7, '575')):
            with self.subTest(amount=amount):
                self.assertTrue(self.tracker.fits(state, amount))
                after, units = self.tracker.allocate(state, amount)
                self.assertEqual({'mask': mask}, units)
                self.assertEqual(7 - amount, after.available)
                self.assertEqual(
                    after, self.tracker.from_dict(after.to_dict())
                )
        self.assertFalse(self.tracker.fits(state, 8))
        self.assertRaises(ValueError, self.tracker.allocate, state, 8)

    def test_gaps_do_not_bound_the_largest_amount_there(self) -> None:
        after = self.tracker.observe(
            builders.make_inventory(11), {'free': '575', 'sparse': 1}, ()
        )

        self.assertEqual((4, 7), (after.reserved, after.max_unit))

    def test_the_refusal_says_how_many_there_are_in_a_row(self) -> None:
        state = cache_ways.CacheWaysState(0b0111_0011)

        error = self.assertRaises(ValueError, self.tracker.allocate, state, 4)

        self.assertEqual(
            'no 4 ways in a row are free; at most 3 are available', str(error)
        )

    def test_the_refusal_says_when_nothing_is_free(self) -> None:
        state = cache_ways.CacheWaysState(0)

        error = self.assertRaises(ValueError, self.tracker.allocate, state, 2)

        self.assertEqual('no way is free', str(error))

    def test_units_that_a_server_holds_are_booked_as_they_are(self) -> None:
        # The enforcer had to choose others than the tracker did.
        state = cache_ways.CacheWaysState(0b0000_1111)

        after, units = self.tracker.allocate(state, 2, {'mask': '30'})

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

    def test_ways_are_never_allocated_twice(self) -> None:
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
