# SPDX-License-Identifier: Apache-2.0

"""Notifications of real managers, as processes that are killed, to receivers.

There is no placement: what the manager needs it for fails in each pass, and
must not be in the way.
"""

import random
import signal
import subprocess
import threading
import time
from typing import Any

import sqlalchemy as sa

from nova_ext_resources.cmd import reservations
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import states
from nova_ext_resources.reservation.store import subscriptions
from nova_ext_resources.reservation.store import tables
from tests.functional.reservation import test_databases
from tests.unit.cmd import test_reservations
from tests.unit.reservation.webhook import receivers


class NotificationsTest(test_reservations.ProgramTests):
    def setUp(self) -> None:
        super().setUp()
        self.receiver = receivers.Receiver(self)
        self.write(
            'interval = 1',
            'clock_wait = 0',
            'end_notice = 0',
            f'webhook_urls = http://127.0.0.1:{self.receiver.port}',
            'webhook_networks = 127.0.0.0/8',
        )
        self.database = databases.Database(self.url)
        conf = reservations.read_conf(
            reservations.make_parser().parse_args(
                [f'--config-file={self.config}']
            )
        )
        self.subscriptions = subscriptions.Subscriptions(
            self.database, loading.make_rules(conf), time.time
        )
        self.follower = self.subscriptions.create(
            {'url': self.receiver.url, 'events': ['reservation']}
        )

    def start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self.make_command(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def wait_for(self, count: int) -> None:
        """Wait until so many requests have come."""
        deadline = time.monotonic() + test_reservations.PATIENCE
        while len(self.receiver.got) < count:
            self.assertLess(time.monotonic(), deadline, self.receiver.kinds)
            time.sleep(0.02)

    def wait_until_told(self, count: int) -> None:
        deadline = time.monotonic() + test_reservations.PATIENCE
        while self.read().sent < count:
            self.assertLess(time.monotonic(), deadline, self.read())
            time.sleep(0.05)

    def read(self) -> followers.Follower:
        return self.subscriptions.get(self.follower.uuid)

    def end_claim(self) -> None:
        """Let the time be over for which who was killed has claimed it."""
        with self.database.transaction() as connection:
            connection.execute(
                sa.update(tables.SUBSCRIPTIONS).values(due_at=0)
            )

    def change(self, key: str, number: int) -> None:
        """Write so many rows of the history."""
        for one in range(number):
            with self.database.transaction() as connection:
                # The first statement must write: managers do, too.
                connection.execute(
                    sa.update(tables.STATES).where(sa.false()).values(number=0)
                )
                states.repeat_state(
                    connection, key, int(time.time()), f'change {one}'
                )

    def check_all(self, count: int) -> None:
        """Check that each came, in order, and the same each time."""
        bodies: dict[int, bytes] = {}
        for one in self.receiver.got:
            number = one.event['sequence']
            self.assertLessEqual(number, len(bodies) + 1)
            self.assertEqual(bodies.setdefault(number, one.body), one.body)
            self.assertTrue(
                receivers.is_signed(one, self.follower.subscription.secret)
            )
        self.assertEqual([*range(1, count + 1)], [*bodies])
        ids = {one.event['id'] for one in self.receiver.got}
        self.assertEqual(count, len(ids))

    def test_killed_between_the_request_and_the_row(self) -> None:
        is_there, goes_on = threading.Event(), threading.Event()

        def hold(_handler: Any) -> int:
            is_there.set()
            goes_on.wait(test_reservations.PATIENCE)
            return 204

        self.receiver.behave = hold
        self.admit_now('lease', 1000)
        process = self.start()
        self.assertTrue(is_there.wait(test_reservations.PATIENCE))
        self.kill(process)
        goes_on.set()
        self.assertEqual(0, self.read().sent)

        self.receiver.behave = lambda _handler: 204
        self.end_claim()
        self.start()
        self.wait_until_told(2)

        self.assertEqual(
            ['reservation.created'] * 2 + ['reservation.started'],
            self.receiver.kinds,
        )
        self.check_all(2)

    def test_ended_while_it_sends(self) -> None:
        """What is under way is written, and is not sent again."""
        is_there = threading.Event()

        def work(_handler: Any) -> int:
            is_there.set()
            time.sleep(1)
            return 204

        self.receiver.behave = work
        self.admit_now('lease', 1000)
        process = self.start()
        self.assertTrue(is_there.wait(test_reservations.PATIENCE))
        process.terminate()

        self.assertEqual(0, process.wait(test_reservations.PATIENCE))
        self.assertEqual(1, self.read().sent)
        self.assertEqual(1, len(self.receiver.got))

    def test_read_anew_while_it_sends(self) -> None:
        """Of two couriers in one process, each event is sent by one."""
        self.receiver.behave = receivers.delay(0.1)
        self.admit_now('lease', 1000)
        self.change('lease', 20)
        process = self.start()
        for number in range(1, 5):
            self.wait_for(4 * number)
            process.send_signal(signal.SIGHUP)
        self.wait_until_told(22)

        self.assertIsNone(process.poll())
        self.assertEqual(22, len(self.receiver.got))
        self.check_all(22)

    def test_killed_at_any_time(self) -> None:
        self.admit_now('lease', 10000)
        self.receiver.behave = receivers.delay(0.01)
        for _round in range(5):
            self.change('lease', 20)
            process = self.start()
            time.sleep(random.uniform(0.5, 3))
            self.kill(process)
            self.end_claim()

        self.start()
        self.wait_until_told(102)
        self.check_all(102)

    def test_two_managers_send_each_once(self) -> None:
        self.admit_now('lease', 10000)
        self.receiver.behave = receivers.delay(0.01)
        processes = [self.start() for _number in range(2)]
        for number in range(1, 4):
            self.change('lease', 20)
            self.wait_until_told(20 * number + 2)

        self.assertEqual([None, None], [one.poll() for one in processes])
        self.assertEqual(62, len(self.receiver.got))
        self.check_all(62)

    def test_what_happens_while_no_manager_runs(self) -> None:
        process = self.start()
        self.admit_now('lease', 1000)
        self.wait_until_told(2)
        self.kill(process)
        self.end_claim()
        self.change('lease', 3)

        self.start()
        self.wait_until_told(5)

        self.check_all(5)

    def test_one_receiver_that_hangs(self) -> None:
        with self.database.transaction() as connection:
            connection.execute(
                sa.insert(tables.SUBSCRIPTIONS),
                {
                    **_read_row(connection, self.follower.uuid),
                    'subscription': '0',
                    'url': f'http://127.0.0.1:{self.receiver.port}/away',
                },
            )
        hang = self.receiver.hang
        self.receiver.behave = lambda handler: (
            hang(handler) if handler.path == '/away' else 204
        )
        self.start()
        self.admit_now('lease', 1000)

        self.wait_until_told(2)

        self.assertEqual(0, self.subscriptions.get('0').sent)


def _read_row(connection: sa.Connection, uuid: str) -> dict[str, Any]:
    query = sa.select(tables.SUBSCRIPTIONS).where(
        tables.SUBSCRIPTIONS.c.subscription == uuid
    )
    return dict(connection.execute(query).one()._mapping)


class MariaDbNotificationsTest(test_databases.OnMariaDb, NotificationsTest):
    pass


class PostgresNotificationsTest(test_databases.OnPostgres, NotificationsTest):
    pass
