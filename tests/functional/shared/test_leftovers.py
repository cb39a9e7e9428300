# SPDX-License-Identifier: Apache-2.0

import threading
import time

from tests import base
from tests.functional.shared import leftovers


def compute(is_over: threading.Event) -> None:
    while not is_over.is_set():
        pass


class LeftoversTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.is_over = threading.Event()
        self.addCleanup(self.is_over.set)

    def start(self) -> threading.Thread:
        thread = threading.Thread(
            target=compute, args=(self.is_over,), name='busy'
        )
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.is_over.set)
        return thread

    def spend(self, seconds: float) -> None:
        """Wait until all threads have had so much of a processor."""
        end = time.process_time() + seconds
        while time.process_time() < end:
            time.sleep(0.05)

    def test_a_thread_of_a_former_test_that_is_busy_fails_this_one(
        self,
    ) -> None:
        thread = self.start()
        fixture = leftovers.NoBusyThreads()
        fixture.setUp()
        self.spend(2.0)

        error = self.assertRaises(AssertionError, fixture.cleanUp)

        self.assertIn('in compute', str(error))
        # It is over for the tests that follow.
        thread.join(60)
        self.assertFalse(thread.is_alive())

    def test_a_thread_of_its_own_may_be_busy(self) -> None:
        with leftovers.NoBusyThreads():
            self.start()
            self.spend(2.0)
