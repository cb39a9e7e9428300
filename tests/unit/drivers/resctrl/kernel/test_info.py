# SPDX-License-Identifier: Apache-2.0

from nova_ext_resources.drivers.resctrl.kernel import info
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
        found = info.ControlInfo(
            levels={3: info.parse_cache(CACHE)},
            bandwidth=info.parse_bandwidth(BANDWIDTH),
        )

        self.assertEqual(8, found.num_closids)

    def test_without_controls_there_are_none(self) -> None:
        self.assertEqual(0, info.ControlInfo().num_closids)
        self.assertEqual({}, info.ControlInfo().levels)
