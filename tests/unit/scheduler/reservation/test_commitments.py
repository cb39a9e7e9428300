# SPDX-License-Identifier: Apache-2.0

"""Tests of what the scheduler knows of promises, with a slow database."""

from collections.abc import Iterator
import contextlib
import threading
from typing import Any
from unittest import mock

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.scheduler.reservation import commitments
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores


class FollowedTestCase(stores.StoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=20))
        self.database = databases.Database(self.url)
        self.followed = commitments.Followed(self.database)
        self.admission = stores.make_admission(self.url)
        self.later = hosts.span(4_000_000_000, 4_000_000_009)

    def find_peak(self, followed: commitments.Followed | None = None) -> int:
        followed = followed or self.followed
        start = self.later.start
        return followed.promises.find_peak(('a', 'VCPU'), start, start + 9)

    def break_database(self) -> Any:
        err = exception.StoreUnavailable(reason='it is away')
        patch = mock.patch.object(
            self.database, 'transaction', side_effect=err
        )
        self.addCleanup(patch.stop)
        return patch.start()


class HangingTest(FollowedTestCase):
    """A database that hangs keeps nobody waiting but who asks it."""

    def setUp(self) -> None:
        super().setUp()
        self.answer = threading.Event()
        self.addCleanup(self.answer.set)
        self.asked = threading.Event()
        self.is_locked: list[bool] = []

    def hang(self) -> None:
        transaction = self.database.transaction

        @contextlib.contextmanager
        def wait() -> Iterator[Any]:
            # Another thread can have it.
            held = self.try_lock()
            self.is_locked.append(not held)
            self.asked.set()
            self.assertTrue(self.answer.wait(30))
            with transaction() as connection:
                yield connection

        self.patch(self.database, 'transaction', wait)

    def try_lock(self) -> bool:
        found: list[bool] = []

        def try_it() -> None:
            if self.followed.lock.acquire(timeout=5):
                self.followed.lock.release()
                found.append(True)

        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
        return bool(found)

    def refresh_beside(self) -> threading.Thread:
        thread = threading.Thread(target=self.followed.refresh)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.answer.set)
        self.assertTrue(self.asked.wait(30))
        return thread

    def test_no_lock_is_held_while_it_is_read(self) -> None:
        self.hang()
        self.answer.set()

        self.followed.refresh()

        self.assertTrue(self.is_locked)
        self.assertFalse(any(self.is_locked))

    def test_who_comes_later_goes_by_what_was_read_last(self) -> None:
        self.admit(self.admission, 'lease', self.later)
        self.followed.refresh()
        self.hang()
        self.patch(commitments, 'PATIENCE_SECONDS', 0.0)
        hanging = self.refresh_beside()

        # Of this thread, for it would wait for ever.
        self.followed.refresh()

        self.assertTrue(hanging.is_alive())
        self.assertEqual(1, len(self.is_locked))
        self.assertEqual(4, self.find_peak())

    def test_a_read_that_never_ends_is_given_up(self) -> None:
        self.followed.refresh()
        self.hang()
        self.patch(commitments, 'PATIENCE_SECONDS', 0.0)
        hanging = self.refresh_beside()
        self.patch(commitments, 'LOST_SECONDS', 0.0)
        self.patch(commitments, 'PAUSE_SECONDS', 0.0)
        self.admit(self.admission, 'lease', self.later)
        self.patch(
            self.database,
            'transaction',
            databases.Database(self.url).transaction,
        )

        self.followed.refresh()

        self.assertTrue(hanging.is_alive())
        self.assertIn('has waited for more than', self.log.output)
        self.assertEqual(4, self.find_peak())

    def test_at_first_each_one_asks_it(self) -> None:
        self.admit(self.admission, 'lease', self.later)
        self.hang()
        self.patch(commitments, 'PATIENCE_SECONDS', 0.0)
        self.refresh_beside()
        self.answer.set()

        self.followed.refresh()

        self.assertEqual(4, self.find_peak())

    def test_a_read_that_goes_on_hinders_no_quick_one(self) -> None:
        self.followed.refresh()
        self.hang()
        hanging = self.refresh_beside()
        self.admit(self.admission, 'lease', self.later)
        self.patch(
            self.database,
            'transaction',
            databases.Database(self.url).transaction,
        )

        self.followed.refresh()
        self.assertEqual(4, self.find_peak())
        self.answer.set()
        hanging.join()

        self.assertEqual(4, self.find_peak())

    def hang_for_some_time(self) -> threading.Thread:
        """Let a read hang since long before; later ones are answered."""
        self.followed.refresh()
        self.hang()
        hanging = self.refresh_beside()
        self.followed._begun[0] -= 2 * commitments.PROBE_SECONDS
        self.answer_others()
        return hanging

    def answer_others(self) -> None:
        transaction = databases.Database(self.url).transaction
        self.patch(self.database, 'transaction', transaction)

    def test_one_that_hangs_keeps_no_other_from_the_database(self) -> None:
        hanging = self.hang_for_some_time()
        self.followed.refresh()
        self.patch(commitments, 'LOST_SECONDS', 1.0)

        self.admit(self.admission, 'lease', self.later)
        self.assertTrue(self.followed.refresh().is_fresh)

        self.assertTrue(hanging.is_alive())
        self.assertEqual(4, self.find_peak())
        self.assertFalse(self.followed.is_away)

    def test_while_reads_hang_one_more_is_tried_now_and_then(self) -> None:
        self.hang_for_some_time()
        self.admit(self.admission, 'lease', self.later)
        self.patch(commitments, 'PROBE_SECONDS', 3600.0)

        self.assertFalse(self.followed.refresh().is_fresh)
        self.assertEqual(0, self.find_peak())
        self.assertTrue(self.followed.refresh(must_ask=True).is_fresh)

        self.assertEqual(4, self.find_peak())

    def test_a_failure_from_before_it_answered_is_none_of_now(self) -> None:
        self.followed.refresh()
        self.hang()
        hanging = self.refresh_beside()
        self.answer_others()
        self.followed.refresh()
        err = exception.StoreUnavailable(reason='it is away')
        self.patch(
            self.followed,
            '_reader',
            mock.Mock(
                fetch=mock.Mock(side_effect=err),
                revisions=self.followed._reader.revisions,
            ),
        )

        self.answer.set()
        hanging.join()

        self.assertFalse(self.followed.is_away)
        self.assertIn('but later reads have succeeded', self.log.output)

    def test_who_has_read_the_clock_earlier_reads_nothing_anew(self) -> None:
        self.admit(self.admission, 'lease', self.later)
        self.followed.refresh()
        version = self.followed.promises.get_version('a')
        # As if another request had read it a minute later.
        self.followed._reader._oldest += 60

        self.followed.refresh()

        self.assertEqual(version, self.followed.promises.get_version('a'))

    def test_while_it_is_away_one_that_must_asks_it(self) -> None:
        self.followed.refresh()
        with mock.patch.object(
            self.database,
            'transaction',
            side_effect=exception.StoreUnavailable(reason='away'),
        ):
            self.followed.refresh()
        self.hang()
        thread = threading.Thread(
            target=self.followed.refresh, kwargs={'must_ask': True}
        )
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.answer.set)
        self.assertTrue(self.asked.wait(30))
        self.patch(commitments, 'PATIENCE_SECONDS', 0.0)

        read = self.followed.refresh(must_ask=True)

        self.assertFalse(read.is_fresh)
        self.assertEqual(1, len(self.is_locked))
        # Another request finds that it answers, and then it is away again.
        self.answer_others()
        self.followed._pause = 0.0
        self.followed._begun.clear()
        self.assertTrue(self.followed.refresh().is_fresh)
        transaction = self.break_database()
        self.followed.refresh()
        self.followed.refresh(must_ask=True)
        self.assertEqual(2, transaction.call_count)

    def test_while_it_is_away_one_asks_it(self) -> None:
        self.followed.refresh()
        self.patch(commitments, 'PAUSE_SECONDS', 0.0)
        with mock.patch.object(
            self.database,
            'transaction',
            side_effect=exception.StoreUnavailable(reason='away'),
        ):
            self.followed.refresh()
        self.hang()
        self.refresh_beside()

        self.followed.refresh()

        self.assertEqual(1, len(self.is_locked))


class AwayTest(FollowedTestCase):
    def test_where_nothing_was_read_nothing_is_known(self) -> None:
        self.break_database()

        for _attempt in range(2):
            self.assertRaises(
                exception.StoreUnavailable, self.followed.refresh
            )
        self.assertTrue(self.followed.is_away)

    def test_each_request_gets_an_error_of_its_own(self) -> None:
        self.break_database()
        errors = [
            self.assertRaises(
                exception.StoreUnavailable, self.followed.refresh
            )
            for _attempt in range(2)
        ]

        self.assertIsNot(errors[0], errors[1])
        self.assertEqual(errors[0].reason, errors[1].reason)

    def test_it_is_said_again_from_time_to_time(self) -> None:
        self.followed.refresh()
        transaction = self.break_database()
        self.patch(commitments, 'PAUSE_SECONDS', 0.0)
        for seconds, lines in ((600.0, 1), (0.0, 3)):
            self.patch(commitments, 'REMINDER_SECONDS', seconds)
            self.followed.refresh()
            self.followed.refresh()
            self.followed._reminder = 0.0
            with self.subTest(lines=lines):
                self.assertEqual(lines, self.log.output.count('cannot be'))
        self.assertEqual(4, transaction.call_count)

    def test_who_must_ask_does_not_do_so_again_at_once(self) -> None:
        self.followed.refresh()
        transaction = self.break_database()
        for asked, seconds in ((1, 3600.0), (1, 0.0)):
            self.patch(commitments, 'VAIN_SECONDS', seconds)
            read = self.followed.refresh(must_ask=True)
            self.assertFalse(read.is_fresh)
            self.assertEqual(asked, transaction.call_count)
        self.followed._vain_until = 0.0
        mock.patch.stopall()

        self.assertTrue(self.followed.refresh(must_ask=True).is_fresh)

    def test_it_answers_again(self) -> None:
        self.followed.refresh()
        self.patch(commitments, 'PAUSE_SECONDS', 0.0)
        self.break_database()
        self.followed.refresh()
        mock.patch.stopall()
        self.admit(self.admission, 'lease', self.later)

        self.followed.refresh()

        self.assertFalse(self.followed.is_away)
        self.assertEqual(4, self.find_peak())
        self.assertIn('answers again', self.log.output)
