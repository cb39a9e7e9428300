# SPDX-License-Identifier: Apache-2.0

"""Tells one subscriber after the other what it has not been told yet.

A subscription is claimed for a time before anything is sent. What is sent next
is sent when the table says that the one before has arrived. If this program is
killed in between, another one sends it again, with the same id.
"""

from collections.abc import Callable
from concurrent import futures
import dataclasses
import random
import time
from typing import Any, Protocol, TypeAlias

from oslo_log import log as logging
import sqlalchemy as sa

from nova_ext_resources.reservation.store import clock as clock_mod
from nova_ext_resources.reservation.store import database as database_mod
from nova_ext_resources.reservation.store import events
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.webhook import rules
from nova_ext_resources.reservation.webhook import sender as sender_mod
from nova_ext_resources.reservation.webhook import signature

LOG = logging.getLogger(__name__)

#: Seconds for which a pass sends; then the other chores go on, when what is on
#: its way has arrived or has failed.
BUDGET = 10.0

#: Seconds more than the time-out of a request, which does not bound how long
#: the name of a host is looked for.
GRACE = 1.0

#: Seconds for which a claim holds. Longer than a pass and the time-out of a
#: request together, so that no other manager sends the same meanwhile.
CLAIM = 60

#: Threads for those that were told well last, and as many for the others.
THREADS = 8

#: Seconds after the first failure, doubled with each, up to the longest; each
#: pause is longer by a random part of up to a fifth.
FIRST_PAUSE = 10
LONGEST_PAUSE = 3600

#: A manager that did not run for long has not tried for long.
LEAST_FAILURES = 10


class Sender(Protocol):
    """See :class:`~nova_ext_resources.reservation.webhook.sender.Sender`."""

    timeout: float

    def send(self, url: str, headers: dict[str, str], body: bytes) -> None:
        """Send a notification, once.

        :raises NotDelivered: no answer of success has come
        """


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One notification on its way."""

    follower: followers.Follower
    placed: events.Placed


_UnderWay: TypeAlias = dict[futures.Future[None], _Attempt]


class Deliveries:
    """Sends what is in order.

    :param patience: seconds after which a subscription is suspended that
        always fails
    :param clock: reads that of the database, by which managers agree on when
        a claim is over
    """

    def __init__(
        self,
        database: database_mod.Database,
        sender: Sender,
        patience: int,
        *,
        clock: Callable[[sa.Connection], int] = clock_mod.read_clock,
    ) -> None:
        self._database = database
        self._sender = sender
        self._patience = patience
        self._clock = clock
        self._well = futures.ThreadPoolExecutor(THREADS)
        self._failing = futures.ThreadPoolExecutor(THREADS)

    def run(self) -> None:
        """Send for a bounded time.

        :raises StoreError: the database cannot be used; what was sent and not
            written is sent again
        """
        until = time.monotonic() + BUDGET
        under_way: _UnderWay = {}
        waiting = self._list_due()
        while (waiting or under_way) and time.monotonic() < until:
            while waiting and len(under_way) < 2 * THREADS:
                self._begin(waiting.pop(0), under_way, until)
            self._collect(under_way, until, until)
        for future in [one for one in under_way if one.cancel()]:
            # Not its fault: no thread was free.
            self._release(under_way.pop(future).follower, self._read_clock())
        # What is on its way is not given up: it would be sent again.
        last = until + self._sender.timeout + GRACE
        while under_way and time.monotonic() < last:
            self._collect(under_way, until, last)
        for attempt in under_way.values():
            self._write_failed(
                attempt.follower, 'its host was not found in time'
            )

    def _collect(
        self, under_way: _UnderWay, until: float, last: float
    ) -> None:
        """Wait for what is on its way, and write what became of it.

        :param until: nothing more is sent from then on
        :param last: how long to wait at most
        """
        done, _others = futures.wait(
            under_way,
            max(last - time.monotonic(), 0),
            futures.FIRST_COMPLETED,
        )
        for one in done:
            follower = self._finish(one, under_way.pop(one))
            if follower is not None:
                self._go_on(follower, under_way, until)

    def _read_clock(self) -> int:
        with self._database.transaction() as connection:
            return self._clock(connection)

    def _list_due(self) -> list[followers.Follower]:
        """Return who has something to be told, those that are well first."""
        with self._database.transaction() as connection:
            now = self._clock(connection)
            last = events.read_positions(connection).last
            found = followers.read(connection, is_active=True)
        return sorted(
            (
                one
                for one in found
                if one.position < last and one.due_at <= now
            ),
            key=lambda one: (one.failures, one.due_at),
        )

    def _begin(
        self,
        follower: followers.Follower,
        under_way: _UnderWay,
        until: float,
    ) -> None:
        """Claim a subscription, and send what is next for it."""
        if time.monotonic() >= until:
            return
        now = self._read_clock()
        claimed = followers.change(
            self._database, follower, due_at=now + CLAIM
        )
        if claimed is not None:
            self._go_on(claimed, under_way, until)

    def _go_on(
        self,
        follower: followers.Follower,
        under_way: _UnderWay,
        until: float,
    ) -> None:
        """Send what is next for a subscription that is claimed."""
        with self._database.transaction() as connection:
            now = self._clock(connection)
            # First: what comes after it is for the next pass.
            last = events.read_positions(connection).last
            found = events.list_next(connection, follower, 1)
        if not found:
            self._release(follower, now, position=last)
        elif time.monotonic() >= until:
            self._release(follower, now)
        else:
            attempt = _Attempt(follower=follower, placed=found[0])
            pool = self._failing if follower.failures else self._well
            under_way[pool.submit(self._send, attempt, now)] = attempt

    def _send(self, attempt: _Attempt, now: int) -> None:
        """Send it, in a thread of its own.

        :raises NotDelivered: no answer of success has come
        """
        wanted = attempt.follower.subscription
        event = attempt.placed.event
        body = event.write_body(
            wanted.uuid,
            attempt.follower.sent + 1,
            is_private=wanted.is_private,
        )
        headers = signature.make_headers(wanted.secret, event.uuid, now, body)
        self._sender.send(wanted.url, headers, body)

    def _finish(
        self, future: futures.Future[None], attempt: _Attempt
    ) -> followers.Follower | None:
        """Write what became of it; return the claim if it goes on."""
        err = future.exception()
        if err is None:
            return self._write_sent(attempt)
        if isinstance(err, sender_mod.NotDelivered):
            self._write_failed(
                attempt.follower, str(err), is_refused=err.is_refused
            )
        else:
            LOG.error(
                'Subscription %(uuid)s could not be told because of a bug; '
                'please report it',
                {'uuid': attempt.follower.uuid},
                exc_info=err,
            )
            self._write_failed(attempt.follower, 'a bug of the sender')
        return None

    def _write_sent(self, attempt: _Attempt) -> followers.Follower | None:
        follower, now = attempt.follower, self._read_clock()
        if follower.failures:
            LOG.info(
                'Subscription %(uuid)s is told again', {'uuid': follower.uuid}
            )
        return followers.change(
            self._database,
            follower,
            position=attempt.placed.position,
            sent=follower.sent + 1,
            due_at=now + CLAIM,
            failures=0,
            failing_since=None,
            failure=None,
        )

    def _write_failed(
        self,
        follower: followers.Follower,
        reason: str,
        *,
        is_refused: bool = False,
    ) -> None:
        now = self._read_clock()
        since = (
            now if follower.failing_since is None else (follower.failing_since)
        )
        failures = follower.failures + 1
        is_over = is_refused or (
            failures >= LEAST_FAILURES and now - since >= self._patience
        )
        after = followers.change(
            self._database,
            follower,
            due_at=now + find_pause(failures),
            failures=failures,
            failing_since=since,
            failure=reason,
            suspended_at=now if is_over else None,
        )
        if after is not None:
            _report(after, reason)

    def _release(
        self, follower: followers.Follower, now: int, **values: Any
    ) -> None:
        followers.change(self._database, follower, due_at=now, **values)


def find_pause(failures: int) -> int:
    """Return the seconds until the next attempt.

    :param failures: how many there were in a row, at least one
    """
    pause = min(FIRST_PAUSE << min(failures - 1, 16), LONGEST_PAUSE)
    return pause + random.randint(0, pause // 5)  # noqa: S311


def _report(follower: followers.Follower, reason: str) -> None:
    """Log a failure: the first one, and that it is the last one."""
    facts = {
        'uuid': follower.uuid,
        'project': follower.subscription.project or 'of operators',
        # The path may have a token.
        'url': rules.parse(follower.subscription.url).origin,
        'reason': reason,
        'failures': follower.failures,
    }
    if follower.suspended_at is not None:
        LOG.error(
            'Subscription %(uuid)s (project %(project)s) is suspended after '
            '%(failures)d failures in a row: %(url)s: %(reason)s. It is told '
            'nothing more; correct the receiver, delete the subscription and '
            'make another one.',
            facts,
        )
    elif follower.failures == 1:
        LOG.warning(
            'Subscription %(uuid)s (project %(project)s) could not be told, '
            'which is tried again: %(url)s: %(reason)s',
            facts,
        )
