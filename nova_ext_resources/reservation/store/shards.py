# SPDX-License-Identifier: Apache-2.0

"""Revisions, which tell whether what a plan was made of has changed.

A provider or host belongs to the shard that its name is hashed to. That is
the same in each process, whatever it knows of zones and of sharing providers.
Whoever books or releases a server raises the revisions of the shards of its
host and of all its providers, if they still are as they were read. So of two
plans that take from the same place, or pin CPUs of the same host, one fails.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias
import zlib

import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import server as server_mod
from nova_ext_resources.reservation.store import tables

#: Number of a shard -> its revision.
Revisions: TypeAlias = Mapping[int, int]

#: Made once: an admission takes as long for making a statement as for it.
_RAISE = (
    sa.update(tables.SHARDS)
    .where(
        tables.SHARDS.c.number == sa.bindparam('shard'),
        tables.SHARDS.c.revision == sa.bindparam('before'),
    )
    .values(revision=tables.SHARDS.c.revision + 1)
)
_READ = sa.select(
    tables.SHARDS.c.number, tables.SHARDS.c.revision, tables.SHARDS.c.purged
)


def find_shard(name: str, count: int) -> int:
    """Return the shard of a host or of the uuid of a provider."""
    return zlib.crc32(name.encode()) % count


def choose_revisions(
    servers: Iterable[server_mod.PlannedServer], revisions: Revisions
) -> Revisions:
    """Return the revisions of all shards that servers take from."""
    count = len(revisions)
    numbers = {
        find_shard(name, count)
        for one in servers
        for name in (one.host, *(place[0] for place in one.places))
    }
    return {number: revisions[number] for number in sorted(numbers)}


def read_revisions(
    connection: sa.Connection,
) -> tuple[Revisions, Revisions]:
    """Return the revisions of all shards, and up to which rows may be gone.

    :raises StoreError: there are none
    """
    rows = connection.execute(_READ).all()
    if not rows:
        raise exception.StoreError(
            reason='it has no shards. Create its tables anew: upgrade an '
            'empty database.'
        )
    return {row[0]: row[1] for row in rows}, {row[0]: row[2] for row in rows}


def raise_revisions(connection: sa.Connection, revisions: Revisions) -> None:
    """Raise revisions by one, in the order of the shards.

    :param revisions: as they were read
    :raises RevisionMoved: one of them has changed since
    """
    for number, revision in sorted(revisions.items()):
        raised = connection.execute(
            _RAISE, {'shard': number, 'before': revision}
        )
        if raised.rowcount != 1:
            raise exception.RevisionMoved(
                reason=f'shard {number} is not at revision {revision} any '
                'more, because another process has booked or released '
                'servers there; try again'
            )


def lock_purge(connection: sa.Connection) -> None:
    """Let nobody else delete until the end of the transaction."""
    columns = tables.SHARDS.c
    connection.execute(
        sa.update(tables.SHARDS)
        .where(columns.number == 0)
        .values(purged=columns.purged)
    )


def raise_purged(connection: sa.Connection, revisions: Revisions) -> None:
    """Record up to which revision rows of shards are deleted."""
    columns = tables.SHARDS.c
    for number, revision in sorted(revisions.items()):
        connection.execute(
            sa.update(tables.SHARDS)
            .where(columns.number == number, columns.purged < revision)
            .values(purged=revision)
        )
