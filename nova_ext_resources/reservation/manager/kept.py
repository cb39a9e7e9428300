# SPDX-License-Identifier: Apache-2.0

"""Servers that stay when their reservation is over.

A server says itself for which reservation it was created: what is over has no
server in the tables any more.
"""

from nova_ext_resources.reservation import due
from nova_ext_resources.reservation.manager import promised
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation.store import database as database_mod
from nova_ext_resources.reservation.store import states


class Kept:
    """Looks up reservations, each once in a pass.

    :param has_metadata: whether servers say by their metadata for which
        reservation they are, because the scheduler does not know hints
    """

    def __init__(
        self, database: database_mod.Database, *, has_metadata: bool
    ) -> None:
        self._database = database
        self._has_metadata = has_metadata
        #: Reservation -> since when it is over; None if it is not.
        self._over: dict[str, states.Over | None] = {}

    def begin(self, near: promised.Promised) -> None:
        """Begin a pass.

        :param near: as it was read in this pass
        """
        self._near = near
        self._over = {}

    def find_until(self, server: nova_server.NovaServer) -> int | None:
        """Return up to when a server has a place that it stays in, or had one.

        One that is removed at the end of its reservation has none. So has one
        whose reservation was another one of that name.

        :returns: seconds since the epoch; None if it is for no reservation,
            or for one that goes on without it, or of which nothing is known
        :raises StoreError: the database cannot be read
        """
        if server.uuid in self._near.kept:
            return self._near.kept[server.uuid]
        key = nova_server.find_reservation(
            server, has_metadata=self._has_metadata
        )
        over = None if key is None else self._find_over(key)
        if (
            over is None
            or over.project not in ('', server.project)
            or server.created_at > over.since + due.MAX_SKEW
        ):
            return None
        return over.since

    def _find_over(self, key: str) -> states.Over | None:
        if key not in self._over:
            with self._database.transaction() as connection:
                self._over[key] = states.find_over(connection, key)
        return self._over[key]
