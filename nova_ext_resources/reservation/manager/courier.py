# SPDX-License-Identifier: Apache-2.0

"""Sends notifications, beside the passes of the manager.

One thread reads and writes the tables, and each request has a thread of its
own, which touches none. A request is waited for until it is too late for it.
Its thread may take longer, where it searches for a host; then it sends
nothing.
"""

from concurrent import futures
import dataclasses
import threading
import time
from typing import Protocol

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import beside
from nova_ext_resources.reservation.manager import deliveries as deliveries_mod
from nova_ext_resources.reservation.manager import lanes as lanes_mod
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.webhook import sender as sender_mod

LOG = logging.getLogger(__name__)

#: Seconds for which is sent where it is waited for.
BUDGET = 10.0

#: Seconds after which it is looked for what is due.
POLL = 5.0

#: Seconds after the time-out of a request at which it has failed, whatever
#: its thread does.
GRACE = 1.0

#: Seconds; who takes longer to answer has no place among the quick ones.
SLOW = 1.0

#: Seconds after a claim at which nothing more is begun by it.
STALE = 20.0

#: Subscriptions of which is known that they were slow.
_MOST_KNOWN = 10_000


class Sender(Protocol):
    """See :class:`~nova_ext_resources.reservation.webhook.sender.Sender`."""

    timeout: float

    def send(
        self, url: str, headers: dict[str, str], body: bytes, *, until: float
    ) -> None:
        """Send a notification, once.

        :raises NotDelivered: no answer of success has come
        """


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """To whom something is to be sent, and which lanes that takes."""

    follower: followers.Follower
    lanes: tuple[lanes_mod.Lane, ...]


@dataclasses.dataclass(slots=True, kw_only=True)
class _Request:
    """One request under way.

    :ivar until: when it is too late, as :func:`time.monotonic` counts
    :ivar is_given_up: whether it was written that it has failed
    """

    attempt: deliveries_mod.Attempt
    lanes: tuple[lanes_mod.Lane, ...]
    until: float
    is_given_up: bool = False


class Courier:
    """Sends what is due.

    :param is_once: whether it is waited for, for a bounded time; else a thread
        sends
    """

    def __init__(
        self,
        deliveries: deliveries_mod.Deliveries,
        sender: Sender,
        *,
        is_once: bool = False,
    ) -> None:
        self._deliveries = deliveries
        self._sender = sender
        self._is_once = is_once
        self._lanes = lanes_mod.Lanes()
        self._queue: list[_Waiting] = []
        self._under_way: dict[futures.Future[float], _Request] = {}
        self._slow: set[str] = set()
        self._read_at = 0.0
        self._thread: threading.Thread | None = None
        #: Something has to be looked at, or a request is over.
        self._wakes = threading.Event()
        self._is_closed = False
        self._is_well = True

    def run(self) -> bool:
        """Have all sent that is due.

        :returns: whether nothing failed here since the last time; what fails
            at a receiver is no failure
        :raises StoreError: it was waited for, and the database cannot be used
        """
        if self._is_once:
            self._run_once()
            return True
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._serve, name='notifications', daemon=True
            )
            self._thread.start()
        self._read_at = 0.0
        self._wakes.set()
        was_well, self._is_well = self._is_well, True
        return was_well

    def close(self, seconds: float = 0.0) -> None:
        """Send nothing more; what is under way is written nevertheless.

        :param seconds: how long to wait for that at most
        """
        self._is_closed = True
        self._wakes.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run_once(self) -> None:
        until = time.monotonic() + BUDGET
        self._read()
        while True:
            self._collect()
            is_over = time.monotonic() >= until
            if not is_over:
                self._fill()
            if not self._is_busy and (is_over or not self._queue):
                break
            self._wait(0.1 if is_over else until - time.monotonic())

    def _serve(self) -> None:
        """Send until it is closed."""
        while self._is_busy or not self._is_closed:
            self._wait(POLL)
            try:
                self._cycle()
            except exception.ExtResourcesError as err:
                self._note_failure(
                    'Notifications failed and will be retried: %(err)s', err
                )
            except Exception as err:
                self._note_failure(
                    'Notifications failed because of a bug, and will be '
                    'retried; please report the bug: %(err)s',
                    err,
                    has_trace=True,
                )
        self._deliveries.close()

    def _note_failure(
        self, text: str, err: Exception, *, has_trace: bool = False
    ) -> None:
        if self._is_well:
            LOG.error(text, {'err': err}, exc_info=has_trace)
        self._is_well = False
        # What was read may not be so any more.
        self._queue.clear()

    def _cycle(self) -> None:
        self._collect()
        if self._is_closed:
            return
        if time.monotonic() >= self._read_at + POLL:
            self._read()
        self._fill()

    def _wait(self, seconds: float) -> None:
        """Wait until something has happened, or a request is too late."""
        ends = [
            one.until + GRACE
            for one in self._under_way.values()
            if not one.is_given_up
        ]
        left = min(ends, default=float('inf')) - time.monotonic()
        self._wakes.wait(max(min(seconds, left), 0.0))
        self._wakes.clear()

    @property
    def _is_busy(self) -> bool:
        """Whether it is not known yet what becomes of a request."""
        return any(not one.is_given_up for one in self._under_way.values())

    def _read(self) -> None:
        """Read who has something to be told, but for who is told just now."""
        self._read_at = time.monotonic()
        if len(self._slow) > _MOST_KNOWN:
            self._slow.clear()
        self._queue = [
            self._make_waiting(one) for one in self._deliveries.list_due()
        ]

    def _make_waiting(self, follower: followers.Follower) -> _Waiting:
        is_slow = follower.uuid in self._slow
        return _Waiting(
            follower=follower,
            lanes=lanes_mod.find_lanes(follower, is_slow=is_slow),
        )

    def _fill(self) -> None:
        """Begin as many requests as there are places."""
        waiting, self._queue = self._queue, []
        for number, one in enumerate(waiting):
            if self._lanes.is_full:
                self._queue += waiting[number:]
                break
            if self._lanes.has_room(one.lanes):
                self._begin(one)
            else:
                self._queue.append(one)

    def _begin(self, one: _Waiting) -> None:
        began = time.monotonic()
        attempt = self._deliveries.claim(one.follower)
        if attempt is None:
            return
        now = time.monotonic()
        if now >= began + STALE:
            # The database took so long that the claim is soon over.
            self._deliveries.release(attempt)
            return
        request = _Request(
            attempt=attempt,
            lanes=one.lanes,
            until=now + self._sender.timeout,
        )
        self._lanes.take(one.lanes)
        future = beside.start(lambda: self._send(request), 'notification')
        self._under_way[future] = request
        future.add_done_callback(lambda _future: self._wakes.set())

    def _send(self, request: _Request) -> float:
        """Send it; return the seconds that it took.

        :raises NotDelivered: no answer of success has come
        """
        began = time.monotonic()
        url, headers, body = request.attempt.make_request()
        self._sender.send(url, headers, body, until=request.until)
        return time.monotonic() - began

    def _collect(self) -> None:
        """Write what has become of requests."""
        now = time.monotonic()
        for future, one in [*self._under_way.items()]:
            if future.done():
                del self._under_way[future]
                self._lanes.leave(one.lanes)
                if not one.is_given_up:
                    self._finish(future, one.attempt)
            elif now >= one.until + GRACE and not one.is_given_up:
                one.is_given_up = True
                self._fail(
                    one.attempt, sender_mod.NotDelivered(sender_mod.TOO_LATE)
                )

    def _finish(
        self, future: futures.Future[float], attempt: deliveries_mod.Attempt
    ) -> None:
        uuid, err = attempt.follower.uuid, future.exception()
        if isinstance(err, sender_mod.NotDelivered):
            self._fail(attempt, err)
        elif err is not None:
            LOG.error(
                'A notification of subscription %(uuid)s failed because of a '
                'bug; please report the bug',
                {'uuid': uuid},
                exc_info=err,
            )
            self._fail(attempt, sender_mod.NotDelivered('a bug in the sender'))
        else:
            if future.result() > SLOW:
                self._slow.add(uuid)
            else:
                self._slow.discard(uuid)
            follower = self._deliveries.write_sent(attempt)
            if follower is not None:
                # Behind all who wait already.
                self._queue.append(self._make_waiting(follower))

    def _fail(
        self,
        attempt: deliveries_mod.Attempt,
        err: sender_mod.NotDelivered,
    ) -> None:
        self._deliveries.write_failed(attempt, err)
