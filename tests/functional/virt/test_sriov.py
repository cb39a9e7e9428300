# SPDX-License-Identifier: Apache-2.0

"""Virtual functions on real Nova services, and what Nova takes of them."""

from typing import Any

import fixtures
from nova.pci import whitelist

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import bitmask
from nova_ext_resources.testing import sriov
from tests import base as unit_base
from tests.functional.virt import devices
from tests.unit.drivers.devices import test_device_spec

CLASS = devices.VF
PF = devices.PF
OTHER = '0000:5e:00.0'
COUNT = devices.COUNT


class SriovTestCase(devices.CardsTestCase, devices.DevicesTestCase):
    """What is counted, and who has it."""

    def find_inventory(self, host: str) -> tuple[int, int]:
        """Return total and reserved of a host's card, as placement has it."""
        [rp_uuid] = [one for one, name in self.find_host(host).view.tracked]
        found = self._get_provider_inventory(rp_uuid)[CLASS]
        return found['total'], found['reserved']


class SriovTest(SriovTestCase):
    def test_servers_get_functions_until_all_are_gone(self) -> None:
        flavor = self.make_vf_flavor()

        servers = [self.boot(flavor) for _ in range(2 * COUNT)]

        self.assertEqual(
            [(host, one) for host, all_ in self.names.items() for one in all_],
            self.list_held(),
        )
        refused = self.boot(flavor, state='ERROR')
        self.assertEqual(2 * COUNT, len(self.list_held()))
        self._delete_server(refused)

        self._delete_server(servers[0])
        self.assertEqual(2 * COUNT - 1, len(self.list_held()))
        self.boot(flavor)
        self.assertEqual(2 * COUNT, len(set(self.list_held())))

    def test_placement_has_what_servers_hold(self) -> None:
        server = self.boot(self.make_vf_flavor(2))

        self.host = self.find_host(server['OS-EXT-SRV-ATTR:host'])
        self.assert_allocated_as_held(server)

    def test_another_network_has_none(self) -> None:
        flavor = self.make_flavor(
            **{
                f'resources_VF__{CLASS}': 1,
                'trait_VF__HW_NIC_OFFLOAD_SWITCHDEV': 'required',
            }
        )

        self.boot(flavor, state='ERROR')

        self.assertEqual([], self.list_held())

    def test_a_function_that_vanishes_while_it_is_held(self) -> None:
        server = self.boot(self.make_vf_flavor())
        host = server['OS-EXT-SRV-ATTR:host']
        [(_host, name)] = self.list_held()
        tree = self.trees[host]

        # Its card is unplugged.
        tree.unplug(PF)
        self.publish_all()

        self.assertIn((alarm.UNIT_LOST, server['id']), self.list_alarms(host))
        # Placement has the allocation, and offers nothing.
        self.assertEqual((1, 0), self.find_inventory(host))

        # The card comes back; what was lost is given to no server.
        tree.add_card(PF, interfaces=['ens1f0'])
        tree.enable(PF, COUNT)
        self.publish_all()
        self._delete_server(server)
        self.publish_all()

        subject = f'SRIOV_{PF} {CLASS} {name}'
        self.assertIn((alarm.UNIT_WITHHELD, subject), self.list_alarms(host))
        self.assertEqual((COUNT, 1), self.find_inventory(host))
        flavor = self.make_vf_flavor()
        for _ in range(2 * COUNT - 1):
            self.boot(flavor)
        self.assertNotIn((host, name), self.list_held())
        refused = self.boot(flavor, state='ERROR')
        self._delete_server(refused)

        # Until an operator has looked at it.
        [file] = self.folder.rglob('*.withheld/*')
        file.unlink()
        self.publish_all()
        self.assertNotIn(alarm.UNIT_WITHHELD, dict(self.list_alarms(host)))
        self.boot(flavor)
        self.assertIn((host, name), self.list_held())

    def test_more_functions_are_offered_at_run_time(self) -> None:
        self.boot(self.make_vf_flavor(COUNT + 1), state='ERROR')

        self.trees['host2'].enable(PF, COUNT + 1)
        self.publish_all()

        server = self.boot(self.make_vf_flavor(COUNT + 1))
        self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])


class AffinityTest(SriovTestCase):
    """A host with a card at each NUMA node; Nova fills the first node."""

    HOSTS = ('host1',)

    def setUp(self) -> None:
        super().setUp()
        self.host = self.find_host('host1')

    def plug_in(self, tree: sriov.Sysfs) -> list[str]:
        tree.add_card(OTHER, interfaces=['ens2f0'], node=1)
        return [*super().plug_in(tree), *tree.enable(OTHER, COUNT)]

    def make_near_flavor(self, affinity: str, **specs: Any) -> str:
        given = {
            'hw__cpu_policy': 'dedicated',
            f'resource__{CLASS}__numa_affinity': affinity,
            **specs,
        }
        return self.make_vf_flavor(**given)

    def is_near(self, server: Any) -> bool:
        """Return whether a server has CPUs at the node of its function."""
        entry = self.host.find_entry(server['id'])
        [held] = entry.assignments
        tracked = self.host.view.tracked[held.rp_uuid, CLASS]
        self.host = self.find_host('host1')
        self.assert_allocated_as_held(server)
        return bool(entry.cpus & bitmask.parse_list(tracked.near))

    def test_all_functions_go_to_servers_at_their_nodes(self) -> None:
        for affinity in ('required', 'preferred'):
            flavor = self.make_near_flavor(affinity)

            servers = [self.boot(flavor) for _ in range(2 * COUNT)]

            for one in servers:
                self.assertTrue(self.is_near(one))
            self._delete_server(self.boot(flavor, state='ERROR'))
            for one in servers:
                self._delete_server(one)

    def test_a_server_that_floats_is_refused(self) -> None:
        flavor = self.make_near_flavor('required', hw__cpu_policy='shared')

        self.boot(flavor, state='ERROR')

        self.assertEqual([], self.list_held())

    def test_nova_chooses_cpus_at_the_node_of_the_only_card(self) -> None:
        # That is the second one.
        self.trees['host1'].enable(PF, 0)
        self.publish_all()
        flavor = self.make_near_flavor('required')

        server = self.boot(flavor)

        self.assertTrue(self.is_near(server))


class DeviceSpecTest(unit_base.TestCase):
    """This package and Nova read ``[pci] device_spec`` in the same way."""

    def setUp(self) -> None:
        super().setUp()
        one, card = test_device_spec.VF, test_device_spec.CARD
        interfaces = {
            **dict.fromkeys(one.interfaces, (one.address, False)),
            **dict.fromkeys(card.interfaces, (card.address, True)),
        }
        # Nova looks into sysfs itself.
        for name, answer in (
            (
                'is_physical_function',
                lambda *fields: '{}:{}:{}.{}'.format(*fields) == card.address,
            ),
            (
                'get_function_by_ifname',
                lambda ifname: interfaces.get(ifname, (None, False)),
            ),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'nova.pci.utils.{name}', answer)
            )

    def test_nova_takes_what_is_left_out(self) -> None:
        one, card = test_device_spec.VF, test_device_spec.CARD
        device = {
            'address': one.address,
            'parent_addr': card.address,
            'vendor_id': one.vendor_id,
            'product_id': one.product_id,
        }
        for text, expected in test_device_spec.CASES.items():
            with self.subTest(text=text):
                specs = whitelist.Whitelist([text])

                found = specs.device_assignable(device)

                self.assertEqual(expected, found is not None)
