# SPDX-License-Identifier: Apache-2.0

"""Servers that stay when their reservation is over.

A server says itself for which reservation it was created: what is over has no
server in the tables any more.
"""

from collections.abc import Sequence

from nova_ext_resources.reservation import due
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation.manager import promised
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import records


class Kept:
    """Looks up reservations, each once in a pass.

    :param has_metadata: whether servers say by their metadata for which
        reservation they are, because the scheduler does not know hints
    """

    def __init__(
        self, database: databases.Database, *, has_metadata: bool
    ) -> None:
        self._database = database
        self._has_metadata = has_metadata
        #: Name, or key -> see :meth:`_list_over`.
        self._over: dict[str, Sequence[tuple[str, int]]] = {}

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
        name = nova_server.find_reservation(
            server, has_metadata=self._has_metadata
        )
        # It was created in the first one that was over later.
        return min(
            (
                since
                for project, since in (self._list_over(name) if name else ())
                if project in ('', server.project)
                and since + due.MAX_SKEW >= server.created_at
            ),
            default=None,
        )

    def _list_over(self, name: str) -> Sequence[tuple[str, int]]:
        """Return project and since when it is over, of all of a name."""
        if name not in self._over:
            with self._database.transaction() as connection:
                # By what is written alone, whatever the clock says.
                found = records.list_records(
                    connection,
                    interval.ALWAYS,
                    name=plan_request.find_name(name),
                )
            self._over[name] = [
                (
                    one.request.project,
                    min(one.last.changed_at, one.during.end),
                )
                for one in found
                if one.last.state.is_final
                and plan_request.is_named(one.request.key, name)
            ]
        return self._over[name]
