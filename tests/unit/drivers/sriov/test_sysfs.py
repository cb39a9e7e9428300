# SPDX-License-Identifier: Apache-2.0

"""Tests of reading SR-IOV functions, on trees of several shapes."""

import os
from typing import Any
from unittest import mock

import fixtures

from nova_ext_resources.drivers.sriov import sysfs
from nova_ext_resources.testing import sriov
from tests import base

PF = '0000:3b:00.0'
OTHER = '0000:3b:00.1'


class SysfsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.tree = self.make_tree()

    def make_tree(self, **fields: Any) -> sriov.Sysfs:
        folder = self.useFixture(fixtures.TempDir()).path
        return sriov.Sysfs(os.path.join(folder, 'sys'), **fields)

    def read(self, tree: sriov.Sysfs | None = None) -> sysfs.SriovScan:
        return sysfs.read(str((tree or self.tree).path))

    def read_one(
        self, tree: sriov.Sysfs | None = None
    ) -> sysfs.PhysicalFunction:
        seen = self.read(tree)
        self.assertEqual({}, seen.unsteady)
        [card] = seen.functions
        return card

    def test_an_ixgbe(self) -> None:
        self.tree.add_card(PF, interfaces=['ens1f0'], node=1)
        addresses = self.tree.enable(PF, 2)

        self.assertEqual(
            sysfs.PhysicalFunction(
                address=PF,
                driver='ixgbe',
                cpus=frozenset({2, 3}),
                ports=(sysfs.Port(name='ens1f0', speed=10000),),
                interfaces=frozenset({'ens1f0'}),
                functions=tuple(
                    sysfs.VirtualFunction(
                        address=one,
                        vendor_id='8086',
                        product_id='10ed',
                        driver='vfio-pci',
                    )
                    for one in addresses
                ),
            ),
            self.read_one(),
        )

    def test_two_cards_of_one_adapter(self) -> None:
        # X710: two physical functions, i40e.
        for number, address in enumerate((PF, OTHER)):
            self.tree.add_card(
                address, driver='i40e', interfaces=[f'ens1f{number}']
            )
            self.tree.enable(address, 10)

        seen = self.read()

        self.assertEqual([PF, OTHER], [one.address for one in seen.functions])
        names = [f.address for one in seen.functions for f in one.functions]
        self.assertEqual(20, len(set(names)))

    def test_an_ice_whose_functions_have_a_driver_of_the_host(self) -> None:
        self.tree.add_card(
            PF, driver='ice', interfaces=['ens1f0np0'], speed=100000
        )
        own, other = self.tree.enable(PF, 2, driver='iavf')
        self.tree.add_interface(own, 'ens1f0v0')
        self.tree.add_interface(other, 'ens1f0v1')
        (self.tree.find(other) / 'net/ens1f0v1/master').symlink_to('../bond0')

        first, second = self.read_one().functions

        self.assertEqual('iavf', first.driver)
        self.assertEqual(frozenset({'ens1f0v0'}), first.interfaces)
        self.assertFalse(first.is_used)
        self.assertTrue(second.is_used)

    def test_functions_that_the_host_itself_uses(self) -> None:
        zero = 8 * '0'
        link = f'fe80{24 * "0"}00000001'
        other = f'20010db8{16 * "0"}00000001'
        proc = self.tree.path.parent / 'proc/net'
        rows = {
            'used_by_a_route': f'{{0}}\t{zero}\t0100A8C0\t0003\t0\t0',
            'used_by_an_address': f'{other} 03 40 00 80 {{0}}',
            'used_by_ipv6': (
                f'{4 * zero} 00 {4 * zero} 00 {link} 00000400 00000001 '
                f'{zero} 00000003 {{0}}'
            ),
            # What each interface has that is up.
            'up': f'{link} 03 40 20 80 {{0}}',
            'up_with_routes': (
                f'ff{30 * "0"} 08 {4 * zero} 00 {4 * zero} 00000100 00000004 '
                f'{zero} 00000001 {{0}}'
            ),
        }
        files = ('route', 'if_inet6', 'ipv6_route', 'if_inet6', 'ipv6_route')
        texts = {'route': 'Iface\tDestination\tGateway\n'}
        shown = ('master', 'upper_eth7.100', 'upper_macvlan0', 'lower_eth8')
        self.tree.add_card(PF, driver='ice')
        made = self.tree.enable(PF, 15, driver='iavf')
        addresses = iter(made)
        expected: dict[str, bool] = {}
        for one in shown:
            own = next(addresses)
            self.tree.add_interface(own, f'v{len(expected)}')
            folder = self.tree.find(own) / 'net' / f'v{len(expected)}'
            (folder / one).symlink_to('../bond0')
            expected[own] = not one.startswith('lower')
        for bus in ('', 'vdpa0/virtio3'):
            for file, (kind, row) in zip(files, rows.items(), strict=True):
                own = next(addresses)
                name = f'v{len(expected)}'
                self.tree.add_interface(own, name, bus=bus)
                texts[file] = texts.get(file, '') + f'{row.format(name)}\n'
                expected[own] = kind.startswith('used')
        # An address alone; each host has this interface.
        own = next(addresses)
        self.tree.add_interface(own, 'lo')
        expected[own] = True
        for file, text in texts.items():
            self.tree.write(proc / file, text)

        functions = self.read_one().functions

        self.assertEqual(
            expected, {one.address: one.is_used for one in functions}
        )
        self.assertEqual({1}, {len(one.interfaces) for one in functions})
        [same] = sysfs.read(f'{self.tree.path}/').functions
        self.assertEqual(functions, same.functions)

    def test_an_mlx5_in_switchdev_mode(self) -> None:
        self.tree.add_card(PF, driver='mlx5_core', vendor=sriov.MELLANOX)
        self.tree.add_interface(PF, 'ens1f0np0', speed=25000, port='p0')
        for number in range(2):
            self.tree.add_interface(
                PF, f'eth{number}', speed=25000, port=f'pf0vf{number}'
            )
        self.tree.enable(PF, 2, driver='')
        (self.tree.find(PF) / 'infiniband/mlx5_0').mkdir(parents=True)

        card = self.read_one()

        self.assertTrue(card.is_switchdev)
        self.assertTrue(card.has_rdma)
        self.assertEqual(
            (sysfs.Port(name='ens1f0np0', speed=25000),), card.ports
        )
        self.assertEqual(3, len(card.interfaces))
        self.assertEqual(['', ''], [one.driver for one in card.functions])

    def test_one_function_with_two_ports(self) -> None:
        # ConnectX-3.
        self.tree.add_card(
            PF, driver='mlx4_core', interfaces=['p1', 'p2'], speed=40000
        )

        card = self.read_one()

        self.assertEqual(['p1', 'p2'], [one.name for one in card.ports])
        self.assertFalse(card.is_switchdev)

    def test_one_without_virtual_functions(self) -> None:
        self.tree.add_card(PF)

        self.assertEqual((), self.read_one().functions)

    def test_a_node_that_is_not_known(self) -> None:
        self.tree.add_card(PF, node=-1)
        self.assertEqual(frozenset(), self.read_one().cpus)

        for nodes in ([(0, 1)], []):
            with self.subTest(nodes=nodes):
                tree = self.make_tree(nodes=nodes)
                tree.add_card(PF, node=-1)
                expected = {0, 1} if nodes else {0}
                self.assertEqual(expected, self.read_one(tree).cpus)

    def test_a_kernel_that_says_no_node(self) -> None:
        self.tree.add_card(PF)
        (self.tree.find(PF) / 'numa_node').unlink()

        self.assertEqual(frozenset(), self.read_one().cpus)

    def test_a_link_that_is_down_has_no_speed(self) -> None:
        self.tree.add_card(PF, interfaces=['ens1f0'], speed=-1)
        self.tree.add_card(OTHER, interfaces=['ens1f1'], speed=None)

        for one in self.read().functions:
            self.assertEqual([None], [port.speed for port in one.ports])

    def test_other_devices_with_sriov_are_no_network_cards(self) -> None:
        # A storage controller.
        self.tree.add_card(PF, kind='0x010802')

        self.assertEqual(sysfs.SriovScan(), self.read())

    def test_interfaces_of_devices_without_sriov(self) -> None:
        self.tree.add_card(PF, interfaces=['ens1f0'])
        [function] = self.tree.enable(PF, 1)
        self.tree.add_interface(function, 'ens1f0v0')
        self.tree.make('0000:01:00.0', **{'class': '0x020000'})
        self.tree.add_interface('0000:01:00.0', 'eno1')

        # A function has those alone that were there when its card was read.
        self.assertEqual({'eno1'}, self.read().others)

    def test_a_card_that_answers_no_more(self) -> None:
        self.tree.add_card(PF)
        self.tree.enable(PF, 2)
        self.tree.kill(PF)

        card = self.read_one()

        self.assertTrue(card.is_dead)
        self.assertEqual((), card.functions)

    def test_a_host_without_a_list_of_devices(self) -> None:
        self.assertRaises(OSError, sysfs.read, '/nowhere')
        folder = self.useFixture(fixtures.TempDir()).path
        os.makedirs(f'{folder}/bus/pci/devices')

        self.assertRaises(OSError, sysfs.read, folder)

    # -- what changes while it is read ----------------------------------

    def assert_unsteady(self, *addresses: str) -> None:
        seen = self.read()

        self.assertEqual(set(addresses), set(seen.unsteady))
        self.assertEqual(
            {PF, OTHER} - set(addresses),
            {one.address for one in seen.functions},
        )

    def add_two(self) -> list[str]:
        self.tree.add_card(OTHER)
        self.tree.add_card(PF, interfaces=['ens1f0'])
        return self.tree.enable(PF, 4)

    def test_functions_that_are_being_removed(self) -> None:
        self.add_two()
        (self.tree.find(PF) / 'virtfn3').unlink()

        self.assert_unsteady(PF)

    def test_a_function_that_was_unplugged_does_not_take_its_card(
        self,
    ) -> None:
        names = self.add_two()
        self.tree.unplug(names[2])

        self.assert_unsteady()
        [card] = [one for one in self.read().functions if one.address == PF]
        left = {*names} - {names[2]}
        self.assertEqual(left, {one.address for one in card.functions})

    def test_a_function_that_cannot_be_read(self) -> None:
        names = self.add_two()
        (self.tree.find(names[1]) / 'vendor').unlink()

        self.assert_unsteady(PF)

    def test_a_function_that_belongs_to_another_card(self) -> None:
        names = self.add_two()
        link = self.tree.find(names[2]) / 'physfn'
        link.unlink()
        link.symlink_to(f'../{OTHER}')

        self.assert_unsteady(PF)

    def test_links_and_files_with_nonsense(self) -> None:
        for damage in (
            lambda: self.tree.write(self.tree.find(PF) / 'sriov_numvfs', 'x'),
            lambda: (self.tree.find(PF) / 'virtfn9').symlink_to('../../etc'),
            lambda: (self.tree.find(PF) / 'config').unlink(),
            lambda: (self.tree.find(PF) / 'numa_node').write_bytes(b'\xff'),
            lambda: (self.tree.find(PF) / 'class').unlink(),
        ):
            self.tree = self.make_tree()
            self.add_two()
            damage()
            with self.subTest(damage=damage):
                self.assert_unsteady(PF)

    def test_a_card_that_is_unplugged_meanwhile_is_gone(self) -> None:
        self.tree.add_card(PF)
        self.tree.enable(PF, 4)

        def unplug(*_args: Any) -> frozenset[int]:
            self.tree.unplug(PF)
            raise FileNotFoundError(PF)

        with mock.patch.object(sysfs, '_read_virtual', unplug):
            seen = self.read()

        self.assertEqual(sysfs.SriovScan(), seen)

    def test_the_number_of_functions_changes_meanwhile(self) -> None:
        self.add_two()
        original = sysfs._read_virtual

        def change(*args: Any) -> Any:
            yield from original(*args)
            self.tree.write(self.tree.find(PF) / 'sriov_numvfs', 5)

        with mock.patch.object(sysfs, '_read_virtual', change):
            self.assertIn(PF, self.read().unsteady)

    def test_names_that_are_no_addresses(self) -> None:
        self.add_two()
        (self.tree.bus / '0000:zz:00.0\n\x1b[31m').mkdir()
        os.mkdir(os.fsencode(self.tree.bus) + b'/\xff\xfe')

        seen = self.read()

        self.assertEqual(2, len(seen.functions))
        self.assertEqual(2, len(seen.unsteady))
        for one in seen.unsteady:
            self.assertTrue(one.isascii() and one.isprintable())

    def test_hostile_names_of_interfaces(self) -> None:
        self.tree.add_card(PF, interfaces=['a%s', '-rf', 'x\x1b[2J'])

        self.assertEqual(3, len(self.read_one().ports))
