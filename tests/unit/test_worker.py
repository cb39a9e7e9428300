# SPDX-License-Identifier: Apache-2.0

import threading

import fixtures

from nova_ext_resources import worker
from tests import base

#: Seconds for what takes no time unless something is wrong.
WAIT = 60

#: Seconds that no test waits for.
LONG = 3600.0


class Counter(worker.Worker):
    """Counts its rounds, and may be held in one of them."""

    THREAD = 'counter'

    def __init__(self) -> None:
        super().__init__()
        self.began = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.rounds = 0
        #: What the next rounds meet.
        self.errors: list[Exception] = []

    def do_round(self) -> float:
        self.began.release()
        self.may_end.acquire()
        self.rounds += 1
        if self.errors:
            raise self.errors.pop(0)
        return LONG


class WorkerTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.counter = Counter()
        self.addCleanup(self.counter.stop, WAIT)
        self.addCleanup(self.counter.may_end.release)

    def assert_begins(self) -> None:
        self.assertTrue(self.counter.began.acquire(timeout=WAIT))

    def test_the_first_round_begins_at_once(self) -> None:
        self.counter.start()

        self.assert_begins()

    def test_one_that_is_woken_does_not_wait(self) -> None:
        self.counter.start(LONG)

        self.counter.wake()

        self.assert_begins()
        # Once is enough.
        self.assertFalse(self.counter._is_awake.is_set())

    def test_one_that_is_woken_in_a_round_runs_another(self) -> None:
        self.counter.start()
        self.assert_begins()

        self.counter.wake()
        self.counter.may_end.release()

        self.assert_begins()

    def test_one_that_is_woken_soon_begins_at_once_after_a_rest(self) -> None:
        self.counter.GATHERED = LONG  # type: ignore[misc]
        self.counter.start(LONG)

        self.counter.wake_soon()

        self.assert_begins()

    def test_one_that_is_woken_soon_after_a_round_gathers(self) -> None:
        self.counter.GATHERED = LONG  # type: ignore[misc]
        self.counter.start()
        self.assert_begins()
        self.counter.may_end.release()

        for _ in range(3):
            self.counter.wake_soon()

        self.assertFalse(self.counter.began.acquire(timeout=0.1))
        # What cannot wait ends that.
        self.counter.wake()
        self.assert_begins()
        self.assertFalse(self.counter._is_awake.is_set())

    def test_what_is_gathered_has_its_round(self) -> None:
        self.counter.GATHERED = 0.2  # type: ignore[misc]
        self.counter.start()
        self.assert_begins()
        self.counter.wake_soon()

        self.counter.may_end.release()

        self.assert_begins()

    def test_one_that_gathers_is_stopped_at_once(self) -> None:
        self.counter.GATHERED = LONG  # type: ignore[misc]
        self.counter.start()
        self.assert_begins()
        self.counter.may_end.release()
        self.counter.wake_soon()

        self.counter.stop(WAIT)

        assert self.counter._thread
        self.assertFalse(self.counter._thread.is_alive())

    def test_one_that_is_stopped_ends_after_its_round(self) -> None:
        self.counter.start()
        self.assert_begins()
        self.counter.may_end.release()

        self.counter.stop(WAIT)

        self.assertEqual(1, self.counter.rounds)
        assert self.counter._thread
        self.assertFalse(self.counter._thread.is_alive())

    def run_rounds(self, *errors: Exception) -> str:
        """Run a round for each of these, and one more; return what is logged.

        The last of them is still under way.
        """
        log = self.useFixture(fixtures.FakeLogger())
        self.patch(worker, 'MAX_DOUBLINGS', float('-inf'))
        self.counter.errors += errors
        self.counter.start()
        for _ in errors:
            self.assert_begins()
            self.counter.may_end.release()
        self.assert_begins()
        return log.output

    def test_one_whose_round_fails_runs_the_next(self) -> None:
        self.run_rounds(RuntimeError("can't start new thread"))

        assert self.counter.failed
        self.assertEqual(1, self.counter.failed.rounds)
        self.assertEqual(
            "RuntimeError: can't start new thread", self.counter.failed.reason
        )
        self.counter.may_end.release()
        self.counter.stop(WAIT)
        self.assertIsNone(self.counter.failed)

    def test_each_error_is_logged_once(self) -> None:
        one = RuntimeError('one')

        log = self.run_rounds(one, one, RuntimeError('other'), one)

        self.assertEqual(3, log.count('A round of thread counter failed'))
        assert self.counter.failed
        self.assertEqual(4, self.counter.failed.rounds)

    def test_the_pause_after_a_failed_round_grows_and_is_bounded(
        self,
    ) -> None:
        self.counter.errors += [RuntimeError('?')] * 9
        for _ in range(9):
            self.counter.may_end.release()

        pauses = [self.counter._attempt() for _ in range(9)]

        self.assertEqual([2, 4, 8, 16, 32, 64, 64, 64, 64], pauses)

    def test_one_that_could_not_be_started_can_be_started_later(self) -> None:
        def fail(_thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with fixtures.MonkeyPatch('threading.Thread.start', fail):
            self.assertRaises(RuntimeError, self.counter.start)
        self.counter.stop()

        self.assertIsNone(self.counter._thread)

    def test_one_that_never_began_can_be_stopped(self) -> None:
        self.counter.stop()

        self.assertEqual(0, self.counter.rounds)
