# SPDX-License-Identifier: Apache-2.0

"""Tests of the inventory provider ``sriov``."""

import pathlib
import shutil
from typing import Any
from unittest import mock

import fixtures
import os_traits

from nova_ext_resources.conf.drivers import sriov as conf
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.sriov import inventory
from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from nova_ext_resources.testing import sriov
from tests.unit import builders
from tests.unit.drivers import contract

CLASS = 'SRIOV_NET_VF'
PF = '0000:3b:00.0'
OTHER = '0000:5e:00.0'
KEY = f'SRIOV_{PF}'


class TestSriovInventory(contract.InventoryProviderContract):
    name = 'sriov'
    plugin_class = inventory.SriovInventory

    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.tree = sriov.Sysfs(str(self.folder / 'sys'))
        self.agent = self.folder / 'sriov_agent.ini'
        self.log = self.useFixture(fixtures.FakeLogger())
        self.entries: dict[str, assignment.Entry] = {}
        self.tree.add_card(PF, interfaces=['ens1f0'])
        self.tree.add_card(OTHER, interfaces=['ens2f0'], node=1)
        self.names = self.tree.enable(PF, 4)
        self.tree.enable(OTHER, 2)

    def make_plugin(self, **options: Any) -> inventory.SriovInventory:
        given = {
            'path': str(self.tree.path),
            'neutron_config_files': [str(self.agent)],
        }
        spec = options.pop('device_spec', ())
        self.conf.register_opts(conf.NOVA_OPTS['pci'], 'pci')
        self.conf.set_override('device_spec', list(spec), 'pci')
        return inventory.SriovInventory(
            self.make_options(**{**given, **options}),
            'host-1',
            lambda: self.entries,
            nova={'pci': self.conf.pci},
        )

    def break_host(self, plugin: base.InventoryProvider) -> None:
        shutil.rmtree(self.tree.path)

    def hold(self, *names: str, **fields: Any) -> None:
        """Let a server hold functions of the first card."""
        self.entries['one'] = builders.make_entry(
            'one',
            **{
                'rp_key': KEY,
                'resource_class': CLASS,
                'amount': len(names),
                'units': {'names': list(names)},
                **fields,
            },
        )

    def find(
        self, plugin: inventory.SriovInventory, key: str = KEY
    ) -> host_provider.HostProvider | None:
        found = {one.key: one for one in plugin.discover()}
        return found.get(key)

    def list_names(
        self, plugin: inventory.SriovInventory, key: str = KEY
    ) -> list[str]:
        """Return what may be given to servers, or is held."""
        found = self.find(plugin, key)
        if found is None:
            return []
        facts = found.units[CLASS]
        return sorted(set(facts['names']) - set(facts['foreign']))

    # -- what is there --------------------------------------------------

    def test_each_physical_function_is_a_provider(self) -> None:
        first, second = self.make_plugin().discover()

        self.assertEqual(
            host_provider.HostProvider(
                key=KEY,
                inventories={CLASS: builders.make_inventory(4)},
                trackers={CLASS: 'device'},
                units={CLASS: {'names': self.names, 'foreign': []}},
                cpus='0-1',
                traits=frozenset(
                    {'HW_NIC_SRIOV', 'CUSTOM_NIC_SPEED_MBPS_10000'}
                ),
            ),
            first,
        )
        self.assertEqual(
            ('2-3', 2), (second.cpus, second.inventories[CLASS].total)
        )
        self.assertEqual('', self.log.output)

    def test_a_card_without_virtual_functions_is_none(self) -> None:
        self.tree.enable(PF, 0)

        self.assertIsNone(self.find(self.make_plugin()))

    def test_the_class_can_be_chosen(self) -> None:
        plugin = self.make_plugin(resource_class='CUSTOM_VF')

        self.assertEqual(['CUSTOM_VF'], [d.name for d in plugin.definitions()])
        for one in plugin.discover():
            self.assertEqual(['CUSTOM_VF'], [*one.inventories])

    def test_physical_networks(self) -> None:
        plugin = self.make_plugin(
            physical_networks=['physnet1:ens1f0', f'phys-2:{OTHER.upper()}']
        )

        first, second = plugin.discover()

        self.assertIn('CUSTOM_PHYSNET_PHYSNET1', first.traits)
        self.assertIn('CUSTOM_PHYSNET_PHYS_2', second.traits)

    def test_ports_at_two_networks_are_at_none(self) -> None:
        self.tree.add_interface(PF, 'ens1f1', speed=25000)
        networks = ['a:ens1f0', 'b:ens1f1']

        found = self.find(self.make_plugin(physical_networks=networks))
        by_address = self.find(
            self.make_plugin(physical_networks=[*networks, f'c:{PF}'])
        )

        assert found and by_address
        # Nor do they have one speed.
        self.assertEqual({os_traits.HW_NIC_SRIOV}, found.traits)
        self.assertIn('CUSTOM_PHYSNET_C', by_address.traits)

    def test_what_is_no_mapping_is_refused(self) -> None:
        for text in ('physnet1', ':ens1f0', 'physnet1:', 'a b:c'):
            with self.subTest(text=text):
                error = self.assertRaises(
                    exception.InvalidConfiguration,
                    self.make_plugin,
                    physical_networks=[text],
                )
                self.assertIn('physical_networks', str(error))

    def test_switchdev_and_rdma_are_traits(self) -> None:
        self.tree.add_interface(PF, 'eth0', port='pf0vf0')
        (self.tree.find(PF) / 'infiniband/mlx5_0').mkdir(parents=True)

        found = self.find(self.make_plugin())

        assert found
        self.assertLessEqual(
            {
                os_traits.HW_NIC_OFFLOAD_SWITCHDEV,
                os_traits.HW_NIC_OFFLOAD_RDMA,
            },
            found.traits,
        )

    # -- what others have -----------------------------------------------

    def test_what_nova_reports_is_left_out(self) -> None:
        plugin = self.make_plugin(
            device_spec=[f'{{"address": "{self.names[1]}"}}']
        )

        self.assertNotIn(self.names[1], self.list_names(plugin))
        self.assertEqual(3, len(self.list_names(plugin)))
        self.assertIn(
            f'{self.names[1]} of {PF} are left out: Nova allocates them '
            '([pci] device_spec)',
            self.log.output,
        )
        # Once.
        self.assertEqual(1, self.log.output.count('left out'))

    def test_a_card_of_nova_is_no_provider(self) -> None:
        plugin = self.make_plugin(device_spec=['{"devname": "ens1f0"}'])

        self.assertIsNone(self.find(plugin))
        self.assertIn(', ... (4) of', self.log.output)

    def test_an_option_of_nova_that_is_not_valid_is_refused(self) -> None:
        error = self.assertRaises(
            exception.InvalidConfiguration,
            self.make_plugin,
            device_spec=['x'],
        )

        self.assertIn('[pci] device_spec', str(error))

    def test_what_the_agent_of_neutron_manages_is_left_out(self) -> None:
        self.agent.write_text(
            '[sriov_nic]\n'
            'physical_device_mappings = physnet1:ens1f0, physnet2:ens9\n'
            f'exclude_devices = ens1f0:{self.names[0]};{self.names[1]}\n'
        )
        plugin = self.make_plugin()

        self.assertEqual(self.names[:2], self.list_names(plugin))
        self.assertIn("Neutron's SR-IOV agent", self.log.output)

    def test_a_file_of_the_agent_that_cannot_be_used_is_told(self) -> None:
        self.agent.write_text('not an ini file')

        error = self.assertRaises(
            exception.DiscoveryFailed, self.make_plugin().discover
        )

        self.assertIn(str(self.agent), str(error))

    def test_what_the_operator_keeps_is_left_out(self) -> None:
        plugin = self.make_plugin(excluded_devices=[self.names[0], 'ens2f0'])

        self.assertEqual(self.names[1:], self.list_names(plugin))
        self.assertEqual([], self.list_names(plugin, f'SRIOV_{OTHER}'))

    def test_an_address_is_kept_however_it_is_written(self) -> None:
        address = self.names[0]
        for text in (address.upper(), address.removeprefix('0000:')):
            with self.subTest(text=text):
                plugin = self.make_plugin(excluded_devices=[text])

                self.assertEqual(self.names[1:], self.list_names(plugin))

    def test_what_is_neither_address_nor_interface_is_refused(self) -> None:
        for text in ('0000:3b:00.g', 'eth*', 'eth0 eth1', ''):
            with self.subTest(text=text):
                error = self.assertRaises(
                    exception.InvalidConfiguration,
                    self.make_plugin,
                    excluded_devices=[text],
                )
                self.assertIn('excluded_devices', str(error))

    def test_a_name_that_no_card_has_is_told_once(self) -> None:
        plugin = self.make_plugin(
            excluded_devices=[self.names[0], 'ens9f9'],
            physical_networks=['ens1f0:physnet1', f'physnet2:{OTHER}'],
        )
        plugin.discover()
        plugin.discover()

        for option, name in (
            ('excluded_devices', 'ens9f9'),
            ('physical_networks', 'physnet1'),
        ):
            said = f'{option} names {name}, but no card'
            self.assertEqual(1, self.log.output.count(said))
        self.assertEqual(2, self.log.output.count('but no card'))

    # -- interfaces that are not there now ------------------------------

    def name_functions(self) -> list[str]:
        """Give all functions of the first card but the last an interface."""
        names = [f'ens1f0v{number}' for number in range(3)]
        for address, name in zip(self.names, names, strict=False):
            self.tree.bind(address, 'ixgbevf')
            self.tree.add_interface(address, name)
        return names

    def take(self, address: str) -> None:
        """Have somebody use a function: its interface is gone."""
        self.tree.bind(address, 'vfio-pci')
        shutil.rmtree(self.tree.find(address) / 'net')

    def assert_told(
        self, plugin: inventory.SriovInventory, option: str, name: str
    ) -> None:
        [problem] = plugin.problems
        self.assertEqual(
            (alarm.RESOURCES_LEFT_OUT, f'{option} {name}'),
            (problem.alarm, problem.subject),
        )
        self.assertEqual(1, self.log.output.count(problem.text))
        self.assertIn(
            f'left out: {option} names {name}, which may be one of these '
            'functions',
            self.log.output,
        )

    def test_what_the_operator_keeps_stays_so_while_it_is_used(self) -> None:
        interfaces = self.name_functions()
        plugin = self.make_plugin(excluded_devices=[interfaces[1]])
        free = [self.names[0], *self.names[2:]]
        self.assertEqual(free, self.list_names(plugin))
        self.assertEqual((), plugin.problems)

        self.take(self.names[1])

        # The last one looks the same, and so do those of the other card.
        for _ in range(2):
            self.assertEqual(
                [self.names[0], self.names[2]], self.list_names(plugin)
            )
        self.assertEqual([], self.list_names(plugin, f'SRIOV_{OTHER}'))
        self.assert_told(
            plugin, '[ext_resources_sriov] excluded_devices', interfaces[1]
        )
        self.assertIn('(4), so servers get none', plugin.problems[0].text)

        # Nobody uses it any more.
        self.tree.add_interface(self.names[1], interfaces[1])
        self.assertEqual(free, self.list_names(plugin))
        self.assertEqual((), plugin.problems)

    def test_an_address_tells_it_from_others(self) -> None:
        self.name_functions()
        plugin = self.make_plugin(excluded_devices=[self.names[1]])
        self.take(self.names[1])

        self.assertNotIn(self.names[1], self.list_names(plugin))
        self.assertEqual(3, len(self.list_names(plugin)))
        self.assertEqual((), plugin.problems)

        # A name and addresses: what has an owner is not in doubt.
        plugin = self.make_plugin(
            excluded_devices=['ens1f0v1', 'ens2f0', self.names[3]]
        )
        self.assertEqual(
            [self.names[0], self.names[2]], self.list_names(plugin)
        )
        self.assertIn(f'any of {self.names[1]}, so', plugin.problems[0].text)

    def test_what_nova_has_stays_so_while_a_guest_uses_it(self) -> None:
        interfaces = self.name_functions()
        self.tree.enable(OTHER, 2, device='0x1515')
        spec = f'{{"devname": "{interfaces[1]}", "product_id": "10ed"}}'
        plugin = self.make_plugin(device_spec=[spec])
        self.take(self.names[1])

        self.assertEqual(
            [self.names[0], self.names[2]], self.list_names(plugin)
        )
        # Those have another product id.
        self.assertEqual(2, len(self.list_names(plugin, f'SRIOV_{OTHER}')))
        self.assert_told(plugin, '[pci] device_spec', interfaces[1])

    def test_the_interface_of_a_card_vanishes(self) -> None:
        self.name_functions()
        for number, address in enumerate(self.tree.enable(OTHER, 2)):
            self.tree.add_interface(address, f'ens2f0v{number}')
        for options in (
            {'excluded_devices': ['ens1f0']},
            {'device_spec': ['{"devname": "ens1f0"}']},
        ):
            with self.subTest(options=options):
                plugin = self.make_plugin(**options)
                self.assertIsNone(self.find(plugin))
                self.take(PF)

                self.assertIsNone(self.find(plugin))
                self.assertIn(', ... (4), so servers', plugin.problems[0].text)
                # That card has its interface, and so have its functions.
                found = self.list_names(plugin, f'SRIOV_{OTHER}')
                self.assertEqual(2, len(found))
                self.tree.add_interface(PF, 'ens1f0')

    def test_the_interface_of_a_card_of_the_agent_vanishes(self) -> None:
        self.agent.write_text(
            '[sriov_nic]\n'
            'physical_device_mappings = physnet1:ens1f0\n'
            f'exclude_devices = ens1f0:{self.names[0]}\n'
        )
        plugin = self.make_plugin()
        self.take(PF)

        self.assertEqual(self.names[:1], self.list_names(plugin))
        self.assertEqual(2, len(self.list_names(plugin, f'SRIOV_{OTHER}')))
        self.assert_told(
            plugin, '[sriov_nic] physical_device_mappings', 'ens1f0'
        )

    def test_a_name_of_another_card_is_not_missed(self) -> None:
        self.tree.make('0000:01:00.0', **{'class': '0x020000'})
        self.tree.add_interface('0000:01:00.0', 'eno1')
        plugin = self.make_plugin(
            excluded_devices=['eno1'], device_spec=['{"devname": "eno1"}']
        )

        self.assertEqual(self.names, self.list_names(plugin))
        self.assertEqual((), plugin.problems)

    def test_what_a_server_holds_is_not_missed(self) -> None:
        self.name_functions()
        self.tree.enable(OTHER, 0)
        self.take(self.names[2])
        self.hold(*self.names[2:])
        plugin = self.make_plugin(excluded_devices=['ens9f9'])

        found = self.find(plugin)

        assert found
        self.assertEqual(self.names, found.units[CLASS]['names'])
        self.assertEqual((), plugin.problems)
        # Once the server has left, no other one gets it without a new look.
        self.assertEqual(self.names[2:], found.units[CLASS]['foreign'])
        self.entries.clear()
        self.assertEqual(self.names[:2], self.list_names(plugin))
        self.assertEqual(1, len(plugin.problems))

    def test_what_is_in_a_bond_is_foreign(self) -> None:
        self.tree.add_interface(self.names[0], 'v0')
        (self.tree.find(self.names[0]) / 'net/v0/master').symlink_to('../x')

        found = self.find(self.make_plugin())

        assert found
        self.assertEqual([self.names[0]], found.units[CLASS]['foreign'])

    def test_what_a_server_holds_stays_although_nova_claims_it(self) -> None:
        self.hold(self.names[0])
        found = self.find(
            self.make_plugin(device_spec=['{"devname": "ens1f0"}'])
        )

        assert found
        self.assertEqual(1, found.inventories[CLASS].total)
        # When the server has left it, no server of ours gets it.
        self.assertEqual(
            {'names': [self.names[0]], 'foreign': [self.names[0]]},
            found.units[CLASS],
        )

    def test_what_is_held_as_another_class_is_not_given_again(self) -> None:
        self.hold(self.names[0], resource_class='CUSTOM_VF')

        self.assertEqual(self.names[1:], self.list_names(self.make_plugin()))

    # -- what changes ---------------------------------------------------

    def test_functions_come_and_go(self) -> None:
        plugin = self.make_plugin()
        for count in (4, 0, 8, 2):
            self.tree.enable(PF, count)
            self.assertEqual(count, len(self.list_names(plugin)))

    def test_the_total_never_falls_below_what_is_held(self) -> None:
        plugin = self.make_plugin()
        self.hold(*self.names[2:])
        self.tree.enable(PF, 1)

        found = self.find(plugin)

        assert found
        self.assertEqual(3, found.inventories[CLASS].total)
        self.assertEqual(self.names[:1], found.units[CLASS]['names'])

    def test_a_card_that_is_unplugged_stays_while_it_is_held(self) -> None:
        plugin = self.make_plugin()
        self.hold(*self.names[2:])
        self.tree.unplug(PF)

        found = self.find(plugin)

        assert found
        self.assertEqual(2, found.inventories[CLASS].total)
        self.assertEqual([], found.units[CLASS]['names'])
        self.assertEqual(frozenset(), plugin.left_out)
        self.entries.clear()
        self.assertIsNone(self.find(plugin))

    def test_a_card_that_fails_loses_all(self) -> None:
        plugin = self.make_plugin()
        self.hold(self.names[0])
        self.tree.kill(PF)

        self.assertEqual([], self.list_names(plugin))
        self.assertIn('does not answer', self.log.output)

    def test_one_that_changes_while_it_is_read_stays_as_it_was(self) -> None:
        plugin = self.make_plugin()
        before = plugin.discover()
        (self.tree.find(PF) / 'virtfn3').unlink()

        self.assertEqual(before, plugin.discover())
        self.assertEqual({KEY}, plugin.left_out)
        self.assertIn('the last known state is still used', self.log.output)

        self.tree.enable(PF, 1)
        self.assertEqual(1, len(self.list_names(plugin)))
        self.assertEqual(frozenset(), plugin.left_out)

    def test_one_that_changes_at_the_start_is_left_out(self) -> None:
        (self.tree.find(PF) / 'virtfn3').unlink()
        plugin = self.make_plugin()

        self.assertIsNone(self.find(plugin))
        self.assertEqual({KEY}, plugin.left_out)

        # What servers hold of it is not taken for lost.
        self.hold(self.names[0])
        found = self.find(plugin)
        assert found
        self.assertTrue(found.is_unread)
        self.assertEqual([self.names[0]], found.units[CLASS]['names'])

    def test_nothing_is_published_of_a_tree_that_vanishes(self) -> None:
        plugin = self.make_plugin()
        self.assertEqual(2, len(plugin.discover()))
        shutil.rmtree(self.tree.bus)
        self.tree.bus.mkdir()

        error = self.assertRaises(exception.DiscoveryFailed, plugin.discover)

        self.assertIn('is empty', str(error))

    def test_a_host_without_cards_has_nothing(self) -> None:
        for one in (PF, OTHER):
            self.tree.unplug(one)

        self.assertEqual((), self.make_plugin().discover())

    def test_a_server_that_comes_while_the_host_is_read(self) -> None:
        plugin = self.make_plugin()
        original = plugin._read

        def read() -> Any:
            found = original()
            self.hold(self.names[0])
            return found

        self.tree.enable(PF, 0)
        with mock.patch.object(plugin, '_read', read):
            found = self.find(plugin)

        assert found
        self.assertEqual(1, found.inventories[CLASS].total)
