# SPDX-License-Identifier: Apache-2.0

"""Leases written into the tables of the reservations, as admissions do.

All rows of one table at once: only the time for that is another one.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import sqlalchemy as sa

from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import reservations
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import shards
from nova_ext_resources.reservation.store import states
from nova_ext_resources.reservation.store import tables

#: A request, and its only server.
Planned: TypeAlias = tuple[plan_request.Request, planned_server.PlannedServer]


def fill(
    database: databases.Database, planned: Iterable[Planned], now: int
) -> None:
    """Write requests, each with its server, for the times of the servers."""
    change = states.Change(
        state=state.State.PENDING, changed_at=now, reason='created'
    )
    with database.transaction() as connection:
        revisions, _purged = shards.read_revisions(connection)
        shards.raise_revisions(connection, revisions)
        rows: dict[sa.Table, list[dict[str, Any]]] = {
            tables.RESERVATIONS: [],
            tables.STATES: [],
            tables.SERVERS: [],
        }
        for request, server in planned:
            for table, row in (
                (
                    tables.RESERVATIONS,
                    reservations.make_row(request, server.during),
                ),
                (tables.STATES, states.make_row(request.key, 0, change)),
                (
                    tables.SERVERS,
                    servers.make_row(request.key, server, revisions),
                ),
            ):
                rows[table].append(row)
        for table, ones in rows.items():
            if ones:
                connection.execute(sa.insert(table), ones)
