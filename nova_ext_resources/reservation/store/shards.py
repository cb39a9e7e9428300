# SPDX-License-Identifier: Apache-2.0

"""Revisions, which tell whether what a plan was made of has changed.

A provider or host belongs to the shard that its name is hashed to. That is
the same in each process, whatever it knows of zones and of sharing providers.
Whoever books or releases a server raises the revisions of the shards of its
host and of all its providers, if they still are as they were read. So of two
plans that take from the same place, or pin CPUs of the same host, one fails.

They are raised by steps that are drawn at random. In a database that was
restored from a copy, other writes lead to other revisions than before, and
:mod:`.history` tells which of the two it is.
"""

from collections.abc import Iterable, Mapping
import secrets
import zlib

import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import history
from nova_ext_resources.reservation.store import tables

#: The longest step. The revision of a shard is raised 10 ** 12 times until
#: its column is full.
_LONGEST = 2**24

#: Revisions that are lower by so much are forgotten: whoever has read
#: nothing since some 2,000 writes to a shard reads all anew.
_REMEMBERED = 1000 * _LONGEST

#: One write of so many looks for what can be forgotten.
_SELDOM = 50

#: Made once: an admission takes as long for making a statement as for it.
_RAISE = (
    sa.update(tables.SHARDS)
    .where(
        tables.SHARDS.c.number == sa.bindparam('shard'),
        tables.SHARDS.c.revision == sa.bindparam('before'),
    )
    .values(revision=sa.bindparam('after'))
)
_READ = sa.select(
    tables.SHARDS.c.number, tables.SHARDS.c.revision, tables.SHARDS.c.purged
)


class Revisions(dict[int, int]):
    """Number of a shard -> its revision.

    :ivar step: by how much a write that is made of them raises them
    """

    def __init__(
        self, revisions: Mapping[int, int] | None = None, step: int = 0
    ) -> None:
        """Draw a step where none is given."""
        super().__init__(revisions or {})
        self.step = step or secrets.randbelow(_LONGEST) + 1

    def pick(self, numbers: Iterable[int]) -> 'Revisions':
        """Return those of some shards, in their order."""
        picked = {one: self[one] for one in sorted(numbers)}
        return Revisions(picked, self.step)

    def find_next(self, number: int) -> int:
        """Return to what the revision of a shard is raised."""
        return self[number] + self.step

    def follow(self, raised: 'Revisions') -> 'Revisions':
        """Return what they are when some of them were raised."""
        return Revisions(
            {**self, **{one: raised.find_next(one) for one in raised}}
        )


def find_shard(name: str, count: int) -> int:
    """Return the shard of a host or of the uuid of a provider."""
    return zlib.crc32(name.encode()) % count


def choose_revisions(
    servers: Iterable[planned_server.PlannedServer], revisions: Revisions
) -> Revisions:
    """Return the revisions of all shards that servers take from."""
    count = len(revisions)
    numbers = {
        find_shard(name, count)
        for one in servers
        for name in (one.host, *(place[0] for place in one.places))
    }
    return revisions.pick(numbers)


def read_revisions(
    connection: sa.Connection,
) -> tuple[Revisions, Mapping[int, int]]:
    """Return the revisions of all shards, and up to which rows may be gone.

    :raises StoreError: there are none
    """
    rows = connection.execute(_READ).all()
    if not rows:
        raise exception.StoreError(
            reason='the database has no shards. Create its tables anew: '
            'upgrade an empty database.'
        )
    revisions = Revisions({row[0]: row[1] for row in rows})
    return revisions, {row[0]: row[2] for row in rows}


def raise_revisions(connection: sa.Connection, revisions: Revisions) -> None:
    """Raise revisions, in the order of the shards.

    :param revisions: as they were read
    :raises RevisionMoved: one of them has changed since
    """
    after = {one: revisions.find_next(one) for one in sorted(revisions)}
    for number, raised_to in after.items():
        revision = revisions[number]
        raised = connection.execute(
            _RAISE,
            {'shard': number, 'before': revision, 'after': raised_to},
        )
        if raised.rowcount != 1:
            raise exception.RevisionMoved(
                reason=f'shard {number} is not at revision {revision} any '
                'more, because another process has booked or released '
                'servers there; try again'
            )
    history.add(connection, after)
    _forget(connection, after)


def _forget(connection: sa.Connection, after: Mapping[int, int]) -> None:
    """Forget old revisions, once for many that are added."""
    old = {
        number: revision - _REMEMBERED
        for number, revision in after.items()
        if revision % _SELDOM == 0 and revision > _REMEMBERED
    }
    raise_purged(connection, old)
    history.forget(connection, old)


def lock_purge(connection: sa.Connection) -> None:
    """Let nobody else delete until the end of the transaction."""
    columns = tables.SHARDS.c
    connection.execute(
        sa.update(tables.SHARDS)
        .where(columns.number == 0)
        .values(purged=columns.purged)
    )


def raise_purged(
    connection: sa.Connection, revisions: Mapping[int, int]
) -> None:
    """Record up to which revision rows of shards are deleted."""
    columns = tables.SHARDS.c
    for number, revision in sorted(revisions.items()):
        connection.execute(
            sa.update(tables.SHARDS)
            .where(columns.number == number, columns.purged < revision)
            .values(purged=revision)
        )
