# SPDX-License-Identifier: Apache-2.0

"""Frees what a server has taken that is not there any more.

A server may fail to start after it took its slot, and whoever deletes one does
not tell. What tells is placement: it knows every consumer that holds anything.
"""

from nova_ext_resources.reservation.manager import cloud as cloud_mod
from nova_ext_resources.reservation.manager import watch as watch_mod
from nova_ext_resources.reservation import server as server_mod
from nova_ext_resources.reservation.store import database as database_mod
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import slots

#: Seconds after which a server that took its slot must hold something. Nova
#: may retry for some time.
GRACE_SECONDS = 300

#: Each server is looked for so often, in seconds, and so many in one pass.
CHECK_SECONDS = 300
MOST = 200


class Freeing:
    """Asks placement for the servers that have taken slots, in turn."""

    def __init__(
        self, database: database_mod.Database, cloud: cloud_mod.Cloud
    ) -> None:
        self._database = database
        self._cloud = cloud
        #: Server -> when it was looked for.
        self._checked: dict[str, int] = {}

    def run(self, reading: watch_mod.Reading) -> bool:
        """See :class:`~.chores.Chore`."""
        if not reading.is_steady:
            return True
        now = reading.now
        with self._database.transaction() as connection:
            found = [
                (key, one)
                for key, one in servers.list_taken(
                    connection, now - GRACE_SECONDS
                )
                if one.during.end > now
            ]
        checked = {
            one.consumer: self._checked.get(one.consumer, 0)
            for _key, one in found
            if one.consumer
        }
        # What is in the future was checked before the clock was set back.
        due = [
            (key, one)
            for key, one in found
            if not now - CHECK_SECONDS < checked[one.consumer or ''] <= now
        ]
        due.sort(key=lambda pair: checked[pair[1].consumer or ''])
        for key, one in due[:MOST]:
            self._check(key, one, now)
            checked[one.consumer or ''] = now
            self._checked = checked
        return True

    def _check(
        self, key: str, slot: server_mod.PlannedServer, now: int
    ) -> None:
        assert slot.consumer is not None
        if self._cloud.has_allocations(slot.consumer):
            return
        reason = (
            f'server {slot.consumer} holds nothing in placement; its place on '
            f'host {slot.host} is free for another one'
        )
        slots.free(self._database, key, slot, now=now, reason=reason)
