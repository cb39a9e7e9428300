# SPDX-License-Identifier: Apache-2.0


"""The client against real placement."""

import dataclasses

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import responses
from tests.functional import base
from tests.functional.placement import hosts

WAYS = 'CUSTOM_LLC_WAYS'


class ClientTest(base.PlacementTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.make_root(uuids.root, 'host1')

    def make_child(self, total: int = 8) -> host_provider.Provider:
        child = self.client.ensure_provider(
            uuids.l3_0, 'host1_L3_0', uuids.root
        )
        self.client.ensure_resource_class(WAYS)
        generation = self.client.set_inventories(
            uuids.l3_0,
            {WAYS: class_inventory.Inventory(total=total)},
            child.generation or 0,
        )
        return dataclasses.replace(child, generation=generation)

    def allocate(self, amount: int = 2) -> responses.Allocations:
        allocations = responses.Allocations(
            consumer_uuid=uuids.server,
            resources={uuids.l3_0: {WAYS: amount}},
            project_id=uuids.project,
            user_id=uuids.user,
        )
        self.client.put_allocations(allocations)
        return self.client.get_allocations(uuids.server)

    def test_what_was_written_is_read_back(self) -> None:
        child = self.make_child()
        self.client.ensure_trait(host_provider.OWNER_TRAIT)
        generation = self.client.set_traits(
            uuids.l3_0, [host_provider.OWNER_TRAIT], child.generation or 0
        )
        generation = self.client.set_aggregates(
            uuids.l3_0, [uuids.agg], generation
        )

        tree = hosts.read_tree(self.client, uuids.root)

        self.assertEqual(
            host_provider.Provider(
                rp_uuid=uuids.l3_0,
                name='host1_L3_0',
                parent_uuid=uuids.root,
                inventories={WAYS: class_inventory.Inventory(total=8)},
                traits=frozenset({host_provider.OWNER_TRAIT}),
                aggregates=frozenset({uuids.agg}),
                generation=generation,
            ),
            tree[uuids.l3_0],
        )
        self.assertEqual(
            host_provider.Provider(
                rp_uuid=uuids.root, name='host1', generation=0
            ),
            tree[uuids.root],
        )

    def test_a_tree_that_does_not_exist_is_empty(self) -> None:
        self.assertEqual((), self.client.list_providers(in_tree=uuids.none))

    def test_listing_by_trait_gives_those_that_have_it(self) -> None:
        child = self.make_child()
        self.client.ensure_trait('CUSTOM_X')
        self.client.set_traits(uuids.l3_0, ['CUSTOM_X'], child.generation or 0)

        listed = self.client.list_providers(
            in_tree=uuids.root, required='CUSTOM_X'
        )

        self.assertEqual([uuids.l3_0], [p.rp_uuid for p in listed])

    def test_ensuring_a_provider_twice_gives_it_as_it_is(self) -> None:
        self.make_child()

        again = self.client.ensure_provider(
            uuids.l3_0, 'host1_L3_0', uuids.root
        )

        self.assertEqual(
            {WAYS: class_inventory.Inventory(total=8)}, again.inventories
        )

    def test_a_name_of_another_provider_is_refused(self) -> None:
        self.make_child()

        self.assertRaises(
            exception.DuplicateName,
            self.client.ensure_provider,
            uuids.other,
            'host1_L3_0',
            uuids.root,
        )

    def test_a_parent_that_does_not_exist_is_refused(self) -> None:
        self.assertRaises(
            exception.PlacementRefused,
            self.client.ensure_provider,
            uuids.other,
            'name',
            uuids.none,
        )

    def test_a_passed_generation_is_a_concurrent_update(self) -> None:
        child = self.make_child()
        stale = (child.generation or 0) - 1

        for call in (
            lambda: self.client.set_inventories(uuids.l3_0, {}, stale),
            lambda: self.client.set_traits(uuids.l3_0, [], stale),
            lambda: self.client.set_aggregates(uuids.l3_0, [], stale),
        ):
            error = self.assertRaises(exception.ConcurrentUpdate, call)
            self.assertEqual(409, error.status)
            self.assertTrue(error.request_id)

    def test_a_held_inventory_cannot_be_removed(self) -> None:
        self.make_child()
        self.allocate()
        generation = self.client.get_provider(uuids.l3_0).generation or 0

        self.assertRaises(
            exception.InventoryInUse,
            self.client.set_inventories,
            uuids.l3_0,
            {},
            generation,
        )

    def test_held_and_parent_providers_cannot_be_deleted(self) -> None:
        self.make_child()
        self.allocate()

        for rp_uuid in (uuids.l3_0, uuids.root):
            self.assertRaises(
                exception.ProviderInUse, self.client.delete_provider, rp_uuid
            )

    def test_deleting_twice_is_deleting_once(self) -> None:
        self.make_child()

        self.client.delete_provider(uuids.l3_0)
        self.client.delete_provider(uuids.l3_0)

        self.assertRaises(
            exception.NotFound, self.client.get_provider, uuids.l3_0
        )

    def test_a_provider_is_renamed_and_moved(self) -> None:
        self.make_child()
        self.client.ensure_provider(uuids.rdt, 'host1_RDT', uuids.root)

        moved = self.client.update_provider(uuids.l3_0, 'new', uuids.rdt)

        self.assertEqual(('new', uuids.rdt), (moved.name, moved.parent_uuid))

    def test_traits_and_classes_are_made_once_or_more(self) -> None:
        self.assertFalse(self.client.has_trait('CUSTOM_X'))

        for _ in range(2):
            self.client.ensure_trait('CUSTOM_X')
            self.client.ensure_resource_class('CUSTOM_X')

        self.assertTrue(self.client.has_trait('CUSTOM_X'))

    def test_holders_are_named_by_class(self) -> None:
        self.make_child()
        self.assertEqual({}, self.client.list_holders(uuids.l3_0))

        self.allocate()

        self.assertEqual(
            {WAYS: {uuids.server: 2}}, self.client.list_holders(uuids.l3_0)
        )

    def test_allocations_are_read_with_their_generation(self) -> None:
        self.make_child()
        self.assertEqual(
            responses.Allocations(consumer_uuid=uuids.server, resources={}),
            self.client.get_allocations(uuids.server),
        )

        allocations = self.allocate()

        self.assertEqual({uuids.l3_0: {WAYS: 2}}, allocations.resources)
        self.assertEqual(uuids.project, allocations.project_id)
        self.assertEqual(1, allocations.generation)
        self.assertEqual('unknown', allocations.consumer_type)

    def test_a_consumer_keeps_its_type(self) -> None:
        self.make_child()
        self.client.put_allocations(
            dataclasses.replace(self.allocate(), consumer_type='INSTANCE')
        )

        self.client.put_allocations(self.client.get_allocations(uuids.server))

        self.assertEqual(
            'INSTANCE',
            self.client.get_allocations(uuids.server).consumer_type,
        )

    def test_a_passed_consumer_generation_is_a_concurrent_update(
        self,
    ) -> None:
        self.make_child()
        self.allocate()

        self.assertRaises(exception.ConcurrentUpdate, self.allocate)

    def test_more_than_the_capacity_is_rejected(self) -> None:
        self.make_child(total=8)

        error = self.assertRaises(
            exception.AllocationRejected, self.allocate, 9
        )

        self.assertEqual('placement.undefined_code', error.code)

    def test_an_unknown_class_is_refused(self) -> None:
        error = self.assertRaises(
            exception.PlacementRefused,
            self.client.set_inventories,
            uuids.root,
            {'CUSTOM_NONE': class_inventory.Inventory(total=1)},
            0,
        )

        self.assertIn('CUSTOM_NONE', str(error))
