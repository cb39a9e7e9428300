# SPDX-License-Identifier: Apache-2.0

"""Frees what a server has taken that is not there any more.

A server may fail to start after it took its slot, and whoever deletes one does
not tell. What tells is placement: it knows every consumer that holds anything.
A slot is freed if it says so in two passes, and Nova says nothing else.
"""

from collections.abc import Callable

from oslo_log import log as logging

from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.manager import moved
from nova_ext_resources.reservation.manager import sight
from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation.manager import watch
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import slots

LOG = logging.getLogger(__name__)

#: Seconds after which a server that took its slot must hold something. Nova
#: may retry for some time.
GRACE_SECONDS = 300

#: Each server is looked for so often, in seconds, and so many in one pass.
CHECK_SECONDS = 300
MOST = 200

#: So many slots are freed in one pass at most.
MOST_FREED = 10

#: After so many failures the rest of a pass is left to the next one.
MOST_FAILURES = 3


class Freeing:
    """Asks placement for the servers that have taken slots, in turn.

    :param is_once: there is no other pass, so that one answer is enough
    :param sees_all: returns whether Nova shows the servers of all projects
    """

    def __init__(
        self,
        database: databases.Database,
        cloud: cloud_services.Cloud,
        *,
        is_once: bool = False,
        sees_all: Callable[[], bool] = lambda: True,
    ) -> None:
        self._database = database
        self._cloud = cloud
        self._is_once = is_once
        self._sees_all = sees_all
        self._moved = moved.Moved(database, cloud)
        self._left = MOST_FREED
        #: Servers that held nothing when they were looked for last.
        self._empty: set[str] = set()
        #: Server -> when it was looked for.
        self._checked: dict[str, int] = {}

    def run(self, reading: watch.Reading) -> bool:
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
            if one.consumer in self._empty
            or not now - CHECK_SECONDS < checked[one.consumer or ''] <= now
        ]
        if due and not sight.can_trust(self._cloud.list_enabled()):
            return False
        self._left = MOST_FREED
        self._empty &= checked.keys()
        due.sort(key=lambda pair: checked[pair[1].consumer or ''])
        self._checked = checked
        failed = 0
        effort = time_budget.Effort()
        for key, one in due[:MOST]:
            checked[one.consumer or ''] = now
            what = f'server {one.consumer} of reservation {key}'
            failed += not effort.attempt(what, self._check, key, one, now)
            if failed == MOST_FAILURES or effort.is_over:
                break  # The others come first next.
        return not failed

    def _check(
        self, key: str, slot: planned_server.PlannedServer, now: int
    ) -> bool:
        """Free a slot if its server is gone; return True."""
        assert slot.consumer is not None
        if held := self._cloud.list_held(slot.consumer):
            self._empty.discard(slot.consumer)
            self._moved.look(key, slot, held, now)
            return True
        is_known = self._is_once or slot.consumer in self._empty
        self._empty.add(slot.consumer)
        if not is_known or not self._left or not self._sees_all():
            return True
        server = self._cloud.find_server(slot.consumer)
        if not nova_server.holds_nothing(server):
            LOG.warning(
                'Server %(uuid)s of reservation %(key)s has no allocations '
                'in placement, but exists in Nova: its place stays taken. If '
                'the server is not being moved or built, heal its '
                'allocations.',
                {'uuid': slot.consumer, 'key': key},
            )
            self._empty.discard(slot.consumer)
            return True
        self._left -= 1
        reason = (
            f'server {slot.consumer} has no allocations in placement; its '
            f'place on host {slot.host} is free for another server'
        )
        slots.free(self._database, key, slot, now=now, reason=reason)
        return True
