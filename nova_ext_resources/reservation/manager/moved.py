# SPDX-License-Identifier: Apache-2.0

"""Servers that are not where their place is.

A move that its scheduler has seen takes the place along. One that was forced,
or taken back, does not: then a place is empty and taken, and the server stands
where others may have been promised the room.
"""

from collections.abc import Set

from oslo_log import log as logging

from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import slots

LOG = logging.getLogger(__name__)


class Moved:
    """Gives a server a place of its reservation where it is, if one is free.

    If none is, an operator has to know.
    """

    def __init__(
        self, database: databases.Database, cloud: cloud_services.Cloud
    ) -> None:
        self._database = database
        self._cloud = cloud
        #: Server -> the host that was logged.
        self._logged: dict[str, str] = {}

    def look(
        self,
        key: str,
        slot: planned_server.PlannedServer,
        held: Set[str],
        now: int,
    ) -> None:
        """Look at a server that has a place.

        :param slot: of reservation ``key``
        :param held: uuids of the providers that the server holds something of
        """
        consumer = slot.consumer or ''
        own = _list_providers(slot)
        if not own or not held.isdisjoint(own):
            self._logged.pop(consumer, None)
            return
        server = self._cloud.find_server(consumer)
        if server is None or not _stands(server) or server.host == slot.host:
            return  # It is on its way.

        def choose(
            found: servers.PlannedServers,
        ) -> planned_server.PlannedServer | None:
            return next(
                (
                    one
                    for one in found
                    if one.consumer is None
                    and one.host == server.host
                    and _list_providers(one) <= held
                ),
                None,
            )

        taken = slots.take(self._database, key, consumer, choose, now=now)
        if taken is None:
            self._report(key, slot, server)
            return
        LOG.info(
            'Server %(uuid)s of reservation %(key)s has moved from host '
            '%(before)s to %(host)s, and has its place there now.',
            {
                'uuid': consumer,
                'key': key,
                'before': slot.host,
                'host': server.host,
            },
        )

    def _report(
        self,
        key: str,
        slot: planned_server.PlannedServer,
        server: nova_server.NovaServer,
    ) -> None:
        if self._logged.get(server.uuid) == server.host:
            return
        self._logged[server.uuid] = server.host
        LOG.warning(
            'Server %(uuid)s of reservation %(key)s is on host %(host)s, '
            'where the reservation has no free place; the place of the '
            'server on host %(before)s stays empty. Move the server back: '
            'reservations on host %(host)s may lack room.',
            {
                'uuid': server.uuid,
                'key': key,
                'host': server.host,
                'before': slot.host,
            },
        )


def _list_providers(slot: planned_server.PlannedServer) -> frozenset[str]:
    return frozenset(
        one.rp_uuid for one in slot.assignments if one.is_allocated
    )


def _stands(server: nova_server.NovaServer) -> bool:
    """Return whether a server is on a host, and no move of it can go back."""
    is_moving = server.task_state or server.status == 'VERIFY_RESIZE'
    return bool(server.host) and not is_moving
