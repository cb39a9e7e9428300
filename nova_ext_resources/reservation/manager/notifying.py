# SPDX-License-Identifier: Apache-2.0

"""Tells subscribers what has happened.

A pass puts in order what is new, for a bounded time. What is sent is sent
beside the passes: no receiver delays what else the manager does.
"""

from nova_ext_resources.reservation.manager import chores
from nova_ext_resources.reservation.manager import courier as courier_mod
from nova_ext_resources.reservation.manager import shortages as shortages_mod
from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation.manager import watch
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import events
from nova_ext_resources.reservation.store import news
from nova_ext_resources.reservation.store import waiting


class Notifying:
    """Looks after the subscriptions.

    What is over is deleted only when it has become an event.
    """

    def __init__(
        self,
        database: databases.Database,
        shortages: shortages_mod.Shortages,
        courier: courier_mod.Courier,
    ) -> None:
        self._database = database
        self._shortages = shortages
        self._courier = courier

    def run(self, reading: watch.Reading) -> bool:
        """See :class:`~.chores.Chore`."""
        done = [
            chores.attempt('available capacity', self._look, reading),
            chores.attempt('order of events', self._put_in_order, reading),
            chores.attempt('notifications', self._send),
            chores.attempt('old notifications', self._forget),
        ]
        return all(done)

    def close(self, seconds: float = 0.0) -> None:
        """End what goes on beside the passes.

        :param seconds: how long to wait for that at most
        """
        self._courier.close(seconds)

    def _look(self, reading: watch.Reading) -> bool:
        return self._shortages.run(reading.now)

    def _put_in_order(self, reading: watch.Reading) -> bool:
        effort = time_budget.Effort()
        now = reading.now if reading.is_steady else None
        return news.give_positions(
            self._database, now, is_over=lambda: effort.is_over
        )

    def _send(self) -> bool:
        return self._courier.run()

    def _forget(self) -> bool:
        effort = time_budget.Effort()
        while events.forget(self._database) == events.MOST:
            if effort.is_over:
                break
        waiting.forget(self._database)
        return True
