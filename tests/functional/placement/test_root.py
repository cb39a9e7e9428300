# SPDX-License-Identifier: Apache-2.0

"""What is published while a class comes to the compute node, or leaves it."""

from collections.abc import Collection
import dataclasses

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import retry
from nova_ext_resources.placement.publish import tree_writer
from nova_ext_resources.testing import fake_clock
from tests.functional.placement import hosts
from tests.functional.placement import test_tree

TOTAL = 22


class MovingTest(test_tree.TreeTestCase):
    """Each provider below has the half of it."""

    def setUp(self) -> None:
        super().setUp()
        self.publish(*hosts.make_host())

    def make_writer(self) -> tree_writer.TreeWriter:
        client = placement_client.Client(self.make_adapter())
        return tree_writer.TreeWriter(
            client, clock=fake_clock.FakeClock(), closes_doubles=True
        )

    def reshape(self, root: bool, below: Collection[str]) -> None:
        """Have the compute node offer all, or only these providers."""
        inventories = {}
        for one in self.client.list_providers(in_tree=hosts.NODE.uuid):
            own = dict(self.client.list_inventories(one.rp_uuid))
            own.pop(hosts.WAYS, None)
            if one.rp_uuid == hosts.NODE.uuid and root:
                own[hosts.WAYS] = class_inventory.Inventory(total=TOTAL)
            if one.rp_uuid in below:
                own[hosts.WAYS] = class_inventory.Inventory(total=TOTAL // 2)
            inventories[one.rp_uuid] = one.generation or 0, own
        self.client.reshape(inventories)

    def move_back(self) -> None:
        retry.call(self.reshape, True, ())

    def move_below(self) -> None:
        retry.call(self.reshape, False, {hosts.L3_0, hosts.L3_1})

    def read_offers(self) -> dict[str, int]:
        """Return what can be allocated, by the providers' names."""
        return {
            one.name: ways.capacity
            for one in self.read_tree().values()
            if (ways := one.inventories.get(hosts.WAYS)) and ways.capacity
        }

    def count(self, method: str) -> int:
        return sum(one.startswith(method) for one in self.app.requests)

    def test_what_is_moved_back_is_closed_below_at_once(self) -> None:
        self.move_back()

        published = self.publish(*hosts.make_host())

        self.assertEqual((), published.errors)
        self.assertEqual({'host1': TOTAL}, self.read_offers())
        # It was known already, so nothing is read that has not changed.
        self.publish(*hosts.make_host())
        self.assertEqual({'host1': TOTAL}, self.read_offers())

    def test_what_comes_beside_is_closed_below_at_once(self) -> None:
        """As a file of Nova's does when only its nova-compute starts."""
        root = self.client.read_provider(
            self.client.get_provider(hosts.NODE.uuid)
        )
        self.client.set_inventories(
            root.rp_uuid,
            {
                **root.inventories,
                hosts.WAYS: class_inventory.Inventory(total=TOTAL),
            },
            root.generation or 0,
        )

        self.publish(*hosts.make_host())

        self.assertEqual({'host1': TOTAL}, self.read_offers())

    def test_nothing_changed_is_one_request(self) -> None:
        self.publish(*hosts.make_host())

        self.assertEqual(1, len(self.app.requests))

    def test_what_is_moved_back_meanwhile_is_not_opened_again(self) -> None:
        for name in ('inventories', 'traits'):
            with self.subTest(name):
                self.move_below()
                self.publish(*hosts.make_host())
                self.app.before_next(
                    'PUT', f'{hosts.L3_0}/{name}', self.move_back
                )
                changed = [
                    dataclasses.replace(
                        one,
                        traits=one.traits | {f'CUSTOM_{name.upper()}'},
                    )
                    for one in hosts.make_host(ways=9)
                ]

                self.assert_planned_anew(*changed)

                self.assertEqual({'host1': TOTAL}, self.read_offers())

    def test_what_is_moved_below_meanwhile_is_not_closed_again(self) -> None:
        self.move_back()
        self.publish(*hosts.make_host())
        self.app.before_next(
            'PUT', f'{hosts.L3_0}/inventories', self.move_below
        )

        self.assert_planned_anew(*hosts.make_host(ways=9))

        self.assertEqual(
            {'host1_L3_0': 9, 'host1_L3_1': 9}, self.read_offers()
        )

    def assert_planned_anew(self, *wanted: host_provider.Provider) -> None:
        """Each publication leaves each unit offered once, the second all."""
        published = self.publish(*wanted)
        self.assertNotEqual((), published.errors)
        for error in published.errors:
            self.assertIsInstance(error, exception.PlacementRefused)
            self.assertIn(hosts.WAYS, str(error))
        self.assertLessEqual(sum(self.read_offers().values()), TOTAL)
        self.assertNotEqual({}, self.read_offers())
        self.assertEqual((), self.publish(*wanted).errors)
        self.assertEqual(0, self.publish(*wanted).written)
