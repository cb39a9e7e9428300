# SPDX-License-Identifier: Apache-2.0

"""Tests that no receiver delays other receivers, or the manager."""

from collections.abc import Callable
import socket
import threading
import time
from typing import Any

import fixtures
from oslo_utils import uuidutils

from nova_ext_resources.reservation import event as event_mod
from nova_ext_resources.reservation.manager import courier
from nova_ext_resources.reservation.manager import lanes
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import events
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import news
from nova_ext_resources.reservation.store import retry
from tests.unit.reservation.manager import breaking
from tests.unit.reservation.manager import notifiers
from tests.unit.reservation.webhook import receivers

#: Seconds until a test that waits has failed.
PATIENCE = 20


class CourierTestCase(notifiers.NotifyingTestCase):
    """With a thread that sends.

    :ivar found: lets names be found that nobody knows
    """

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=20))
        self.found = threading.Event()
        self.addCleanup(self.found.set)
        self.searches = 0
        self.patch(courier, 'POLL', 0.05)

    def resolve(self, host: str, port: int, **fields: Any) -> Any:
        if host.endswith('.test'):
            self.searches += 1
            self.found.wait()
        return socket.getaddrinfo('127.0.0.1', port, **fields)

    def start(
        self,
        timeout: float = 20.0,
        database: databases.Database | None = None,
    ) -> courier.Courier:
        made = self.make_courier(
            database or databases.Database(self.url),
            timeout,
            is_once=False,
            resolve=self.resolve,
        )
        self.addCleanup(made.close, 5.0)
        return made

    def take_for_quick(
        self, sends: courier.Courier, quick: followers.Follower
    ) -> None:
        """Let its answers take no time, however busy the machine is."""
        send = sends._send

        def send_and_measure(request: Any) -> float:
            seconds = send(request)
            is_quick = request.attempt.follower.uuid == quick.uuid
            return 0.0 if is_quick else seconds

        self.patch(sends, '_send', send_and_measure)

    def subscribe_unknown(self, project: str) -> followers.Follower:
        """Subscribe a receiver whose name is never found."""
        return self.subscriptions.create(
            {'url': f'http://hook{self.read}.test:{self.receiver.port}/'},
            project=project,
        )

    def tell(self, key: str, project: str = '') -> None:
        """Let something happen."""
        event = event_mod.Event(
            uuid=uuidutils.generate_uuid(),
            kind=event_mod.Kind.CREATED,
            project=project,
            reservation=key,
            happened_at=int(self.time.clock),
        )
        with self.database.transaction() as connection:
            events.add(connection, [event])
        news.give_positions(self.database)

    def wait_for(self, what: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not what():
            self.assertLess(time.monotonic(), end, self.log.output)
            time.sleep(0.01)

    def wait_for_requests(
        self, number: int, receiver: receivers.Receiver | None = None
    ) -> None:
        got = (receiver or self.receiver).got
        self.wait_for(lambda: len(got) >= number)


class CourierTest(CourierTestCase):
    def test_one_project_delays_no_other_by_names(self) -> None:
        """Names take long, and their subscriptions are always new ones."""
        slow = [self.subscribe_unknown('red') for _number in range(20)]
        self.subscribe(project='blue')
        sends = self.start()
        for number in range(6):
            self.tell(f'red {number}', 'red')
            self.tell(f'blue {number}', 'blue')
            sends.run()
            self.wait_for_requests(number + 1)
            for one in slow[:2]:
                self.subscriptions.delete(one.uuid)
            slow = slow[2:] + [self.subscribe_unknown('red') for _two in '12']

        # None of them was found meanwhile.
        self.assertEqual(lanes.PLACES['project'], self.searches)
        self.found.set()

    def test_slow_receivers_delay_no_others(self) -> None:
        """They all answer well, and are more than there are places."""
        self.patch(courier, 'SLOW', 0.1)
        self.patch(
            lanes,
            'PLACES',
            {'well': 2, 'doubtful': 2, 'project': 2, 'destination': 99},
        )
        sends = self.start(timeout=3.0 * PATIENCE)
        self.take_for_quick(sends, self.subscribe(project='blue'))
        self.tell('first', 'blue')
        sends.run()
        self.wait_for_requests(1)
        slow = receivers.Receiver(self)
        answers = threading.Semaphore(0)
        self.addCleanup(answers.release, 99)

        def work(_handler: Any) -> int:
            answers.acquire()
            return 204

        slow.behave = work
        for number in range(12):
            self.subscribe(receiver=slow, project=f'slow {number}')
        for number in range(2):
            for one in range(12):
                self.tell(f'slow {one} {number}', f'slow {one}')
            sends.run()
            self.wait_for_requests(2 * number + 2, slow)
            time.sleep(0.2)
            answers.release(2)
            # The places of new and of slow receivers are all taken again.
            self.wait_for_requests(2 * number + 4, slow)
            self.tell(f'blue {number}', 'blue')
            sends.run()
            self.wait_for_requests(number + 2)

        self.assertEqual(6, len(slow.got))
        self.assertLess(1, len(sends._slow))

    def test_no_receiver_delays_a_pass(self) -> None:
        self.receiver.behave = self.receiver.hang
        follower = self.subscribe()
        sends = self.start(timeout=3.0 * PATIENCE)
        self.tell('one')
        sends.run()
        self.wait_for_requests(1)
        for _pass in range(5):
            self.assertTrue(sends.run())

        self.assertEqual(0, self.read_follower(follower).failures)
        # The receiver may be quicker than what notes that it was asked.
        self.wait_for(lambda: sends._is_busy)

    def test_no_more_than_the_places_of_a_project_and_of_a_receiver(
        self,
    ) -> None:
        places = {
            'red': lanes.PLACES['project'],
            '': lanes.PLACES['destination'],
        }
        now, most = dict.fromkeys(places, 0), dict.fromkeys(places, 0)
        lock = threading.Condition()

        def work(handler: Any) -> int:
            got = next(
                one
                for one in reversed(self.receiver.got)
                if one.headers['webhook-id'] == handler.headers['webhook-id']
            )
            project = got.event['data']['project']
            with lock:
                now[project] += 1
                most[project] = max(most[project], now[project])
                lock.notify_all()
                # Until all places were taken once.
                lock.wait_for(
                    lambda: most[project] >= places[project], PATIENCE
                )
            # More would come meanwhile.
            time.sleep(0.05)
            with lock:
                now[project] -= 1
            return 204

        self.receiver.behave = work
        for _number in range(8):
            self.subscribe(project='red', events=['reservation'])
        other = receivers.Receiver(self)
        other.behave = work
        for number in range(2):
            self.tell(f'red {number}', 'red')
        sends = self.start(timeout=3.0 * PATIENCE)
        sends.run()
        self.wait_for(lambda: len(self.receiver.got) >= 16)
        for _number in range(8):
            self.subscribe(events=['reservation'])
        self.tell('operators')
        sends.run()
        self.wait_for(lambda: len(self.receiver.got) >= 24)

        self.assertEqual(places, most)

    def test_what_is_given_up_is_not_sent_later(self) -> None:
        self.patch(courier, 'GRACE', 0.1)
        follower = self.subscribe_unknown('')
        self.tell('one')
        sends = self.start(timeout=2.0)
        sends.run()
        self.wait_for(lambda: bool(self.read_follower(follower).failures))
        self.assertIn('in time', str(self.read_follower(follower).failure))
        self.found.set()
        self.wait_for(lambda: not sends._under_way)
        self.assertEqual([], self.receiver.got)

        self.time.pass_by(4000)
        sends.run()
        self.wait_for(lambda: self.read_follower(follower).sent == 1)

        self.assertEqual(1, len(self.receiver.got))

    def test_a_search_that_hangs_keeps_its_place(self) -> None:
        self.patch(courier, 'GRACE', 0.1)
        first = [self.subscribe_unknown('red') for _number in range(2)]
        self.tell('one', 'red')
        sends = self.start(timeout=0.2)
        sends.run()
        self.wait_for(
            lambda: all(self.read_follower(one).failures for one in first)
        )
        self.subscribe_unknown('red')
        self.tell('two', 'red')
        sends.run()
        time.sleep(0.3)

        self.assertEqual(2, self.searches)

    def test_the_end_waits_for_what_is_under_way(self) -> None:
        self.receiver.behave = receivers.delay(0.5)
        follower = self.subscribe()
        self.tell('one')
        self.tell('two')
        sends = self.start()
        sends.run()
        self.wait_for(lambda: bool(self.receiver.got))

        sends.close(5.0)

        self.assertEqual(1, self.read_follower(follower).sent)
        self.assertEqual(1, len(self.receiver.got))
        assert sends._thread is not None
        self.assertFalse(sends._thread.is_alive())

    def test_the_end_does_not_wait_for_a_search(self) -> None:
        self.patch(courier, 'GRACE', 0.1)
        self.subscribe_unknown('')
        self.tell('one')
        sends = self.start(timeout=0.2)
        sends.run()
        self.wait_for(lambda: self.searches == 1)

        sends.close(PATIENCE)

        assert sends._thread is not None
        self.assertFalse(sends._thread.is_alive())
        self.assertFalse(self.found.is_set())

    def test_it_goes_on_after_the_database_was_away(self) -> None:
        self.patch(retry, 'MAX_ATTEMPTS', 1)
        database = breaking.BreaksInWrites(self.url)
        follower = self.subscribe()
        self.tell('one')
        sends = self.start(database=database)
        sends.run()
        self.wait_for(lambda: 'will be retried' in self.log.output)
        self.assertFalse(sends.run())
        self.assertEqual([], self.receiver.got)

        database.is_broken = False
        self.wait_for(lambda: self.read_follower(follower).sent == 1)

    def test_a_bug_ends_nothing(self) -> None:
        follower = self.subscribe()
        self.tell('one')
        sends = self.start()
        work = sends._deliveries.list_due

        def fail() -> Any:
            sends._deliveries.list_due = work  # type: ignore[method-assign]
            raise KeyError('a bug')

        sends._deliveries.list_due = fail  # type: ignore[method-assign]
        sends.run()

        self.wait_for(lambda: self.read_follower(follower).sent == 1)
        self.assertIn('please report the bug', self.log.output)

    def test_a_claim_that_took_too_long_is_not_used(self) -> None:
        """Another manager may have claimed it by then."""
        self.patch(courier, 'STALE', -1.0)
        follower = self.subscribe()
        self.tell('one')

        self.make_manager().run()

        self.assertEqual([], self.receiver.got)
        self.assertEqual(notifiers.NOW, self.read_follower(follower).due_at)

    def test_what_is_told_comes_without_a_pass(self) -> None:
        """Another manager has put it in order."""
        self.subscribe()
        sends = self.start()
        sends.run()
        self.tell('one')

        self.wait_for(lambda: len(self.receiver.got) == 1)
