# SPDX-License-Identifier: Apache-2.0

"""Threads of Nova's pools that sleep until there is work, or an end.

A thread of futurist's pools looks at intervals whether its pool has ended.
Nova's test base makes the interval a hundredth of a second, because pools end
with each test and wait for their threads. A test has some twenty: awake two
thousand times a second, they took a tenth of the processor's time.
"""

import functools
from typing import Any

import fixtures
from futurist import _thread

#: Seconds that a thread takes to end that is not woken, see :func:`_wake`.
_INTERVAL = 0.25


class WokenWorkers(fixtures.Fixture):
    """Wakes threads when they are to end; use it after Nova's test base."""

    def _setUp(self) -> None:
        worker = _thread.ThreadWorker
        self.useFixture(
            fixtures.MockPatchObject(worker, 'MAX_IDLE_FOR', _INTERVAL)
        )
        self.useFixture(
            fixtures.MockPatchObject(worker, 'stop', _wake(worker.stop))
        )


def _wake(stop: Any) -> Any:
    """Have a thread that is told to stop find out at once.

    Another thread of the pool may take the work, which is none. Then the one
    that was meant finds out when its interval is over. So does each thread of
    a pool that nobody has ended: there the collector of garbage calls this, in
    any thread, which may hold the lock of the very queue. It would wait for
    itself, and nothing would be collected in this process any more.
    """

    @functools.wraps(stop)
    def stop_and_wake(self: Any) -> None:
        stop(self)
        if self.executor_ref() is not None:
            self.work_queue.put(_Nothing())

    return stop_and_wake


class _Nothing:
    """Work that is none; futurist's own kind differs by release."""

    def run(self) -> None:
        pass
