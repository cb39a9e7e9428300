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

from typing import Any

from nova_ext_resources.resctrl import info
from nova_ext_resources.resctrl import masks
from nova_ext_resources.resctrl import pools
from tests import base


def find(*, burst: int = 0, shared: int = 0, **fields: Any) -> pools.Regions:
    cache = {
        name: fields.pop(name)
        for name in ('shareable', 'min_bits')
        if name in fields
    }
    plain = masks.Domain(
        cache=info.CacheInfo(num_closids=16, full=0x7FF, **cache),
        default=0x7FF,
        **fields,
    )
    return pools.find_regions(plain, pools.Sizes(burst=burst, shared=shared))


class RegionsTest(base.TestCase):
    def test_they_are_far_from_the_ways_of_the_host(self) -> None:
        self.assertEqual(
            pools.Regions(burst=0x00F, shared=0x070), find(burst=4, shared=3)
        )
        self.assertEqual(
            pools.Regions(burst=0x780, shared=0x070),
            find(burst=4, shared=3, shareable=0x3),
        )

    def test_without_sizes_there_are_none(self) -> None:
        self.assertEqual(pools.Regions(), find())

    def test_one_of_them_may_be_missing(self) -> None:
        self.assertEqual(pools.Regions(shared=0x007), find(shared=3))

    def test_what_others_hold_does_not_move_them(self) -> None:
        self.assertEqual(
            pools.Regions(burst=0x00F),
            find(burst=4, foreign=0x003, exclusive=0x403, sold=0x00C),
        )

    def test_locked_ways_are_left_out(self) -> None:
        self.assertEqual(
            pools.Regions(burst=0x03C, shared=0x040),
            find(burst=4, shared=1, locked=0x003),
        )

    def test_pools_that_do_not_fit_are_told(self) -> None:
        for sizes, text in (
            ({'burst': 11}, 'burst_ways is 11, and 10 ways in a row'),
            ({'burst': 8, 'shared': 3}, 'shared_ways is 3, and 2 ways'),
            ({'burst': 8, 'shared': 3}, 'I/O devices and of burst_ways = 8'),
            ({'shared': 10, 'shareable': 0x600}, 'shared_ways is 10, and 9'),
            ({'burst': 1, 'min_bits': 2}, 'fewer than 2'),
        ):
            with self.subTest(sizes=sizes):
                err = self.assertRaises(ValueError, find, **sizes)
                self.assertIn(text, str(err))

    def test_nothing_at_all_may_be_left_between_them(self) -> None:
        self.assertEqual(
            pools.Regions(burst=0x0FF, shared=0x300), find(burst=8, shared=2)
        )


class WidenTest(base.TestCase):
    def test_one_burst_way_that_is_sold_keeps_the_pool(self) -> None:
        regions = pools.Regions(burst=0x0F, shared=0x30)

        self.assertEqual(0x4F, regions.widen(0x42))
        self.assertEqual(0x40, regions.widen(0x40))
