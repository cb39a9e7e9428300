# SPDX-License-Identifier: Apache-2.0

"""Masks, lists of cores, JSON: the pure parts of the simulator."""

import json
from typing import Any

import hypothesis
from hypothesis import strategies

from nova_ext_resources.testing.rmd_simulator import cores
from nova_ext_resources.testing.rmd_simulator import gojson
from nova_ext_resources.testing.rmd_simulator import masks
from nova_ext_resources.testing.rmd_simulator import settings
from tests import base

WAYS = 12
_MASKS = strategies.integers(0, masks.full(WAYS))


class MasksTest(base.TestCase):
    @hypothesis.given(mask=_MASKS)
    def test_runs_make_up_the_mask(self, mask: int) -> None:
        runs = list(masks.runs(mask, WAYS))

        self.assertEqual(WAYS, sum(length for _low, length, _set in runs))
        self.assertEqual(
            mask,
            sum(masks.full(length) << low for low, length, s in runs if s),
        )

    @hypothesis.given(mask=_MASKS, wanted=strategies.integers(1, WAYS))
    def test_a_run_is_found_exactly_when_there_is_one(
        self, mask: int, wanted: int
    ) -> None:
        high = masks.highest_run(mask, wanted, WAYS)
        low = masks.lowest_run(mask, wanted, WAYS)

        fits = masks.longest_run(mask, WAYS) >= wanted
        for run in (high, low):
            self.assertEqual(fits, run != 0)
            self.assertEqual(run, run & mask)
            self.assertIn(run.bit_count(), (0, wanted))
        self.assertGreaterEqual(high, low)

    @hypothesis.given(mask=_MASKS)
    def test_ranges_are_read_as_they_were_written(self, mask: int) -> None:
        numbers = masks.parse_ranges(masks.format_mask(mask))

        self.assertEqual(mask, sum(1 << number for number in numbers))

    def test_the_default_group_ends_below_the_first_taken_way(self) -> None:
        self.assertEqual(0b111, masks.os_mask(0b11110000111, 1, 11))
        self.assertEqual(0b1, masks.os_mask(0, 1, 11))
        self.assertEqual(masks.full(11), masks.os_mask(masks.full(11), 1, 11))


class CoresTest(base.TestCase):
    def test_lists_are_read_as_rmd_does(self) -> None:
        for items, expected in (
            (['1', '2'], {1, 2}),
            (['4-6'], {4, 5, 6}),
            (['7,8'], {7, 8}),
            (['4-6,^5'], {4, 6}),
            (['4-6', '^4'], {5, 6}),
        ):
            with self.subTest(items=items):
                self.assertEqual(expected, cores.read(items))

    def test_bad_lists_are_refused_in_rmds_words(self) -> None:
        for item, text in (
            (' 8', 'wrong expression :  8'),
            ('1;2', 'wrong expression : 1;2'),
            ('-1', 'strconv.Atoi: parsing "": invalid syntax'),
        ):
            with self.subTest(item=item):
                err = self.assertRaises(cores.BadCores, cores.read, [item])

                self.assertEqual(text, str(err))

    def test_some_lists_kill_the_handler(self) -> None:
        for items in (['eight'], [''], ['99999999999'], ['0-2000000']):
            with self.subTest(items=items):
                self.assertRaises(cores.Panic, cores.read, items)

    def test_a_bitmap_has_whole_words(self) -> None:
        self.assertEqual({63}, cores.read_on_host(['63'], 2))
        self.assertRaises(cores.Panic, cores.read_on_host, ['64'], 2)

    def test_what_is_no_number_is_released_as_core_0(self) -> None:
        self.assertEqual([1, 0, 0], cores.release_ids(['1', '4-6', 'x']))


_VALUES = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.text(),
    lambda inner: (
        strategies.lists(inner)
        | strategies.dictionaries(strategies.text(), inner)
    ),
    max_leaves=10,
)


class GoJsonTest(base.TestCase):
    @hypothesis.given(value=_VALUES)
    def test_what_is_written_is_json(self, value: Any) -> None:
        self.assertEqual(value, json.loads(gojson.encode(value)))

    def test_numbers_stay_as_they_were_written(self) -> None:
        self.assertEqual('3.0', gojson.encode(gojson.decode('3.0')))
        self.assertEqual('1e2', gojson.encode(gojson.decode(' 1e2 x')))

    def test_html_is_escaped(self) -> None:
        self.assertEqual('"\\u003ca\\u0026b\\u003e"', gojson.encode('<a&b>'))

    def test_complaints_are_gos(self) -> None:
        for text, complaint in (
            ('', 'EOF'),
            ('{', 'unexpected EOF'),
            ('{"a":1', 'unexpected EOF'),
            ('x', "invalid character 'x' looking for beginning of value"),
            (
                '{a:1}',
                "invalid character 'a' looking for beginning of object key "
                'string',
            ),
            ('{"a" 1}', "invalid character '1' after object key"),
            (
                '{"a":1 "b"}',
                "invalid character '\"' after object key:value pair",
            ),
            ('[1 2]', "invalid character '2' after array element"),
            ('NaN', "invalid character 'N' looking for beginning of value"),
        ):
            with self.subTest(text=text):
                err = self.assertRaises(gojson.Go, gojson.decode, text)

                self.assertEqual(complaint, str(err))

    def test_the_database_turns_numbers_into_floats(self) -> None:
        stored = gojson.through_database(gojson.decode('[3.0, 3.5, 1e3]'))

        self.assertEqual(['3', '3.5', '1000'], stored)


class SettingsTest(base.TestCase):
    def test_cpus_are_numbered_as_on_intel_hosts(self) -> None:
        caches = settings.Settings().caches

        self.assertEqual('0-11,24-35', masks.format_ranges(caches[0]))
        self.assertEqual('12-23,36-47', masks.format_ranges(caches[1]))

    def test_odd_numbers_have_no_hyper_threads(self) -> None:
        host = settings.Settings(sockets=3, cpus=9)

        self.assertEqual('3-5', masks.format_ranges(host.caches[1]))
        self.assertEqual(9, host.cores)
