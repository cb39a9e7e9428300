# SPDX-License-Identifier: Apache-2.0

import dataclasses

from nova_ext_resources.drivers.resctrl.kernel import info
from nova_ext_resources.drivers.resctrl.policy import bandwidth
from tests import base

CACHE = {
    'num_closids': '16\n',
    'cbm_mask': '7ff\n',
    'min_cbm_bits': '1\n',
    'shareable_bits': '600\n',
    'bit_usage': '0=XXSSSSSSSSS;1=XXSSSSSSSPP\n',
}

BANDWIDTH = {
    'num_closids': '8\n',
    'min_bandwidth': '10\n',
    'bandwidth_gran': '10\n',
    'delay_linear': '1\n',
}


class CacheTest(base.TestCase):
    def test_a_cache_is_read(self) -> None:
        found = info.parse_cache(CACHE)

        self.assertEqual(
            (16, 11, 1, 0x600, False),
            (
                found.num_closids,
                found.ways,
                found.min_bits,
                found.shareable,
                found.is_sparse,
            ),
        )

    def test_locked_ways_are_read_from_the_highest_down(self) -> None:
        self.assertEqual({0: 0, 1: 0b11}, info.parse_cache(CACHE).locked)

    def test_no_fewer_than_one_way_can_be_had(self) -> None:
        found = info.parse_cache({**CACHE, 'min_cbm_bits': '0\n'})

        self.assertEqual(1, found.min_bits)

    def test_holes_are_allowed_where_the_kernel_says_so(self) -> None:
        found = info.parse_cache({**CACHE, 'sparse_masks': '1\n'})

        self.assertTrue(found.is_sparse)

    def test_what_old_kernels_do_not_have_has_a_default(self) -> None:
        found = info.parse_cache({'num_closids': '4\n', 'cbm_mask': 'fffff\n'})

        self.assertEqual(
            (20, 1, 0), (found.ways, found.min_bits, found.shareable)
        )

    def test_what_makes_no_sense_is_refused(self) -> None:
        for changed in (
            {'cbm_mask': 'f0f\n'},
            {'cbm_mask': '0\n'},
            {'cbm_mask': ''},
            {'num_closids': 'many\n'},
            {'bit_usage': 'S;S\n'},
        ):
            with self.subTest(changed=changed):
                self.assertRaises(
                    ValueError, info.parse_cache, {**CACHE, **changed}
                )

    def test_what_is_missing_is_told(self) -> None:
        self.assertRaises(KeyError, info.parse_cache, {})
        self.assertRaises(KeyError, info.parse_bandwidth, {})


class ClosidsTest(base.TestCase):
    def test_the_control_with_the_fewest_classes_decides(self) -> None:
        found = info.Info(
            caches={'L3': info.parse_cache(CACHE)},
            bandwidth=info.parse_bandwidth(BANDWIDTH),
        )

        self.assertEqual(8, found.num_closids)

    def test_without_controls_there_are_none(self) -> None:
        self.assertEqual(0, info.Info().num_closids)
        self.assertEqual({}, info.Info().levels)


class BandwidthTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.intel = info.parse_bandwidth(BANDWIDTH)
        self.amd = info.parse_bandwidth(
            {
                'num_closids': '16\n',
                'min_bandwidth': '0\n',
                'bandwidth_gran': '1\n',
                'delay_linear': '0\n',
            }
        )

    def test_the_unit_is_told_by_the_numbers(self) -> None:
        for given, default, unit in (
            (self.intel, 100, bandwidth.Unit.PERCENT),
            (self.intel, 50, bandwidth.Unit.PERCENT),
            (self.intel, 4294967295, bandwidth.Unit.MBPS),
            (self.amd, 2048, bandwidth.Unit.EIGHTH_GBPS),
            (self.amd, 80, bandwidth.Unit.EIGHTH_GBPS),
        ):
            self.assertEqual(unit, bandwidth.find_unit(given, default))

    def test_percent_are_rounded_up_and_never_beyond_all(self) -> None:
        for amount, value in ((1, 10), (10, 10), (11, 20), (95, 100)):
            self.assertEqual(
                value,
                bandwidth.to_kernel(
                    self.intel, bandwidth.Unit.PERCENT, amount
                ),
            )

    def test_amd_gets_no_less_than_was_sold(self) -> None:
        unit = bandwidth.Unit.EIGHTH_GBPS
        for amount in (1, 124, 125, 126, 5000, 5001):
            value = bandwidth.to_kernel(self.amd, unit, amount)

            real = bandwidth.to_amount(unit, value)
            self.assertTrue(amount <= real < amount + bandwidth.AMD_UNIT)
            self.assertEqual(value, bandwidth.to_kernel(self.amd, unit, real))

    def test_amd_is_asked_for_no_more_than_it_takes(self) -> None:
        unit = bandwidth.Unit.EIGHTH_GBPS
        for amount, highest, value in (
            (256_000, 2048, 2048),
            (300_000, 2048, 2048),
            # The host itself is limited, a server is not.
            (256_000, 80, 2048),
            (300_000, 4096, 2400),
            (600_000, 4096, 4096),
        ):
            with self.subTest(amount=amount, highest=highest):
                amd = dataclasses.replace(self.amd, highest=highest)

                self.assertEqual(value, bandwidth.to_kernel(amd, unit, amount))

    def test_mbps_are_what_they_are_but_for_the_rounding_of_old_kernels(
        self,
    ) -> None:
        unit = bandwidth.Unit.MBPS

        self.assertEqual(5010, bandwidth.to_kernel(self.intel, unit, 5001))
        self.assertEqual(5000, bandwidth.to_amount(unit, 5000))

    def test_it_is_sold_in_the_steps_of_the_hardware(self) -> None:
        for given, unit, step in (
            (self.intel, bandwidth.Unit.PERCENT, 10),
            (self.intel, bandwidth.Unit.MBPS, 1),
            (self.amd, bandwidth.Unit.EIGHTH_GBPS, 125),
        ):
            self.assertEqual(step, bandwidth.find_step(given, unit))
