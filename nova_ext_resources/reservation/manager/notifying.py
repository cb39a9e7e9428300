# SPDX-License-Identifier: Apache-2.0

"""Tells subscribers what has happened.

A pass puts in order what is new, and sends for a bounded time. Threads send,
and touch no table; what becomes of each request is written by the pass.
"""

from nova_ext_resources.reservation.manager import deliveries as deliveries_mod
from nova_ext_resources.reservation.manager import shortages as shortages_mod
from nova_ext_resources.reservation.manager import watch as watch_mod
from nova_ext_resources.reservation.store import database as database_mod
from nova_ext_resources.reservation.store import events
from nova_ext_resources.reservation.store import news


class Notifying:
    """Looks after the subscriptions.

    Before what is over is deleted, it must have been told.
    """

    def __init__(
        self,
        database: database_mod.Database,
        shortages: shortages_mod.Shortages,
        deliveries: deliveries_mod.Deliveries,
    ) -> None:
        self._database = database
        self._shortages = shortages
        self._deliveries = deliveries

    def run(self, reading: watch_mod.Reading) -> bool:
        """See :class:`~.chores.Chore`."""
        is_well = self._shortages.run(reading.now)
        news.give_positions(
            self._database, reading.now if reading.is_steady else None
        )
        self._deliveries.run()
        while events.forget(self._database) == events.MOST:
            pass
        return is_well
