# SPDX-License-Identifier: Apache-2.0

"""Hosts that publish the same pool to real placement."""

import dataclasses
import datetime
import itertools
import threading
import time
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources import clocks
from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool as pool_obj
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import responses
from nova_ext_resources.placement.pools import removal
from nova_ext_resources.placement.publish import publisher
from nova_ext_resources.testing import fake_clock
from tests.functional import base
from tests.unit import publication

CLASS = 'CUSTOM_RACK1_GB'
HOSTS = ('host1', 'host2', 'host3')

_NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

#: Each reading is a little newer than the one before.
_SECONDS = itertools.count()


def make_pool(total: int = 100, **fields: Any) -> pool_obj.SharedPool:
    return pool_obj.SharedPool(
        name='rack1',
        resource_class=CLASS,
        reading=pool_obj.Reading(
            total=total,
            read_at=_NOW + datetime.timedelta(seconds=next(_SECONDS)),
            **{
                name: fields.pop(name)
                for name in ('free', 'reserved')
                if name in fields
            },
        ),
        **fields,
    )


POOL = make_pool()


class PoolTestCase(base.PlacementTestCase):
    """Three hosts, whose publishers run round by round.

    ``self.pools`` has what each of them reaches.
    """

    def setUp(self) -> None:
        super().setUp()
        # Each round may sweep again.
        self.useFixture(fixtures.MockPatchObject(removal, 'INTERVAL', 0.0))
        self.pools: dict[str, tuple[pool_obj.SharedPool, ...]] = {}
        self.publishers: dict[str, publisher.Publisher] = {}
        self.cleared: list[str] = []
        for host in HOSTS:
            self.make_root(getattr(uuids, host), host)
            self.client.set_inventories(
                getattr(uuids, host),
                {'VCPU': class_inventory.Inventory(total=100)},
                0,
            )
            self.pools[host] = (POOL,)
            self.publishers[host] = self.start(host)

    def start(self, host: str) -> publisher.Publisher:
        node = host_provider.Node(
            uuid=getattr(uuids, host), hypervisor_hostname=host
        )

        def make_tree() -> list[host_provider.Provider]:
            return [
                host_provider.Provider(
                    rp_uuid=host_provider.make_rp_uuid(node.uuid, one.rp_name),
                    name=f'{host}_{one.rp_name}',
                    parent_uuid=node.uuid,
                    aggregates=frozenset({one.aggregate_uuid}),
                )
                for one in self.pools[host]
            ]

        return publisher.Publisher(
            self.client,
            node,
            publication.Source(
                make_tree,
                pools=lambda: self.pools[host],
                on_deleted=lambda: self.cleared.append(host),
            ),
        )

    def publish(self, *hosts: str) -> None:
        for host in hosts or HOSTS:
            self.publishers[host].run_round()
            self.assertEqual('', self.publishers[host].status.failure)

    def read(self) -> host_provider.Provider:
        return self.client.get_provider(POOL.rp_uuid)

    def read_numbers(self) -> tuple[int, int, int]:
        """Return total, reserved and capacity."""
        one = self.read().inventories[CLASS]
        return one.total, one.reserved, one.capacity

    def allocate(self, amount: int, consumer: str = uuids.server) -> None:
        held = self.client.get_allocations(consumer)
        if not amount and not held.resources:
            return
        self.client.put_allocations(
            responses.Allocations(
                consumer_uuid=consumer,
                resources={POOL.rp_uuid: {CLASS: amount}} if amount else {},
                project_id=uuids.project,
                user_id=uuids.user,
                generation=held.generation,
            )
        )

    def list_reached(self) -> list[str]:
        """Return the hosts to which placement offers the pool."""
        names = {getattr(uuids, host): host for host in HOSTS}
        found = self.client.list_candidates(
            [('resources', f'VCPU:1,{CLASS}:1')]
        )
        return sorted(
            names[rp_uuid]
            for one in found.allocations
            for rp_uuid in one
            if rp_uuid in names
        )


class PoolTest(PoolTestCase):
    def test_it_is_there_once_for_all_hosts(self) -> None:
        self.publish()

        self.assertEqual((100, 0, 100), self.read_numbers())
        self.assertEqual(POOL.all_traits, self.read().traits)
        self.assertIsNone(self.read().parent_uuid)
        self.assertEqual([*HOSTS], self.list_reached())
        having = [
            one
            for listed in self.client.list_providers()
            if CLASS in (one := self.client.read_provider(listed)).inventories
        ]
        self.assertEqual([POOL.rp_uuid], [one.rp_uuid for one in having])

        self.allocate(60)
        self.assertRaises(
            exception.AllocationRejected, self.allocate, 41, uuids.other
        )

    def test_where_nothing_changes_a_host_reads_two_things(self) -> None:
        self.publish()
        self.publish()
        self.forget_requests()

        self.publish('host1')

        self.assertEqual(
            [
                'GET /resource_providers',
                'GET /resource_providers',
                f'GET /resource_providers/{POOL.rp_uuid}/usages',
            ],
            self.app.requests,
        )

    def test_hosts_that_disagree_take_no_host_out(self) -> None:
        self.pools['host2'] = ()
        self.publish()
        self.assertEqual(['host1', 'host3'], self.list_reached())

        self.pools['host2'] = (POOL,)
        self.pools['host3'] = ()
        self.publish()

        self.assertEqual(['host1', 'host2'], self.list_reached())
        self.assertEqual((100, 0, 100), self.read_numbers())

    def test_the_last_host_takes_it_away(self) -> None:
        self.publish()
        self.pools = dict.fromkeys(HOSTS, ())
        self.publish('host1', 'host2')
        self.assertEqual((100, 0, 100), self.read_numbers())
        self.cleared.clear()

        self.publish('host3')

        self.assertEqual({*HOSTS}, self.list_names())
        self.assertIn('host3', self.cleared)

    def test_while_servers_hold_it_it_stays_closed(self) -> None:
        self.publish()
        self.allocate(10)
        self.pools = dict.fromkeys(HOSTS, ())

        self.publish()

        self.assertEqual((100, 100, 0), self.read_numbers())
        [held] = self.publishers['host3'].status.undeleted
        self.assertEqual((uuids.server,), held.consumers)

        self.allocate(0)
        self.publish('host3')
        self.assertEqual((), self.publishers['host3'].status.undeleted)
        self.assertEqual({*HOSTS}, self.list_names())

    def test_the_last_server_goes_while_it_is_swept(self) -> None:
        """After the provider could not be deleted, before it is reported."""
        self.publish()
        self.allocate(10)
        self.pools = dict.fromkeys(HOSTS, ())
        list_holders = placement_client.Client.list_holders

        def list_late(client: Any, rp_uuid: str) -> Any:
            self.allocate(0)
            return list_holders(client, rp_uuid)

        self.patch(placement_client.Client, 'list_holders', list_late)
        self.publish()

        self.assertEqual({*HOSTS}, self.list_names())

    def test_hosts_that_never_knew_it_leave_it_alone(self) -> None:
        self.publish()
        self.allocate(10)
        self.pools = dict.fromkeys(HOSTS, ())
        self.publish()

        # A restart remembers nothing.
        self.publishers['host3'] = self.start('host3')
        self.forget_requests()
        self.publish('host3')
        self.assertEqual(['GET /resource_providers'], self.app.requests)
        self.assertEqual((), self.publishers['host3'].status.undeleted)

        # One that has just come in to another pool deletes what it can, once.
        self.pools['host3'] = (dataclasses.replace(POOL, name='rack2'),)
        self.publish('host3')
        self.assertEqual((), self.publishers['host3'].status.undeleted)
        self.assertEqual((100, 100, 0), self.read_numbers())
        self.allocate(0)
        self.publishers['host3'] = self.start('host3')
        self.publish('host3')
        self.assertNotIn('POOL_rack1', self.list_names())

    def test_one_left_while_the_host_was_down_is_deleted(self) -> None:
        self.publish('host1')
        self.pools['host1'] = ()
        self.publishers['host1'] = self.start('host1')

        self.publish('host1')

        self.assertEqual({*HOSTS}, self.list_names())

    def test_a_sweep_that_fails_is_no_failure_of_the_host(self) -> None:
        self.useFixture(fixtures.MockPatchObject(removal, 'INTERVAL', 1000.0))
        self.publish('host1')
        self.pools['host1'] = ()
        self.app.fail('DELETE', POOL.rp_uuid, 100)

        self.publish('host1')

        self.assertIn('POOL_rack1', self.list_names())
        # It is not tried again at once.
        self.forget_requests()
        self.publish('host1')
        self.assertEqual(['GET /resource_providers'], self.app.requests)

    def list_names(self) -> set[str]:
        return {one.name for one in self.client.list_providers()}

    def test_one_that_is_reached_again_is_opened(self) -> None:
        self.publish()
        self.allocate(10)
        self.pools = dict.fromkeys(HOSTS, ())
        self.publish()

        self.pools['host2'] = (POOL,)
        self.publish()

        self.assertEqual((100, 0, 100), self.read_numbers())
        self.assertEqual(['host2'], self.list_reached())
        self.assertEqual((), self.publishers['host3'].status.undeleted)

    def set_free(self, free: int, at: datetime.datetime | None = None) -> None:
        """Have host1 read what is free, of 100."""
        pool = make_pool(free=free, others_use=pool_obj.NOT_ALLOCATED)
        assert pool.reading is not None
        reading = dataclasses.replace(
            pool.reading, read_at=at or datetime.datetime.now(datetime.UTC)
        )
        self.pools['host1'] = (dataclasses.replace(pool, reading=reading),)

    def test_a_host_without_a_node_reads_it_and_others_reach_it(self) -> None:
        storage = publisher.Publisher(
            self.client,
            None,
            publication.Source(pools=lambda: (POOL,)),
            host='storage',
        )
        reached = dataclasses.replace(POOL, is_read=False, reading=None)
        other = dataclasses.replace(POOL, name='rack2')
        self.pools = {'host1': (reached,), 'host2': (), 'host3': (other,)}
        storage.run_round()

        # A host that starts, and reaches another pool, deletes what none
        # reaches yet, and it comes back.
        self.publish('host3')
        storage.run_round()
        self.assertEqual('', storage.status.failure)
        self.assertEqual((100, 0, 100), self.read_numbers())

        self.publish('host1')
        self.publishers['host3'] = self.start('host3')
        self.publish()
        before = self.read()
        self.publishers['host1'] = self.start('host1')
        self.publish()

        self.assertEqual(before, self.read())
        self.assertIn('host1', self.list_reached())
        self.assertNotIn('host2', self.list_reached())
        self.assertEqual((), self.publishers['host1'].status.problems)

    def test_what_others_use_is_reserved(self) -> None:
        self.allocate_at_once(30)
        self.publish('host1')
        # 100 in all, 30 of servers, 50 free: others have 20.
        self.set_free(50)

        self.publish('host1')
        self.assertEqual((100, 20, 80), self.read_numbers())

        # The server is deleted, and so is its data.
        self.allocate(0)
        self.publish('host1')
        self.set_free(80)
        self.publish('host1')
        self.assertEqual((100, 20, 80), self.read_numbers())

    def test_what_is_allocated_after_a_reading_is_not_in_it(self) -> None:
        self.set_free(40)
        self.publish('host1')
        self.assertEqual((100, 60, 40), self.read_numbers())
        for consumer in (uuids.server, uuids.other):
            self.allocate(20, consumer)
            self.publish('host1')
            self.assertEqual((100, 60, 40), self.read_numbers())
        self.assertRaises(
            exception.AllocationRejected, self.allocate, 1, uuids.third
        )

        # A reading that is late, too: of a file that was written before.
        self.set_free(39, datetime.datetime.now(datetime.UTC))
        self.allocate(0, uuids.other)
        self.publish('host1')
        self.assertEqual((100, 41, 59), self.read_numbers())

    def test_a_reading_from_before_the_start_waits_for_the_next(self) -> None:
        self.allocate_at_once(30)
        self.publishers['host1'] = self.start('host1')
        self.set_free(50)

        self.publish('host1')
        self.assertEqual((100, 0, 100), self.read_numbers())

        self.set_free(50)
        self.publish('host1')
        self.assertEqual((100, 20, 80), self.read_numbers())

    def test_a_reading_counts_though_the_clock_was_set_back(self) -> None:
        self.set_free(40)
        self.publish('host1')
        self.allocate(20)
        self.publish('host1')
        hour = datetime.timedelta(hours=1)
        writer = self.publishers['host1']._pools
        clock = fake_clock.FakeClock(
            time.monotonic, lambda: clocks.MACHINE.read() - hour
        )
        self.patch(writer, '_clock', clock)

        for free in (10, 5):
            self.set_free(free, datetime.datetime.now(datetime.UTC) - hour)
            self.publish('host1')
            self.assertEqual((100, 80 - free, 20 + free), self.read_numbers())

    def test_by_default_what_others_have_is_offered_to_none(self) -> None:
        for used in (0, 20, 40):
            if used:
                self.allocate(used)
            self.pools['host1'] = (make_pool(free=40),)
            self.publish('host1')
            self.assertEqual((100, 60, 40), self.read_numbers())

    def allocate_at_once(self, amount: int) -> None:
        self.publish('host1')
        self.allocate(amount)

    def test_an_allocation_in_between_costs_one_round(self) -> None:
        self.publish('host1')
        self.pools['host1'] = (make_pool(reserved=20),)
        self.app.before_next(
            'PUT', f'{POOL.rp_uuid}/inventories', lambda: self.allocate(30)
        )

        self.publish('host1')
        self.assertEqual((100, 0, 100), self.read_numbers())

        self.publish('host1')
        self.assertEqual((100, 20, 80), self.read_numbers())

    def test_two_hosts_that_create_it_at_once_end_alike(self) -> None:
        self.app.before_next(
            'POST', '/resource_providers', lambda: self.publish('host2')
        )
        self.publish('host1')
        self.app.before_next(
            'PUT',
            f'{POOL.rp_uuid}/inventories',
            lambda: self.publish('host2'),
        )
        self.pools['host1'] = self.pools['host2'] = (make_pool(90),)

        self.publish('host1')

        self.assertEqual((90, 0, 90), self.read_numbers())
        self.assertEqual(['host1', 'host2'], self.list_reached())

    def test_a_host_that_is_overtaken_leaves_it_at_that(self) -> None:
        self.publish('host1', 'host2')
        self.pools['host1'] = (make_pool(50),)
        self.pools['host2'] = (make_pool(60),)
        path = f'/resource_providers/{POOL.rp_uuid}/inventories'
        self.app.before_next('PUT', path, lambda: self.publish('host2'))
        self.forget_requests()

        self.publish('host1')

        self.assertEqual((60, 0, 60), self.read_numbers())
        self.assertEqual(2, self.app.requests.count(f'PUT {path}'))
        self.publish('host1')
        self.assertEqual((60, 0, 60), self.read_numbers())
        self.assertEqual(2, self.app.requests.count(f'PUT {path}'))

    def test_an_old_reading_does_not_replace_a_newer_one(self) -> None:
        self.publish('host1', 'host2')
        self.pools['host2'] = (make_pool(60),)
        self.publish('host2')

        self.publish('host1')
        self.assertEqual((60, 0, 60), self.read_numbers())

        # What is not measured is that of the entry.
        rules = {'step_size': 2}
        self.pools['host1'] = (dataclasses.replace(POOL, rules=rules),)
        self.publish('host1')
        self.pools['host2'] = (make_pool(70),)
        self.publish('host2', 'host1')
        self.assertEqual((70, 0, 70), self.read_numbers())
        self.assertEqual(2, self.read().inventories[CLASS].step_size)

    def test_what_an_operator_puts_below_it_is_not_taken_for_it(self) -> None:
        self.make_root(uuids.child, 'child')
        self.publish('host1')
        self.client.update_provider(uuids.child, 'child', POOL.rp_uuid)
        self.pools['host1'] = (make_pool(60),)

        self.publish('host1')

        self.assertEqual((60, 0, 60), self.read_numbers())
        self.assertEqual({}, self.client.list_inventories(uuids.child))

    def test_all_at_once_and_servers_that_come_and_go(self) -> None:
        self.publish()
        over = []

        def publish(host: str) -> None:
            for total in range(60, 80):
                self.pools[host] = (make_pool(total, reserved=20),)
                self.publishers[host].run_round()

        def allocate() -> None:
            for number in range(30):
                consumer = getattr(uuids, f'server{number % 3}')
                try:
                    self.allocate(10 if number % 2 else 0, consumer)
                except exception.ConcurrentUpdate:
                    continue
                one = self.client.list_inventories(POOL.rp_uuid)[CLASS]
                used = self.client.list_usages(POOL.rp_uuid).get(CLASS, 0)
                if used > one.capacity:
                    over.append((used, one))

        threads = [
            *(threading.Thread(target=publish, args=(h,)) for h in HOSTS),
            threading.Thread(target=allocate),
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        for number in range(3):
            self.allocate(0, getattr(uuids, f'server{number}'))
        self.publish()

        # Of the last 79, others have 20.
        self.assertEqual((79, 20, 59), self.read_numbers())
        self.assertEqual([*HOSTS], self.list_reached())
        self.assertEqual([], over)

    def test_one_deleted_meanwhile_is_made_again(self) -> None:
        self.publish()
        self.app.before_next(
            'GET',
            f'{POOL.rp_uuid}/usages',
            lambda: self.client.delete_provider(POOL.rp_uuid),
        )

        self.publish('host1')

        self.assertEqual((100, 0, 100), self.read_numbers())
        self.assertEqual([*HOSTS], self.list_reached())

    def test_a_ratio_that_is_too_low_stops_its_own_pool_only(self) -> None:
        other = dataclasses.replace(
            make_pool(70), name='rack2', resource_class='CUSTOM_RACK2_GB'
        )
        self.allocate_at_once(60)
        for ratio in (1e-9, 1e-30):
            self.pools['host1'] = (
                make_pool(rules={'allocation_ratio': ratio}),
                other,
            )

            self.publish('host1')

            [problem] = self.publishers['host1'].status.problems
            self.assertEqual(alarm.POOL_OVERALLOCATED, problem.alarm)
            found = self.client.get_provider(other.rp_uuid).inventories
            self.assertEqual(70, found['CUSTOM_RACK2_GB'].total)
            self.assertEqual([], self.list_reached())

    def test_less_than_servers_hold_closes_it_and_is_reported(self) -> None:
        self.allocate_at_once(60)
        self.pools['host1'] = (make_pool(50),)

        self.publish('host1')

        self.assertEqual((100, 40, 60), self.read_numbers())
        [problem] = self.publishers['host1'].status.problems
        self.assertEqual(
            (alarm.POOL_OVERALLOCATED, 'rack1'),
            (problem.alarm, problem.subject),
        )

        # Other numbers are no line in the log.
        log = self.useFixture(fixtures.FakeLogger(publisher.LOG.logger.name))
        self.pools['host1'] = (make_pool(49),)
        self.publish('host1')
        self.assertEqual((100, 40, 60), self.read_numbers())
        self.assertNotIn('servers hold', log.output)

        self.pools['host1'] = (make_pool(70),)
        self.publish('host1')
        self.assertEqual((70, 0, 70), self.read_numbers())
        self.assertEqual((), self.publishers['host1'].status.problems)

    def test_an_unread_pool_stays_as_it_is(self) -> None:
        self.publish()
        self.pools['host1'] = (dataclasses.replace(POOL, reading=None),)

        self.publish('host1')

        self.assertEqual((100, 0, 100), self.read_numbers())
        self.assertEqual([*HOSTS], self.list_reached())

    def test_one_that_fails_here_is_left_to_other_hosts(self) -> None:
        self.publish()
        self.pools['host1'] = (dataclasses.replace(POOL, is_failing=True),)
        self.pools['host2'] = (make_pool(80, reserved=10),)

        self.publish('host2', 'host1')

        self.assertEqual((80, 10, 70), self.read_numbers())
        self.assertEqual([*HOSTS], self.list_reached())

    def test_another_class_closes_the_former_until_it_is_free(self) -> None:
        self.allocate_at_once(10)
        other = dataclasses.replace(POOL, resource_class='CUSTOM_NEW_GB')
        self.pools['host1'] = (other,)

        self.publish('host1')
        self.assertEqual((100, 100, 0), self.read_numbers())

        self.allocate(0)
        self.publish('host1')
        self.assertEqual({'CUSTOM_NEW_GB'}, self.read().inventories.keys())

    def test_hosts_with_different_entries_are_reported(self) -> None:
        for other in (
            make_pool(rules={'allocation_ratio': 2.0}),
            make_pool(rules={'max_unit': 3}),
            dataclasses.replace(POOL, resource_class='CUSTOM_NEW_GB'),
        ):
            with self.subTest(other=other):
                self.pools['host2'] = (other,)
                for _ in range(2):
                    self.publish('host1', 'host2')

                self.assertEqual(
                    [[(alarm.POOL_DIFFERS, 'rack1')]] * 2,
                    [self.list_problems(host) for host in HOSTS[:2]],
                )

        # Other numbers are none, nor is a new entry here.
        self.pools['host2'] = (make_pool(50),)
        for _ in range(2):
            self.publish('host2', 'host1')
        self.assertEqual([], self.list_problems('host1'))
        self.assertEqual([], self.list_problems('host2'))

    def list_problems(self, host: str) -> list[tuple[str, str]]:
        return [
            (one.alarm, one.subject)
            for one in self.publishers[host].status.problems
        ]

    def test_what_an_operator_adds_stays(self) -> None:
        self.publish()
        one = self.read()
        generation = self.client.set_aggregates(
            one.rp_uuid, [*one.aggregates, uuids.zone], one.generation or 0
        )
        self.client.ensure_trait('CUSTOM_FAST')
        self.client.set_traits(
            one.rp_uuid, [*one.traits, 'CUSTOM_FAST'], generation
        )
        self.pools = dict.fromkeys(HOSTS, (make_pool(90),))

        self.publish()

        self.assertIn(uuids.zone, self.read().aggregates)
        self.assertIn('CUSTOM_FAST', self.read().traits)

    def test_placement_that_is_away_leaves_all_and_is_reported(self) -> None:
        self.publish()
        self.pools['host1'] = (make_pool(90),)
        self.app.fail('GET', f'{POOL.rp_uuid}/usages', 100)

        self.publishers['host1'].run_round()

        self.assertIn('503', self.publishers['host1'].status.failure)
        self.assertEqual((100, 0, 100), self.read_numbers())
