# SPDX-License-Identifier: Apache-2.0

"""A message bus between processes, in the place of RabbitMQ.

The broker lives in the process of the harness and survives every kill. A
message that a dead process had taken and not acknowledged is delivered
again; as with RabbitMQ, Nova's servers acknowledge before they act. While
the broker is away, who sends waits, and who calls runs into its timeout.
"""

import collections
from collections.abc import Sequence
import contextlib
import itertools
from multiprocessing import connection
import threading
import time
from typing import Any, Protocol, TypeAlias

#: Topic and server, which is None for what any server of the topic takes.
Address: TypeAlias = tuple[str, str | None]

#: How long a poll waits for a message.
_POLL_SECONDS = 1.0


class NoReply(Exception):
    """There was no reply in time."""


class Transport(Protocol):
    """What a driver of oslo.messaging needs of a bus."""

    def send(
        self,
        address: Address,
        body: Any,
        *,
        is_fanout: bool = False,
        timeout: float | None = None,
        is_call: bool = False,
    ) -> Any:
        """Deliver a message; return the reply to a call.

        :raises NoReply: there was none in time
        """

    def poll(self, addresses: Sequence[Address]) -> tuple[int, Any] | None:
        """Return a number to reply to, and a message."""

    def reply(self, number: int, body: Any) -> None:
        """Answer a call."""


class Broker:
    """Keeps messages until they are taken. Safe to share by threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queues: dict[Address, collections.deque[tuple[int, Any]]] = (
            collections.defaultdict(collections.deque)
        )
        self._replies: dict[int, Any] = {}
        self._calls: set[int] = set()
        self._numbers = itertools.count(1)
        self._is_away = False
        self._active_at = time.monotonic()

    # -- what a test sees and does ---------------------------------------

    def go_away(self, is_away: bool = True) -> None:
        """Take no message and give none."""
        with self._changed:
            self._is_away = is_away
            self._changed.notify_all()

    def is_idle(self, seconds: float) -> bool:
        """Return whether nothing was or is under way for some time."""
        with self._changed:
            is_empty = not any(
                queue
                for (_topic, server), queue in self._queues.items()
                if server is not None
            )
            return (
                is_empty
                and not self._calls
                and time.monotonic() - self._active_at >= seconds
            )

    def describe(self) -> str:
        """Return what is under way, for the reader of a failure."""
        with self._changed:
            waiting = {
                address: len(queue)
                for address, queue in self._queues.items()
                if queue
            }
            idle = time.monotonic() - self._active_at
            return (
                f'bus idle for {idle:.1f} s, waiting for a server: {waiting}, '
                f'calls without an answer: {len(self._calls)}'
            )

    # -- what drivers do ---------------------------------------------------

    def send(
        self,
        address: Address,
        body: Any,
        *,
        is_fanout: bool = False,
        timeout: float | None = None,
        is_call: bool = False,
    ) -> Any:
        with self._changed:
            self._active_at = time.monotonic()
            self._wait(lambda: not self._is_away, timeout)
            number = next(self._numbers)
            for one in self._list_targets(address, is_fanout):
                self._queues[one].append((number, body))
            if is_call:
                self._calls.add(number)
            self._changed.notify_all()
            if not is_call:
                return None
            try:
                self._wait(lambda: number in self._replies, timeout)
                return self._replies.pop(number)
            finally:
                self._calls.discard(number)
                self._active_at = time.monotonic()

    def _wait(self, is_so: Any, timeout: float | None) -> None:
        if not self._changed.wait_for(is_so, timeout):
            raise NoReply

    def _list_targets(
        self, address: Address, is_fanout: bool
    ) -> list[Address]:
        if not is_fanout:
            return [address]
        topic, _server = address
        return [one for one in self._queues if one[0] == topic and one[1]]

    def poll(self, addresses: Sequence[Address]) -> tuple[int, Any] | None:
        with self._changed:
            for one in addresses:
                self._queues[one].extend(())
            self._changed.wait_for(
                lambda: (
                    not self._is_away
                    and any(self._queues[one] for one in addresses)
                ),
                _POLL_SECONDS,
            )
            for one in addresses:
                if self._queues[one] and not self._is_away:
                    self._active_at = time.monotonic()
                    return self._queues[one].popleft()
            return None

    def give_back(self, address: Address, taken: tuple[int, Any]) -> None:
        """Deliver again what nobody has acknowledged."""
        with self._changed:
            self._queues[address].appendleft(taken)
            self._changed.notify_all()

    def reply(self, number: int, body: Any) -> None:
        with self._changed:
            self._active_at = time.monotonic()
            if number in self._calls:
                self._replies[number] = body
                self._changed.notify_all()

    # -- other processes ---------------------------------------------------

    def serve(self, path: str) -> None:
        """Serve other processes at a socket, in threads."""
        listener = connection.Listener(path, 'AF_UNIX', backlog=64)

        def accept() -> None:
            while True:
                with contextlib.suppress(OSError):
                    made = listener.accept()
                    threading.Thread(
                        target=self._serve_one, args=(made,), daemon=True
                    ).start()

        threading.Thread(target=accept, daemon=True, name='bus').start()

    def _serve_one(self, peer: connection.Connection) -> None:
        with contextlib.suppress(EOFError, OSError), peer:
            while True:
                method, arguments, options = peer.recv()
                if method == 'poll':
                    self._serve_poll(peer, *arguments)
                    continue
                try:
                    answer = getattr(self, method)(*arguments, **options)
                except NoReply as err:
                    answer = err
                peer.send(answer)

    def _serve_poll(
        self, peer: connection.Connection, addresses: Sequence[Address]
    ) -> None:
        taken = self.poll(addresses)
        try:
            peer.send(taken)
            peer.recv()
        except (EOFError, OSError):
            if taken is not None:
                self.give_back(addresses[0], taken)
            raise


class Remote:
    """The broker of another process; each thread has its connection."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._local = threading.local()

    def send(self, *arguments: Any, **options: Any) -> Any:
        return self._call('send', *arguments, **options)

    def poll(self, addresses: Sequence[Address]) -> tuple[int, Any] | None:
        taken: tuple[int, Any] | None = self._call('poll', addresses)
        self._peer.send('taken')
        return taken

    def reply(self, number: int, body: Any) -> None:
        self._call('reply', number, body)

    @property
    def _peer(self) -> connection.Connection:
        if not hasattr(self._local, 'peer'):
            self._local.peer = connection.Client(self._path, 'AF_UNIX')
        peer: connection.Connection = self._local.peer
        return peer

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        self._peer.send((method, arguments, options))
        answer = self._peer.recv()
        if isinstance(answer, NoReply):
            raise answer
        return answer
