# SPDX-License-Identifier: Apache-2.0

"""What a test leaves behind, and what was there before it."""

import gc
import threading
import time
import weakref

import futurist

from tests import base
from tests.functional import shared
from tests.functional.shared import garbage


class Cycle:
    pool: futurist.ThreadPoolExecutor

    def __init__(self) -> None:
        self.own = self


class GarbageTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        shared.install()

    def test_what_was_there_is_not_looked_at(self) -> None:
        self.assertGreater(gc.get_freeze_count(), 100_000)

    def test_what_a_test_leaves_is_collected(self) -> None:
        left = weakref.ref(Cycle())

        gc.collect()

        self.assertTrue(gc.isenabled())
        self.assertIsNone(left())

    def test_threads_of_many_pools_that_are_left_end(self) -> None:
        def leave() -> None:
            cycle = Cycle()
            cycle.pool = futurist.ThreadPoolExecutor(max_workers=1)
            cycle.pool.submit(int).result()

        # As after a look at millions of objects.
        gc.disable()
        self.addCleanup(gc.enable)
        for _ in range(garbage._THREADS + 1):
            leave()
        many = threading.active_count()
        self.assertGreater(many, garbage._THREADS)

        garbage.collect_threads()

        deadline = time.monotonic() + 60
        while threading.active_count() > many - garbage._THREADS:
            if time.monotonic() > deadline:
                self.fail(f'{threading.active_count()} of {many} are left')
            time.sleep(0.05)
