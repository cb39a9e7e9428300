# SPDX-License-Identifier: Apache-2.0

"""A tree in real placement of which the host, or its root, has changed."""

from collections.abc import Callable
import dataclasses

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.publish import provider_tree_cache
from nova_ext_resources.placement.publish import tree_writer
from nova_ext_resources.testing import fake_clock
from tests.functional.placement import hosts
from tests.functional.placement import test_tree

CLEAN = tree_writer.PublishResult()


class RenamedTest(test_tree.TreeTestCase):
    """The host has another name; its providers have the same uuids."""

    def setUp(self) -> None:
        super().setUp()
        self.publish(*hosts.make_host())
        self.adapter.put(
            f'/resource_providers/{hosts.NODE.uuid}',
            json={'name': 'host9', 'parent_provider_uuid': None},
        )
        self.before = {}
        self.wanted = [
            dataclasses.replace(one, name=one.name.replace('host1', 'host9'))
            for one in hosts.make_host()
        ]

    def publish_renamed(self) -> tree_writer.PublishResult:
        node = dataclasses.replace(hosts.NODE, hypervisor_hostname='host9')
        return self.writer.publish(node, self.wanted)

    def list_names(self) -> set[str]:
        listed = self.client.list_providers(in_tree=hosts.NODE.uuid)
        return {one.name for one in listed} & {
            one.name for one in (*self.wanted, *hosts.make_host())
        }

    def test_providers_are_renamed_and_servers_keep_what_they_hold(
        self,
    ) -> None:
        self.allocate({hosts.L3_0: {hosts.WAYS: 4}})

        published = self.publish_renamed()

        self.assertEqual(tree_writer.PublishResult(written=3), published)
        self.assertEqual({one.name for one in self.wanted}, self.list_names())
        self.assertEqual(
            {hosts.L3_0: {hosts.WAYS: 4}},
            self.client.get_allocations(uuids.server).resources,
        )

    def test_a_name_that_other_software_has_is_an_error_of_one(self) -> None:
        self.make_root(uuids.other, 'other')
        self.client.ensure_provider(uuids.thief, 'host9_L3_1', uuids.other)

        published = self.publish_renamed()

        (error,) = published.errors
        self.assertIn('host9_L3_1', str(error))
        self.assertEqual(
            {'host9_RDT', 'host9_L3_0', 'host1_L3_1'}, self.list_names()
        )


class ReparentedTest(test_tree.TreeTestCase):
    def test_a_child_becomes_the_parent_of_its_parent(self) -> None:
        self.publish(*hosts.make_host())
        held = {hosts.L3_0: {hosts.WAYS: 2}, hosts.RDT: {hosts.CLOS: 1}}
        self.allocate(held)
        wanted = (
            hosts.make_wanted('L3_0', CUSTOM_LLC_WAYS=11),
            hosts.make_wanted('RDT', 'L3_0', CUSTOM_RDT_CLOS=15),
            hosts.make_wanted('L3_1', 'L3_0', CUSTOM_LLC_WAYS=11),
        )

        published = self.publish(*wanted)

        self.assertEqual((), published.errors)
        self.assert_published(*wanted)
        self.assertEqual(
            held, self.client.get_allocations(uuids.server).resources
        )
        self.assertEqual(CLEAN, self.publish(*wanted))


class RootTest(test_tree.TreeTestCase):
    """The compute node is deleted from placement, and comes back."""

    def check(self) -> None:
        wanted = hosts.make_host()
        self.publish(*wanted)
        for one in (hosts.L3_0, hosts.L3_1, hosts.RDT, *self.before):
            if one != hosts.NODE.uuid:
                self.client.delete_provider(one)
        self.client.delete_provider(hosts.NODE.uuid)

        self.assertRaises(exception.NotFound, self.publish, *wanted)
        self.assertRaises(exception.NotFound, self.publish, *wanted)
        self.make_root(hosts.NODE.uuid, hosts.NODE.hypervisor_hostname)
        self.before = self.read_tree()
        published = self.publish(*wanted)

        self.assertEqual(tree_writer.PublishResult(written=3), published)
        self.assert_published(*wanted)

    def test_all_of_it_is_published_again(self) -> None:
        self.check()

    def test_nothing_that_is_remembered_is_believed(self) -> None:
        self.writer = tree_writer.TreeWriter(
            placement_client.Client(self.make_adapter()),
            memory=provider_tree_cache.Memory(
                f'{self.make_folder()}/ledger.sqlite'
            ),
            clock=fake_clock.FakeClock(),
        )

        self.check()


class ConflictTest(test_tree.TreeTestCase):
    """Other software raises a generation before each write."""

    def setUp(self) -> None:
        super().setUp()
        self.wanted = [
            *hosts.make_host(),
            *(
                hosts.make_wanted(f'L3_{one}', 'RDT', CUSTOM_LLC_WAYS=11)
                for one in range(2, 6)
            ),
        ]
        self.publish(*self.wanted)

    def raise_generation(self, rp_uuid: str) -> Callable[[], None]:
        def act() -> None:
            now = self.client.get_provider(rp_uuid)
            self.client.set_traits(rp_uuid, now.traits, now.generation or 0)

        return act

    def change(self, one: host_provider.Provider) -> host_provider.Provider:
        return dataclasses.replace(
            one,
            traits=one.traits | {'CUSTOM_NEW'},
            published_traits=frozenset({hosts.CAT, 'CUSTOM_NEW'}),
            aggregates=frozenset({uuids.agg}),
            inventories={
                name: class_inventory.Inventory(total=5)
                for name in one.inventories
            },
        )

    def test_each_write_that_conflicts_is_computed_again(self) -> None:
        changed = [self.change(one) for one in self.wanted]
        for noun in ('traits', 'aggregates', 'inventories'):
            for one in changed:
                self.app.before_next(
                    'PUT',
                    f'{one.rp_uuid}/{noun}',
                    self.raise_generation(one.rp_uuid),
                )
        self.app.before_next(
            'POST', '/reshaper', self.raise_generation(hosts.L3_0)
        )

        published = self.publish(*changed)

        self.assertEqual(tree_writer.PublishResult(written=7), published)
        self.assertEqual(
            {uuids.agg}, set(self.read_ours()[hosts.L3_1].aggregates)
        )
        self.assertEqual(CLEAN, self.publish(*changed))
