# SPDX-License-Identifier: Apache-2.0

"""Tests of what subscribers are told, by receivers on this machine."""

from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import outages
from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import events
from nova_ext_resources.reservation.store import slots
from nova_ext_resources.reservation.store import states
from tests.unit.reservation import changes
from tests.unit.reservation import hosts
from tests.unit.reservation.manager import clouds
from tests.unit.reservation.manager import managers
from tests.unit.reservation.manager import notifiers
from tests.unit.reservation.store import stores
from tests.unit.reservation.webhook import receivers

SERVER = '11111111-1111-4111-8111-111111111111'

NOW = notifiers.NOW


class NotifyingTest(notifiers.NotifyingTestCase):
    def test_the_life_of_a_reservation(self) -> None:
        follower = self.subscribe()
        manager = self.make_manager()

        self.reserve('lease', after=3700, seconds=7200)
        for seconds in (0, 3700, 3600, 3600):
            self.time.pass_by(seconds)
            self.assertTrue(manager.run())

        self.assertEqual(
            [
                'reservation.created',
                'reservation.started',
                'reservation.ending',
                'reservation.ended',
            ],
            self.receiver.kinds,
        )
        self.assertEqual(
            [1, 2, 3, 4], [one.event['sequence'] for one in self.receiver.got]
        )
        for one in self.receiver.got:
            self.assertTrue(
                receivers.is_signed(one, follower.subscription.secret)
            )
            self.assertEqual(one.event['id'], one.headers['webhook-id'])
            self.assertEqual(follower.uuid, one.event['subscription'])
        self.assertEqual(
            {
                'id': self.receiver.got[1].event['id'],
                'type': 'reservation.started',
                'timestamp': '2001-09-09T02:48:20Z',
                'subscription': follower.uuid,
                'sequence': 2,
                'data': {
                    'message': 'The reservation has started; its servers may '
                    'be created.',
                    'reservation': 'lease',
                    'project': '',
                    'state': 'active',
                    'number': 1,
                    'cause': None,
                    'starts_at': '2001-09-09T02:48:20Z',
                    'ends_at': '2001-09-09T04:48:20Z',
                    'reason': 'its start, 2001-09-09T02:48:20Z, has come',
                },
            },
            self.receiver.got[1].event,
        )

    def test_each_row_of_the_history_is_one_event(self) -> None:
        self.subscribe(events=['reservation.created', 'reservation.changed'])
        for number in range(4):
            self.reserve(f'lease {number}', after=1000)
        manager = self.make_manager()

        for number in range(3):
            self.admission.replace(
                hosts.make_request(
                    'lease 0', hosts.span(NOW + 1000, NOW + 1500 + number)
                ),
                now=NOW + number,
                reason='longer',
            )
            manager.run()

        rows = len(stores.dump(self.url)['states'])
        self.assertEqual(rows, len(self.receiver.got))
        self.assertEqual(
            rows, len({one.event['id'] for one in self.receiver.got})
        )

    def test_nobody_is_told_of_what_was_before(self) -> None:
        self.reserve('before')
        self.subscribe(events=['reservation'])
        self.reserve('after')

        self.make_manager().run()

        self.assertEqual(
            ['after'],
            [one.event['data']['reservation'] for one in self.receiver.got],
        )

    def test_states_in_words(self) -> None:
        self.subscribe(events=['reservation'])
        self.reserve('lease')
        for state in (
            'degraded',
            'pending',
            'active',
            'degraded',
            'cancelled',
        ):
            self.admission.change(
                'lease', state_mod.State(state), now=NOW, reason='a test'
            )

        self.make_manager().run()

        self.assertEqual(
            [
                'created',
                'degraded',
                'restored',
                'started',
                'degraded',
                'cancelled',
            ],
            [one.partition('.')[2] for one in self.receiver.kinds],
        )

    def test_a_project_is_told_of_its_own_and_of_no_host(self) -> None:
        self.subscribe(project='red')
        self.reserve('red one', project='red')
        self.reserve('blue one', project='blue')
        reason = 'disabled: host a, for reservation blue one'
        self.admission.change(
            'red one', state_mod.State.DEGRADED, now=NOW, reason=reason
        )
        self.take('red one')

        self.make_manager().run()

        self.assertEqual(3, len(self.receiver.got))
        text = b''.join(one.body for one in self.receiver.got).decode()
        self.assertNotIn('host', text.lower().replace('webhook', ''))
        self.assertNotIn('blue', text)
        for one in self.receiver.got:
            self.assertEqual('red', one.event['data']['project'])

    def test_a_project_is_told_that_a_change_of_capacity_hurts(self) -> None:
        self.subscribe(project='red')
        self.reserve('one', project='red', least=4)
        cut = changes.make_maintenance('night', hosts.span(NOW + 100))
        self.admission.capacity.plan(
            'night', lambda _fleet, _others: cut, now=NOW, is_forced=True
        )

        self.make_manager().run()

        data = self.receiver.got[1].event['data']
        self.assertEqual('degraded', data['state'])
        self.assertEqual('capacity', data['cause'])
        self.assertNotIn('reason', data)

    def test_operators_are_told_all(self) -> None:
        self.subscribe()
        self.reserve('red one', project='red')
        self.take('red one')

        self.make_manager().run()

        first, second = (one.event['data'] for one in self.receiver.got)
        self.assertEqual(stores.REASON, first['reason'])
        self.assertEqual('a', second['host'])

    def test_only_one_reservation(self) -> None:
        self.reserve('one')
        self.reserve('other')
        self.subscribe(reservation='one', events=['reservation.cancelled'])
        for key in ('other', 'one'):
            self.admission.change(
                key, state_mod.State.CANCELLED, now=NOW, reason='a test'
            )

        self.make_manager().run()

        (got,) = self.receiver.got
        self.assertEqual('one', got.event['data']['reservation'])

    def take(self, key: str, server: str = SERVER) -> None:
        taken = slots.take(
            self.database, key, server, lambda held: held[0], now=NOW
        )
        assert taken is not None

    def test_allocations(self) -> None:
        self.reserve('one')
        self.reserve('other')
        self.subscribe(events=['allocation'])
        self.take('one')
        self.take('one')
        self.take('other')
        slot = stores.make_admission(self.url)
        slot.refresh(NOW)
        (taken,) = slot._mirror.held['other']
        self.assertTrue(slots.free(self.database, 'other', taken, now=NOW))

        self.make_manager().run()

        self.assertEqual(
            [
                ('allocation.taken', 'one'),
                ('allocation.released', 'one'),
                ('allocation.taken', 'other'),
                ('allocation.released', 'other'),
            ],
            [
                (one.event['type'], one.event['data']['reservation'])
                for one in self.receiver.got
            ],
        )
        for one in self.receiver.got:
            self.assertEqual(SERVER, one.event['data']['server'])

    def test_a_place_that_is_taken_by_a_clock_that_is_behind(self) -> None:
        """Two programs have freed and taken it, whose clocks differ."""
        self.reserve('one')
        self.subscribe(events=['allocation'])
        self.take('one')
        admission = stores.make_admission(self.url)
        admission.refresh(NOW)
        (taken,) = admission._mirror.held['one']
        slots.free(self.database, 'one', taken, now=NOW + 30)
        self.take('one', SERVER[:-1] + '2')

        self.make_manager().run()

        self.assertEqual(
            ['allocation.taken', 'allocation.released', 'allocation.taken'],
            self.receiver.kinds,
        )

    def test_an_update_that_releases_what_is_taken(self) -> None:
        self.reserve('one', after=0, least=2)
        self.subscribe(events=['allocation.released'])
        for number in (1, 2):
            slots.take(
                self.database,
                'one',
                SERVER[:-1] + str(number),
                lambda held: next(one for one in held if not one.consumer),
                now=NOW,
            )

        self.admission.replace(
            hosts.make_request('one', hosts.span(NOW, NOW + 100)),
            now=NOW,
            reason='smaller',
        )
        self.make_manager().run()

        self.assertEqual(['allocation.released'], self.receiver.kinds)

    def test_nothing_is_written_where_nobody_is_told(self) -> None:
        self.reserve('one')
        self.take('one')
        self.make_manager().run()

        self.assertEqual([], stores.dump(self.url)['events'])
        before = stores.dump(self.url)
        self.make_manager().run()
        self.assertEqual(before, stores.dump(self.url))

    def test_what_was_told_is_forgotten(self) -> None:
        self.subscribe()
        self.reserve('one')
        manager = self.make_manager()

        manager.run()

        self.assertEqual([], stores.dump(self.url)['events'])
        before = stores.dump(self.url)
        manager.run()
        self.assertEqual(before, stores.dump(self.url))
        self.assertEqual(1, len(self.receiver.got))

    def test_what_nobody_is_told_is_forgotten(self) -> None:
        self.subscribe(project='red')
        self.reserve('blue one', project='blue')

        self.make_manager().run()

        self.assertEqual([], stores.dump(self.url)['events'])

    def test_what_is_over_is_told_before_it_is_deleted(self) -> None:
        self.subscribe(events=['reservation'])
        self.reserve('one', after=1, seconds=1)
        self.time.pass_by(500)

        self.make_manager(keep_ended=0).run()

        self.assertEqual([], stores.dump(self.url)['reservations'])
        self.assertEqual(
            ['reservation.created', 'reservation.ended'], self.receiver.kinds
        )

    def test_the_subscription_of_what_is_gone_is_deleted(self) -> None:
        self.reserve('one', after=1, seconds=1)
        self.reserve('other', after=10**6)
        told = self.subscribe(reservation='one', events=['reservation'])
        late = self.subscribe(reservation='one', events=['reservation.ended'])
        self.subscribe()
        other = self.subscribe(reservation='other')
        manager = self.make_manager(keep_ended=0)
        manager.run()
        self.assertEqual(4, len(self.subscriptions.list_subscriptions()))
        self.time.pass_by(500)
        self.receiver.behave = lambda _handler: (
            503
            if self.receiver.got[-1].event['subscription'] == late.uuid
            else 204
        )
        manager.run()
        manager.run()

        found = {one.uuid for one in self.subscriptions.list_subscriptions()}
        self.assertNotIn(told.uuid, found)
        self.assertLess({late.uuid, other.uuid}, found)

        self.receiver.behave = lambda _handler: 204
        self.time.pass_by(500)
        manager.run()
        self.assertEqual('reservation.ended', self.receiver.kinds[-1])
        found = {one.uuid for one in self.subscriptions.list_subscriptions()}
        self.assertNotIn(late.uuid, found)
        self.assertEqual(2, len(found))

    def test_what_is_not_in_order_yet_is_not_deleted(self) -> None:
        self.subscribe()
        self.reserve('one', after=1, seconds=1)
        self.time.pass_by(500)

        managers.make_turn(self.url, self.time, keep_ended=0).run()
        self.assertEqual(1, len(stores.dump(self.url)['reservations']))
        self.make_manager(keep_ended=0).run()

        self.assertEqual(2, len(self.receiver.got))
        self.assertEqual([], stores.dump(self.url)['reservations'])

    def test_one_that_was_deleted_is_told_no_more(self) -> None:
        follower = self.subscribe()
        self.reserve('one')

        def delete(_handler: Any) -> int:
            self.subscriptions.delete(follower.uuid)
            return 204

        self.receiver.behave = delete
        self.reserve('two')
        self.make_manager().run()

        self.assertEqual(1, len(self.receiver.got))
        self.assertEqual([], stores.dump(self.url)['subscriptions'])

    def test_very_many_events(self) -> None:
        self.patch_most(3)
        self.subscribe(events=['reservation'])
        self.reserve('one', after=30)
        self.admission.change(
            'one', state_mod.State.ACTIVE, now=NOW, reason='a test'
        )
        with self.database.transaction() as connection:
            for number in range(20):
                states.repeat_state(
                    connection, 'one', NOW - number, f'change {number}'
                )

        self.make_manager().run()

        self.assertEqual(
            [*range(22)],
            [one.event['data']['number'] for one in self.receiver.got],
        )

    def test_what_takes_too_long_is_left_to_the_next_pass(self) -> None:
        self.patch_most(3)
        self.patch(time_budget, 'MAX_SECONDS', 0.0)
        self.subscribe(events=['reservation'])
        for number in range(7):
            self.reserve(f'lease {number}', after=100 + 100 * number)
        manager, told = self.make_manager(), []
        for _pass in range(3):
            manager.run()
            told.append(len(self.receiver.got))

        self.assertEqual([3, 6, 7], told)

    def patch_most(self, number: int) -> None:
        self.patch(events, 'MOST', number)


class RemainingTest(notifiers.NotifyingTestCase):
    def list_left(self) -> list[tuple[str, int]]:
        return [
            (
                one.event['data']['reservation'],
                one.event['data']['seconds_left'],
            )
            for one in self.receiver.got
        ]

    def subscribe_remaining(self, *remaining: str) -> None:
        self.subscribe(events=['reservation.ending'], remaining=[*remaining])

    def test_each_time_that_was_asked_for_once(self) -> None:
        self.subscribe_remaining('1h', '5m', '1m')
        self.reserve('one', after=0, seconds=7200)
        manager = self.make_manager()

        for _pass in range(160):
            self.time.pass_by(50)
            manager.run()

        self.assertEqual(
            [('one', 3600), ('one', 300), ('one', 60)], self.list_left()
        )
        self.assertEqual(
            '2001-09-09T02:46:40Z', self.receiver.got[0].event['timestamp']
        )

    def test_a_manager_that_was_down_says_it_late_but_not_too_late(
        self,
    ) -> None:
        self.subscribe_remaining('1h', '5m')
        self.reserve('one', after=0, seconds=7200)
        self.reserve('over', after=0, seconds=3601)
        self.make_manager().run()
        self.time.pass_by(7000)

        self.make_manager().run()

        self.assertEqual([('one', 3600), ('one', 300)], self.list_left())

    def test_what_lies_before_the_start(self) -> None:
        self.subscribe_remaining('1h', '5m')
        self.reserve('short', after=3000, seconds=1800)
        manager = self.make_manager()
        for _pass in range(9):
            self.time.pass_by(500)
            manager.run()

        self.assertEqual([('short', 300)], self.list_left())

    def test_what_lies_before_the_subscription(self) -> None:
        self.reserve('long', after=0, seconds=7200)
        self.time.pass_by(3700)

        self.subscribe_remaining('1h', '5m')
        self.make_manager().run()

        self.assertEqual([], self.receiver.got)

    def test_a_prolonged_one_is_said_again(self) -> None:
        self.subscribe_remaining('1m')
        self.reserve('one', after=0, seconds=100)
        manager = self.make_manager()
        self.time.pass_by(50)
        manager.run()
        self.admission.replace(
            hosts.make_request('one', hosts.span(NOW, NOW + 1000)),
            now=NOW + 50,
            reason='longer',
        )
        for _pass in range(9):
            self.time.pass_by(100)
            manager.run()

        self.assertEqual(
            ['2001-09-09T01:48:20Z', '2001-09-09T02:03:20Z'],
            [one.event['data']['ends_at'] for one in self.receiver.got],
        )

    def test_a_clock_that_is_not_trusted_says_nothing(self) -> None:
        self.subscribe_remaining('1m')
        self.reserve('one', after=0, seconds=100)
        manager = self.make_manager(wait=1000)
        self.time.pass_by(50)
        manager.run()

        self.assertEqual([], self.receiver.got)

    def test_a_clock_that_was_far_ahead(self) -> None:
        self.subscribe_remaining('1m')
        self.time.clock += 10**6
        self.make_manager().run()
        self.time.clock -= 10**6

        self.reserve('one', after=0, seconds=100)
        manager = self.make_manager()
        manager.run()
        self.time.pass_by(50)
        manager.run()

        self.assertEqual([('one', 60)], self.list_left())


class ShortagesTest(notifiers.NotifyingTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.follower = self.subscribe(
            zone='one', resource_class='VCPU', threshold=10
        )

    def look(self, available: int, *, zone: str = 'one') -> list[str]:
        self.have(available, zone)
        self.time.pass_by(100)
        self.assertTrue(self.make_manager().run())
        return self.receiver.kinds

    def test_each_turn_is_told_once(self) -> None:
        seen = [len(self.look(one)) for one in (10, 9, 9, 0, 10, 50, 10, 9)]

        self.assertEqual([0, 1, 1, 1, 2, 2, 2, 3], seen)
        self.assertEqual(
            ['capacity.low', 'capacity.enough', 'capacity.low'],
            self.receiver.kinds,
        )
        data = self.receiver.got[0].event['data']
        self.assertEqual(9, data['available'])
        self.assertEqual(100, data['total'])
        self.assertEqual(10, data['threshold'])

    def test_a_zone_without_hosts(self) -> None:
        self.assertEqual(['capacity.low'], self.look(99, zone='other'))

    def test_an_empty_placement_says_nothing(self) -> None:
        self.make_manager().run()

        self.assertEqual([], self.receiver.got)

    def test_it_is_looked_at_now_and_then(self) -> None:
        manager = self.make_manager()
        self.have(99)
        for _pass in range(10):
            self.time.pass_by(15)
            manager.run()

        self.assertEqual(3, self.read)

    def test_a_clock_that_was_ahead_puts_off_no_look(self) -> None:
        manager = self.make_manager()
        self.have(99)
        for step in (0, 10**6, -(10**6)):
            self.time.clock += step
            manager.run()

        self.assertEqual(3, self.read)

    def test_placement_that_is_away(self) -> None:
        def refuse(_now: int) -> Any:
            raise exception.PlacementUnavailable(action='list', detail='away')

        self.patch(self, 'read_amounts', refuse)
        self.subscribe(events=['reservation'])
        self.reserve('one')

        self.assertFalse(self.make_manager().run())

        self.assertEqual(['reservation.created'], self.receiver.kinds)

    def test_a_bug_stops_nothing_else(self) -> None:
        def fail(_now: int) -> Any:
            raise KeyError('a bug')

        self.patch(self, 'read_amounts', fail)
        self.subscribe(events=['reservation'])
        self.reserve('one')

        self.assertFalse(self.make_manager().run())

        self.assertEqual(['reservation.created'], self.receiver.kinds)

    def test_hosts_that_are_lost_are_not_believed_at_once(self) -> None:
        """What too many lost hosts had is not said to be missing."""
        admission = stores.make_admission(
            self.url, *(hosts.make_host(name) for name in 'abcde')
        )
        now = int(self.time.clock)
        for name in 'abcde':
            self.admit(
                admission, name, hosts.span(now + 9000, now + 9999), least=2
            )
        cloud = clouds.FakeCloud([hosts.make_host('e')])
        manager = self.make_manager(cloud=cloud)
        self.have(1)
        manager.run()
        self.assertEqual([], self.receiver.kinds)

        self.time.pass_by(outages.BELIEVED_SECONDS)
        manager.run()

        self.assertEqual(['capacity.low'], self.receiver.kinds)

    def test_two_managers_note_it_once(self) -> None:
        self.have(1)
        for one in [self.make_manager() for _number in range(2)]:
            one.run()

        self.assertEqual(['capacity.low'], self.receiver.kinds)
