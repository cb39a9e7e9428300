# SPDX-License-Identifier: Apache-2.0

"""What is sent next to whom, and what became of it: the rows of it.

A subscription is claimed for a time before anything is sent. What is sent next
is sent when the table says that the one before has arrived. If this program is
killed in between, another one sends it again, with the same id.
"""

from collections.abc import Callable
import dataclasses
import random
from typing import Any

from oslo_log import log as logging
import sqlalchemy as sa

from nova_ext_resources.reservation.store import clock as clock_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import events
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import waiting
from nova_ext_resources.reservation.webhook import rules
from nova_ext_resources.reservation.webhook import sender
from nova_ext_resources.reservation.webhook import signature

LOG = logging.getLogger(__name__)

#: Seconds for which a claim holds. Longer than the time-out of a request and
#: the time until it begins together, so that no other manager sends the same
#: meanwhile.
CLAIM = 60

#: Seconds after the first failure, doubled with each, up to the longest; each
#: pause is longer by a random part of up to a fifth.
FIRST_PAUSE = 10
LONGEST_PAUSE = 3600

#: Seconds by which a manager may be late. If it is later, none has tried
#: meanwhile, for which no receiver is suspended.
SLACK = 60

#: Of what is told of a failure: some receivers make it as long as they like.
MAX_REASON = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One notification, which may be sent now.

    :ivar now: of the claim, in seconds since the epoch
    """

    follower: followers.Follower
    placed: events.Placed
    now: int

    def make_request(self) -> tuple[str, dict[str, str], bytes]:
        """Return its URL, its headers and its body."""
        one, event = self.follower.subscription, self.placed.event
        uuid = event.find_id(one.uuid)
        body = event.write_body(
            one.uuid, self.follower.sent + 1, is_private=one.is_private
        )
        headers = signature.make_headers(one.secret, uuid, self.now, body)
        return one.url, headers, body


class Deliveries:
    """Reads and writes how subscriptions go on.

    Each method may raise ``StoreError``. What was sent and is not written is
    sent again.

    :param patience: seconds after which a subscription is suspended that
        always fails, or is told what is long past
    :param clock: reads that of the database, by which managers agree on when
        a claim is over
    """

    def __init__(
        self,
        database: databases.Database,
        patience: int,
        *,
        clock: Callable[[sa.Connection], int] = clock_mod.read_clock,
    ) -> None:
        self._database = database
        self._patience = patience
        self._clock = clock

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def list_due(self) -> list[followers.Follower]:
        """Return to whom something may be sent, who waits longest first."""
        with self._database.transaction() as connection:
            now = self._clock(connection)
            last = events.read_positions(connection).last
            found = waiting.read_due(connection, now, last)
            idle = waiting.list_idle(connection, now, last)
        if idle:
            retry.call(self._pass_by, idle, now, last)
        return sorted(
            found, key=lambda one: max(one.due_at, one.subscription.created_at)
        )

    def _pass_by(self, uuids: list[str], now: int, last: int) -> None:
        with self._database.transaction() as connection:
            waiting.pass_by(connection, uuids, now, last)

    def claim(self, follower: followers.Follower) -> Attempt | None:
        """Claim a subscription, to send what is next for it.

        :returns: None if nothing is, or another manager has claimed it
        """
        with self._database.transaction() as connection:
            now = self._clock(connection)
            found = events.list_next(connection, follower, 1)
        if not found:
            return None
        claimed = followers.change(
            self._database,
            follower,
            due_at=now + CLAIM,
            failing_since=_find_since(follower, now),
        )
        if claimed is None:
            return None
        return Attempt(follower=claimed, placed=found[0], now=now)

    def release(self, attempt: Attempt) -> None:
        """Give a claim back, of which nothing was sent."""
        followers.change(
            self._database, attempt.follower, due_at=self._read_clock()
        )

    def write_sent(self, attempt: Attempt) -> followers.Follower | None:
        """Write that a receiver has it; return how its subscription goes on.

        None if another program has written meanwhile, or it is suspended.
        """
        follower, now = attempt.follower, self._read_clock()
        if follower.failures:
            LOG.info(
                'Notifications of subscription %(uuid)s succeed again',
                {'uuid': follower.uuid},
            )
        age = now - attempt.placed.event.happened_at
        since = None
        if age >= self._patience // 2:
            # It goes too slowly, however well each goes.
            since = _first(follower.failing_since, now)
        values: dict[str, Any] = {
            'position': attempt.placed.position,
            'sent': follower.sent + 1,
            'due_at': now,
            'failures': 0,
            'failing_since': since,
            'failure': None,
        }
        if self._is_over(since, now):
            values['failure'] = 'its notifications are about events long past'
            values['suspended_at'] = now
        after = followers.change(self._database, follower, **values)
        if after is not None and after.suspended_at is not None:
            _report(after)
            return None
        return after

    def write_failed(self, attempt: Attempt, err: sender.NotDelivered) -> None:
        """Write that nothing is known to have arrived."""
        follower, now = attempt.follower, self._read_clock()
        since = _first(follower.failing_since, now)
        failures = follower.failures + 1
        values: dict[str, Any] = {
            'due_at': now + find_pause(failures),
            'failures': failures,
            'failing_since': since,
            'failure': str(err)[:MAX_REASON],
        }
        if err.is_refused or self._is_over(since, now):
            values['suspended_at'] = now
        after = followers.change(self._database, follower, **values)
        if after is not None:
            _report(after, err.details)

    def _is_over(self, since: int | None, now: int) -> bool:
        """Return whether the patience with a receiver is."""
        return since is not None and now - since >= self._patience

    def _read_clock(self) -> int:
        with self._database.transaction() as connection:
            return self._clock(connection)


def find_pause(failures: int) -> int:
    """Return the seconds until the next attempt.

    :param failures: how many there were in a row, at least one
    """
    pause = min(FIRST_PAUSE << min(failures - 1, 16), LONGEST_PAUSE)
    return pause + random.randint(0, pause // 5)  # noqa: S311


def _find_since(follower: followers.Follower, now: int) -> int | None:
    """Return since when it has been failing, as time goes that was used.

    Not counted is the time for which no manager ran, and what the clock jumped
    by.
    """
    since = follower.failing_since
    if since is None:
        return None
    late = now - follower.due_at
    return min(since + late if late > SLACK else since, now)


def _first(since: int | None, now: int) -> int:
    return now if since is None else since


def _report(follower: followers.Follower, details: str = '') -> None:
    """Log a failure: the first one, and that it is the last one."""
    reason = str(follower.failure)
    facts = {
        'uuid': follower.uuid,
        'project': follower.subscription.project or 'of operators',
        'url': rules.hide_path(follower.subscription.url),
        'reason': f'{reason} ({details})' if details else reason,
        'failures': follower.failures,
    }
    if follower.suspended_at is not None:
        LOG.error(
            'Subscription %(uuid)s (project %(project)s) is suspended after '
            '%(failures)d failures in a row: %(url)s: %(reason)s. No further '
            'notifications are sent; correct the receiver, delete the '
            'subscription and make another one.',
            facts,
        )
    elif follower.failures == 1:
        LOG.warning(
            'A notification of subscription %(uuid)s (project %(project)s) '
            'failed and will be retried: %(url)s: %(reason)s',
            facts,
        )
