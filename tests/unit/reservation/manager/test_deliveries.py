# SPDX-License-Identifier: Apache-2.0

"""Tests of how subscribers are told, where much fails."""

import itertools
import json
import threading
from typing import Any

import fixtures
import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import courier
from nova_ext_resources.reservation.manager import deliveries
from nova_ext_resources.reservation.manager import lanes
from nova_ext_resources.reservation.manager import shortages
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import events
from nova_ext_resources.reservation.store import news
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import states
from nova_ext_resources.reservation.store import tables
from nova_ext_resources.reservation.webhook import sender
from tests import base
from tests.unit.reservation.manager import breaking
from tests.unit.reservation.manager import notifiers
from tests.unit.reservation.store import stores
from tests.unit.reservation.webhook import receivers

SERVER = '11111111-1111-4111-8111-111111111111'

NOW = notifiers.NOW


class ReceiversTest(notifiers.NotifyingTestCase):
    """What is told when receivers fail, in each way."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=20))
        self.follower = self.subscribe(events=['reservation'])

    def run_later(self, manager: Any, seconds: int = 4000) -> None:
        self.time.pass_by(seconds)
        manager.run()

    def test_in_order_after_failures_of_all_kinds(self) -> None:
        def work(_handler: Any) -> int:
            return 204

        for number in range(3):
            self.reserve(f'lease {number}', after=10**7)
        manager = self.make_manager(timeout=2.0)
        for behave in (
            lambda _handler: 500,
            receivers.reset,
            self.receiver.hang,
            self.receiver.drip,
            lambda _handler: 302,
            work,
        ):
            self.receiver.behave = behave
            self.run_later(manager)

        self.assertEqual(8, len(self.receiver.got))
        got = [one.event for one in self.receiver.got]
        self.assertEqual([1] * 6 + [2, 3], [one['sequence'] for one in got])
        self.assertEqual(1, len({one['id'] for one in got[:6]}))
        self.assertEqual(1, len({one.body for one in self.receiver.got[:6]}))
        self.assertEqual(
            [f'lease {number}' for number in range(3)],
            [one['data']['reservation'] for one in got[5:]],
        )
        after = self.read_follower(self.follower)
        self.assertEqual((3, 0), (after.sent, after.failures))
        self.assertIn('succeed again', self.log.output)

    def test_one_that_is_gone_and_comes_back(self) -> None:
        port = self.receiver.port
        self.receiver.close()
        self.reserve('lease', after=10**7)
        manager = self.make_manager()
        self.run_later(manager)
        failed = self.read_follower(self.follower)
        self.assertEqual(1, failed.failures)
        self.assertIn('no connection', str(failed.failure))

        back = receivers.Receiver(self, port)
        self.run_later(manager)

        self.assertEqual(1, len(back.got))

    def test_pauses_grow(self) -> None:
        self.receiver.behave = lambda _handler: 500
        self.reserve('lease', after=10**7)
        manager = self.make_manager()
        seen = []
        for _pass in range(60):
            self.time.pass_by(10)
            manager.run()
            seen.append(len(self.receiver.got))

        # After 0, 10, 20, 40, ... seconds, and a fifth more at most.
        self.assertLess(seen[-1], 8)
        self.assertGreater(seen[-1], 4)
        self.assertEqual(1, self.log.output.count('will be retried'))

    def test_one_that_always_fails_is_suspended(self) -> None:
        self.receiver.behave = lambda _handler: 500
        self.reserve('lease', after=10**7)
        manager = self.make_manager()
        for _pass in range(80):
            self.run_later(manager)
        number = len(self.receiver.got)
        self.assertIn('is suspended after', self.log.output)
        # The path may have a token.
        self.assertNotIn('/hook', self.log.output)

        self.receiver.behave = lambda _handler: 204
        for _pass in range(5):
            self.run_later(manager)

        self.assertEqual(number, len(self.receiver.got))
        after = self.read_follower(self.follower)
        self.assertIsNotNone(after.suspended_at)
        self.assertIn('500', str(after.failure))
        self.assertEqual([], stores.dump(self.url)['events'])

    def test_a_manager_that_was_down_has_not_tried(self) -> None:
        self.receiver.behave = lambda _handler: 500
        self.reserve('lease', after=10**7)
        for _pass in range(3):
            self.run_later(self.make_manager(), 10 * notifiers.PATIENCE)

        self.assertIsNone(self.read_follower(self.follower).suspended_at)

    def test_one_that_succeeds_now_and_then_is_suspended(self) -> None:
        """Else all events of the cloud would be kept for it."""
        # Here a manager comes only now and then.
        self.patch(deliveries, 'SLACK', 1800)
        numbers = itertools.count(1)
        self.receiver.behave = lambda _handler: (
            204 if next(numbers) % 10 == 0 else 503
        )
        self.reserve('lease', after=10**7)
        manager = self.make_manager()
        for number in range(3 * notifiers.PATIENCE // 1800):
            self.time.pass_by(1800)
            with self.database.transaction() as connection:
                states.repeat_state(
                    connection, 'lease', int(self.time.clock), f'no {number}'
                )
            manager.run()

        after = self.read_follower(self.follower)
        self.assertIsNotNone(after.suspended_at)
        self.assertGreater(after.sent, 0)
        self.assertEqual([], stores.dump(self.url)['events'])

    def test_one_that_is_too_slow_is_suspended(self) -> None:
        """It never fails, and takes one event an hour."""
        self.reserve('lease', after=10**7)
        manager = self.make_manager()
        for number in range(60):
            for one in range(5):
                with self.database.transaction() as connection:
                    states.repeat_state(
                        connection,
                        'lease',
                        int(self.time.clock),
                        f'no {number} {one}',
                    )
            news.give_positions(self.database)
            deliver = self.make_courier(self.database)._deliveries
            for follower in deliver.list_due():
                attempt = deliver.claim(follower)
                assert attempt is not None
                self.time.pass_by(3600)
                deliver.write_sent(attempt)
            after = self.read_follower(self.follower)
            if after.suspended_at is not None:
                break

        manager.run()
        # It falls behind by 48 minutes an hour: to half a day in 15 hours.
        self.assertGreater(number, 30)
        self.assertLess(number, 50)
        self.assertIn('long past', str(after.failure))
        self.assertEqual([], stores.dump(self.url)['events'])

    def test_a_backlog_that_is_worked_off_is_no_trouble(self) -> None:
        self.receiver.behave = lambda _handler: 500
        self.reserve('lease', after=10**7)
        manager = self.make_manager()
        for _pass in range(5):
            self.run_later(manager)
        self.receiver.behave = lambda _handler: 204
        self.run_later(manager, 10 * notifiers.PATIENCE)
        after = self.read_follower(self.follower)
        self.assertEqual(1, after.sent)

        manager.run()
        self.assertIsNone(self.read_follower(self.follower).failing_since)

        # Days later, one failure is not the last one.
        self.time.pass_by(10 * notifiers.PATIENCE)
        self.receiver.behave = lambda _handler: 500
        self.reserve('other', after=10**7)
        manager.run()
        after = self.read_follower(self.follower)
        self.assertEqual('failing', after.state)

    def test_a_clock_that_was_ahead(self) -> None:
        self.receiver.behave = lambda _handler: 500
        self.reserve('lease', after=10**7)
        month = 30 * 86400
        self.time.clock += month
        self.make_manager().run()
        self.time.clock -= month
        self.make_manager().run()
        self.assertEqual(2, len(self.receiver.got))
        after = self.read_follower(self.follower)
        self.assertEqual(notifiers.NOW, after.failing_since)

        # And one that steps forwards: nobody has tried for a month.
        self.time.clock += month
        self.make_manager().run()
        self.assertEqual(3, len(self.receiver.got))
        self.assertEqual('failing', self.read_follower(self.follower).state)

    def test_a_reason_that_is_very_long(self) -> None:
        """The column of MariaDB takes 65535 bytes."""
        self.reserve('lease', after=10**7)
        deliver = self.make_courier(self.database)._deliveries
        news.give_positions(self.database)
        attempt = deliver.claim(*deliver.list_due())
        assert attempt is not None
        deliver.write_failed(attempt, sender.NotDelivered(70000 * 'x'))

        after = self.read_follower(self.follower)
        self.assertEqual(500 * 'x', after.failure)

    def test_details_of_a_failure_are_for_operators(self) -> None:
        self.reserve('lease', after=10**7)
        deliver = self.make_courier(self.database)._deliveries
        news.give_positions(self.database)
        attempt = deliver.claim(*deliver.list_due())
        assert attempt is not None
        err = sender.NotDelivered('its host', details='10.0.0.1')
        deliver.write_failed(attempt, err)

        self.assertEqual('its host', self.read_follower(self.follower).failure)
        self.assertIn('its host (10.0.0.1)', self.log.output)

    def test_two_subscriptions_of_one_receiver_have_ids_of_their_own(
        self,
    ) -> None:
        """A receiver may leave out what it knows by its id."""
        self.subscribe(events=['reservation'])
        self.reserve('lease', after=10**7)
        self.make_manager().run()

        first, second = self.receiver.got
        self.assertNotEqual(first.event['id'], second.event['id'])
        for one in self.receiver.got:
            self.assertEqual(one.event['id'], one.headers['webhook-id'])

    def test_one_that_is_gone_for_good(self) -> None:
        self.receiver.behave = lambda _handler: 410
        self.reserve('lease', after=10**7)

        self.make_manager().run()

        self.assertIsNotNone(self.read_follower(self.follower).suspended_at)

    def test_one_that_hangs_keeps_nobody_waiting(self) -> None:
        self.patch_budget(60.0)
        self.receiver.behave = receivers.answer(500)
        red = [self.subscribe(project='red') for _number in range(19)]
        other = receivers.Receiver(self)
        self.subscribe(receiver=other, project='blue')
        manager = self.make_manager(timeout=60.0)
        self.reserve('first', project='red')
        self.run_later(manager)
        # They have failed now, and all are due.
        self.time.pass_by(4000)
        self.reserve('second', project='red')
        for number in range(4):
            self.reserve(f'blue {number}', project='blue', after=10**7)
        all_came = threading.Event()

        def note(_handler: Any) -> int:
            if len(other.got) == 4:
                all_came.set()
            return 204

        def hang(_handler: Any) -> int:
            return 500 if all_came.wait(30) else 400

        other.behave = note
        self.receiver.behave = hang
        manager.run()

        self.assertEqual(4, len(other.got))
        failures = {str(self.read_follower(one).failure) for one in red}
        self.assertNotIn('400', ' '.join(failures))

    def test_a_pass_ends_in_time(self) -> None:
        self.patch_budget(0.5)
        self.receiver.behave = receivers.delay(0.1)
        for number in range(4):
            self.reserve(f'lease {number}', after=10**7)
        with self.database.transaction() as connection:
            for number in range(30):
                states.repeat_state(
                    connection, 'lease 0', NOW, f'change {number}'
                )
        manager = self.make_manager()
        manager.run()
        self.assertLess(len(self.receiver.got), 34)

        # On a machine under load, a pass may send no more than one.
        for _pass in range(60):
            if len(self.receiver.got) < 34:
                manager.run()

        self.assertEqual(
            [*range(1, 35)],
            [one.event['sequence'] for one in self.receiver.got],
        )

    def patch_budget(self, seconds: float) -> None:
        self.patch(courier, 'BUDGET', seconds)

    def test_without_a_free_thread_nothing_has_failed(self) -> None:
        self.patch_budget(0.5)
        self.patch(lanes, 'PLACES', {**lanes.PLACES, 'doubtful': 1})
        self.receiver.behave = self.receiver.hang
        quick = self.subscribe(events=['reservation'])
        self.reserve('lease', after=10**7)
        self.make_manager(timeout=2.0).run()

        found = sorted(
            self.read_follower(one).failures for one in (quick, self.follower)
        )
        self.assertEqual([0, 1], found)

    def test_no_transaction_is_open_while_it_is_sent(self) -> None:
        self.patch(databases, 'BUSY_SECONDS', 1)
        other = databases.Database(self.url)

        def write(_handler: Any) -> int:
            with other.transaction() as connection:
                connection.execute(
                    sa.update(tables.POSITIONS).values(
                        position=tables.POSITIONS.c.position
                    )
                )
                connection.execute(
                    sa.update(tables.SUBSCRIPTIONS).values(
                        sent=tables.SUBSCRIPTIONS.c.sent
                    )
                )
            return 204

        self.receiver.behave = write
        self.reserve('lease')
        self.make_manager().run()

        self.assertEqual(1, self.read_follower(self.follower).sent)


class PauseTest(base.TestCase):
    def test_pauses_double_up_to_an_hour(self) -> None:
        for failures, least in (
            (1, 10),
            (2, 20),
            (9, 2560),
            (10, 3600),
            (10**9, 3600),
        ):
            found = {deliveries.find_pause(failures) for _try in range(50)}

            self.assertLessEqual(least, min(found))
            self.assertLessEqual(max(found), least * 6 // 5)
            self.assertLess(1, len(found))


class ManagersTest(notifiers.NotifyingTestCase):
    """What is told by several managers, and by those that die."""

    def test_two_at_once_send_each_event_once(self) -> None:
        for _number in range(5):
            self.subscribe(events=['reservation'])
        for number in range(4):
            self.reserve(f'lease {number}')
        self.receiver.behave = receivers.delay(0.02)
        threads = [
            threading.Thread(target=self.make_manager().run)
            for _number in range(3)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.time.pass_by(100)
        self.make_manager().run()

        found = sorted(
            (one.event['subscription'], one.event['sequence'])
            for one in self.receiver.got
            if one.event['type'] == 'reservation.created'
        )
        self.assertEqual(20, len(found))
        self.assertEqual(20, len(set(found)))

    def test_one_that_dies_before_it_has_written_sends_again(self) -> None:
        follower = self.subscribe(events=['reservation'])
        self.reserve('one', after=10**6)
        self.reserve('two', after=10**6)
        broken = breaking.BreaksInWrites(self.url)
        broken.is_broken = False

        def die(_handler: Any) -> int:
            broken.is_broken = True
            return 204

        self.receiver.behave = die
        self.patch_retry()
        self.assertRaises(
            exception.StoreUnavailable, self.make_manager(broken).run
        )
        self.receiver.behave = lambda _handler: 204

        # Nobody else sends it as long as the claim holds.
        self.make_manager().run()
        self.assertEqual(1, len(self.receiver.got))
        self.time.pass_by(deliveries.CLAIM)
        self.make_manager().run()

        first, again, last = self.receiver.got
        self.assertEqual(first.body, again.body)
        self.assertEqual(2, last.event['sequence'])
        self.assertEqual(2, self.read_follower(follower).sent)

    def patch_retry(self) -> None:
        self.patch(retry, 'MAX_ATTEMPTS', 2)

    def test_an_answer_of_the_database_that_is_lost(self) -> None:
        follower = self.subscribe(events=['reservation'])
        for number in range(3):
            self.reserve(f'lease {number}', after=10**6)
        database = breaking.LosesAnswers(self.url)

        try:
            self.make_manager(database).run()
        except exception.StoreUnavailable:
            self.assertTrue(database.is_lost)
        self.time.pass_by(deliveries.CLAIM)
        self.make_manager().run()

        got = [one.event['sequence'] for one in self.receiver.got]
        self.assertEqual([1, 2, 3], sorted(set(got)))
        self.assertEqual(sorted(got), got)
        self.assertEqual(3, self.read_follower(follower).sent)

    def test_two_that_note_the_same_shortage(self) -> None:
        follower = self.subscribe(
            zone='one', resource_class='VCPU', threshold=10
        )
        watched = follower.subscription.watched
        assert watched is not None
        event = shortages.find_event(watched, None, NOW, is_low=False)
        assert event is not None

        for _manager in range(2):
            # Both have read it before one of them wrote.
            shortages.Shortages(self.database, self.read_amounts, 60)._write(
                follower, event
            )

        self.assertEqual(1, len(stores.dump(self.url)['events']))

    def test_a_shortage_that_is_noted_while_something_is_sent(self) -> None:
        follower = self.subscribe(
            zone='one', resource_class='VCPU', threshold=10
        )
        self.have(1)
        manager = self.make_manager()
        self.receiver.behave = lambda _handler: 500
        manager.run()
        self.time.pass_by(1000)

        def turn(_handler: Any) -> int:
            self.receiver.behave = lambda _handler: 204
            self.have(50)
            self.time.pass_by(61)
            shortages.Shortages(
                self.database, self.read_amounts, 60, is_once=True
            ).run(int(self.time.clock))
            return 204

        self.receiver.behave = turn
        manager.run()
        for _pass in range(3):
            self.time.pass_by(100)
            manager.run()

        self.assertEqual(
            ['capacity.low', 'capacity.low', 'capacity.enough'],
            self.receiver.kinds,
        )
        self.assertEqual(
            [1, 1, 2], [one.event['sequence'] for one in self.receiver.got]
        )
        self.assertFalse(self.read_follower(follower).is_low)

    def test_rows_that_are_seen_late_are_not_passed_by(self) -> None:
        """Written before others, and committed after them."""
        self.subscribe(events=['reservation'])
        self.reserve('one', after=10**6)
        self.reserve('two', after=10**6)
        with self.database.transaction() as connection:
            (row,) = connection.execute(
                sa.select(tables.STATES).where(
                    tables.STATES.c.reservation == 'one'
                )
            ).all()
            connection.execute(
                sa.delete(tables.STATES).where(
                    tables.STATES.c.reservation == 'one'
                )
            )
        self.make_manager().run()
        self.assertEqual(1, len(self.receiver.got))

        with self.database.transaction() as connection:
            connection.execute(sa.insert(tables.STATES), dict(row._mapping))
        self.make_manager().run()

        self.assertEqual(
            ['two', 'one'],
            [one.event['data']['reservation'] for one in self.receiver.got],
        )

    def test_positions_are_given_once_by_many(self) -> None:
        self.subscribe(events=['reservation'])
        for number in range(4):
            self.reserve(f'lease {number}')
        threads = [
            threading.Thread(
                target=news.give_positions,
                args=(databases.Database(self.url), None),
            )
            for _number in range(4)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

        rows = stores.dump(self.url)['events']
        self.assertEqual(4, len(rows))
        self.assertEqual(4, len({one.position for one in rows}))
        with self.database.transaction() as connection:
            last = events.read_positions(connection).last
        self.assertEqual(max(one.position for one in rows), last)
        self.assertEqual(
            {one.position for one in rows},
            {one.told for one in stores.dump(self.url)['states']},
        )
        for one in rows:
            self.assertIn('reason', json.loads(one.private))
