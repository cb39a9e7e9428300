# SPDX-License-Identifier: Apache-2.0

"""Regions of FPGAs on real Nova services."""

from typing import Any

from nova_ext_resources.objects import alarm
from nova_ext_resources.testing import fpga
from tests.functional.virt import devices

CLASS = 'FPGA'
CARD = '0000:3b:00.0'

#: What is programmed into the second region.
OTHER_AFU = '331db30c988541ea9081f88b8f655caa'


def make_function_trait(afu: str) -> str:
    return f'CUSTOM_FPGA_FUNCTION_ID_INTEL_{afu.upper()}'


class FpgaTest(devices.DevicesTestCase):
    """A host with a card of two regions, in which different things are."""

    plugins = 'fpga'
    HOSTS = ('host1',)

    def start_host(self, host: str, **settings: Any) -> Any:
        self.tree = fpga.Sysfs(str(self.folder / host / 'sys'), devices.NODES)
        self.plug_in()
        self.host_options = f'[ext_resources_fpga]\npath = {self.tree.path}\n'
        return super().start_host(host, **settings)

    def plug_in(self) -> None:
        self.tree.add_card(CARD, ports=2)
        self.program(1, OTHER_AFU)

    def program(self, port: int, afu: str) -> None:
        self.tree.write(self.tree.find_port(CARD, port) / 'afu_id', afu)

    def make_region_flavor(
        self, trait: str = 'CUSTOM_FPGA_INTEL', **specs: Any
    ) -> str:
        return self.make_flavor(
            **{
                f'resources_FPGA__{CLASS}': 1,
                f'trait_FPGA__{trait}': 'required',
                **specs,
            }
        )

    def list_names(self) -> list[str]:
        return [name for _host, name in self.list_held()]

    def test_each_server_has_a_region_of_its_own(self) -> None:
        flavor = self.make_region_flavor()

        server = self.boot(flavor)
        self.host = self.find_host('host1')
        self.assert_allocated_as_held(server)
        self.boot(flavor)

        self.assertEqual([f'{CARD}-port0', f'{CARD}-port1'], self.list_names())
        self.boot(flavor, state='ERROR')
        self._delete_server(server)
        self.boot(flavor)
        self.assertEqual(2, len(set(self.list_names())))

    def test_a_server_has_the_function_that_it_requests(self) -> None:
        flavor = self.make_region_flavor(make_function_trait(OTHER_AFU))

        server = self.boot(flavor)

        self.assertEqual([f'{CARD}-port1'], self.list_names())
        refused = self.boot(flavor, state='ERROR')
        self._delete_server(refused)

        # The region of the other port gets that function, too.
        self.program(0, OTHER_AFU)
        self.publish_all()
        self.boot(flavor)
        self.assertEqual([f'{CARD}-port0', f'{CARD}-port1'], self.list_names())

        # What a server holds may be programmed anew. It stays its own.
        self.program(1, fpga.AFU)
        self.publish_all()
        self.host = self.find_host('host1')
        self.assert_allocated_as_held(server)
        self.assertEqual([], self.list_alarms('host1'))

    def test_a_server_at_the_node_of_its_region(self) -> None:
        self.tree.unplug(CARD)
        self.tree.add_card(CARD, node=1)
        self.publish_all()
        flavor = self.make_region_flavor(
            hw__cpu_policy='dedicated',
            **{f'resource__{CLASS}__numa_affinity': 'required'},
        )

        server = self.boot(flavor)

        entry = self.find_host('host1').find_entry(server['id'])
        self.assertLessEqual(entry.cpus, {*devices.NODES[1]})

    def test_a_card_that_vanishes_while_a_region_is_held(self) -> None:
        flavor = self.make_region_flavor(make_function_trait(fpga.AFU))
        server = self.boot(flavor)
        name = f'{CARD}-port0'
        self.assertEqual([name], self.list_names())

        self.tree.unplug(CARD)
        self.publish_all()

        self.assertIn(
            (alarm.UNIT_LOST, server['id']), self.list_alarms('host1')
        )
        refused = self.boot(self.make_region_flavor(), state='ERROR')
        self._delete_server(refused)

        # It comes back; the lost region is given to no server.
        self.plug_in()
        self.publish_all()
        self._delete_server(server)
        self.publish_all()
        subject = f'FPGA_{name} {CLASS} {name}'
        self.assertEqual(
            [(alarm.UNIT_WITHHELD, subject)], self.list_alarms('host1')
        )
        refused = self.boot(flavor, state='ERROR')
        self._delete_server(refused)
        self.boot(self.make_region_flavor())
        self.assertEqual([f'{CARD}-port1'], self.list_names())

        # Until an operator has looked at it.
        [file] = self.folder.rglob('*.withheld/*')
        file.unlink()
        self.publish_all()
        self.assertEqual([], self.list_alarms('host1'))
        self.boot(flavor)
        self.assertIn(name, self.list_names())

    def test_a_card_that_dies_while_a_region_is_held(self) -> None:
        server = self.boot(self.make_region_flavor())

        self.tree.kill(CARD)
        self.publish_all()

        self.assertIn(
            (alarm.UNIT_LOST, server['id']), self.list_alarms('host1')
        )
        self.boot(self.make_region_flavor(), state='ERROR')

    def test_a_host_whose_cards_are_out_has_no_provider_of_them(self) -> None:
        self.tree.unplug(CARD)
        self.publish_all()

        self.assertEqual({}, dict(self.find_host('host1').view.tracked))
        self.boot(self.make_region_flavor(), state='ERROR')
