# SPDX-License-Identifier: Apache-2.0

"""Deletes what was released long ago, so that the tables stay small.

What has ended by the clock alone stays until its state says so: a clock that
was wrong for a moment deletes nothing that is promised.
"""

import sqlalchemy as sa

from nova_ext_resources.reservation.store import capacity_changes
from nova_ext_resources.reservation.store import charges
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import shards
from nova_ext_resources.reservation.store import states
from nova_ext_resources.reservation.store import tables

#: Reservations that are deleted at once. Others wait meanwhile.
MOST = 500


def purge(database: databases.Database, before: int, most: int = MOST) -> int:
    """Delete reservations, with all their rows, that are over since a time.

    And planned changes of capacity, which nobody counts on any more.

    Their keys can be used again: whoever asks for one of them once more gets
    another reservation.

    :param before: seconds since the epoch
    :param most: how many at most, the oldest ones first
    :returns: how many were deleted; if ``most``, there may be more
    :raises StoreError: nothing was deleted, unless the database could not
        answer any more
    """
    return retry.call(_purge, database, before, most)


def _purge(database: databases.Database, before: int, most: int) -> int:
    with database.transaction() as connection:
        shards.lock_purge(connection)
        charges.forget(connection, before)
        capacity_changes.forget(connection, before)
        keys = states.list_over(connection, before, most)
        for part in servers.chunk(keys):
            shards.raise_purged(
                connection, servers.find_revisions(connection, part)
            )
            for table in reversed(tables.METADATA.sorted_tables):
                # Charges count for as long as quotas say.
                if 'reservation' in table.c and table is not tables.CHARGES:
                    connection.execute(
                        sa.delete(table).where(table.c.reservation.in_(part))
                    )
    return len(keys)
