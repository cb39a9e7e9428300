# SPDX-License-Identifier: Apache-2.0

"""What is promised, as the database of the reservations says.

While the database does not answer, what was read last holds: a promise is
worth more than what came after it. Where nothing was ever read, nothing is
known, and no server can be placed.

No lock is held while anything is waited for. Each request reads for itself,
so that it knows of all that was promised before it came; what it has read is
taken if it is newer than what another one has taken meanwhile. Where a
read hangs, or the database is known to be away, requests do not queue behind
it: they go by what was read last at once.
"""

from collections.abc import Iterator
import contextlib
import threading
import time
from typing import NamedTuple

from oslo_log import log as logging
from oslo_utils import timeutils

from nova_ext_resources import exception
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import reader
from nova_ext_resources.reservation.store import schema

LOG = logging.getLogger(__name__)

#: Each step of a read waits for so long at most; see ``Database.max_wait``.
WAIT_SECONDS = 5

#: A read that takes longer hangs: requests that come then do not join it.
PATIENCE_SECONDS = 1.0

#: While reads hang, one more is tried so often: it may be their connections
#: alone, and a server that is placed by what was read before may break what
#: was promised since.
PROBE_SECONDS = 1.0

#: While the database is away, requests that cannot do without do not ask
#: again for so long after one of them did in vain: each would wait.
VAIN_SECONDS = 1.0

#: A read that takes longer is lost, whatever keeps it: psycopg2 waits for a
#: server that is alive and frozen for as long as that is.
LOST_SECONDS = 30.0

#: So long is not asked again after a failure.
PAUSE_SECONDS = 10.0

#: While the database is away, a line of the log says so as often.
REMINDER_SECONDS = 600.0

#: The clock may be set back by so much without all being read anew.
KEPT_SECONDS = 3600

#: Others may take what they have read while this one reads. What is there
#: then is as new as what this one would have read.
_ATTEMPTS = 3


class Read(NamedTuple):
    """What a request knows of the promises.

    :ivar now: seconds since the epoch
    :ivar is_fresh: whether all is known that was promised before; otherwise
        they are as they were read last
    """

    now: int
    is_fresh: bool


class Followed:
    """Keeps promises as the database is.

    :ivar database: nothing is promised, or taken, without it
    :ivar lock: hold it while promises are used, and never while something is
        waited for
    :ivar promises: as they were read last
    """

    def __init__(self, database: databases.Database) -> None:
        self.database = database
        self.lock = threading.RLock()
        self.promises = promise_ledger.Promises()
        self._reader = reader.Reader(self.promises)
        self._oldest = interval.ALWAYS
        self._is_checked = False
        #: When each read that goes on has begun, but for those that hang while
        #: a later one has succeeded.
        self._begun: list[float] = []
        #: When the last one of those that have succeeded has begun.
        self._answered = 0.0
        #: When each of the reads has begun that must ask.
        self._asking: list[float] = []
        #: Until when it is known that to ask is in vain.
        self._vain_until = 0.0
        self._failure: exception.StoreError | None = None
        self._failed_at = 0.0
        self._pause = 0.0
        self._reminder = 0.0

    @property
    def is_away(self) -> bool:
        """Whether the database did not answer when it was asked last."""
        return self._failure is not None

    def refresh(self, *, must_ask: bool = False) -> Read:
        """Read what has changed, unless it is known that that would hang.

        :param must_ask: whether it is read all the same, for what cannot be
            done without the database; unless another one that must ask waits
            for it, or did so a moment ago, and it is away
        :raises StoreError: nothing was ever read
        """
        now = int(timeutils.utcnow_ts())
        with self._reading(must_ask) as begun:
            is_fresh = begun is not None and self._try_read(now, begun)
        with self.lock:
            failure = None if self._reader.revisions else self._failure
        if failure is not None:
            # Another one: each time that one is raised its traceback grows.
            raise type(failure)(reason=failure.reason)
        return Read(now, is_fresh)

    @contextlib.contextmanager
    def _reading(self, must_ask: bool) -> Iterator[float | None]:
        """Note that it is being read, and since when; None: do not read."""
        self._give_up(time.monotonic() - LOST_SECONDS)
        begun = time.monotonic()
        with self.lock:
            may_read = (
                self._may_ask(begun) if must_ask else self._may_read(begun)
            )
            if may_read:
                self._begun.append(begun)
                self._asking += [begun] * must_ask
        try:
            yield begun if may_read else None
        finally:
            if may_read:
                self._end(begun)

    def _end(self, begun: float) -> None:
        with self.lock:
            if begun in self._begun:
                self._begun.remove(begun)
            if begun in self._asking:
                self._asking.remove(begun)
                if self._failure is not None:
                    self._vain_until = time.monotonic() + VAIN_SECONDS

    def _give_up(self, before: float) -> None:
        """Take reads that began before a time for failed ones."""
        with self.lock:
            is_lost = any(one < before for one in self._begun)
            if is_lost:
                self._begun = [one for one in self._begun if one >= before]
                self._asking = [one for one in self._asking if one >= before]
        if is_lost:
            reason = (
                f'a request has waited for more than {LOST_SECONDS:.0f} '
                'seconds. Check that the database runs.'
            )
            self._note_failure(exception.StoreUnavailable(reason=reason))

    def _may_ask(self, now: float) -> bool:
        if self._failure is None:
            return True
        return now >= self._vain_until and all(
            now - one <= PATIENCE_SECONDS for one in self._asking
        )

    def _may_read(self, now: float) -> bool:
        if self._failure is not None:
            # One request finds out if it answers again.
            return now >= self._pause and not self._begun
        if not self._reader.revisions:
            return True
        if all(now - one <= PATIENCE_SECONDS for one in self._begun):
            return True
        return now - max(self._begun) > PROBE_SECONDS

    def _try_read(self, now: int, begun: float) -> bool:
        try:
            self._read(now)
        except exception.StoreError as err:
            failure = err
        # Of a row that cannot be read, as a newer release writes it.
        except foreign_data.UNREADABLE as err:
            failure = exception.StoreError(
                reason=f'a row cannot be read: {err!r}'
            )
        else:
            self._note_success(begun)
            return True
        if begun < self._answered:
            LOG.info(
                'A read of the reservations failed, but later reads have '
                'succeeded: %s',
                failure,
            )
        else:
            self._note_failure(failure)
        return False

    def _read(self, now: int) -> None:
        if not self._is_checked:
            # An empty one may be the wrong one: nothing would be promised.
            schema.check(self.database)
            self._is_checked = True
        for _attempt in range(_ATTEMPTS):
            oldest = reader.choose_oldest(self._oldest, now, KEPT_SECONDS)
            with self.database.transaction() as connection:
                changes = self._reader.fetch(connection, oldest, KEPT_SECONDS)
            with self.lock:
                if self._reader.apply(changes):
                    self._oldest = oldest
                    return

    def _note_success(self, begun: float) -> None:
        with self.lock:
            self._answered = max(self._answered, begun)
            # Those before may hang: it is not the database that does.
            self._begun = [one for one in self._begun if one >= begun]
            self._asking = [one for one in self._asking if one >= begun]
            was_away, self._failure = self.is_away, None
        if was_away:
            LOG.info('The database of the reservations answers again.')

    def _note_failure(self, err: exception.StoreError) -> None:
        """Log it, and again from time to time until it answers."""
        now = time.monotonic()
        with self.lock:
            is_new = self._failure is None
            if is_new:
                self._failed_at = now
            self._failure = err
            self._pause = now + PAUSE_SECONDS
            is_due = is_new or now >= self._reminder
            if is_due:
                self._reminder = now + REMINDER_SECONDS
            has_read = bool(self._reader.revisions)
            seconds = int(now - self._failed_at)
        if not is_due:
            return
        if has_read:
            LOG.warning(
                'Reservations cannot be read for %(seconds)d seconds: %(err)s '
                'The reservations that were read last stay valid, and no '
                'server with a reservation is placed.',
                {'err': err, 'seconds': seconds},
            )
        else:
            LOG.error(
                'Reservations cannot be read for %(seconds)d seconds: %(err)s '
                'The promised resources are not known, so no server is placed '
                'at all.',
                {'err': err, 'seconds': seconds},
            )
