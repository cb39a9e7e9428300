# SPDX-License-Identifier: Apache-2.0

from nova_ext_resources.drivers.resctrl.policy import pool
from tests import base


class LayOutTest(base.TestCase):
    def test_runs_lie_side_by_side(self) -> None:
        self.assertEqual(
            [0b0000110, 0b0001000, 0b1110000],
            pool.lay_out(0b1111110, [2, 1, 3]),
        )

    def test_servers_with_a_run_come_before_those_without(self) -> None:
        self.assertEqual(
            ['c', 'a', 'b', 'd'],
            pool.sort({'a': 0b110, 'b': 0, 'c': 0b1, 'd': 0}),
        )
