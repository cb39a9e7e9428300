# SPDX-License-Identifier: Apache-2.0

"""A host whose kernel has resctrl on ARM: MPAM."""

from collections.abc import Callable
import dataclasses
import re

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.testing import resctrl
from nova_ext_resources.testing.resctrl import shape as shape_mod
from tests.unit.host import with_host
from tests.unit.host import with_resctrl

SERVER: str = uuidsentinel.server
WAYS = with_host.WAYS
PERCENT = classes.PERCENT

_CPUS = frozenset(range(8))


def make_shape() -> resctrl.Shape:
    """Make a machine that keeps bandwidth as it is written."""
    domains = (shape_mod.Domain(id=1, cpus=_CPUS),)
    return resctrl.Shape(
        name='mpam',
        kernel=(7, 0),
        num_cpus=8,
        caches=(
            shape_mod.Cache(
                level=3,
                ways=16,
                num_closids=32,
                shareable_bits=0xFFFF,
                has_sparse_masks=True,
                size=64 << 20,
                domains=domains,
            ),
        ),
        bandwidths=(
            shape_mod.Bandwidth(
                num_closids=32,
                minimum=1,
                granularity=1,
                domains=domains,
            ),
        ),
        nodes=(_CPUS,),
        packages=(_CPUS,),
    )


def to_nearest(percent: int, bands: int) -> int:
    """Return the end of the band that is nearest, as mainline does it."""
    band = max(round(percent * bands / 100 + 1e-9), 1)
    return int(band * 100 / bands + 0.5)


def to_start(percent: int, bands: int) -> int:
    """Return how kernels of some vendors show the nearest band."""
    band = max(round(percent * bands / 100 + 1e-9), 1)
    return (band - 1) * 100 // (bands - 1)


class MpamTestCase(with_resctrl.ResctrlHostTestCase):
    SHAPE: resctrl.Shape | str = make_shape()

    def use(
        self,
        shape: resctrl.Shape | str,
        bits: int = 0,
        step: int = 0,
        show: Callable[[int, int], int] = to_nearest,
    ) -> class_inventory.Inventory:
        """Make a host, and return what it offers of memory bandwidth.

        :param bits: its kernel keeps bandwidth in ``2 ** bits`` bands
        :param step: what it says of them
        :param show: value, number of bands -> the value that it shows
        """
        self.SHAPE = shape
        self.machine = self.make_machine()
        self.kernel = self.machine.kernel
        if bits:
            self.round_bandwidth(1 << bits, step, show)
        self.host = self.make_resctrl_host()
        return next(
            one.inventory
            for (_rp, name), one in self.host.view.tracked.items()
            if name == PERCENT and one.inventory
        )

    def round_bandwidth(
        self, bands: int, step: int, show: Callable[[int, int], int]
    ) -> None:
        files = self.machine.file_system
        read = files.read
        known = {
            'info/MB/bandwidth_gran': f'{step or -(-100 // bands)}\n',
            'info/MB/min_bandwidth': f'{show(1, bands)}\n',
        }

        def read_rounded(path: str) -> str:
            text: str = known.get(path) or read(path)
            if not path.endswith('schemata'):
                return text
            return ''.join(
                re.sub(
                    r'= *(\d+)', lambda m: f'={show(int(m[1]), bands)}', line
                )
                if line.lstrip().startswith('MB:')
                else line
                for line in text.splitlines(keepends=True)
            )

        files.read = read_rounded

    def start_each(self, key: str, given: class_inventory.Inventory) -> int:
        """Start a server with each amount that placement may allocate."""
        amounts = [
            amount
            for amount in range(1, given.capacity + 1)
            if not given.find_unit_error(amount)
        ]
        for amount in amounts:
            with self.subTest(amount=amount):
                self.start_with(
                    SERVER, {key: {PERCENT: amount}}, thread_policy='isolate'
                )
                self.host.refresh()
                self.host.heal()
                self.assertEqual((), self.host.problems)
                self.host.release(SERVER)
        self.host.close()
        return len(amounts)


class AmountsTest(MpamTestCase):
    def test_every_amount_of_any_number_of_bands_starts(self) -> None:
        of_percent, of_bands = (8, 7), (6, 5, 4, 3, 2)
        for bits in (*of_percent, *of_bands, 1):
            with self.subTest(bits=bits):
                given = self.use(make_shape(), bits)
                count = self.start_each('L3_1', given)

                self.assertEqual(
                    100 if bits in of_percent else 4 if bits > 1 else 2, count
                )

    def test_every_amount_of_other_machines_starts(self) -> None:
        for name in ('skylake2', 'granite'):
            with self.subTest(name=name):
                self.assertEqual(10, self.start_each('L3_0', self.use(name)))

    def test_what_reads_back_is_what_was_written(self) -> None:
        given = self.use(make_shape(), 4)

        self.assertEqual(
            (25, 25, 100), (given.min_unit, given.step_size, given.total)
        )
        self.start_with(SERVER, {'L3_1': {PERCENT: 75}})
        self.assertEqual(75, self.get_masks(f'nova-{SERVER}', 'MB')[1])

    def test_a_limit_that_reads_back_rounded_is_applied(self) -> None:
        """As on kernels that say less of their bands than they round."""
        for bits, step in ((5, 3), (4, 6), (3, 12)):
            with self.subTest(bits=bits):
                given = self.use(make_shape(), bits, step, to_start)

                self.assertEqual(4, self.start_each('L3_1', given))

    def test_another_limit_is_put_right(self) -> None:
        self.use(make_shape(), 4)
        self.start_with(SERVER, {'L3_1': {PERCENT: 50}})
        for other in (25, 75, 100):
            self.kernel.write(f'nova-{SERVER}/schemata', f'MB:1={other}\n')

            self.host.refresh()
            self.host.heal()

            group = f'nova-{SERVER}'
            self.assertEqual(50, self.get_masks(group, 'MB')[1])


_SOCKETS = (frozenset(range(4)), frozenset(range(4, 8)))


def number_by_node(
    numbers: tuple[int, ...], caches: tuple[int, ...] = (1, 2)
) -> resctrl.Shape:
    """Make two caches, and lines of bandwidth with other numbers."""
    shape = make_shape()
    places = {
        # The model shows no node that has only memory.
        number: _SOCKETS[position] if position < 2 else frozenset({7})
        for position, number in enumerate(numbers)
    }
    return dataclasses.replace(
        shape,
        caches=tuple(
            dataclasses.replace(
                one,
                domains=tuple(
                    shape_mod.Domain(id=number, cpus=cpus)
                    for number, cpus in zip(caches, _SOCKETS, strict=True)
                ),
            )
            for one in shape.caches
        ),
        bandwidths=tuple(
            dataclasses.replace(
                one,
                domains=tuple(
                    shape_mod.Domain(id=number, cpus=cpus)
                    for number, cpus in places.items()
                ),
            )
            for one in shape.bandwidths
        ),
    )


class NumbersTest(MpamTestCase):
    """Lines of bandwidth belong to NUMA nodes on some kernels."""

    #: Numbers of the lines of bandwidth, and of the caches.
    OTHERS = (
        ((0, 1), (1, 2)),
        ((1, 2, 10), (1, 2)),
        ((1,), (1, 2)),
    )

    def test_bandwidth_is_not_published_at_a_cache(self) -> None:
        for numbers, caches in self.OTHERS:
            with self.subTest(numbers=numbers):
                self.SHAPE = number_by_node(numbers, caches)
                log = self.useFixture(fixtures.FakeLogger())
                self.machine = self.make_machine()
                self.host = self.make_resctrl_host()
                self.host.refresh()

                offered = {name for _rp, name in self.host.view.tracked}
                self.assertEqual({WAYS, classes.CLOS}, offered)
                lines = ', '.join(map(str, numbers))
                self.assertEqual(
                    1, log.output.count(f'the MB lines {lines} of schemata')
                )
                self.host.close()

    def test_the_same_numbers_are_those_of_the_caches(self) -> None:
        given = self.use(number_by_node((1, 2)))

        self.assertEqual(100, given.total)

    def test_a_cache_that_goes_offline_keeps_its_number(self) -> None:
        self.use(number_by_node((1, 2)))

        self.kernel.set_offline('4-7')
        self.host.refresh()

        offered = {
            self.host.view.keys[rp]
            for rp, name in self.host.view.tracked
            if name == PERCENT
        }
        self.assertEqual({'L3_1', 'L3_2'}, offered)


class SparseTest(MpamTestCase):
    def test_ways_need_not_lie_side_by_side(self) -> None:
        self.host = self.make_resctrl_host()
        self.kernel.add_group('other', 'L3:1=2aa\n')
        self.host.refresh()

        entry = self.start_with(
            SERVER,
            {'L3_1': {WAYS: 10}},
        )

        (held,) = classes.pick(entry.assignments, WAYS)
        self.assertEqual('7d55', held.units['mask'])
        self.assertEqual(0x7D55, self.get_masks(f'nova-{SERVER}')[1])
        self.assert_exclusive(self.host)

    def test_other_ways_are_taken_when_these_are_gone(self) -> None:
        self.host = self.make_resctrl_host()
        self.host.claim(
            with_host.make_claim(
                SERVER,
                cpus=frozenset({1}),
                allocations={
                    host_provider.make_rp_uuid(with_host.NODE.uuid, 'L3_1'): {
                        WAYS: 10
                    }
                },
            )
        )
        self.kernel.add_group('other', 'L3:1=2a\n')

        self.host.apply(SERVER)

        mask = self.get_masks(f'nova-{SERVER}')[1]
        self.assertEqual((10, 0), (mask.bit_count(), mask & 0x802A))
