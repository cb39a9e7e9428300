# SPDX-License-Identifier: Apache-2.0

"""Deletes what has long been over."""

from oslo_log import log as logging

from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation.manager import watch
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import purge

LOG = logging.getLogger(__name__)


class Purging:
    """Deletes what has been over for some seconds."""

    def __init__(self, database: databases.Database, seconds: int) -> None:
        self._database = database
        self._seconds = seconds

    def run(self, reading: watch.Reading) -> bool:
        """See :class:`~.chores.Chore`."""
        if not reading.is_steady:
            return True
        before = reading.now - self._seconds
        deleted = number = purge.purge(self._database, before)
        effort = time_budget.Effort()
        while number == purge.MOST and not effort.is_over:
            number = purge.purge(self._database, before)
            deleted += number
        if deleted:
            LOG.info(
                'Deleted %(number)d reservations that have long been over',
                {'number': deleted},
            )
        return True
