# SPDX-License-Identifier: Apache-2.0

from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.drivers.resctrl.policy import pools
from tests import base


class LayOutTest(base.TestCase):
    def test_runs_lie_side_by_side(self) -> None:
        self.assertEqual(
            [0b0000110, 0b0001000, 0b1110000],
            pools.lay_out(0b1111110, [2, 1, 3]),
        )

    def test_servers_with_a_run_come_before_those_without(self) -> None:
        self.assertEqual(
            ['c', 'a', 'b', 'd'],
            pools.sort({'a': 0b110, 'b': 0, 'c': 0b1, 'd': 0}),
        )

    def test_the_room_is_the_longest_run(self) -> None:
        self.assertEqual(0b0111000, ownership.find_longest(0b0111011))
        self.assertEqual(0b0000011, ownership.find_longest(0b1100011))
        self.assertEqual(0, ownership.find_longest(0))
