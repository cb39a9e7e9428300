# SPDX-License-Identifier: Apache-2.0

"""One pass over all reservations.

Each step is one transaction, which leaves the tables as the next pass, of any
manager, can go on with.
"""

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.reservation import due
from nova_ext_resources.reservation.manager import watch as watch_mod
from nova_ext_resources.reservation.store import database as database_mod
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import purge
from nova_ext_resources.reservation.store import schema
from nova_ext_resources.reservation.store import states

LOG = logging.getLogger(__name__)


class Turn:
    """Brings the store up to the time that it is.

    :param keep_ended: seconds for which the rows of what is over are kept;
        None keeps them for good
    """

    def __init__(
        self,
        database: database_mod.Database,
        watch: watch_mod.Watch,
        *,
        keep_ended: int | None = None,
    ) -> None:
        self._database = database
        self._watch = watch
        self._keep_ended = keep_ended
        self._is_checked = False

    def run(self) -> bool:
        """Do all that is due.

        What fails for one reservation is logged and tried again next time.

        :returns: whether nothing failed
        :raises StoreError: the database cannot be used, or its tables are not
            those of this release
        """
        if not self._is_checked:
            schema.check(self._database)
            self._is_checked = True
        with self._database.transaction() as connection:
            reading = self._watch.read(connection)
            found = progress.list_unfinished(connection)
        if not reading.is_right:
            return False
        done = [self._advance(one, reading) for one in found]
        if self._keep_ended is not None and reading.is_steady:
            self._purge(reading.now - self._keep_ended)
        return all(done)

    def _advance(
        self, one: progress.Unfinished, reading: watch_mod.Reading
    ) -> bool:
        """Write what is due for one reservation.

        :returns: whether nothing failed
        """
        wanted = due.find_due(
            one.state, one.during, reading.now, is_steady=reading.is_steady
        )
        if wanted is None:
            return True
        state, reason = wanted
        change = states.Change(
            state=state, changed_at=reading.now, reason=reason
        )
        try:
            is_written = progress.advance(self._database, one, change)
        except exception.StoreUnavailable:
            raise
        except (exception.StoreError, exception.StateRefused) as err:
            LOG.error(
                'Reservation %(key)s does not become %(state)s, which is '
                'tried again: %(err)s',
                {'key': one.key, 'state': state, 'err': err},
            )
            return False
        if is_written:
            LOG.info(
                'Reservation %(key)s is %(state)s: %(reason)s',
                {'key': one.key, 'state': state, 'reason': reason},
            )
        return True

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _purge(self, before: int) -> None:
        deleted = number = purge.purge(self._database, before)
        while number == purge.MOST:
            number = purge.purge(self._database, before)
            deleted += number
        if deleted:
            LOG.info(
                'Deleted %(number)d reservations that have long been over',
                {'number': deleted},
            )
