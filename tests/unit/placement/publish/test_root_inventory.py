# SPDX-License-Identifier: Apache-2.0

"""Tests of when a compute node is read again."""

from collections.abc import Mapping
import dataclasses

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import retry
from nova_ext_resources.placement.publish import root_inventory
from nova_ext_resources.testing import fake_clock
from tests import base
from tests.unit import builders
from tests.unit.placement import worlds

NODE = host_provider.Node(uuid=worlds.ROOT, hypervisor_hostname='host1')

WAYS = builders.WAYS


class Placement(placement_client.Client):
    """Counts what it is asked."""

    def __init__(self) -> None:
        self.classes: set[str] = set()
        self.count = 0

    def list_inventories(
        self, rp_uuid: str
    ) -> Mapping[str, class_inventory.Inventory]:
        self.count += 1
        return {name: builders.make_inventory() for name in self.classes}


class RootClassesTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.placement = Placement()
        self.root = root_inventory.RootClasses(
            self.placement, retry.make_strategy(fake_clock.FakeClock())
        )
        self.generation = 0

    def read(self, *wanted: str) -> frozenset[str]:
        listed = host_provider.Provider(
            rp_uuid=worlds.ROOT, name='host1', generation=self.generation
        )
        return self.root.read(NODE, [listed], wanted or [WAYS])

    def test_it_is_read_once(self) -> None:
        self.placement.classes = {'VCPU', 'CUSTOM_OTHER'}

        for _ in range(3):
            self.assertEqual(frozenset(), self.read())

        self.assertEqual(1, self.placement.count)

    def test_what_is_wanted_later_is_known(self) -> None:
        self.placement.classes = {WAYS}
        self.read('CUSTOM_OTHER')

        self.assertEqual({WAYS}, self.read())

        self.assertEqual(1, self.placement.count)

    def test_it_is_not_read_where_nothing_is_wanted(self) -> None:
        self.root.read(NODE, [worlds.make_root()], [])

        self.assertEqual(0, self.placement.count)

    def test_it_is_read_while_it_has_something(self) -> None:
        self.placement.classes = {WAYS}
        self.assertEqual({WAYS}, self.read())
        self.assertEqual({WAYS}, self.read())
        self.assertEqual(1, self.placement.count)
        self.generation += 1
        self.assertEqual({WAYS}, self.read())
        self.placement.classes = set()
        self.generation += 1

        self.assertEqual(frozenset(), self.read())

        self.assertEqual(3, self.placement.count)

    def test_what_comes_is_seen_at_once(self) -> None:
        """Where it is moved back, and where only Nova starts again."""
        self.read()
        self.placement.classes = {WAYS}
        self.generation += 1

        self.assertEqual({WAYS}, self.read())

    def test_another_compute_node_is_read(self) -> None:
        self.read()
        self.placement.classes = {WAYS}
        node = dataclasses.replace(NODE, uuid=uuids.other)
        listed = host_provider.Provider(
            rp_uuid=uuids.other, name='host1', generation=self.generation
        )

        self.assertEqual({WAYS}, self.root.read(node, [listed], [WAYS]))

    def test_classes_of_nova_are_its_own(self) -> None:
        self.placement.classes = {'VCPU'}

        self.assertEqual(frozenset(), self.read('VCPU'))
