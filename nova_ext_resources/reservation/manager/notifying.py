# SPDX-License-Identifier: Apache-2.0

"""Tells subscribers what has happened.

A pass puts in order what is new, and sends, each for a bounded time. Threads
send, and touch no table; what becomes of each request is written by the pass.
"""

from nova_ext_resources.reservation.manager import chores
from nova_ext_resources.reservation.manager import deliveries as deliveries_mod
from nova_ext_resources.reservation.manager import effort as effort_mod
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
        done = [
            chores.attempt('what is available', self._look, reading),
            chores.attempt('order of events', self._put_in_order, reading),
            chores.attempt('notifications', self._send),
            chores.attempt('what was told', self._forget),
        ]
        return all(done)

    def _look(self, reading: watch_mod.Reading) -> bool:
        return self._shortages.run(reading.now)

    def _put_in_order(self, reading: watch_mod.Reading) -> bool:
        effort = effort_mod.Effort()
        now = reading.now if reading.is_steady else None
        return news.give_positions(
            self._database, now, is_over=lambda: effort.is_over
        )

    def _send(self) -> bool:
        self._deliveries.run()
        return True

    def _forget(self) -> bool:
        effort = effort_mod.Effort()
        while events.forget(self._database) == events.MOST:
            if effort.is_over:
                break
        return True
