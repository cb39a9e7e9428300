# SPDX-License-Identifier: Apache-2.0

"""To which subscriptions something is to be sent, and to which nothing is.

The database finds out, whatever the number of subscriptions is: an event is of
interest to few of them.
"""

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import tables

#: Seconds until anything is due again, at most. What is due later was written
#: by a clock that was wrong.
LONGEST_WAIT = 4320


def read_due(
    connection: sa.Connection, now: int, last: int
) -> list[followers.Follower]:
    """Return those for which there is an event, and to which it may be sent.

    :param now: seconds since the epoch
    :param last: the last position that was given
    """
    query = sa.select(tables.SUBSCRIPTIONS).where(
        *_are_due(now), tables.SUBSCRIPTIONS.c.position < last, _has_event()
    )
    return [*followers.parse_all(connection.execute(query))]


def list_idle(connection: sa.Connection, now: int, last: int) -> list[str]:
    """Return those for which there is no event, and who have yet to pass some.

    And those that were in trouble, and have been told all by now.
    """
    columns = tables.SUBSCRIPTIONS.c
    query = sa.select(columns.subscription).where(
        *_are_due(now),
        sa.or_(columns.position < last, columns.failing_since.is_not(None)),
        sa.not_(_has_event()),
    )
    return [*connection.scalars(query)]


def pass_by(
    connection: sa.Connection, uuids: Sequence[str], now: int, last: int
) -> None:
    """Let those go on for which there was no event up to a position."""
    columns = tables.SUBSCRIPTIONS.c
    for part in servers.chunk(uuids):
        connection.execute(
            sa.update(tables.SUBSCRIPTIONS)
            .where(
                columns.subscription.in_(part),
                columns.position <= last,
                *_are_due(now),
            )
            .values(
                position=last,
                failures=0,
                failing_since=None,
                failure=None,
                revision=columns.revision + 1,
            )
        )


def forget(database: databases.Database) -> int:
    """Delete those whose reservation is gone, and told; return how many.

    Its name may become that of another one.

    :raises StoreError: the database refused it, or could not be reached
    """
    with database.transaction() as connection:
        found = connection.scalars(_find_left()).all()
    if found:
        retry.call(_delete, database, found)
    return len(found)


def _find_left() -> sa.Select[tuple[str]]:
    one, event = tables.SUBSCRIPTIONS.c, tables.EVENTS.c
    known = tables.RESERVATIONS.c
    is_untold = sa.exists().where(
        event.subject == one.subject,
        sa.or_(event.position.is_(None), event.position > one.position),
    )
    return sa.select(one.subscription).where(
        one.subject.is_not(None),
        sa.not_(sa.exists().where(known.reservation == one.subject)),
        sa.or_(one.suspended_at.is_not(None), sa.not_(is_untold)),
    )


def _delete(database: databases.Database, uuids: Sequence[str]) -> None:
    with database.transaction() as connection:
        for part in servers.chunk(uuids):
            connection.execute(
                sa.delete(tables.SUBSCRIPTIONS).where(
                    tables.SUBSCRIPTIONS.c.subscription.in_(part)
                )
            )


def _are_due(now: int) -> Iterator[sa.ColumnElement[bool]]:
    columns = tables.SUBSCRIPTIONS.c
    yield columns.suspended_at.is_(None)
    yield sa.or_(columns.due_at <= now, columns.due_at > now + LONGEST_WAIT)


def _has_event() -> sa.ColumnElement[bool]:
    """Return what is true where there is an event to be sent.

    In two parts, so that each finds its index.
    """
    one, event = tables.SUBSCRIPTIONS.c, tables.EVENTS.c
    quote = sa.literal('"')
    found = sa.exists().where(
        event.position > one.position,
        one.kinds.contains(quote + event.kind + quote),
        sa.or_(
            event.subscription.is_(None),
            event.subscription == one.subscription,
        ),
        sa.or_(one.subject.is_(None), one.subject == event.subject),
    )
    return sa.case(
        (one.project == '', found),
        else_=found.where(event.project == one.project),
    )
