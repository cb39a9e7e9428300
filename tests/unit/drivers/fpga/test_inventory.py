# SPDX-License-Identifier: Apache-2.0

"""Tests of the inventory provider ``fpga``."""

import pathlib
import shutil
from typing import Any
from unittest import mock

import fixtures

from nova_ext_resources.conf.drivers import fpga as conf
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.fpga import inventory
from nova_ext_resources.drivers.fpga import sysfs
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from nova_ext_resources.testing import fpga
from tests.unit import builders
from tests.unit.drivers import contract

CLASS = 'FPGA'
CARD = '0000:3b:00.0'
OTHER = '0000:5e:00.0'
VF = '0000:3b:00.1'
NAME = f'{CARD}-port0'
NEXT = f'{CARD}-port1'
BASE = 'soc:base-fpga-region'
PARTS = [f'{BASE}:pr0', f'{BASE}:pr1']


class TestFpgaInventory(contract.InventoryProviderContract):
    name = 'fpga'
    plugin_class = inventory.FpgaInventory

    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.tree = fpga.Sysfs(str(self.folder / 'sys'))
        self.log = self.useFixture(fixtures.FakeLogger())
        self.entries: dict[str, assignment.Entry] = {}
        self.tree.add_card(CARD, ports=2)
        self.tree.add_card(OTHER, device=fpga.D5005, node=1)

    def make_plugin(self, **options: Any) -> inventory.FpgaInventory:
        spec = options.pop('device_spec', ())
        self.conf.register_opts(conf.NOVA_OPTS['pci'], 'pci')
        self.conf.set_override('device_spec', list(spec), 'pci')
        return inventory.FpgaInventory(
            self.make_options(**{'path': str(self.tree.path), **options}),
            'host-1',
            lambda: self.entries,
            nova={'pci': self.conf.pci},
        )

    def break_host(self, plugin: base.InventoryProvider) -> None:
        shutil.rmtree(self.tree.path)

    def hold(self, name: str, **fields: Any) -> None:
        self.entries[name] = builders.make_entry(
            name,
            **{
                'rp_key': f'FPGA_{name}',
                'resource_class': CLASS,
                'amount': 1,
                'units': {'names': [name]},
                **fields,
            },
        )

    def find(
        self, plugin: inventory.FpgaInventory, name: str = NAME
    ) -> host_provider.HostProvider | None:
        found = {one.key: one for one in plugin.discover()}
        return found.get(f'FPGA_{name}')

    def list_names(self, plugin: inventory.FpgaInventory) -> list[str]:
        """Return what may be given to servers, or is held."""
        return sorted(
            name
            for one in plugin.discover()
            for facts in one.units.values()
            for name in set(facts['names']) - set(facts['foreign'])
        )

    # -- what is there --------------------------------------------------

    def test_each_region_is_a_provider(self) -> None:
        first, second, third = self.make_plugin().discover()

        self.assertEqual(
            host_provider.HostProvider(
                key=f'FPGA_{NAME}',
                inventories={CLASS: builders.make_inventory(1)},
                trackers={CLASS: 'device'},
                units={CLASS: {'names': [NAME], 'foreign': []}},
                cpus='0-1',
                traits=frozenset(
                    {
                        'CUSTOM_FPGA_INTEL',
                        'CUSTOM_FPGA_PRODUCT_ID_0B30',
                        f'CUSTOM_FPGA_FUNCTION_ID_INTEL_{fpga.AFU.upper()}',
                        f'CUSTOM_FPGA_REGION_INTEL_{fpga.REGION.upper()}',
                    }
                ),
            ),
            first,
        )
        self.assertEqual(f'FPGA_{NEXT}', second.key)
        self.assertEqual(
            ('2-3', f'FPGA_{OTHER}-port0'), (third.cpus, third.key)
        )
        # How to find them.
        self.assertIn(f'{NEXT} is dfl-port.1 in sysfs', self.log.output)

    def test_what_is_programmed_may_change(self) -> None:
        plugin = self.make_plugin()
        plugin.discover()
        other = 'a' * 32
        self.tree.write(self.tree.find_port(CARD, 1) / 'afu_id', other)

        first, second, _third = plugin.discover()

        own = f'CUSTOM_FPGA_FUNCTION_ID_INTEL_{other.upper()}'
        self.assertNotIn(own, first.traits)
        self.assertIn(own, second.traits)
        self.assertEqual(
            first.traits - second.traits,
            {f'CUSTOM_FPGA_FUNCTION_ID_INTEL_{fpga.AFU.upper()}'},
        )

    def test_the_class_can_be_chosen(self) -> None:
        plugin = self.make_plugin(resource_class='CUSTOM_FPGA_REGION')

        [definition] = plugin.definitions()

        self.assertEqual('CUSTOM_FPGA_REGION', definition.name)
        for one in plugin.discover():
            self.assertEqual(['CUSTOM_FPGA_REGION'], [*one.inventories])

    def test_a_vendor_without_a_name_has_its_id(self) -> None:
        self.tree.unplug(CARD)
        self.tree.add_card(CARD, vendor='0x1ABC', device='0x00FF')

        found = self.find(self.make_plugin())

        assert found
        self.assertLessEqual(
            {
                'CUSTOM_FPGA_1ABC',
                'CUSTOM_FPGA_PRODUCT_ID_00FF',
                f'CUSTOM_FPGA_FUNCTION_ID_1ABC_{fpga.AFU.upper()}',
            },
            found.traits,
        )

    def test_a_region_of_a_device_tree(self) -> None:
        for one in (CARD, OTHER):
            self.tree.unplug(one)
        name = 'soc:base-fpga-region'
        self.tree.add_platform_region(name)
        self.tree.add_manager('Xilinx Zynq FPGA Manager')
        plugin = self.make_plugin()

        found = self.find(plugin, name)

        assert found
        self.assertEqual([name], found.units[CLASS]['names'])
        self.assertEqual(
            {'CUSTOM_FPGA_MANAGER_XILINX_ZYNQ_FPGA_MANAGER'}, found.traits
        )

        # Which of two programs it is not known.
        self.tree.add_manager('Lattice iCE40 FPGA Manager')
        found = self.find(plugin, name)
        assert found
        self.assertEqual(frozenset(), found.traits)

    def test_a_host_without_fpgas_says_so_once(self) -> None:
        for one in (CARD, OTHER):
            self.tree.unplug(one)
        plugin = self.make_plugin()

        self.assertEqual((), plugin.discover())
        self.assertEqual((), plugin.discover())

        self.assertEqual(1, self.log.output.count('no FPGA region found'))

    def test_an_alveo_is_named_with_the_reason(self) -> None:
        self.tree.make_function(VF, vendor=fpga.XILINX, device='0x500c')
        self.tree.bind(VF, 'xclmgmt')

        plugin = self.make_plugin()

        self.assertEqual(3, len(plugin.discover()))
        self.assertIn(
            f'accelerator {VF} (10ee:500c) has no FPGA region: its driver '
            '(xclmgmt)',
            self.log.output,
        )

    # -- what others have -----------------------------------------------

    def test_what_nova_reports_is_left_out(self) -> None:
        plugin = self.make_plugin(
            device_spec=['{"vendor_id": "8086", "product_id": "0b30"}']
        )

        self.assertEqual([f'{OTHER}-port0'], self.list_names(plugin))
        self.assertIn(
            f'{NAME} is left out: Nova allocates {CARD} ([pci] device_spec)',
            self.log.output,
        )

    def test_a_function_that_nova_has_by_its_card(self) -> None:
        self.tree.add_virtual(VF, CARD, 2)
        plugin = self.make_plugin(device_spec=[f'{{"address": "{CARD}"}}'])

        self.assertEqual([f'{OTHER}-port0'], self.list_names(plugin))

    def test_options_that_are_not_valid_are_refused(self) -> None:
        for options, name in (
            ({'device_spec': ['x']}, '[pci] device_spec'),
            ({'excluded_devices': ['a b']}, 'excluded_devices'),
            ({'excluded_devices': ['../x']}, 'excluded_devices'),
            ({'excluded_devices': ['x' * 65]}, 'excluded_devices'),
        ):
            with self.subTest(options=options):
                error = self.assertRaises(
                    exception.InvalidConfiguration, self.make_plugin, **options
                )
                self.assertIn(name, str(error))

    def test_what_the_operator_keeps_is_left_out(self) -> None:
        for names, left in (
            ([NAME], [NEXT, f'{OTHER}-port0']),
            (['3B:00.0'], [f'{OTHER}-port0']),
            (['0000:3B:00.0-port0'], [NEXT, f'{OTHER}-port0']),
            ([CARD, OTHER], []),
        ):
            with self.subTest(names=names):
                plugin = self.make_plugin(excluded_devices=names)
                self.assertEqual(left, self.list_names(plugin))
        self.assertNotIn('no FPGA of this host', self.log.output)

    def test_a_name_that_no_card_has_is_told_once(self) -> None:
        plugin = self.make_plugin(excluded_devices=[f'{CARD}-port7'])
        plugin.discover()
        plugin.discover()

        said = f'excluded_devices names {CARD}-port7, but no FPGA'
        self.assertEqual(1, self.log.output.count(said))

    def test_released_ports_are_told(self) -> None:
        self.tree.release_port(CARD, 1)
        plugin = self.make_plugin()

        self.assertNotIn(NEXT, self.list_names(plugin))
        self.assertIn(f'1 more ports of {CARD}', self.log.output)

    def test_what_a_server_holds_stays_although_nova_claims_it(self) -> None:
        self.hold(NAME)
        found = self.find(
            self.make_plugin(device_spec=[f'{{"address": "{CARD}"}}'])
        )

        assert found
        # When the server has left it, no server of ours gets it.
        self.assertEqual(
            {'names': [NAME], 'foreign': [NAME]}, found.units[CLASS]
        )

    def test_what_is_held_as_another_class_is_not_given_again(self) -> None:
        self.hold(NAME, resource_class='CUSTOM_FPGA_REGION')

        self.assertNotIn(NAME, self.list_names(self.make_plugin()))

    # -- regions within others ------------------------------------------

    def add_parts(self) -> list[str]:
        """Apply an overlay that divides a region; return its parts."""
        for name in PARTS:
            self.tree.add_platform_region(name, BASE)
        return PARTS

    def test_parts_of_a_region_that_is_held_are_not_free(self) -> None:
        self.tree.add_platform_region(BASE)
        plugin = self.make_plugin()
        self.assertIn(BASE, self.list_names(plugin))
        self.hold(BASE)
        self.add_parts()

        for one in (BASE, *PARTS):
            found = self.find(plugin, one)
            assert found
            # The server has not lost it.
            self.assertEqual(
                {'names': [one], 'foreign': [one]}, found.units[CLASS]
            )

        self.entries.clear()
        self.assertLessEqual(set(PARTS), {*self.list_names(plugin)})
        self.assertIsNone(self.find(plugin, BASE))

    def test_a_region_of_which_a_part_is_held_is_not_free(self) -> None:
        for is_known, part in ((True, 'ff20.pr'), (False, PARTS[0])):
            with self.subTest(is_known=is_known):
                self.entries.clear()
                folder = self.tree.add_platform_region(BASE)
                self.hold(part)
                plugin = self.make_plugin()
                if is_known:
                    inner = self.tree.add_platform_region(part, BASE)
                    self.assertIn(part, self.list_names(plugin))
                    self.tree.remove_region(inner)
                    shutil.rmtree(inner.parent.parent)

                self.assertNotIn(BASE, self.list_names(plugin))

                self.entries.clear()
                self.assertIn(BASE, self.list_names(plugin))
                self.tree.remove_region(folder)

    def test_a_part_of_a_part_is_not_free_either(self) -> None:
        self.tree.add_platform_region(BASE)
        self.add_parts()
        inner = f'{PARTS[0]}:x'
        self.tree.add_platform_region(inner, PARTS[0])
        self.hold(BASE, resource_class='CUSTOM_FPGA_REGION')

        free = self.list_names(self.make_plugin())

        self.assertFalse({inner, *PARTS} & {*free})

    def test_parts_of_a_region_that_the_operator_keeps(self) -> None:
        self.tree.add_platform_region(BASE)
        self.add_parts()

        free = self.list_names(self.make_plugin(excluded_devices=[BASE]))

        self.assertEqual([NAME, NEXT, f'{OTHER}-port0'], free)
        self.assertNotIn('no FPGA of this host', self.log.output)

    # -- what changes ---------------------------------------------------

    def test_cards_come_and_go(self) -> None:
        plugin = self.make_plugin()
        self.assertEqual(3, len(self.list_names(plugin)))
        self.tree.unplug(CARD)
        self.assertEqual(1, len(self.list_names(plugin)))
        self.tree.add_card(CARD)
        self.assertEqual([NAME, f'{OTHER}-port0'], self.list_names(plugin))

    def test_a_region_that_is_gone_stays_while_it_is_held(self) -> None:
        plugin = self.make_plugin()
        plugin.discover()
        self.hold(NAME)
        self.tree.unplug(CARD)

        found = self.find(plugin)

        assert found
        self.assertEqual(1, found.inventories[CLASS].total)
        self.assertEqual([], found.units[CLASS]['names'])
        self.assertTrue(found.is_unread)
        self.assertEqual(frozenset(), plugin.left_out)
        self.entries.clear()
        self.assertIsNone(self.find(plugin))

    def test_a_region_in_a_guest_is_not_lost(self) -> None:
        self.tree.add_function(VF)
        plugin = self.make_plugin()
        self.assertIn(VF, self.list_names(plugin))
        self.hold(VF)

        self.tree.pass_on(VF)

        for one in (plugin, self.make_plugin()):
            made = self.find(one, VF)
            assert made is not None
            self.assertEqual([VF], made.units[CLASS]['names'])

        # Nor is it offered to others when no server has it.
        self.entries.clear()
        self.assertIsNone(self.find(plugin, VF))

    def test_a_function_that_dies_in_a_guest_is_lost(self) -> None:
        self.tree.add_function(VF)
        plugin = self.make_plugin()
        self.hold(VF)
        self.tree.pass_on(VF)

        self.tree.kill(VF)

        made = self.find(plugin, VF)
        assert made is not None
        self.assertEqual([], made.units[CLASS]['names'])

    def test_a_port_keeps_its_name_below_a_virtual_function(self) -> None:
        plugin = self.make_plugin()
        before = self.list_names(plugin)
        self.hold(NEXT)
        self.tree.release_port(CARD, 1)
        self.tree.add_virtual(VF, CARD, 1)

        self.assertEqual(before, self.list_names(plugin))
        self.assertEqual(frozenset(), plugin.left_out)

    def test_a_port_that_moves_while_it_is_read(self) -> None:
        plugin = self.make_plugin()
        before = plugin.discover()
        self.tree.add_virtual(VF, CARD, 1)

        self.assertEqual(before, plugin.discover())
        self.assertEqual({f'FPGA_{CARD}', f'FPGA_{VF}'}, plugin.left_out)

    def test_a_port_of_a_function_that_cannot_be_read_at_the_start(
        self,
    ) -> None:
        self.tree.release_port(CARD, 1)
        self.tree.add_virtual(VF, CARD, 1)
        self.tree.write(self.tree.find_port(VF, 1) / 'afu_id', 'x')
        self.hold(NEXT)

        found = self.find(self.make_plugin(), NEXT)

        assert found
        self.assertEqual([NEXT], found.units[CLASS]['names'])

    def test_a_card_that_fails_loses_all(self) -> None:
        plugin = self.make_plugin()
        self.hold(NAME)
        self.tree.kill(CARD)

        self.assertEqual([f'{OTHER}-port0'], self.list_names(plugin))
        self.assertIn(f'{CARD} does not answer', self.log.output)

    def test_one_that_changes_while_it_is_read_stays_as_it_was(self) -> None:
        plugin = self.make_plugin()
        before = plugin.discover()
        port = self.tree.find_port(CARD, 0)
        self.tree.write(port / 'afu_id', 'x')

        self.assertEqual(before, plugin.discover())
        self.assertEqual({f'FPGA_{CARD}'}, plugin.left_out)
        self.assertIn('the last known state is still used', self.log.output)

        self.tree.write(port / 'afu_id', fpga.AFU)
        self.assertEqual(before, plugin.discover())
        self.assertEqual(frozenset(), plugin.left_out)

    def test_one_that_changes_at_the_start_is_left_out(self) -> None:
        self.tree.write(self.tree.find_port(CARD, 0) / 'afu_id', 'x')
        plugin = self.make_plugin()

        self.assertIsNone(self.find(plugin))
        self.assertEqual({f'FPGA_{CARD}'}, plugin.left_out)

        # What a server holds of it is not taken for lost.
        self.hold(NEXT)
        found = self.find(plugin, NEXT)
        assert found
        self.assertEqual([NEXT], found.units[CLASS]['names'])
        # Nor is it known what is in it.
        self.assertEqual({f'FPGA_{CARD}', f'FPGA_{NEXT}'}, plugin.left_out)

    def test_hostile_names_are_left_out_and_shown_in_ascii(self) -> None:
        (self.tree.regions / 'a\nb\x1b[31m').mkdir()
        self.tree.add_platform_region('x' * 200)
        plugin = self.make_plugin()

        self.assertEqual(3, len(self.list_names(plugin)))
        self.assertEqual(2, len(plugin.left_out))
        self.assertNotIn('\x1b', self.log.output)

    def test_a_manager_that_failed_is_told(self) -> None:
        self.tree.add_manager('Altera SOCFPGA FPGA Manager', 'write error')
        self.make_plugin().discover()

        self.assertIn('its state is "write error"', self.log.output)

    def test_a_server_that_comes_while_the_host_is_read(self) -> None:
        plugin = self.make_plugin()
        original = plugin._read

        def read() -> sysfs.FpgaScan:
            found = original()
            self.hold(NAME)
            return found

        self.tree.unplug(CARD)
        with mock.patch.object(plugin, '_read', read):
            found = self.find(plugin)

        assert found
        self.assertEqual(1, found.inventories[CLASS].total)
