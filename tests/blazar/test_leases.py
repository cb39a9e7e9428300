# SPDX-License-Identifier: Apache-2.0

"""Leases of servers, by Blazar's own API."""

from concurrent import futures
from typing import Any

from blazar import context
from blazar import manager as blazar_manager
from blazar.manager import exceptions as manager_exceptions
from blazar.utils import service as service_utils
from oslo_config import cfg

from nova_ext_resources import exception
from nova_ext_resources.reservation import interval
from tests.blazar import base
from tests.unit.reservation import sites

HOUR, NOW = sites.HOUR, sites.NOW


def hours(start: float, end: float) -> interval.Interval:
    return interval.Interval(NOW + int(start * HOUR), NOW + int(end * HOUR))


class CreateTest(base.BlazarTestCase):
    def test_what_is_reserved(self) -> None:
        lease = self.make(
            'night', 20, 30, amount=2, zone='north', priority=5, affinity=True
        )

        found = self.read(lease)
        self.assertEqual('PENDING', lease['status'])
        self.assertEqual(hours(20, 30), found.during)
        self.assertEqual(['a'], found.hosts)
        self.assertEqual(2, len(found.servers))
        self.assertEqual('project', found.request.project)
        self.assertEqual(5, found.request.priority)
        self.assertIn(f'lease {lease["id"]} (night)', found.last.reason)

    def test_as_many_as_there_is_room_for(self) -> None:
        lease = self.make('night', 1, 2, min=1, max=9)

        self.assertEqual(4, len(self.read(lease).servers))

    def test_amounts_in_place_of_a_flavor(self) -> None:
        answer = self.lease(
            'night', 1, 2, {'resources': {'VCPU': 3}, 'amount': '2'}
        )

        found = self.read(answer.body['lease'])
        self.assertEqual(
            {'VCPU': 3}, dict(found.request.demand.requirement.resources)
        )
        self.assertEqual(2, len(found.servers))

    def test_now_is_not_before_the_reservation_is_made(self) -> None:
        # Blazar cuts it to the minute that is not over yet.
        self.clock.advance_time_seconds(59)

        lease = self.make('now', 0, 2)

        found = self.read(lease)
        self.assertEqual(
            interval.Interval(NOW + 59, NOW + 2 * HOUR), found.during
        )
        self.assertEqual('active', found.state)

    def test_a_refusal_has_the_counter_offer(self) -> None:
        self.make('first', 2, 4, amount=3)

        answer = self.lease('second', 3, 5, amount=2)

        self.assertEqual(409, answer.status)
        for text in (
            '2 requested from 2030-01-01T03:00:00Z to 2030-01-01T05:00:00Z',
            '1 can be had in that time',
            '2 can be had from 2030-01-01T04:00:00Z to 2030-01-01T06:00:00Z',
        ):
            self.assertIn(text, answer.text)
        short = 'Host a: VCPU of provider a: 4 requested, 0 available'
        self.assertNotIn('Host', answer.text)
        self.assertIn(short, self.log.output)
        cfg.CONF.set_override('show_hosts', True, group=base.TYPE)
        again = self.lease('second', 3, 5, amount=2)
        self.assertIn(short, again.text)
        self.assertEqual(1, len(self.ask('GET', '/leases').body['leases']))
        self.assertEqual(1, len(self.list_states()))

    def test_the_offer_can_be_taken(self) -> None:
        self.make('first', 2, 4, amount=3)

        lease = self.make('second', 4, 6, amount=2)

        self.assertEqual(hours(4, 6), self.read(lease).during)

    def test_what_makes_no_sense(self) -> None:
        large = {'flavor': 'large'}
        for reason, wanted in (
            ('no flavor tiny', {'flavor': 'tiny'}),
            ('or else amounts', {}),
            ('less than the minimum', {**large, 'amount': 0}),
            ('not a whole number', {**large, 'amount': 'two'}),
            ('or else min and max', {**large, 'amount': 1, 'max': 2}),
            ('2 is less than 3', {**large, 'min': 3, 'max': 2}),
            ('write amount', {**large, 'servers': 3}),
            ('comes from the lease', {**large, 'starts_at': 'now'}),
            ('are fixed', {**large, 'delay': '1h'}),
            ('known: north, south', {**large, 'zone': 'east'}),
            ('is not one of', {**large, 'affinity': 'near'}),
            ('10 at most', {**large, 'priority': 11}),
            ('unexpected', {**large, 'colour': {'red': [1, None]}}),
            ('can be planned', {'flavor': 'mixed'}),
            ('CUSTOM_X', {'resources': {'CUSTOM_X': 1}}),
        ):
            with self.subTest(reason):
                answer = self.lease('wrong', 1, 2, wanted)

                self.assertEqual(400, answer.status, answer.text)
                self.assertIn(reason, answer.text)
        self.assertEqual([], self.ask('GET', '/leases').body['leases'])
        self.assertEqual({}, self.list_states())

    def test_what_is_malformed_is_refused_before_there_is_a_lease(
        self,
    ) -> None:
        self.lease('wrong', 1, 2, {'flavor': 'large', 'amount': 0})

        self.assertNotIn('Rollback the lease', self.log.output)

    def test_what_cannot_be_answered(self) -> None:
        def fail(*_args: object) -> Any:
            raise exception.PlacementUnavailable(action='list', detail='away')

        self.patch(self.site, 'list_hosts', fail)

        answer = self.lease('night', 1, 2)

        self.assertEqual(409, answer.status)
        self.assertIn('Try again later', answer.text)
        self.assertNotIn('away', answer.text)
        self.assertIn('Placement did not list', self.log.output)
        self.assertEqual([], self.ask('GET', '/leases').body['leases'])

    def test_all_of_a_lease_or_nothing(self) -> None:
        wanted = {'flavor': 'large', 'amount': 3}

        refused = self.lease('two', 1, 2, wanted, wanted)
        made = self.lease('two', 1, 2, wanted, {**wanted, 'amount': 1})

        self.assertEqual(409, refused.status)
        self.assertIn('1 can be had', refused.text)
        self.assertEqual(201, made.status)
        self.assertEqual(2, len(self.list_states()))

    def test_leases_that_are_made_at_once(self) -> None:
        # Each host has room for two.
        with futures.ThreadPoolExecutor(8) as pool:
            answers = [
                *pool.map(
                    lambda number: self.lease(f'{number}', 1, 2), range(12)
                )
            ]

        found = sorted(one.status for one in answers)
        self.assertEqual([201] * 4 + [409] * 8, found)
        self.assertEqual(4, len(self.list_states()))


class UpdateTest(base.BlazarTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.made = self.make('night', 2, 4, amount=2)
        self.key = self.made['reservations'][0]['id']

    def change(self, **values: Any) -> base.Answer:
        return self.update(
            self.made, reservations=[{'id': self.key, **values}]
        )

    def test_other_dates(self) -> None:
        for values, wanted in (
            ({'end_date': self.date(6)}, hours(2, 6)),
            ({'start_date': self.date(3)}, hours(3, 6)),
            (
                {'start_date': self.date(1), 'end_date': self.date(2)},
                hours(1, 2),
            ),
        ):
            with self.subTest(**values):
                answer = self.update(self.made, **values)

                self.assertEqual(200, answer.status)
                self.assertEqual(wanted, self.read(self.made).during)

    def test_another_number(self) -> None:
        for values, wanted in (
            ({'amount': 4}, 4),
            ({'amount': 1}, 1),
            ({'min': 1, 'max': 3}, 3),
            ({'min': 2}, 3),
        ):
            with self.subTest(**values):
                answer = self.change(**values)

                self.assertEqual(200, answer.status)
                self.assertEqual(wanted, len(self.read(self.made).servers))
        self.assertEqual(hours(2, 4), self.read(self.made).during)
        self.assertEqual('PENDING', self.show(self.made)['status'])

    def test_what_does_not_fit_changes_nothing(self) -> None:
        other = self.make('other', 4, 9, amount=3)

        answer = self.update(self.made, end_date=self.date(5))

        self.assertEqual(409, answer.status)
        self.assertIn('1 can be had in that time', answer.text)
        self.assertEqual(hours(2, 4), self.read(self.made).during)
        lease = self.show(self.made)
        self.assertEqual('PENDING', lease['status'])
        self.assertEqual('2030-01-01T04:00:00.000000', lease['end_date'])
        self.assertEqual(204, self.delete(other).status)
        again = self.update(self.made, end_date=self.date(5))
        self.assertEqual(200, again.status)

    def test_what_cannot_be_changed(self) -> None:
        for values in (
            {'flavor': 'small'},
            {'zone': 'north'},
            {'amount': 'many'},
            {'priority': 50},
        ):
            with self.subTest(**values):
                answer = self.change(**values)

                self.assertEqual(400, answer.status)
                self.assertEqual('PENDING', self.show(self.made)['status'])

    def test_a_reservation_may_be_sent_back_as_it_was_read(self) -> None:
        lease = self.show(self.made)

        answer = self.update(
            self.made,
            end_date=self.date(5),
            reservations=[{**lease['reservations'][0], 'flavor': 'large'}],
        )

        self.assertEqual(200, answer.status)
        self.assertEqual(hours(2, 5), self.read(self.made).during)

    def test_what_has_started_gets_another_end(self) -> None:
        self.pass_time(3)
        self.play_events()

        answer = self.update(self.made, end_date=self.date(9))

        self.assertEqual(200, answer.status)
        self.assertEqual(hours(2, 9), self.read(self.made).during)
        self.assertEqual('ACTIVE', self.show(self.made)['status'])

    def test_what_has_started_is_not_moved(self) -> None:
        # Blazar would move it within the minute of its start.
        self.pass_time(2)
        self.play_events()

        answer = self.update(self.made, start_date=self.date(3))

        self.assertEqual(400, answer.status)
        self.assertIn('has started', answer.text)
        self.assertEqual('ACTIVE', self.show(self.made)['status'])
        self.assertEqual(hours(2, 4), self.read(self.made).during)

    def test_a_name_alone_changes_nothing(self) -> None:
        self.assertEqual(200, self.update(self.made, name='x').status)

        changes = self.open_store().list_changes(self.key)

        self.assertEqual(1, len(changes))

    def test_a_store_that_is_away_leaves_the_lease_as_it_is(self) -> None:
        def fail(*args: object, **kwargs: object) -> Any:
            raise exception.StoreUnavailable(reason='away')

        with self.plugin._keeper.use() as opened:
            self.patch(opened, 'update', fail)

        answer = self.update(self.made, end_date=self.date(5))

        self.assertEqual(409, answer.status)
        self.assertEqual('PENDING', self.show(self.made)['status'])


class UpdateSeveralTest(base.BlazarTestCase):
    """A lease with two reservations."""

    def setUp(self) -> None:
        super().setUp()
        answer = self.lease(
            'two',
            2,
            4,
            {'flavor': 'large', 'zone': 'north', 'amount': 1},
            {'flavor': 'large', 'zone': 'south', 'amount': 1},
        )
        self.made = answer.body['lease']
        self.keys = [one['id'] for one in self.made['reservations']]

    def list_during(self) -> list[interval.Interval]:
        found = self.open_store().list_reservations()
        return [one.during for one in found if one.request.key in self.keys]

    def update_here(self, end: float) -> None:
        """Update the lease in this thread, as a thread of Blazar does it."""
        with context.BlazarContext(service_catalog=base.CATALOGUE):
            self.manager.update_lease(
                lease_id=self.made['id'], values={'end_date': self.date(end)}
            )

    def test_all_are_changed(self) -> None:
        for end in (5, 6):
            answer = self.update(self.made, end_date=self.date(end))

            self.assertEqual(200, answer.status)
            self.assertEqual([hours(2, end)] * 2, self.list_during())

    def test_what_an_earlier_update_has_changed_stays(self) -> None:
        # One thread makes many updates.
        for zone in ('north', 'south'):
            with self.subTest(zone):
                other = self.make('other', 6, 9, zone=zone, amount=2)
                for end in (4, 5):
                    self.update_here(end)

                self.assertRaises(
                    manager_exceptions.CantUpdateParameter, self.update_here, 7
                )

                self.assertEqual([hours(2, 5)] * 2, self.list_during())
                self.delete(other)

    def test_if_one_is_refused_all_stay(self) -> None:
        for zone in ('north', 'south'):
            with self.subTest(zone):
                other = self.make('other', 5, 9, zone=zone, amount=2)
                self.update(self.made, end_date=self.date(5))

                answer = self.update(self.made, end_date=self.date(6))

                self.assertEqual(409, answer.status)
                self.assertEqual([hours(2, 5)] * 2, self.list_during())
                self.assertEqual('PENDING', self.show(self.made)['status'])
                self.delete(other)

    def test_what_is_beyond_a_newer_limit_stays_too(self) -> None:
        self.open_store().limits.set_limits('project', duration=HOUR)
        for zone in ('north', 'south'):
            with self.subTest(zone):
                other = self.make('other', 6, 7, zone=zone, amount=2)

                answer = self.update(
                    self.made, start_date=self.date(6), end_date=self.date(7.5)
                )

                self.assertEqual(409, answer.status)
                self.assertEqual([hours(2, 4)] * 2, self.list_during())
                self.delete(other)


class DeleteTest(base.BlazarTestCase):
    def test_what_is_left_of_its_time_is_free(self) -> None:
        lease = self.make('first', 1, 4, amount=4)
        self.pass_time(2)
        self.play_events()

        answer = self.delete(lease)

        self.assertEqual(204, answer.status)
        self.assertEqual('cancelled', self.read(lease).state)
        self.make('second', 2, 4, amount=4)

    def test_what_has_not_started(self) -> None:
        lease = self.make('first', 1, 4, amount=4)

        self.delete(lease)

        self.assertEqual('cancelled', self.read(lease).state)
        self.assertIn('deleted', self.read(lease).last.reason)

    def test_a_lease_that_is_over_stays_over(self) -> None:
        lease = self.make('first', 1, 2)
        self.pass_time(3)
        for _pass in range(2):
            self.play_events()

        answer = self.delete(lease)

        self.assertEqual(204, answer.status)
        self.assertEqual('ended', self.read(lease).state)


class ReadTest(base.BlazarTestCase):
    """What Blazar forgets of a request, ours returns."""

    def setUp(self) -> None:
        super().setUp()
        self.made = self.make(
            'night', 1, 2, min=1, max=2, zone='south', affinity='same-host'
        )
        self.key = self.made['reservations'][0]['id']

    def call(self, method: str, **kwargs: object) -> Any:
        client = service_utils.RPCClient(blazar_manager.get_target())
        with context.BlazarContext():
            return client.call(f'{base.TYPE}:{method}', **kwargs)

    def test_what_was_asked_for(self) -> None:
        found = self.call('get_reservation', reservation_id=self.key)

        self.assertEqual(
            {
                'id': self.key,
                'state': 'pending',
                'reason': f'reserved by lease {self.made["id"]} (night) of '
                'Blazar',
                'starts_at': '2030-01-01T01:00:00Z',
                'ends_at': '2030-01-01T02:00:00Z',
                'project': 'project',
                'flavor': 'large',
                'resources': {'VCPU': 4},
                'servers': 2,
                'servers_at_least': 1,
                'servers_at_most': 2,
                'servers_taken': 0,
                'taken_by': {},
                'zone': 'south',
                'affinity': 'same-host',
                'priority': 0,
                'expires_at': None,
                'at_end': 'keep',
                'hosts': {'b': 2},
            },
            {name: one for name, one in found.items() if name != 'changes'},
        )

    def test_which_hosts_have_what(self) -> None:
        other = self.make('other', 1, 2, zone='north')
        key = other['reservations'][0]['id']
        here = {'id': self.key, 'lease_id': self.made['id']}
        there = {'id': key, 'lease_id': other['id']}

        everything = self.call('list_allocations', query={})
        one = self.call('list_allocations', query={'lease_id': other['id']})
        some = self.call(
            'query_allocations',
            resource_id_list=['b', 'c'],
            reservation_id=self.key,
        )

        self.assertEqual(
            [
                {'resource_id': 'a', 'reservations': [there]},
                {'resource_id': 'b', 'reservations': [here]},
            ],
            everything,
        )
        self.assertEqual(everything[:1], one)
        self.assertEqual({'b': [here], 'c': []}, some)
        self.assertEqual('a', self.call('get', resource_id='a')['id'])
