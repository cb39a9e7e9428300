# SPDX-License-Identifier: Apache-2.0

"""Pools of threads that end at once, although their threads sleep."""

import gc
import threading
import time

import fixtures
import futurist
from futurist import _thread

from tests import base
from tests.functional.shared import workers

#: What a test does not wait for, in seconds.
LONG = 60.0


class WorkersTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(workers.WokenWorkers())
        self.useFixture(
            fixtures.MockPatchObject(
                _thread.ThreadWorker, 'MAX_IDLE_FOR', LONG
            )
        )

    def test_an_idle_pool_ends(self) -> None:
        pool = futurist.ThreadPoolExecutor(max_workers=1)
        self.assertEqual(3, pool.submit(lambda: 3).result())
        begin = time.monotonic()

        pool.shutdown(wait=True)

        self.assertLess(time.monotonic() - begin, LONG / 2)

    def test_a_pool_ends_its_work_first(self) -> None:
        pool = futurist.ThreadPoolExecutor(max_workers=1)
        go = threading.Event()
        first = pool.submit(go.wait)
        second = pool.submit(lambda: 2)
        ending = threading.Thread(target=pool.shutdown)
        ending.start()

        go.set()
        ending.join(LONG / 2)

        self.assertFalse(ending.is_alive())
        self.assertEqual([True, 2], [first.result(), second.result()])

    def test_one_that_is_collected_waits_for_no_lock(self) -> None:
        pool = futurist.ThreadPoolExecutor(max_workers=1)
        pool.submit(lambda: 3).result()
        (worker,) = pool._workers
        work = worker.work_queue

        def collect() -> None:
            nonlocal pool
            del pool
            gc.collect()

        collecting = threading.Thread(target=collect)
        # The collector may come while this very thread uses the queue.
        with work.mutex:
            collecting.start()
            collecting.join(LONG / 2)
            stuck = collecting.is_alive()

        self.assertFalse(stuck)
        self.assertTrue(worker.should_stop)
        work.put(workers._Nothing())
        worker.join(LONG / 2)
