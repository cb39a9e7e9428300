# SPDX-License-Identifier: Apache-2.0

"""Tests of reading regions of FPGAs, on trees of several shapes."""

import os
import pathlib
import shutil
from typing import Any
from unittest import mock

import fixtures

from nova_ext_resources.drivers.fpga import managers
from nova_ext_resources.drivers.fpga import pci
from nova_ext_resources.drivers.fpga import sysfs
from nova_ext_resources.testing import fpga
from nova_ext_resources.testing import sysfs as tree_mod
from tests import base

CARD = '0000:3b:00.0'
OTHER = '0000:5e:00.0'
VF = '0000:3b:00.1'


class SysfsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.tree = self.make_tree()

    def make_tree(self, **fields: Any) -> fpga.Sysfs:
        folder = self.useFixture(fixtures.TempDir()).path
        return fpga.Sysfs(os.path.join(folder, 'sys'), **fields)

    def read(self) -> sysfs.FpgaScan:
        (self.tree.path / 'class/net').mkdir(parents=True, exist_ok=True)
        return sysfs.read(str(self.tree.path))

    def read_one(self) -> sysfs.Card:
        seen = self.read()
        self.assertEqual({}, seen.unsteady)
        [card] = seen.cards
        return card

    # -- shapes ---------------------------------------------------------

    def test_an_n3000(self) -> None:
        self.tree.add_card(CARD, node=1)

        self.assertEqual(
            sysfs.Card(
                name=CARD,
                pci=pci.Pci(
                    address=CARD,
                    parent=CARD,
                    vendor_id='8086',
                    product_id='0b30',
                    driver='dfl-pci',
                ),
                cpus=frozenset({2, 3}),
                regions=(
                    sysfs.Region(
                        name=f'{CARD}-port0',
                        node='dfl-port.0',
                        function_id=fpga.AFU,
                    ),
                ),
                region_ids=frozenset({fpga.REGION}),
                ports=1,
            ),
            self.read_one(),
        )

    def test_two_d5005_of_two_ports_each(self) -> None:
        for address in (OTHER, CARD):
            self.tree.add_card(address, device=fpga.D5005, ports=2)

        seen = self.read()

        self.assertEqual(
            [
                (CARD, [f'{CARD}-port0', f'{CARD}-port1']),
                (OTHER, [f'{OTHER}-port0', f'{OTHER}-port1']),
            ],
            [
                (card.name, [one.name for one in card.regions])
                for card in seen.cards
            ],
        )
        # The manager of a card says nothing of others.
        self.assertEqual((), seen.managers)

    def test_names_stay_when_the_kernel_counts_anew(self) -> None:
        for address in (OTHER, CARD):
            self.tree.add_card(address)
        before = {one.name for c in self.read().cards for one in c.regions}

        self.tree = self.make_tree()
        for address in (CARD, OTHER):
            self.tree.add_card(address)

        after = {one.name for c in self.read().cards for one in c.regions}
        self.assertEqual(before, after)

    def test_a_port_that_is_released_for_a_virtual_function(self) -> None:
        self.tree.add_card(CARD, ports=2)
        self.tree.release_port(CARD, 1)

        card = self.read_one()

        self.assertEqual(2, card.ports)
        self.assertEqual([f'{CARD}-port0'], [one.name for one in card.regions])

    def test_a_virtual_function_with_the_driver_of_the_host(self) -> None:
        self.tree.add_card(CARD, ports=2)
        self.tree.release_port(CARD, 1)
        self.tree.add_virtual(VF, CARD, 1)

        seen = self.read()

        self.assertEqual({}, seen.unsteady)
        _card, function = seen.cards
        assert function.pci
        self.assertEqual(CARD, function.pci.parent)
        self.assertFalse(function.is_dead)
        self.assertEqual(
            [f'{CARD}-port1'], [one.name for one in function.regions]
        )

    def test_a_port_below_two_functions_is_unsteady(self) -> None:
        self.tree.add_card(OTHER)
        self.tree.add_card(CARD, ports=2)
        self.tree.add_virtual(VF, CARD, 1)

        seen = self.read()

        self.assertEqual([OTHER], [one.name for one in seen.cards])
        self.assertEqual(
            dict.fromkeys(
                [CARD, VF], f'{CARD}-port1 is a region of {CARD} and {VF}'
            ),
            seen.unsteady,
        )

    def test_a_card_whose_ports_are_all_released_has_no_region(self) -> None:
        self.tree.add_card(CARD)
        self.tree.release_port(CARD, 0)

        self.assertEqual((), self.read_one().regions)

    def test_a_card_that_the_kernel_has_just_begun_with(self) -> None:
        self.tree.make_function(CARD, vendor='0x8086', device=fpga.N3000)
        self.tree.add_region(self.tree.find(CARD).resolve())

        self.assertEqual((), self.read_one().regions)

    def test_a_pci_card_with_a_plain_region(self) -> None:
        self.tree.make_function(CARD, vendor=fpga.XILINX, device='0x500c')
        self.tree.bind(CARD, 'another')
        self.tree.add_region(self.tree.find(CARD).resolve())

        self.assertEqual([CARD], [one.name for one in self.read_one().regions])

    def test_the_only_region_of_a_device_tree(self) -> None:
        self.tree.add_platform_region('soc:base-fpga-region')
        self.tree.add_manager('Xilinx Zynq FPGA Manager')

        seen = self.read()

        self.assertEqual(
            (
                sysfs.Card(
                    name='soc:base-fpga-region',
                    regions=(
                        sysfs.Region(
                            name='soc:base-fpga-region', node='region0'
                        ),
                    ),
                ),
            ),
            seen.cards,
        )
        self.assertEqual(
            (
                managers.Manager(
                    key='fpga0',
                    name='Xilinx Zynq FPGA Manager',
                    state='operating',
                ),
            ),
            seen.managers,
        )

    def test_a_region_with_others_in_it_is_counted_by_these(self) -> None:
        self.tree.add_platform_region('soc:base-fpga-region')
        for name in ('region0:pr@0', 'region0:pr@1'):
            self.tree.add_platform_region(name, 'soc:base-fpga-region')

        seen = self.read()

        self.assertEqual(
            ['region0:pr_0', 'region0:pr_1'],
            [one.name for card in seen.cards for one in card.regions],
        )
        for card in seen.cards:
            self.assertEqual({'soc:base-fpga-region'}, card.inside)

    def test_an_alveo_has_no_region(self) -> None:
        self.tree.make_function(CARD, vendor=fpga.XILINX, device='0x500c')
        self.tree.bind(CARD, 'xclmgmt')

        seen = self.read()

        self.assertEqual(((), {}), (seen.cards, seen.unsteady))
        self.assertEqual(
            [(CARD, '10ee', 'xclmgmt')],
            [(one.address, one.vendor_id, one.driver) for one in seen.others],
        )

    def test_other_accelerators_are_no_fpgas(self) -> None:
        self.tree.make_function(CARD, vendor='0x1da3', device='0x1020')

        self.assertEqual((), self.read().others)

    def test_a_kernel_without_the_class(self) -> None:
        self.assertEqual(sysfs.FpgaScan(), self.read())

    def test_a_host_without_any_class(self) -> None:
        self.assertRaises(OSError, sysfs.read, '/nowhere')
        (self.tree.path / 'class').mkdir()

        self.assertRaises(OSError, sysfs.read, str(self.tree.path))

    # -- where it is ----------------------------------------------------

    def add_packages(self) -> None:
        """Put two CPUs into each of two packages."""
        folder = self.tree.path / 'devices/system/cpu'
        for cpu in range(4):
            path = folder / f'cpu{cpu}/topology/physical_package_id'
            self.tree.write(path, cpu // 2)

    def test_a_node_that_is_not_known(self) -> None:
        self.tree.add_card(CARD, node=-1, socket=1)
        self.add_packages()

        # What a card says of a socket is for those in the package only.
        self.assertEqual(frozenset(), self.read_one().cpus)

    def test_a_card_in_the_package_of_a_processor(self) -> None:
        self.tree.add_card(CARD, node=-1, device='0xbcc0', socket=1)
        self.add_packages()

        self.assertEqual(frozenset({2, 3}), self.read_one().cpus)

    def test_a_region_of_a_host_without_numa(self) -> None:
        self.tree = self.make_tree(nodes=())
        self.tree.add_platform_region('soc:base-fpga-region')

        self.assertEqual(frozenset({0}), self.read_one().cpus)

    # -- what fails -----------------------------------------------------

    def test_a_card_that_answers_no_more(self) -> None:
        self.tree.add_card(CARD)
        self.tree.kill(CARD)

        card = self.read_one()

        self.assertTrue(card.is_dead)
        self.assertEqual((), card.regions)

    def test_a_function_of_a_card_that_answers_no_more(self) -> None:
        self.tree.add_card(CARD)
        self.tree.add_virtual(VF, CARD, 1)
        self.tree.kill(CARD)

        for card in self.read().cards:
            self.assertTrue(card.is_dead)

    def test_a_port_that_does_not_say_what_is_programmed(self) -> None:
        self.tree.add_card(CARD, afu='', compat_id='')

        card = self.read_one()

        self.assertEqual(
            ['', frozenset()], [card.regions[0].function_id, card.region_ids]
        )

    def test_files_that_not_all_kernels_have(self) -> None:
        # One in the package of a processor, whose node is not known.
        self.tree.add_card(CARD, device='0xbcbd', node=-1)
        base = self.tree.find_base(CARD)
        (self.tree.find(CARD) / 'numa_node').unlink()
        for name in ('socket_id', 'ports_num'):
            [found] = base.glob(f'dfl-fme.*/{name}')
            found.unlink()

        card = self.read_one()

        self.assertEqual([0, frozenset()], [card.ports, card.cpus])

    def test_files_with_nonsense(self) -> None:
        for damage in (
            lambda port, _engine: self.tree.write(port / 'id', '-1'),
            lambda port, _engine: self.tree.write(port / 'id', '../0'),
            lambda port, _engine: self.tree.write(port / 'afu_id', 'x'),
            lambda port, _engine: self.tree.write(port / 'afu_id', 'f' * 300),
            lambda port, _engine: (port / 'afu_id').write_bytes(b'\xff'),
            lambda port, _engine: (port / 'id').unlink(),
            lambda _port, engine: self.tree.write(engine / 'ports_num', ''),
            lambda _port, _engine: self.tree.add_port(CARD, 0),
            lambda _port, _engine: (self.tree.find(CARD) / 'config').unlink(),
        ):
            self.tree = self.make_tree()
            self.tree.add_card(OTHER)
            self.tree.add_card(CARD)
            port = self.tree.find_port(CARD, 0)
            damage(port, next(port.parent.glob('dfl-fme.*')))
            with self.subTest(damage=damage):
                seen = self.read()
                self.assertEqual({CARD}, set(seen.unsteady))
                self.assertEqual([OTHER], [one.name for one in seen.cards])

    def test_a_port_that_is_in_reset(self) -> None:
        # The kernel refuses to read (EBUSY), as a folder does here.
        self.tree.add_card(CARD)
        file = self.tree.find_port(CARD, 0) / 'afu_id'
        file.unlink()
        file.mkdir()

        self.assertEqual({CARD}, set(self.read().unsteady))

    def test_a_card_that_is_unplugged_meanwhile_is_gone(self) -> None:
        self.tree.add_card(OTHER)
        self.tree.add_card(CARD)
        path = str(self.tree.find_base(CARD).resolve())
        original = sysfs._read_port

        def unplug(folder: str, *args: Any) -> sysfs.Region:
            if folder == path:
                self.tree.unplug(CARD)
            return original(folder, *args)

        with mock.patch.object(sysfs, '_read_port', unplug):
            seen = self.read()

        self.assertEqual({}, seen.unsteady)
        self.assertEqual([OTHER], [one.name for one in seen.cards])

    def test_a_port_that_comes_meanwhile(self) -> None:
        self.tree.add_card(CARD)
        original = sysfs._read_region_ids

        def add(*args: Any) -> frozenset[str]:
            self.tree.add_port(CARD, 1)
            return original(*args)

        with mock.patch.object(sysfs, '_read_region_ids', add):
            self.assertIn(CARD, self.read().unsteady)

    def test_a_link_to_a_region_that_has_gone(self) -> None:
        self.tree.add_card(CARD)
        self.tree.add_platform_region('soc:base-fpga-region')
        shutil.rmtree(self.tree.path / 'devices/platform')

        self.assertEqual(CARD, self.read_one().name)

    def test_hostile_names(self) -> None:
        self.tree.add_card(CARD)
        names = ['x\x1b[31m', 'a\nb', 'x' * 200, '..%2f', ' region0']
        for name in names:
            (self.tree.regions / name).mkdir()
        os.mkdir(os.fsencode(self.tree.regions) + b'/\xff\xfe')
        for number, target in enumerate(('../../../../etc', '.', '/')):
            (self.tree.regions / f'region9{number}').symlink_to(target)
        for name in ('pr\n0', 'x' * 250, 'pr 0', '-rf'):
            self.tree.add_platform_region(name)

        seen = self.read()

        self.assertEqual([CARD], [one.name for one in seen.cards])
        self.assertEqual(13, len(seen.unsteady))
        for one, reason in seen.unsteady.items():
            self.assertTrue(one.isascii() and one.isprintable())
            self.assertTrue(reason.isascii() and reason.isprintable())
            self.assertLess(len(one), 70)

    def test_a_second_link_to_a_region_changes_nothing(self) -> None:
        self.tree.add_card(CARD)
        before = self.read()
        (self.tree.regions / 'region99').symlink_to('region0')

        self.assertEqual(before, self.read())

    def test_two_names_that_look_alike_are_none(self) -> None:
        for name in ('a', 'pr,0', 'pr@0'):
            self.tree.add_platform_region(name)

        seen = self.read()

        self.assertEqual(['a'], [one.name for one in seen.cards])
        self.assertEqual({'pr_0'}, set(seen.unsteady))

    def test_managers_that_make_no_sense_are_left_out(self) -> None:
        self.tree.add_manager('a\x1bb')
        (self.tree.add_manager('gone') / 'state').unlink()
        self.tree.add_manager('Altera SOCFPGA FPGA Manager', 'write error')

        [found] = self.read().managers

        self.assertTrue(found.has_failed)

    def test_the_name_of_a_region_says_of_which_card_it_is(self) -> None:
        for region, card, expected in (
            (f'{CARD}-port0', CARD, True),
            (f'{CARD}-port0', OTHER, False),
            ('soc:base', 'soc:base', True),
            ('soc:base-port', 'soc:base', False),
            ('socxbase-port0', 'soc.base', False),
        ):
            self.assertEqual(expected, sysfs.FpgaScan().is_of(region, card))
        seen = sysfs.FpgaScan(functions={VF: CARD})
        self.assertTrue(seen.is_of(f'{CARD}-port1', VF))


class TreeTest(base.TestCase):
    """The tree looks as the kernel's does."""

    def test_a_card_in_a_tree(self) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        tree = fpga.Sysfs(str(folder))
        tree.add_card(CARD)

        self.assertEqual(
            ['region0', 'region1'], sorted(os.listdir(tree.regions))
        )
        self.assertTrue((tree.regions / 'region0/dfl-port.0/afu_id').exists())
        self.assertTrue((tree.regions / 'region1/compat_id').exists())

        tree.unplug(CARD)

        self.assertEqual([], os.listdir(tree.regions))
        self.assertEqual(tree_mod.INTEL, '0x8086')
