# SPDX-License-Identifier: Apache-2.0

"""Applies what guests have claimed whose processes have just started.

Nova reports such starts in the one thread in which all events of the
hypervisor come. Requests to RMD and the kernel, and the wait for a server
that is busy, would hold up the events of other guests there, such as the one
after which the network of a guest that has left is switched over.
"""

import queue

from oslo_log import log as logging

from nova_ext_resources.host.claims import manager
from nova_ext_resources.objects import assignment
from nova_ext_resources import plugins
from nova_ext_resources import worker

LOG = logging.getLogger(__name__)

#: Seconds until a round that nothing has woken.
_IDLE = 3600.0


class IncomingGuests(worker.Worker):
    """Puts the threads of guests that come into their groups."""

    THREAD = 'ext-resources-incoming-guests'

    def __init__(self, host: manager.ClaimManager) -> None:
        super().__init__()
        self._host = host
        self._uuids: queue.SimpleQueue[str] = queue.SimpleQueue()

    def notice(self, server_uuid: str) -> None:
        """Note that a guest's process has started. No I/O, and no lock."""
        entry = self._host.find_entry(server_uuid)
        if entry and entry.purpose is assignment.Purpose.MIGRATION_DEST:
            self._uuids.put(server_uuid)
            self.wake()

    def do_round(self) -> float:
        while not self._uuids.empty():
            self._admit(self._uuids.get())
        return _IDLE

    def _admit(self, uuid: str) -> None:
        try:
            # It may have come, or left again, in the meantime.
            if self._host.holds(uuid):
                self._host.prepare(uuid)
        # Whatever it was: the next guest needs this thread.
        except Exception as err:
            LOG.error(
                'Host %(host)s: could not apply resources to the process of '
                'server %(uuid)s, which is being migrated live to this host. '
                'This will be retried: %(err)s',
                {
                    'host': self._host.host,
                    'uuid': uuid,
                    'err': plugins.describe(err),
                },
            )
