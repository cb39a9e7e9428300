# SPDX-License-Identifier: Apache-2.0

"""Tests of the text and the arithmetic of masks."""

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.objects import bitmask
from tests import base
from tests.unit import strategies


def is_set(mask: int, bit: int) -> bool:
    return bool(mask >> bit & 1)


class TestMaskText(base.TestCase):
    @hypothesis.given(mask=st.integers(min_value=0, max_value=(1 << 256) - 1))
    def test_a_mask_survives_its_text(self, mask: int) -> None:
        self.assertEqual(mask, bitmask.parse_mask(bitmask.format_mask(mask)))

    def test_both_cases_of_hex_digits_are_read(self) -> None:
        self.assertEqual(0x7FF, bitmask.parse_mask('7fF'))

    def test_a_malformed_mask_is_refused(self) -> None:
        for text in ('', '0x7', ' 7', '7 ', '7\n', '-1', '+1', '7_f', 'g'):
            with self.subTest(text=text):
                self.assertRaises(ValueError, bitmask.parse_mask, text)

    def test_unicode_digits_are_no_hex_digits(self) -> None:
        self.assertRaises(ValueError, bitmask.parse_mask, '\u0663')

    def test_a_mask_without_end_is_refused(self) -> None:
        self.assertRaises(ValueError, bitmask.parse_mask, 'f' * 65)


class TestListText(base.TestCase):
    @hypothesis.given(
        numbers=st.frozensets(
            st.integers(min_value=0, max_value=bitmask.MAX_NUMBER - 1),
            max_size=40,
        )
    )
    def test_a_list_survives_its_text(self, numbers: frozenset[int]) -> None:
        text = bitmask.format_list(numbers)

        self.assertEqual(numbers, bitmask.parse_list(text))

    def test_neighbours_are_written_as_a_range(self) -> None:
        self.assertEqual('0-2,5,7-8', bitmask.format_list([8, 7, 5, 0, 2, 1]))

    def test_the_empty_text_is_the_empty_list(self) -> None:
        self.assertEqual(frozenset(), bitmask.parse_list(''))

    def test_the_newline_of_a_sysfs_file_is_passed_over(self) -> None:
        self.assertEqual({0, 1, 8}, bitmask.parse_list('0-1,8\n'))

    def test_a_malformed_list_is_refused(self) -> None:
        for text in ('a', '1-', '-1', '1,,2', ',1', '1,', '1 2', '0x3', '1-b'):
            with self.subTest(text=text):
                self.assertRaises(ValueError, bitmask.parse_list, text)

    def test_unicode_digits_are_refused(self) -> None:
        self.assertRaises(ValueError, bitmask.parse_list, '\u0663-\u0665')

    def test_a_range_that_runs_backwards_is_refused(self) -> None:
        self.assertRaises(ValueError, bitmask.parse_list, '8-3')

    def test_a_number_that_no_host_has_is_refused(self) -> None:
        for text in ('65536', '0-65536', '999999', '0-99999'):
            with self.subTest(text=text):
                self.assertRaises(ValueError, bitmask.parse_list, text)


class TestRuns(base.TestCase):
    @hypothesis.given(mask=strategies.masks)
    def test_the_runs_make_up_the_mask(self, mask: int) -> None:
        runs = list(bitmask.list_runs(mask))

        made = [bitmask.make_run(start, length) for start, length in runs]
        self.assertEqual(mask, sum(made))

    @hypothesis.given(mask=strategies.masks)
    def test_each_run_is_as_long_as_it_gets(self, mask: int) -> None:
        for start, length in bitmask.list_runs(mask):
            self.assertGreater(length, 0)
            self.assertFalse(is_set(mask, start + length))
            self.assertFalse(start and is_set(mask, start - 1))

    @hypothesis.given(mask=strategies.masks)
    def test_runs_come_lowest_first(self, mask: int) -> None:
        runs = list(bitmask.list_runs(mask))

        self.assertEqual(sorted(runs), runs)

    @hypothesis.given(
        mask=strategies.masks, bit=st.integers(min_value=0, max_value=30)
    )
    def test_bits_are_counted_up_to_the_first_that_is_not_set(
        self, mask: int, bit: int
    ) -> None:
        upwards = bitmask.count_from(mask, bit)
        downwards = bitmask.count_below(mask, bit)

        for number in range(bit - downwards, bit + upwards):
            self.assertTrue(is_set(mask, number))
        self.assertFalse(is_set(mask, bit + upwards))
        below = bit - downwards - 1
        self.assertFalse(below >= 0 and is_set(mask, below))

    @hypothesis.given(
        mask=strategies.masks, length=st.integers(min_value=1, max_value=30)
    )
    def test_has_run_agrees_with_the_definition(
        self, mask: int, length: int
    ) -> None:
        naive = any(
            all(is_set(mask, start + i) for i in range(length))
            for start in range(strategies.MASK_BITS)
        )

        self.assertEqual(naive, bitmask.has_run(mask, length))

    @hypothesis.given(mask=strategies.masks)
    def test_contiguous_means_exactly_one_run(self, mask: int) -> None:
        self.assertEqual(
            len(list(bitmask.list_runs(mask))) == 1,
            bitmask.is_contiguous(mask),
        )

    @hypothesis.given(mask=strategies.masks)
    def test_a_mask_is_made_of_its_bits(self, mask: int) -> None:
        bits = [b for b in range(strategies.MASK_BITS) if is_set(mask, b)]

        self.assertEqual(mask, bitmask.from_numbers(bits))


class SplitTest(base.TestCase):
    def test_runs_are_split_and_united_again(self) -> None:
        runs = bitmask.split(0b1101110001)

        self.assertEqual([0b1, 0b1110000, 0b1100000000], runs)
        self.assertEqual(0b1101110001, bitmask.unite(runs))
        self.assertEqual([], bitmask.split(0))
        self.assertEqual(0, bitmask.unite([]))

    def test_masks_that_overlap_are_united(self) -> None:
        self.assertEqual(0b111, bitmask.unite([0b011, 0b110]))

    def test_the_longest_run_is_found_and_the_lowest_of_these(self) -> None:
        self.assertEqual(0b0111000, bitmask.find_longest(0b0111011))
        self.assertEqual(0b0000011, bitmask.find_longest(0b1100011))
        self.assertEqual(0, bitmask.find_longest(0))

    def test_the_run_of_a_part_is_found(self) -> None:
        self.assertEqual(0b11000, bitmask.find_run_of(0b11011, 0b01000))
        self.assertEqual(0, bitmask.find_run_of(0b11011, 0b00100))
