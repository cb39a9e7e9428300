# SPDX-License-Identifier: Apache-2.0

"""Releases what was not taken in time."""

from nova_ext_resources.reservation import expiry
from nova_ext_resources.reservation.manager import chores
from nova_ext_resources.reservation.manager import request_cache
from nova_ext_resources.reservation.manager import watch
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import shrinking


State = state.State


class Expiring:
    """Looks after the expiry of reservations.

    One that is degraded does not expire: its owner cannot use what is missing.
    That time does not count, either.
    """

    def __init__(self, database: databases.Database) -> None:
        self._database = database
        self._requests = request_cache.Requests()

    def run(self, reading: watch.Reading) -> bool:
        """See :class:`~.chores.Chore`."""
        if not reading.is_steady:
            return True
        with self._database.transaction() as connection:
            found = [
                one
                for one in progress.list_unfinished(connection)
                if one.during.start <= reading.now
                and one.state is not State.DEGRADED
            ]
            requests = self._requests.read(connection, found)
        done = []
        for one in found:
            request = requests.get(one.key)
            if request and expiry.is_due(request, one.during, reading.now):
                what = f'expiry of {one.key}'
                done.append(
                    chores.attempt(what, self._expire, one, reading.now)
                )
        return all(done)

    def _expire(self, one: progress.Unfinished, now: int) -> bool:
        change = shrinking.expire(self._database, one, now)
        if change is not None:
            chores.report(one.key, change)
        return True
