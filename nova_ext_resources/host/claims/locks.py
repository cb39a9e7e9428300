# SPDX-License-Identifier: Apache-2.0

"""One lock for each server of a host."""

from collections.abc import Iterable, Iterator
import contextlib
import threading


class ServerLocks:
    """One lock per server, kept only while a thread holds or awaits it.

    They are held over I/O on purpose: two requests for one server must
    not overlap, and no other server waits for them.
    """

    def __init__(self) -> None:
        self._guard = threading.Condition()
        self._locks: dict[str, tuple[threading.Lock, int]] = {}

    @property
    def is_any_locked(self) -> bool:
        with self._guard:
            return bool(self._locks)

    def wait_until_free(self, timeout: float) -> None:
        """Wait until nothing is under way, but only so long."""
        with self._guard:
            self._guard.wait_for(lambda: not self._locks, timeout)

    @contextlib.contextmanager
    def hold(self, consumer_uuid: str) -> Iterator[None]:
        with self._guard:
            lock, users = self._locks.get(consumer_uuid, (threading.Lock(), 0))
            self._locks[consumer_uuid] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._guard:
                _lock, users = self._locks.pop(consumer_uuid)
                if users > 1:
                    self._locks[consumer_uuid] = lock, users - 1
                self._guard.notify_all()

    @contextlib.contextmanager
    def hold_all(self, consumer_uuids: Iterable[str]) -> Iterator[None]:
        """Hold several at once."""
        with contextlib.ExitStack() as stack:
            # In one order, or two that hold several would wait for each other.
            for uuid in sorted(set(consumer_uuids)):
                stack.enter_context(self.hold(uuid))
            yield
