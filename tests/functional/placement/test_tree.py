# SPDX-License-Identifier: Apache-2.0


"""Publishing to real placement, alone and against others."""

import dataclasses
import os
import threading
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel as uuids
from placement import db_api
import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import bulk_inventories
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import retry
from nova_ext_resources.placement.publish import provider_tree_cache as seen
from nova_ext_resources.placement.publish import tree_writer
from nova_ext_resources.testing import fake_clock
from tests.functional.placement import hosts

#: On each provider.
OURS = {hosts.CAT, host_provider.OWNER_TRAIT}


class TreeTestCase(hosts.HostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.writer = self.make_writer()

    def make_writer(self) -> tree_writer.TreeWriter:
        client = placement_client.Client(self.make_adapter())
        return tree_writer.TreeWriter(client, clock=fake_clock.FakeClock())

    def publish(
        self, *wanted: host_provider.Provider
    ) -> tree_writer.PublishResult:
        self.forget_requests()
        return self.writer.publish(hosts.NODE, wanted)


class FirstPublicationTest(TreeTestCase):
    def test_everything_is_there_afterwards(self) -> None:
        wanted = hosts.make_host()

        published = self.publish(*wanted)

        self.assert_published(*wanted)
        self.assertEqual(tree_writer.PublishResult(written=3), published)

    def test_custom_classes_and_traits_are_created_on_demand(self) -> None:
        self.publish(*hosts.make_host())

        self.assertEqual(
            [
                f'PUT /resource_classes/{hosts.WAYS}',
                f'PUT /resource_classes/{hosts.CLOS}',
                f'PUT /traits/{host_provider.OWNER_TRAIT}',
                f'PUT /traits/{hosts.CAT}',
            ],
            sorted(
                request
                for request in self.app.requests
                if request.startswith(('PUT /resource_c', 'PUT /traits'))
            ),
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
        node = host_provider.Node(
            uuid=uuids.other, hypervisor_hostname='host2'
        )

        error = self.assertRaises(
            exception.NotFound,
            self.writer.publish,
            node,
            hosts.make_host(),
        )

        self.assertIn('host2', str(error))
        self.assertIn('nova-compute creates the provider', str(error))
        self.assertEqual({}, self.read_ours())

    def test_one_that_is_refused_does_not_stop_the_others(self) -> None:
        bad = dataclasses.replace(
            hosts.make_wanted('BAD'),
            inventories={'NO_SUCH_CLASS': class_inventory.Inventory(total=1)},
        )
        below = hosts.make_wanted('BELOW', 'BAD', CUSTOM_LLC_WAYS=1)
        good = hosts.make_host()

        published = self.publish(bad, below, *good)

        (error,) = published.errors
        self.assertIsInstance(error, exception.PlacementRefused)
        self.assertIn('NO_SUCH_CLASS', str(error))
        ours = self.read_ours()
        self.assertEqual(
            [good[0].inventories, {}, {}],
            [ours[one.rp_uuid].inventories for one in (good[0], bad, below)],
        )


class BulkTest(TreeTestCase):
    """Enough providers to write their inventories by one request."""

    def setUp(self) -> None:
        super().setUp()
        self.wanted = self.make_domains()

    def make_domains(
        self, ways: int = 11
    ) -> tuple[host_provider.Provider, ...]:
        return (
            hosts.make_wanted('RDT', CUSTOM_RDT_CLOS=15),
            *(
                hosts.make_wanted(f'L3_{one}', 'RDT', CUSTOM_LLC_WAYS=ways)
                for one in range(4)
            ),
        )

    def list_requests(self, method: str, end: str = '') -> list[str]:
        return [
            one
            for one in self.app.requests
            if one.startswith(method) and one.endswith(end)
        ]

    def test_inventories_are_written_by_one_request(self) -> None:
        published = self.publish(*self.wanted)

        self.assertEqual(tree_writer.PublishResult(written=5), published)
        self.assertEqual(['POST /reshaper'], self.list_requests('POST /resh'))
        self.assertEqual([], self.list_requests('PUT', '/inventories'))
        self.assert_published(*self.wanted)

    def test_names_are_created_once(self) -> None:
        self.publish(*self.wanted)

        self.assertEqual(2, len(self.list_requests('PUT /traits')))
        self.assertEqual(2, len(self.list_requests('PUT /resource_classes')))

    def test_a_name_that_cannot_be_created_ends_it_at_once(self) -> None:
        """Before anything is written, and without the other names."""
        self.app.fail('PUT', f'/traits/{hosts.CAT}', 100)

        self.assertRaises(
            exception.PlacementUnavailable, self.publish, *self.wanted
        )

        self.assertEqual(
            [f'PUT /traits/{hosts.CAT}'] * retry.MAX_ATTEMPTS,
            self.list_requests('PUT', f'/{hosts.CAT}'),
        )
        self.assertEqual([], self.list_requests('POST'))
        self.assertEqual({}, self.read_ours())

    def test_a_name_that_is_refused_does_not_stop_the_others(self) -> None:
        bad = dataclasses.replace(
            hosts.make_wanted('BAD', CUSTOM_LLC_WAYS=1),
            traits=frozenset({'CUSTOM_bad'}),
        )

        published = self.publish(bad, *self.wanted)

        (error,) = published.errors
        self.assertIn('create trait CUSTOM_bad', str(error))
        ours = self.read_ours()
        self.assertEqual({}, ours.pop(bad.rp_uuid).inventories)
        self.assertEqual(
            {one.rp_uuid: one.inventories for one in self.wanted},
            {one.rp_uuid: one.inventories for one in ours.values()},
        )

    def test_a_request_has_a_limited_number_of_providers(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(f'{bulk_inventories.__name__}.MOST', 2)
        )

        published = self.publish(*self.wanted)

        self.assertEqual(tree_writer.PublishResult(written=5), published)
        self.assertEqual(3, len(self.list_requests('POST', '/reshaper')))
        self.assertEqual([], self.list_requests('PUT', '/inventories'))
        self.assert_published(*self.wanted)

    def test_only_those_of_a_refused_request_go_one_by_one(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(f'{bulk_inventories.__name__}.MOST', 2)
        )
        self.app.refuse('POST', '/reshaper')

        published = self.publish(*self.wanted)

        self.assertEqual(tree_writer.PublishResult(written=5), published)
        self.assertEqual(2, len(self.list_requests('PUT', '/inventories')))
        self.assert_published(*self.wanted)

    def test_afterwards_generations_are_known(self) -> None:
        self.publish(*self.wanted)

        self.publish(*self.wanted)

        self.assertEqual(['GET /resource_providers'], self.app.requests)

    def test_it_writes_what_changed(self) -> None:
        self.publish(*self.wanted)
        changed = self.make_domains(ways=7)

        published = self.publish(*changed)

        self.assertEqual(tree_writer.PublishResult(written=4), published)
        self.assertEqual(3, len(self.app.requests))
        self.assert_published(*changed)

    def test_who_may_not_gets_them_one_by_one(self) -> None:
        """As a user with the role of an administrator and no other."""
        self.app.refuse('POST', '/reshaper')

        published = self.publish(*self.wanted)

        self.assertEqual(tree_writer.PublishResult(written=5), published)
        self.assertEqual(5, len(self.list_requests('PUT', '/inventories')))
        self.assert_published(*self.wanted)

    def test_a_lost_answer_does_not_matter(self) -> None:
        self.app.lose('POST', '/reshaper')

        published = self.publish(*self.wanted)

        self.assertEqual((), published.errors)
        self.assert_published(*self.wanted)

    def test_other_software_that_writes_before_loses_nothing(self) -> None:
        self.publish(*self.wanted)
        self.app.before_next(
            'POST',
            '/reshaper',
            lambda: self.allocate({hosts.L3_0: {hosts.WAYS: 4}}),
        )
        changed = self.make_domains(ways=7)

        published = self.publish(*changed)

        self.assertEqual((), published.errors)
        self.assert_published(*changed)

    def test_other_software_that_writes_after_is_seen(self) -> None:
        """Between the reshape and the reading of generations."""
        self.publish(*self.wanted)
        self.empty_after_reshape()
        changed = self.make_domains(ways=7)
        self.publish(*changed)

        self.publish(*changed)

        self.assert_published(*changed)

    def test_another_raise_of_generations_is_not_believed(self) -> None:
        """Nor where another software has raised one as far as expected."""
        self.publish(*self.wanted)
        self.useFixture(
            fixtures.MonkeyPatch(f'{bulk_inventories.__name__}.RAISED', 3)
        )
        self.empty_after_reshape()
        changed = self.make_domains(ways=7)
        self.publish(*changed)

        self.publish(*changed)

        self.assertEqual(4, len(self.list_requests('GET', '/traits')))
        self.assert_published(*changed)

    def empty_after_reshape(self) -> None:
        """Have other software write once, before generations are read."""

        def empty() -> None:
            found = self.client.get_provider(hosts.L3_0)
            self.client.set_inventories(hosts.L3_0, {}, found.generation or 0)

        self.app.before_next(
            'POST',
            '/reshaper',
            lambda: self.app.before_next('GET', '/resource_providers', empty),
        )

    def test_what_is_held_is_closed(self) -> None:
        self.publish(*self.wanted)
        self.allocate({hosts.L3_0: {hosts.WAYS: 4}})
        others = (
            self.wanted[0],
            *(
                hosts.make_wanted(f'L3_{one}', 'RDT', CUSTOM_OTHER=1)
                for one in range(4)
            ),
        )

        published = self.publish(*others)

        (held,) = published.undeleted
        self.assertEqual((uuids.server,), held.consumers)
        closed = self.read_ours()[hosts.L3_0].inventories[hosts.WAYS]
        self.assertEqual(0, closed.capacity)

    def test_units_that_are_taken_meanwhile_stop_no_other(self) -> None:
        self.publish(*self.wanted)
        self.app.before_next(
            'POST',
            '/reshaper',
            lambda: self.allocate({hosts.L3_0: {hosts.WAYS: 4}}),
        )
        others = (
            self.wanted[0],
            *(
                hosts.make_wanted(f'L3_{one}', 'RDT', CUSTOM_OTHER=1)
                for one in range(4)
            ),
        )

        first = self.publish(*others)
        second = self.publish(*others)

        self.assertIsInstance(first.errors[0], exception.InventoryInUse)
        self.assertEqual(3, first.written)
        self.assertEqual((), second.errors)
        self.assertEqual((uuids.server,), second.undeleted[0].consumers)


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

    def assert_kept(self, *wanted: host_provider.Provider) -> None:
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

    def mark(self, *traits: str) -> None:
        """Give L3_0 these traits beside ours."""
        now = self.client.get_provider(hosts.L3_0)
        self.client.set_traits(
            hosts.L3_0, {*traits, *OURS}, now.generation or 0
        )

    def test_what_is_added_just_before_a_write_stays(self) -> None:
        """Placement refuses that write, and it is tried again."""
        self.publish(*self.wanted)
        self.mark()
        self.publish(*self.wanted)
        self.app.before_next(
            'PUT',
            f'{hosts.L3_0}/inventories',
            lambda: self.mark(self.GOLD),
        )
        changed = hosts.make_host(ways=7)

        published = self.publish(*changed)

        self.assertEqual((), published.errors)
        self.assert_kept(*changed)

    def test_what_is_removed_just_before_a_write_stays_away(self) -> None:
        self.publish(*self.wanted)
        self.app.before_next(
            'PUT', f'{hosts.L3_0}/inventories', lambda: self.mark()
        )

        self.publish(*hosts.make_host(ways=7))

        self.assertEqual(OURS, self.read_ours()[hosts.L3_0].traits)

    def test_what_is_added_just_before_a_reshape_stays(self) -> None:
        """Then inventories are written one by one, and that one again."""
        more = [
            hosts.make_wanted(f'L3_{one}', 'RDT', CUSTOM_LLC_WAYS=11)
            for one in range(2, 5)
        ]
        self.mark()
        self.publish(*self.wanted)
        self.app.before_next('POST', '/reshaper', lambda: self.mark(self.GOLD))

        published = self.publish(*hosts.make_host(ways=7), *more)

        self.assertEqual((), published.errors)
        self.assert_kept(*hosts.make_host(ways=7), *more)

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
        self.assertEqual(tree_writer.PublishResult(), published)

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


class RestartTest(TreeTestCase):
    """What was published is remembered in a file."""

    GOLD = 'CUSTOM_GOLD'

    def setUp(self) -> None:
        self.ledger = f'{self.make_folder()}/host1.sqlite'
        self.path = seen.Memory(self.ledger).path
        super().setUp()
        self.client.ensure_trait(self.GOLD)
        # More than are checked by each publication.
        self.wanted = (
            hosts.make_wanted('RDT', CUSTOM_RDT_CLOS=15),
            *(
                hosts.make_wanted(f'L3_{one}', 'RDT', CUSTOM_LLC_WAYS=11)
                for one in range(11)
            ),
        )
        self.publish(*self.wanted)

    def make_writer(self) -> tree_writer.TreeWriter:
        return tree_writer.TreeWriter(
            placement_client.Client(self.make_adapter()),
            memory=seen.Memory(self.ledger),
            clock=fake_clock.FakeClock(),
        )

    def restart(
        self, *wanted: host_provider.Provider
    ) -> tree_writer.PublishResult:
        """Publish as a process that has just started."""
        self.writer = self.make_writer()
        return self.publish(*(wanted or self.wanted))

    def list_reading(self) -> set[str]:
        """Return the uuids of the providers that were read."""
        return {
            one.split('/')[2]
            for one in self.app.requests
            if one.startswith('GET') and one.endswith('/traits')
        }

    def assert_right_at_last(self) -> None:
        """After as many publications as check all that is believed."""
        for _ in self.wanted[:: seen.CHECKED]:
            self.publish(*self.wanted)
        self.assert_published(*self.wanted)
        self.publish(*self.wanted)
        self.assertEqual(['GET /resource_providers'], self.app.requests)

    def list_extra(self) -> int:
        """Return requests beside those of the providers that are checked.

        Other software has a provider in the tree: two tell whose it is.
        """
        return len(self.app.requests) - 3 * seen.CHECKED - 2

    def test_it_reads_the_tree_and_a_few_providers(self) -> None:
        published = self.restart()

        self.assertEqual(tree_writer.PublishResult(), published)
        self.assertEqual(1, self.list_extra())
        self.assert_right_at_last()

    def test_each_publication_reads_a_few_of_a_large_host(self) -> None:
        self.wanted = (
            *self.wanted,
            *(
                hosts.make_wanted(f'L3_{one}', 'RDT', CUSTOM_LLC_WAYS=11)
                for one in range(11, 22)
            ),
        )
        self.publish(*self.wanted)

        self.restart()
        left = [self.writer.believed]
        while self.writer.believed:
            self.publish(*self.wanted)
            left.append(self.writer.believed)

        self.assertEqual([19, 15, 11, 7, 3, 0], left)

    def test_each_provider_is_read_once(self) -> None:
        self.restart()
        read = sorted(self.list_reading())
        for _ in self.wanted[seen.CHECKED :: seen.CHECKED]:
            self.publish(*self.wanted)
            read += sorted(self.list_reading())

        self.assertEqual(
            sorted(one.rp_uuid for one in self.wanted), sorted(read)
        )

    def test_what_changed_meanwhile_is_read(self) -> None:
        self.allocate({hosts.L3_0: {hosts.WAYS: 4}})

        self.restart()

        self.assertIn(hosts.L3_0, self.list_reading())
        self.assert_published(*self.wanted)

    def test_what_changed_on_the_host_is_written(self) -> None:
        changed = hosts.make_wanted('L3_1', 'RDT', CUSTOM_LLC_WAYS=7)
        self.wanted = (*self.wanted[:2], changed, *self.wanted[3:])

        published = self.restart()

        self.assertEqual(tree_writer.PublishResult(written=1), published)
        self.assertIn(hosts.L3_1, self.list_reading())
        self.assert_published(*self.wanted)
        self.assert_right_at_last()

    def test_a_provider_created_again_is_published(self) -> None:
        """Its generation begins at 0."""
        self.client.delete_provider(hosts.L3_0)
        self.client.ensure_provider(hosts.L3_0, 'host1_L3_0', hosts.RDT)

        published = self.restart()

        self.assertEqual(tree_writer.PublishResult(written=1), published)
        self.assert_published(*self.wanted)

    def test_one_with_the_same_generation_is_right_at_last(self) -> None:
        """It was created again, and was written as often as before."""
        before = self.read_tree()[hosts.L3_0].generation
        self.client.delete_provider(hosts.L3_0)
        made = self.client.ensure_provider(hosts.L3_0, 'host1_L3_0', hosts.RDT)
        generation = made.generation or 0
        while generation != before:
            generation = self.client.set_inventories(
                hosts.L3_0,
                {hosts.WAYS: class_inventory.Inventory(total=1 + generation)},
                generation,
            )

        self.restart()

        self.assert_right_at_last()

    def test_a_restored_database_is_published(self) -> None:
        """It has content and generations of the time of the backup."""
        old = seen.Memory(self.ledger).read(hosts.NODE.uuid)
        self.wanted = (
            hosts.make_wanted('RDT', CUSTOM_RDT_CLOS=7),
            *self.wanted[1:],
        )
        self.publish(*self.wanted)
        self.restore(old[hosts.RDT])

        published = self.restart()

        self.assertEqual(tree_writer.PublishResult(written=1), published)
        self.assert_published(*self.wanted)

    def test_a_restored_one_that_was_used_since_is_right_at_last(self) -> None:
        """So that it has the generation that is remembered."""
        old = seen.Memory(self.ledger).read(hosts.NODE.uuid)
        self.wanted = (
            hosts.make_wanted('RDT', CUSTOM_RDT_CLOS=7),
            *self.wanted[1:],
        )
        self.publish(*self.wanted)
        self.restore(old[hosts.RDT])
        self.allocate({hosts.RDT: {hosts.CLOS: 1}})

        self.restart()

        self.assert_right_at_last()

    def restore(self, backup: host_provider.Provider) -> None:
        """Put what a backup of the database has of a provider back into it."""
        seen_now = self.client.get_provider(backup.rp_uuid)
        self.client.set_inventories(
            backup.rp_uuid, backup.inventories, seen_now.generation or 0
        )
        with db_api.get_placement_engine().begin() as connection:
            connection.execute(
                sa.text(
                    'UPDATE resource_providers SET generation = :generation '
                    'WHERE uuid = :uuid'
                ),
                {'generation': backup.generation, 'uuid': backup.rp_uuid},
            )

    def test_what_is_only_believed_is_read_before_it_is_written(self) -> None:
        """A trait of an operator is not remembered, with the generation."""
        now = self.read_tree()[hosts.L3_0]
        generation = self.client.set_traits(
            hosts.L3_0, now.traits | {self.GOLD}, now.generation or 0
        )
        self.lie(hosts.L3_0, generation=generation)
        changed = hosts.make_wanted('L3_0', 'RDT', CUSTOM_LLC_WAYS=7)

        self.restart(self.wanted[0], changed, *self.wanted[2:])

        gold = dataclasses.replace(
            changed, traits=changed.traits | {self.GOLD}
        )
        self.assert_published(self.wanted[0], gold, *self.wanted[2:])

    def test_traits_of_an_operator_are_seen(self) -> None:
        seen_now = self.read_tree()[hosts.L3_0]
        self.client.set_traits(
            hosts.L3_0,
            seen_now.traits | {self.GOLD},
            seen_now.generation or 0,
        )

        self.restart()

        self.assertIn(hosts.L3_0, self.list_reading())

    def test_aggregates_are_checked_first(self) -> None:
        """Old clients change them without a new generation."""
        tied = dataclasses.replace(
            self.wanted[1], aggregates=frozenset({uuids.agg})
        )
        self.wanted = (self.wanted[0], tied, *self.wanted[2:])
        self.publish(*self.wanted)
        self.adapter.put(
            f'/resource_providers/{tied.rp_uuid}/aggregates',
            json=[],
            microversion='1.18',
        )

        self.restart()

        self.assert_published(*self.wanted)

    def test_what_an_operator_added_comes_back_with_its_provider(
        self,
    ) -> None:
        """Also after a restart without it, and if it is made in a race."""
        one = self.wanted[1]
        seen = self.read_ours()[one.rp_uuid]
        traits = {*seen.traits, self.GOLD}
        self.client.set_traits(one.rp_uuid, traits, seen.generation or 0)
        seen = self.read_ours()[one.rp_uuid]
        self.client.set_aggregates(
            one.rp_uuid, [uuids.agg], seen.generation or 0
        )
        for _ in range(2):
            self.restart(self.wanted[0], *self.wanted[2:])
            self.assertNotIn(one.rp_uuid, self.read_ours())
            self.restart(self.wanted[0], *self.wanted[2:])
            self.app.before_next(
                'PUT',
                f'{one.rp_uuid}/inventories',
                lambda: self.client.ensure_trait(self.GOLD),
            )

            self.publish(*self.wanted)

            made = self.read_ours()[one.rp_uuid]
            self.assertIn(self.GOLD, made.traits)
            self.assertEqual({uuids.agg}, made.aggregates)

    def test_what_an_operator_took_away_stays_away(self) -> None:
        one = self.wanted[1]
        self.test_what_an_operator_added_comes_back_with_its_provider()
        seen = self.read_ours()[one.rp_uuid]
        traits = {*seen.traits} - {self.GOLD}
        self.client.set_traits(one.rp_uuid, traits, seen.generation or 0)
        self.client.delete_provider(one.rp_uuid)

        self.publish(*self.wanted)

        self.assertNotIn(self.GOLD, self.read_ours()[one.rp_uuid].traits)

    def test_aggregates_of_an_operator_are_not_lost(self) -> None:
        """They came without a new generation, before ours were wanted."""
        self.adapter.put(
            f'/resource_providers/{hosts.L3_0}/aggregates',
            json=[uuids.theirs],
            microversion='1.18',
        )
        tied = dataclasses.replace(
            self.wanted[1], aggregates=frozenset({uuids.agg})
        )

        self.restart(self.wanted[0], tied, *self.wanted[2:])

        self.assertEqual(
            {uuids.agg, uuids.theirs}, self.read_ours()[hosts.L3_0].aggregates
        )

    def test_one_that_goes_while_it_is_checked_comes_back(self) -> None:
        tied = dataclasses.replace(
            self.wanted[1], aggregates=frozenset({uuids.agg})
        )
        self.wanted = (self.wanted[0], tied, *self.wanted[2:])
        self.publish(*self.wanted)
        self.app.before_next(
            'GET',
            f'{hosts.L3_0}/traits',
            lambda: self.client.delete_provider(hosts.L3_0),
        )

        published = self.restart()

        self.assertEqual(tree_writer.PublishResult(written=1), published)
        self.assert_published(*self.wanted)

    def test_a_crash_while_it_is_created_again_leaves_no_file(self) -> None:
        """It could come to the generation that is remembered."""
        there: list[bool] = []
        self.client.delete_provider(hosts.L3_0)
        self.app.before_next(
            'PUT',
            f'{hosts.L3_0}/inventories',
            lambda: there.append(os.path.exists(self.path)),
        )

        self.publish(*self.wanted)

        self.assertEqual([False], there)
        self.assertTrue(os.path.exists(self.path))

    def test_nor_when_it_goes_while_it_is_changed(self) -> None:
        there: list[bool] = []
        self.app.before_next(
            'PUT',
            f'{hosts.L3_1}/inventories',
            lambda: self.client.delete_provider(hosts.L3_1),
        )
        self.app.before_next(
            'POST',
            '/resource_providers',
            lambda: there.append(os.path.exists(self.path)),
        )
        changed = hosts.make_wanted('L3_1', 'RDT', CUSTOM_LLC_WAYS=7)

        self.publish(*self.wanted[:2], changed, *self.wanted[3:])

        self.assertEqual([False], there)
        self.assertTrue(os.path.exists(self.path))

    def test_nor_while_it_is_deleted(self) -> None:
        there: list[bool] = []
        self.app.before_next(
            'DELETE',
            hosts.L3_0,
            lambda: there.append(os.path.exists(self.path)),
        )

        self.publish(self.wanted[0], *self.wanted[2:])

        self.assertEqual([False], there)
        self.assertTrue(os.path.exists(self.path))

    def test_after_a_crash_while_it_is_changed_it_is_read(self) -> None:
        """Its generation has passed."""
        before = seen.Memory(self.ledger).read(hosts.NODE.uuid)
        changed = hosts.make_wanted('L3_1', 'RDT', CUSTOM_LLC_WAYS=7)
        self.publish(*self.wanted[:2], changed, *self.wanted[3:])
        seen.Memory(self.ledger).write(hosts.NODE.uuid, before)

        self.restart()

        self.assertIn(hosts.L3_1, self.list_reading())
        self.assert_published(*self.wanted)

    def test_of_another_node_nothing_is_believed(self) -> None:
        seen.Memory(self.ledger).write(
            uuids.other_node,
            seen.Memory(self.ledger).read(hosts.NODE.uuid),
        )

        self.restart()

        self.assertEqual(
            {one.rp_uuid for one in self.wanted}, self.list_reading()
        )

    def test_without_the_file_all_is_read(self) -> None:
        os.unlink(self.path)

        self.restart()

        self.assertEqual(
            {one.rp_uuid for one in self.wanted}, self.list_reading()
        )

    def lie(self, rp_uuid: str, **values: Any) -> None:
        """Remember other things of a provider than placement has."""
        known = dict(seen.Memory(self.ledger).read(hosts.NODE.uuid))
        known[rp_uuid] = dataclasses.replace(known[rp_uuid], **values)
        seen.Memory(self.ledger).write(hosts.NODE.uuid, known)


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
        (held,) = published.undeleted
        self.assertEqual((uuids.server,), held.consumers)
        self.assertRaises(
            exception.AllocationRejected,
            self.allocate,
            {hosts.L3_0: {hosts.WAYS: 1}},
            uuids.another,
        )
        self.allocate({})
        self.assertEqual((), self.publish().undeleted)
        self.assertEqual({}, self.read_ours())

    def test_a_held_provider_costs_one_more_request(self) -> None:
        self.allocate({hosts.L3_0: {hosts.WAYS: 4}})
        self.publish()

        published = self.publish()

        self.assertEqual(2, len(self.app.requests))
        self.assertEqual(0, published.written)
        self.assertEqual(1, len(published.undeleted))

    def test_a_held_class_stays_closed_and_the_others_work(self) -> None:
        self.allocate({hosts.L3_0: {hosts.WAYS: 4}})
        changed = hosts.make_wanted('L3_0', 'RDT', CUSTOM_OTHER=3)

        published = self.publish(self.wanted[0], changed, self.wanted[2])

        self.assertEqual(
            {
                'CUSTOM_OTHER': class_inventory.Inventory(total=3),
                hosts.WAYS: class_inventory.Inventory(total=11, reserved=11),
            },
            self.read_ours()[hosts.L3_0].inventories,
        )
        self.assertEqual(hosts.WAYS, published.undeleted[0].resource_class)

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
            {'CUSTOM_OLD': class_inventory.Inventory(total=3)},
            made.generation or 0,
        )
        self.publish()
        self.allocate({hosts.L3_0: {'CUSTOM_OLD': 1}})

        published = self.publish(*self.wanted)

        self.assertEqual((), published.errors)
        (held,) = published.undeleted
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
        self.assertEqual(('theirs',), published.undeleted[0].children)

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
        self.assertEqual((uuids.server,), second.undeleted[0].consumers)


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

    def _publish_with(self, writer: tree_writer.TreeWriter) -> None:
        writer.publish(hosts.NODE, hosts.make_host())

    def test_two_publishers_at_once_agree(self) -> None:
        wanted = hosts.make_host()
        writers = [self.make_writer() for _ in range(2)]
        failed: list[Exception] = []

        def publish(writer: tree_writer.TreeWriter) -> None:
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
        self.assertEqual(tree_writer.PublishResult(), self.publish(*wanted))
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
