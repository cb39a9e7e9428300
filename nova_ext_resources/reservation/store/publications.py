# SPDX-License-Identifier: Apache-2.0

"""Rows of what hosts have published.

Schedulers note it in rounds. Of several that would, one gets each round, by
the row of the rounds; the others have nothing to do.
"""

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import tables

#: What was noted so long ago is not believed any more: schedulers are away,
#: or cannot reach all of Nova's databases.
MAX_AGE_SECONDS = 900

#: Rows in one transaction, and keys in one statement.
_CHUNK = 100

_ROWS = tables.PUBLICATIONS
_ROUNDS = tables.ROUNDS


def read(database: databases.Database, now: int) -> publication.Publications:
    """Return what is known of hosts; nothing if that is too old.

    :param now: seconds since the epoch
    :raises StoreError: the database cannot be read
    """
    columns = _ROWS.c
    query = sa.select(
        columns.host, columns.document, columns.holders, columns.cells
    )
    with database.transaction() as connection:
        complete = connection.scalar(sa.select(_ROUNDS.c.complete_at)) or 0
        if complete < now - MAX_AGE_SECONDS:
            return {}
        return {
            row.host: publication.Publication(
                host=row.host,
                document=row.document,
                holders=row.holders,
                cells=row.cells,
            )
            for row in connection.execute(query)
        }


def begin_round(database: databases.Database, now: int, seconds: int) -> bool:
    """Return whether the caller is to note all, and no one else.

    :param now: seconds since the epoch
    :param seconds: from the beginning of one round to the next
    :raises StoreError: the database cannot be written
    """
    columns = _ROUNDS.c
    # A clock may have been ahead.
    is_due = sa.or_(columns.begun_at <= now - seconds, columns.begun_at > now)
    with database.transaction() as connection:
        begun = connection.execute(
            sa.update(_ROUNDS).where(is_due).values(begun_at=now)
        )
    return begun.rowcount == 1


def end_round(
    database: databases.Database, hosts: Iterable[str], now: int
) -> None:
    """Note that nothing has changed but what was written, on all hosts.

    :param hosts: all that Nova has; rows of others are deleted
    :param now: seconds since the epoch, when the round began
    :raises StoreError: the database cannot be written
    """
    gone = read_digests(database).keys() - set(hosts)
    for names in _split(sorted(gone)):
        with database.transaction() as connection:
            connection.execute(sa.delete(_ROWS).where(_ROWS.c.host.in_(names)))
    with database.transaction() as connection:
        connection.execute(sa.update(_ROUNDS).values(complete_at=now))


def read_digests(database: databases.Database) -> dict[str, str]:
    """Return host -> the digest of its publication.

    :raises StoreError: the database cannot be read
    """
    query = sa.select(_ROWS.c.host, _ROWS.c.digest)
    with database.transaction() as connection:
        return {row.host: row.digest for row in connection.execute(query)}


def write(
    database: databases.Database,
    changed: Sequence[publication.Publication],
) -> None:
    """Write publications in place of those that were there.

    :param changed: one per host
    :raises StoreError: the database cannot be written
    """
    by_name = {one.host: one for one in changed}
    for names in _split(sorted(by_name)):
        with database.transaction() as connection:
            connection.execute(sa.delete(_ROWS).where(_ROWS.c.host.in_(names)))
            connection.execute(
                sa.insert(_ROWS),
                [
                    {
                        'host': one.host,
                        'digest': one.digest,
                        'document': one.document,
                        'holders': one.holders,
                        'cells': one.cells,
                    }
                    for one in map(by_name.__getitem__, names)
                ],
            )


def _split(names: Sequence[str]) -> Iterable[Sequence[str]]:
    for start in range(0, len(names), _CHUNK):
        yield names[start : start + _CHUNK]
