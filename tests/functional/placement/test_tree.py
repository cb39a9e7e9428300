# SPDX-License-Identifier: Apache-2.0


"""Publishing to real placement, alone and against others."""

import dataclasses
import threading

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources import exception
from nova_ext_resources.objects import inventory
from nova_ext_resources.objects import provider
from nova_ext_resources.placement import client as placement_client
from nova_ext_resources.placement import tree
from tests.functional.placement import hosts


class TreeTestCase(hosts.HostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.writer = self.make_writer()

    def make_writer(self) -> tree.TreeWriter:
        client = placement_client.Client(self.make_adapter())
        return tree.TreeWriter(client, sleep=lambda seconds: None)

    def publish(self, *wanted: provider.Provider) -> tree.Published:
        self.forget_requests()
        return self.writer.publish(hosts.NODE, wanted)


class FirstPublicationTest(TreeTestCase):
    def test_everything_is_there_afterwards(self) -> None:
        wanted = hosts.make_host()

        published = self.publish(*wanted)

        self.assert_published(*wanted)
        self.assertEqual(tree.Published(written=3), published)

    def test_custom_classes_and_traits_are_created_on_demand(self) -> None:
        self.publish(*hosts.make_host())

        # Threads may both do it: placement takes it as often as it comes.
        self.assertEqual(
            {
                f'PUT /resource_classes/{hosts.WAYS}',
                f'PUT /resource_classes/{hosts.CLOS}',
                f'PUT /traits/{provider.OWNER_TRAIT}',
                f'PUT /traits/{hosts.CAT}',
            },
            {
                request
                for request in self.app.requests
                if request.startswith(('PUT /resource_c', 'PUT /traits'))
            },
        )

    def test_what_was_created_once_is_not_asked_for_again(self) -> None:
        self.publish(*hosts.make_host())

        self.publish(*hosts.make_host(), hosts.make_wanted('X', CUSTOM_N=1))

        self.assertEqual(
            ['PUT /resource_classes/CUSTOM_N'],
            [r for r in self.app.requests if r.startswith('PUT /resource_c')],
        )

    def test_aggregates_are_set(self) -> None:
        (rdt, *_) = hosts.make_host()
        shared = dataclasses.replace(rdt, aggregates=frozenset({uuids.agg}))

        self.publish(shared)

        self.assert_published(shared)

    def test_without_the_compute_node_it_waits_and_says_so(self) -> None:
        node = provider.Node(uuid=uuids.other, hypervisor_hostname='host2')

        error = self.assertRaises(
            exception.NotFound,
            self.writer.publish,
            node,
            hosts.make_host(),
        )

        self.assertIn('host2', str(error))
        self.assertIn('nova-compute creates it', str(error))
        self.assertEqual({}, self.read_ours())

    def test_one_that_is_refused_does_not_stop_the_others(self) -> None:
        bad = dataclasses.replace(
            hosts.make_wanted('BAD'),
            inventories={'NO_SUCH_CLASS': inventory.Inventory(total=1)},
        )
        below = hosts.make_wanted('BELOW', 'BAD', CUSTOM_LLC_WAYS=1)
        good = hosts.make_host()

        published = self.publish(bad, below, *good)

        (error,) = published.errors
        self.assertIsInstance(error, exception.PlacementRefused)
        self.assertIn('NO_SUCH_CLASS', str(error))
        self.assertEqual(
            {bad.rp_uuid, *(p.rp_uuid for p in good)}, set(self.read_ours())
        )


class OperatorTest(TreeTestCase):
    """An operator has marked a provider of ours, and put it together."""

    GOLD = 'CUSTOM_GOLD'

    def setUp(self) -> None:
        super().setUp()
        self.wanted = hosts.make_host()
        self.publish(*self.wanted)
        seen = self.read_tree()[hosts.L3_0]
        self.client.ensure_trait(self.GOLD)
        generation = self.client.set_traits(
            hosts.L3_0, seen.traits | {self.GOLD}, seen.generation or 0
        )
        self.client.set_aggregates(hosts.L3_0, [uuids.agg], generation)

    def assert_kept(self, *wanted: provider.Provider) -> None:
        self.assert_published(
            *(
                dataclasses.replace(
                    one,
                    traits=one.traits | {self.GOLD},
                    aggregates=frozenset({uuids.agg}),
                )
                if one.rp_uuid == hosts.L3_0
                else one
                for one in wanted
            )
        )

    def test_it_stays_whatever_else_changes(self) -> None:
        self.publish(*self.wanted)
        self.assert_kept(*self.wanted)

        changed = hosts.make_host(ways=7)
        self.publish(*changed)
        self.assert_kept(*changed)

    def test_it_stays_over_a_restart(self) -> None:
        self.writer = self.make_writer()

        published = self.publish(*self.wanted)

        self.assertEqual(0, published.written)
        self.assert_kept(*self.wanted)

    def test_a_trait_of_ours_goes_all_the_same(self) -> None:
        changed = tuple(
            dataclasses.replace(
                one, traits=frozenset(), published_traits=one.traits
            )
            for one in self.wanted
        )
        self.writer = self.make_writer()

        self.publish(*changed)

        self.assert_kept(*changed)


class NothingNewTest(TreeTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.wanted = hosts.make_host()
        self.publish(*self.wanted)

    def test_nothing_changed_is_one_request(self) -> None:
        published = self.publish(*self.wanted)

        self.assertEqual(['GET /resource_providers'], self.app.requests)
        self.assertEqual(tree.Published(), published)

    def test_allocations_of_nova_alone_are_one_request(self) -> None:
        self.allocate({hosts.NODE.uuid: {'VCPU': 2}})

        self.publish(*self.wanted)

        self.assertEqual(1, len(self.app.requests))

    def test_an_allocation_of_ours_is_read_and_changes_nothing(self) -> None:
        self.allocate({hosts.L3_0: {hosts.WAYS: 4}})

        self.publish(*self.wanted)

        self.assertEqual(4, len(self.app.requests))
        self.assertEqual({'GET'}, {r.split()[0] for r in self.app.requests})
        self.publish(*self.wanted)
        self.assertEqual(1, len(self.app.requests))

    def test_a_restart_reads_and_writes_nothing(self) -> None:
        self.writer = self.make_writer()

        published = self.publish(*self.wanted)

        self.assertEqual(0, published.written)
        self.assertEqual({'GET'}, {r.split()[0] for r in self.app.requests})
        self.assert_published(*self.wanted)

    def test_one_changed_inventory_is_two_requests(self) -> None:
        changed = hosts.make_wanted('L3_1', 'RDT', CUSTOM_LLC_WAYS=7)

        self.publish(*self.wanted[:2], changed)

        self.assertEqual(2, len(self.app.requests))
        self.assert_published(*self.wanted[:2], changed)

    def test_what_others_did_to_our_provider_is_undone(self) -> None:
        seen = self.read_tree()[hosts.L3_0]
        self.client.set_traits(hosts.L3_0, [], seen.generation or 0)
        self.client.update_provider(hosts.L3_1, 'odd', hosts.NODE.uuid)

        self.publish(*self.wanted)

        self.assert_published(*self.wanted)

    def test_a_deleted_provider_comes_back(self) -> None:
        self.client.delete_provider(hosts.L3_0)

        self.publish(*self.wanted)

        self.assert_published(*self.wanted)


class RemovalTest(TreeTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.wanted = hosts.make_host()
        self.publish(*self.wanted)

    def test_what_is_no_longer_configured_is_deleted(self) -> None:
        self.publish()

        self.assertEqual({}, self.read_ours())

    def test_a_restart_without_configuration_deletes_it_too(self) -> None:
        self.writer = self.make_writer()

        self.publish()

        self.assertEqual({}, self.read_ours())

    def test_where_nothing_was_ever_published_nothing_is_written(
        self,
    ) -> None:
        self.publish()
        self.writer = self.make_writer()

        self.publish()

        self.assertEqual({'GET'}, {r.split()[0] for r in self.app.requests})

    def test_a_held_provider_stays_closed_until_it_is_given_back(
        self,
    ) -> None:
        self.allocate({hosts.L3_0: {hosts.WAYS: 4}})

        published = self.publish()

        self.assertEqual({hosts.RDT, hosts.L3_0}, set(self.read_ours()))
        (held,) = published.held
        self.assertEqual((uuids.server,), held.consumers)
        self.assertRaises(
            exception.AllocationRejected,
            self.allocate,
            {hosts.L3_0: {hosts.WAYS: 1}},
            uuids.another,
        )
        self.allocate({})
        self.assertEqual((), self.publish().held)
        self.assertEqual({}, self.read_ours())

    def test_a_held_provider_costs_one_more_request(self) -> None:
        self.allocate({hosts.L3_0: {hosts.WAYS: 4}})
        self.publish()

        published = self.publish()

        self.assertEqual(2, len(self.app.requests))
        self.assertEqual(0, published.written)
        self.assertEqual(1, len(published.held))

    def test_a_held_class_stays_closed_and_the_others_work(self) -> None:
        self.allocate({hosts.L3_0: {hosts.WAYS: 4}})
        changed = hosts.make_wanted('L3_0', 'RDT', CUSTOM_OTHER=3)

        published = self.publish(self.wanted[0], changed, self.wanted[2])

        self.assertEqual(
            {
                'CUSTOM_OTHER': inventory.Inventory(total=3),
                hosts.WAYS: inventory.Inventory(total=11, reserved=11),
            },
            self.read_ours()[hosts.L3_0].inventories,
        )
        self.assertEqual(hosts.WAYS, published.held[0].resource_class)

    def test_what_comes_back_is_opened_again(self) -> None:
        self.allocate({hosts.L3_0: {hosts.WAYS: 4}})
        self.publish()

        self.publish(*self.wanted)

        self.assert_published(*self.wanted)

    def test_one_first_taken_for_that_of_others_is_read_when_wanted(
        self,
    ) -> None:
        self.publish()
        made = self.client.ensure_provider(
            hosts.L3_0, 'host1_L3_0', hosts.NODE.uuid
        )
        self.client.ensure_resource_class('CUSTOM_OLD')
        self.client.set_inventories(
            hosts.L3_0,
            {'CUSTOM_OLD': inventory.Inventory(total=3)},
            made.generation or 0,
        )
        self.publish()
        self.allocate({hosts.L3_0: {'CUSTOM_OLD': 1}})

        published = self.publish(*self.wanted)

        self.assertEqual((), published.errors)
        (held,) = published.held
        self.assertEqual('CUSTOM_OLD', held.resource_class)
        self.assertIn('CUSTOM_OLD', self.read_ours()[hosts.L3_0].inventories)

    def test_a_total_below_its_use_is_published_as_it_is(self) -> None:
        self.allocate({hosts.L3_0: {hosts.WAYS: 8}})
        smaller = hosts.make_host(ways=6)

        published = self.publish(*smaller)

        self.assertEqual((), published.errors)
        self.assert_published(*smaller)

    def test_a_provider_of_others_below_ours_is_left_alone(self) -> None:
        self.client.ensure_provider(uuids.theirs, 'theirs', hosts.L3_0)

        published = self.publish()

        self.assertEqual(
            {hosts.RDT, hosts.L3_0, uuids.theirs}, set(self.read_ours())
        )
        self.assertEqual(('theirs',), published.held[0].children)

    def test_an_allocation_that_comes_in_between_is_respected(self) -> None:
        self.app.before_next(
            'DELETE',
            hosts.L3_0,
            lambda: self.allocate({hosts.L3_0: {hosts.WAYS: 4}}),
        )

        first = self.publish()
        second = self.publish()

        self.assertIsInstance(first.errors[0], exception.ProviderInUse)
        self.assertEqual((), second.errors)
        self.assertEqual((uuids.server,), second.held[0].consumers)


class RaceTest(TreeTestCase):
    def test_a_moved_generation_is_read_again_for_that_provider_only(
        self,
    ) -> None:
        self.publish(*hosts.make_host())
        self.app.before_next(
            'PUT',
            f'{hosts.L3_0}/inventories',
            lambda: self.allocate({hosts.L3_0: {hosts.WAYS: 2}}),
        )
        changed = hosts.make_host(ways=9)

        published = self.publish(*changed)

        self.assertEqual(
            [f'PUT /resource_providers/{hosts.L3_1}/inventories'],
            [r for r in self.app.requests if hosts.L3_1 in r],
        )
        self.assertEqual((), published.errors)
        self.assert_published(*changed)

    def test_a_provider_deleted_in_between_is_created_again(self) -> None:
        self.publish(*hosts.make_host())
        self.app.before_next(
            'PUT',
            f'{hosts.L3_0}/inventories',
            lambda: self.client.delete_provider(hosts.L3_0),
        )
        changed = hosts.make_host(ways=9)

        self.publish(*changed)

        self.assert_published(*changed)

    def test_who_always_comes_in_between_does_not_hang_us(self) -> None:
        self.publish(*hosts.make_host())
        for i in range(20):
            self.app.before_next(
                'PUT',
                f'{hosts.L3_0}/inventories',
                lambda i=i: self.allocate(  # type: ignore[misc]
                    {hosts.L3_0: {hosts.WAYS: 1 + i % 2}}
                ),
            )

        published = self.publish(*hosts.make_host(ways=9))

        self.assertIsInstance(published.errors[0], exception.ConcurrentUpdate)
        self.assertEqual(
            9, self.read_ours()[hosts.L3_1].inventories[hosts.WAYS].total
        )

    def test_another_publisher_that_was_faster_is_no_trouble(self) -> None:
        wanted = hosts.make_host()
        other = self.make_writer()
        self.app.before_next(
            'POST',
            '/resource_providers',
            lambda: self._publish_with(other),
        )

        published = self.publish(*wanted)

        self.assertEqual((), published.errors)
        self.assert_published(*wanted)

    def _publish_with(self, writer: tree.TreeWriter) -> None:
        writer.publish(hosts.NODE, hosts.make_host())

    def test_two_publishers_at_once_agree(self) -> None:
        wanted = hosts.make_host()
        writers = [self.make_writer() for _ in range(2)]
        failed: list[Exception] = []

        def publish(writer: tree.TreeWriter) -> None:
            try:
                for ways in (11, 9, 11):
                    writer.publish(hosts.NODE, hosts.make_host(ways))
            except Exception as err:
                failed.append(err)

        threads = [
            threading.Thread(target=publish, args=(writer,))
            for writer in writers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        self.assertEqual([], failed)
        for writer in writers:
            published = writer.publish(hosts.NODE, wanted)
            self.assertEqual((), published.errors)
        self.assert_published(*wanted)
        self.writer = writers[1]
        self.assertEqual(tree.Published(), self.publish(*wanted))
        self.assertEqual(1, len(self.app.requests))


class OutageTest(TreeTestCase):
    def test_a_short_one_is_not_noticed(self) -> None:
        self.app.fail('PUT', f'{hosts.L3_0}/inventories', 2)

        published = self.publish(*hosts.make_host())

        self.assertEqual((), published.errors)
        self.assert_published(*hosts.make_host())

    def test_after_a_long_one_the_rest_is_written(self) -> None:
        self.app.fail('PUT', f'{hosts.L3_0}/inventories', 4)
        self.assertRaises(
            exception.PlacementUnavailable,
            self.publish,
            *hosts.make_host(),
        )

        self.publish(*hosts.make_host())

        self.assert_published(*hosts.make_host())

    def test_when_it_cannot_be_read_nothing_is_written(self) -> None:
        self.publish(*hosts.make_host())
        self.app.fail('GET', '/resource_providers', 4)

        self.assertRaises(exception.PlacementUnavailable, self.publish)

        self.assertEqual({'GET'}, {r.split()[0] for r in self.app.requests})
        self.assert_published(*hosts.make_host())
