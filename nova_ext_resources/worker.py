# SPDX-License-Identifier: Apache-2.0

"""A thread that runs rounds until it is stopped."""

import abc
import threading
import time
from typing import ClassVar


class Worker(abc.ABC):
    """Runs one round after the other.

    futurist's periodic worker can neither be woken nor end at once.
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

    def start(self, pause: float = 0.0) -> None:
        """Start the thread.

        :param pause: seconds until its first round
        """
        self._thread = threading.Thread(
            target=self._run, args=(pause,), name=self.THREAD, daemon=True
        )
        self._thread.start()

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
        """Run a round; return the seconds until the next. Raises nothing."""

    def _run(self, pause: float) -> None:
        while True:
            self._wait(pause)
            if self._is_stopping.is_set():
                return
            # Before the round: what wakes it from now on is not missed.
            self._is_urgent.clear()
            self._is_awake.clear()
            self._began_at = time.monotonic()
            pause = self.do_round()

    def _wait(self, pause: float) -> None:
        if self._is_awake.wait(pause):
            left = self._began_at + self.GATHERED - time.monotonic()
            self._is_urgent.wait(max(left, 0.0))
