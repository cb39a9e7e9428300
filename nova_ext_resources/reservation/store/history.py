# SPDX-License-Identifier: Apache-2.0

"""Which revisions the shards have had.

Whoever has seen a revision that a shard has never had has read another
database: one that was restored from a copy since, or another server's.
"""

from collections.abc import Mapping

import sqlalchemy as sa

from nova_ext_resources.reservation.store import tables

_COLUMNS = tables.HISTORY.c

#: Made once: an admission takes as long for making a statement as for it.
_ADD = sa.insert(tables.HISTORY)
_FIND = sa.select(_COLUMNS.shard, _COLUMNS.revision).where(
    _COLUMNS.shard.in_(sa.bindparam('shards', expanding=True)),
    _COLUMNS.revision.in_(sa.bindparam('revisions', expanding=True)),
)
_FORGET = sa.delete(tables.HISTORY).where(
    _COLUMNS.shard == sa.bindparam('number'),
    _COLUMNS.revision < sa.bindparam('before'),
)


def add(connection: sa.Connection, revisions: Mapping[int, int]) -> None:
    """Note the revisions that shards have from now on."""
    if revisions:
        connection.execute(
            _ADD,
            [
                {'shard': number, 'revision': revision}
                for number, revision in revisions.items()
            ],
        )


def has_had(connection: sa.Connection, seen: Mapping[int, int]) -> bool:
    """Return whether all these shards have had these revisions.

    :param seen: none that is forgotten
    """
    if not seen:
        return True
    rows = connection.execute(
        _FIND, {'shards': [*seen], 'revisions': [*{*seen.values()}]}
    )
    return seen.items() <= {(row[0], row[1]) for row in rows}


def forget(connection: sa.Connection, before: Mapping[int, int]) -> None:
    """Forget what shards had before some revisions."""
    for number, revision in before.items():
        connection.execute(_FORGET, {'number': number, 'before': revision})
