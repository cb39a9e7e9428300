# SPDX-License-Identifier: Apache-2.0

"""A thread that runs rounds until it is stopped."""

from typing import ClassVar, NamedTuple
import abc
import datetime
import threading
import time

from oslo_log import log as logging

from nova_ext_resources import clocks

LOG = logging.getLogger(__name__)


#: So often at most the pause after a failed round is twice the one before.
MAX_DOUBLINGS = 6


class Failed(NamedTuple):
    """What the last rounds of a thread have met.

    :ivar rounds: how many have failed in a row
    :ivar since: time of the first of these; aware, UTC
    """

    rounds: int
    reason: str
    since: datetime.datetime


class WorkerGroup:
    """Workers that are woken together; they may come later."""

    def __init__(self) -> None:
        self._workers: tuple[Worker, ...] = ()

    def add(self, *workers: 'Worker') -> None:
        self._workers += workers

    def wake_soon(self) -> None:
        """See :meth:`Worker.wake_soon`."""
        for one in self._workers:
            one.wake_soon()


class Worker(abc.ABC):
    """Runs one round after the other, however each of them ends.

    futurist's periodic worker can neither be woken nor end at once.

    :ivar failed: what the last round met; None where it did not fail
    """

    #: Name of the thread.
    THREAD: ClassVar[str]

    #: Seconds that :meth:`stop` waits for the round under way.
    STOP_TIMEOUT: ClassVar[float] = 30.0

    #: Seconds from one round to the next that :meth:`wake_soon` begins.
    GATHERED: ClassVar[float] = 0.0

    def __init__(self) -> None:
        self._is_stopping = threading.Event()
        self._is_awake = threading.Event()
        self._is_urgent = threading.Event()
        self._began_at = float('-inf')
        self._thread: threading.Thread | None = None
        self.failed: Failed | None = None

    def start(self, pause: float = 0.0) -> None:
        """Start the thread.

        :param pause: seconds until its first round
        """
        thread = threading.Thread(
            target=self._run, args=(pause,), name=self.THREAD, daemon=True
        )
        # It may fail for the moment: then none has been started.
        thread.start()
        self._thread = thread

    def stop(self, timeout: float | None = None) -> None:
        """End the thread after the round that it is in.

        :param timeout: seconds to wait for it
        """
        self._is_stopping.set()
        self._is_urgent.set()
        self._is_awake.set()
        if self._thread is not None:
            self._thread.join(
                self.STOP_TIMEOUT if timeout is None else timeout
            )

    def wake(self) -> None:
        """Begin the next round now."""
        self._is_urgent.set()
        self._is_awake.set()

    def wake_soon(self) -> None:
        """Begin the next round now, unless the last one has just begun.

        Then one round serves all that comes within ``GATHERED`` seconds.
        """
        self._is_awake.set()

    @abc.abstractmethod
    def do_round(self) -> float:
        """Run a round; return the seconds until the next.

        What it raises is logged and kept for health, and the next one comes.
        """

    def _run(self, pause: float) -> None:
        while True:
            self._wait(pause)
            if self._is_stopping.is_set():
                return
            # Before the round: what wakes it from now on is not missed.
            self._is_urgent.clear()
            self._is_awake.clear()
            self._began_at = time.monotonic()
            pause = self._attempt()

    def _attempt(self) -> float:
        """Run a round; return the seconds until the next, however it ends."""
        try:
            pause = self.do_round()
        # Such as that the process may start no further thread for a moment.
        except Exception as err:
            before, reason = self.failed, f'{type(err).__name__}: {err}'
            if before is None or before.reason != reason:
                LOG.exception(
                    'A round of thread %(thread)s failed; the next round '
                    'starts automatically',
                    {'thread': self.THREAD},
                )
            self.failed = Failed(
                rounds=before.rounds + 1 if before else 1,
                reason=reason,
                since=before.since if before else clocks.MACHINE.read(),
            )
            return 2.0 ** min(self.failed.rounds, MAX_DOUBLINGS)
        if self.failed:
            LOG.info('Thread %(thread)s works again', {'thread': self.THREAD})
        self.failed = None
        return pause

    def _wait(self, pause: float) -> None:
        if self._is_awake.wait(pause):
            left = self._began_at + self.GATHERED - time.monotonic()
            self._is_urgent.wait(max(left, 0.0))
