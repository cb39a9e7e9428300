# SPDX-License-Identifier: Apache-2.0

"""How reservations go on: what is not over, and the next row of each.

Any number of programs may do that at once. Whoever reads a reservation sees
the number of its newest row, and writes the row that follows that one: of two
who write it, the database refuses one.
"""

from collections.abc import Callable, Set
import dataclasses

import sqlalchemy as sa

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import shards
from nova_ext_resources.reservation.store import states
from nova_ext_resources.reservation.store import tables


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A reservation that is not over, as it was read.

    :ivar state: that of its newest row, whatever the clock says
    :ivar number: of that row
    """

    key: str
    during: interval.Interval
    state: state_mod.State
    number: int


def list_unfinished(
    connection: sa.Connection, key: str | None = None
) -> list[Unfinished]:
    """Return what is not over by its rows, by start.

    :param key: this reservation at most
    """
    columns, changes = tables.RESERVATIONS.c, tables.STATES.c
    other = tables.STATES.alias()
    newest = (
        sa.select(sa.func.max(other.c.number))
        .where(other.c.reservation == columns.reservation)
        .scalar_subquery()
    )
    over = [one.value for one in state_mod.State if one.is_final]
    query = (
        sa.select(
            columns.reservation,
            columns.starts_at,
            columns.ends_at,
            changes.state,
            changes.number,
        )
        .join(tables.STATES, changes.reservation == columns.reservation)
        .where(changes.number == newest, changes.state.not_in(over))
        .order_by(columns.starts_at, columns.reservation)
    )
    if key is not None:
        query = query.where(columns.reservation == key)
    rows = connection.execute(query)
    return [
        Unfinished(
            key=row.reservation,
            during=interval.Interval(row.starts_at, row.ends_at),
            state=state_mod.State(row.state),
            number=row.number,
        )
        for row in rows
    ]


def advance(
    database: databases.Database,
    one: Unfinished,
    change: states.Change,
    *,
    consumers: Set[str] | None = None,
    also: Callable[[sa.Connection], None] | None = None,
) -> bool:
    """Write the row that follows, unless another one has.

    If nothing follows the new state, all servers are released.

    :param consumers: the servers of Nova that may have places in it when it is
        over; None takes any. If others have, nothing is written
    :param also: writes more in the same transaction
    :returns: whether it was written; if not, another program was faster
    :raises StateRefused: the state does not allow the new one
    :raises StoreError: nothing was written; or if the database did not answer,
        perhaps all
    """
    return retry.call(_try_advance, database, one, change, consumers, also)


def _try_advance(
    database: databases.Database,
    one: Unfinished,
    change: states.Change,
    consumers: Set[str] | None,
    also: Callable[[sa.Connection], None] | None,
) -> bool:
    held: servers.PlannedServers = ()
    with database.transaction() as connection:
        changes = states.list_changes(connection, one.key)
        revisions, _purged = shards.read_revisions(connection)
        if change.state.is_final:
            found = servers.read_servers(
                connection, [one.key], interval.ALWAYS
            )
            held = found.get(one.key, ())
    later = changes[one.number + 1 :]
    if later or len(changes) <= one.number:
        # The answer to an attempt before this one may have been lost.
        return later[:1] == [change]
    state_mod.check_next(one.key, changes[-1].state, change.state)
    taken = {each.consumer for each in held if each.consumer}
    if consumers is not None and not taken <= consumers:
        return False
    with database.transaction() as connection:
        shards.raise_revisions(
            connection, shards.choose_revisions(held, revisions)
        )
        states.add_change(connection, one.key, one.number + 1, change)
        for server in held:
            servers.change_server(
                connection, one.key, server, revisions, is_held=False
            )
        if also is not None:
            also(connection)
    return True
