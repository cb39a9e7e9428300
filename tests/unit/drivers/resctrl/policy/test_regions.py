# SPDX-License-Identifier: Apache-2.0

"""Where the pools of a last-level cache lie."""

from typing import Any

from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import info
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.policy import machine
from nova_ext_resources.drivers.resctrl.policy import ownership
from tests import base

CACHE = schemata.Cache(3, 0)


def find(
    *,
    burst: int = 0,
    shared: int = 0,
    foreign: int = 0,
    exclusive: int = 0,
    **fields: Any,
) -> tuple[int, int]:
    if 'locked' in fields:
        fields['locked'] = {0: fields['locked']}
    cache = info.CacheInfo(num_closids=16, full=0x7FF, **fields)
    tree = groups.Tree(
        info=info.ControlInfo(levels={3: cache}),
        groups={
            name: groups.Group(
                name=name, schemata={('L3', 0): mask}, mode=mode
            )
            for name, mask, mode in (
                ('', 0x7FF, 'shareable'),
                ('db', foreign, 'shareable'),
                ('rt', exclusive, 'exclusive'),
            )
            if mask
        },
    )
    host = machine.HostMachine(burst_ways=burst, shared_ways=shared)
    domain = ownership.build(tree, host, {}).caches[CACHE]
    if domain.pools_fault:
        raise ValueError(domain.pools_fault)
    return domain.burst, domain.shared


class RegionsTest(base.TestCase):
    def test_they_are_far_from_the_ways_of_the_host(self) -> None:
        self.assertEqual((0x00F, 0x070), find(burst=4, shared=3))
        self.assertEqual(
            (0x780, 0x070),
            find(burst=4, shared=3, shareable=0x3),
        )

    def test_without_sizes_there_are_none(self) -> None:
        self.assertEqual((0, 0), find())

    def test_one_of_them_may_be_missing(self) -> None:
        self.assertEqual((0, 0x007), find(shared=3))

    def test_what_others_hold_does_not_move_them(self) -> None:
        self.assertEqual(
            (0x00F, 0),
            find(burst=4, foreign=0x003, exclusive=0x403),
        )

    def test_locked_ways_are_left_out(self) -> None:
        self.assertEqual(
            (0x03C, 0x040),
            find(burst=4, shared=1, locked=0x003),
        )

    def test_pools_that_do_not_fit_are_told(self) -> None:
        for sizes, text in (
            ({'burst': 11}, 'burst_ways is 11, but only 10 ways in a row'),
            ({'burst': 8, 'shared': 3}, 'shared_ways is 3, but only 2 ways'),
            ({'burst': 8, 'shared': 3}, 'I/O devices and of burst_ways = 8'),
            (
                {'shared': 10, 'shareable': 0x600},
                'shared_ways is 10, but only 9',
            ),
            ({'burst': 1, 'min_bits': 2}, 'at least 2 ways'),
        ):
            with self.subTest(sizes=sizes):
                err = self.assertRaises(ValueError, find, **sizes)
                self.assertIn(text, str(err))

    def test_nothing_at_all_may_be_left_between_them(self) -> None:
        self.assertEqual((0x0FF, 0x300), find(burst=8, shared=2))
