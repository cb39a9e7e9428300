# SPDX-License-Identifier: Apache-2.0

"""What is promised, as the database of the reservations says.

While the database does not answer, what was read last holds: a promise is
worth more than what came after it. Where nothing was ever read, nothing is
known, and no server can be placed.
"""

import threading
import time

from oslo_log import log as logging
from oslo_utils import timeutils

from nova_ext_resources import exception
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import promises as promises_mod
from nova_ext_resources.reservation.store import database as database_mod
from nova_ext_resources.reservation.store import reader as reader_mod
from nova_ext_resources.reservation.store import schema

LOG = logging.getLogger(__name__)

#: So long is not asked again after a failure: each attempt may take as long
#: as it takes to find out that a machine is not there, and servers wait.
PAUSE_SECONDS = 10.0

#: The clock may be set back by so much without all being read anew.
KEPT_SECONDS = 3600


class Followed:
    """Keeps promises as the database is.

    :ivar database: nothing is promised, or taken, without it
    :ivar lock: hold it from a refresh until the promises have been used
    :ivar promises: as they were read last
    """

    def __init__(self, database: database_mod.Database) -> None:
        self.database = database
        self.lock = threading.RLock()
        self.promises = promises_mod.Promises()
        self._reader = reader_mod.Reader(self.promises)
        self._oldest = interval.ALWAYS
        self._is_checked = False
        self._failure: exception.StoreError | None = None
        self._pause = 0.0

    def refresh(self) -> int:
        """Read what has changed.

        :returns: now, in seconds since the epoch
        :raises StoreError: nothing was ever read
        """
        now = int(timeutils.utcnow_ts())
        with self.lock:
            if self._failure is None or time.monotonic() >= self._pause:
                try:
                    self._read(now)
                except exception.StoreError as err:
                    self._note_failure(err)
                # Of a row that cannot be read, as a newer release writes it.
                except (LookupError, TypeError, ValueError) as err:
                    reason = f'a row cannot be read: {err!r}'
                    self._note_failure(exception.StoreError(reason=reason))
            if self._failure is not None and not self._reader.revisions:
                raise self._failure
        return now

    def _read(self, now: int) -> None:
        if not self._is_checked:
            # An empty one may be the wrong one: nothing would be promised.
            schema.check(self.database)
            self._is_checked = True
        oldest = reader_mod.choose_oldest(self._oldest, now, KEPT_SECONDS)
        with self.database.transaction() as connection:
            self._reader.refresh(connection, oldest)
        self._oldest = oldest
        if self._failure is not None:
            LOG.info('The database of the reservations answers again.')
            self._failure = None

    def _note_failure(self, err: exception.StoreError) -> None:
        """Log once, until it answers again."""
        if self._failure is None:
            if self._reader.revisions:
                LOG.warning(
                    'Reservations cannot be read: %(err)s What was read last '
                    'holds, and no server with a reservation is placed.',
                    {'err': err},
                )
            else:
                LOG.error(
                    'Reservations cannot be read: %(err)s It is not known '
                    'what is promised, so no server is placed at all.',
                    {'err': err},
                )
        self._failure = err
        self._pause = time.monotonic() + PAUSE_SECONDS
