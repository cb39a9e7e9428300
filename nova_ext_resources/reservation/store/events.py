# SPDX-License-Identifier: Apache-2.0

"""The rows of events, and their order.

Rows become visible in another order than that in which they were written. So
an event has a position only when :func:`.news.give_positions` has given it
one, in transactions of which each waits for the one before.
"""

from collections.abc import Iterable, Mapping, Sequence
import json
from typing import Any, NamedTuple

from oslo_utils import uuidutils
import sqlalchemy as sa

from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.reservation import event as event_mod
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import tables

#: Rows that are written at once. Others wait meanwhile.
MOST = 500


class Positions(NamedTuple):
    """How far events are in order.

    :ivar last: the last position that was given
    :ivar remaining_until: up to which time there are events of what remains
    """

    last: int
    remaining_until: int


class Placed(NamedTuple):
    """An event in its place."""

    position: int
    event: event_mod.Event


def lock(connection: sa.Connection) -> Positions:
    """Let nobody else give positions until the end of the transaction.

    It must be the first statement.
    """
    connection.execute(
        sa.update(tables.POSITIONS).values(
            position=tables.POSITIONS.c.position
        )
    )
    return read_positions(connection)


def read_positions(connection: sa.Connection) -> Positions:
    """Return how far events are in order."""
    columns = tables.POSITIONS.c
    query = sa.select(columns.position, columns.remaining_until)
    return Positions(*connection.execute(query).one())


def write_positions(connection: sa.Connection, positions: Positions) -> None:
    """Write how far events are in order, under :func:`lock`."""
    connection.execute(
        sa.update(tables.POSITIONS).values(
            position=positions.last,
            remaining_until=positions.remaining_until,
        )
    )


def add(
    connection: sa.Connection,
    events: Iterable[event_mod.Event],
    *,
    subscription: str | None = None,
) -> None:
    """Write events that have no position yet.

    :param subscription: the only one that is told of them; None for all
    """
    rows = [make_row(one, subscription=subscription) for one in events]
    if rows:
        connection.execute(sa.insert(tables.EVENTS), rows)


def make_row(
    event: event_mod.Event,
    *,
    subscription: str | None = None,
    position: int | None = None,
) -> dict[str, Any]:
    """Return the row of an event."""
    return {
        'position': position,
        'event': event.uuid,
        'kind': event.kind.value,
        'project': event.project,
        'subject': event.reservation,
        'subscription': subscription,
        'happened_at': event.happened_at,
        'facts': json.dumps(event.facts),
        'private': json.dumps(event.private),
    }


def add_allocations(
    connection: sa.Connection,
    key: str,
    now: int,
    *,
    taken: Sequence[planned_server.PlannedServer] = (),
    released: Sequence[planned_server.PlannedServer] = (),
) -> None:
    """Write that servers of Nova have taken places, or have them no more.

    Nothing is written where nobody is told.

    :param key: the reservation
    :param now: seconds since the epoch
    :param taken: with their consumers
    :param released: with those that they had
    """
    if not (taken or released) or not followers.has_any(connection):
        return
    columns = tables.RESERVATIONS.c
    project = connection.execute(
        sa.select(columns.project).where(columns.reservation == key)
    ).scalar_one_or_none()
    kinds = event_mod.Kind
    add(
        connection,
        [
            event_mod.Event(
                uuid=uuidutils.generate_uuid(),
                kind=kind,
                project=project or '',
                reservation=key,
                happened_at=now,
                facts={'place': one.key, 'server': one.consumer},
                private={'host': one.host},
            )
            for kind, ones in (
                (kinds.RELEASED, released),
                (kinds.TAKEN, taken),
            )
            for one in ones
        ],
    )


def list_next(
    connection: sa.Connection, follower: followers.Follower, most: int
) -> list[Placed]:
    """Return what a follower is told of next, in order."""
    columns, one = tables.EVENTS.c, follower.subscription
    query = sa.select(tables.EVENTS).where(
        columns.position > follower.position,
        columns.kind.in_(sorted(one.kinds)),
        sa.or_(
            columns.subscription.is_(None), columns.subscription == one.uuid
        ),
    )
    if one.project:
        query = query.where(columns.project == one.project)
    if one.reservation is not None:
        query = query.where(columns.subject == one.reservation)
    rows = connection.execute(query.order_by(columns.position).limit(most))
    return [Placed(row.position, _parse(row)) for row in rows]


def forget(database: databases.Database) -> int:
    """Delete events that nobody needs any more; return how many.

    :raises StoreError: the database refused it, or could not be reached
    """
    return retry.call(_try_forget, database)


def _try_forget(database: databases.Database) -> int:
    columns = tables.EVENTS.c
    with database.transaction() as connection:
        # First: whoever begins to follow then begins after it.
        last = read_positions(connection).last
        floor = followers.find_floor(connection, last)
        query = sa.select(columns.number).where(columns.position <= floor)
        numbers = connection.scalars(query.limit(MOST)).all()
    if not numbers:
        return 0
    with database.transaction() as connection:
        connection.execute(
            sa.delete(tables.EVENTS).where(columns.number.in_(numbers))
        )
    return len(numbers)


def _parse(row: Any) -> event_mod.Event:
    facts: Mapping[str, Any] = foreign_data.load_json(row.facts)
    return event_mod.Event(
        uuid=row.event,
        kind=event_mod.Kind(row.kind),
        project=row.project,
        reservation=row.subject,
        happened_at=row.happened_at,
        facts=facts,
        private=foreign_data.load_json(row.private),
    )
