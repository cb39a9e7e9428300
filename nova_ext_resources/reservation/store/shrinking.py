# SPDX-License-Identifier: Apache-2.0

"""Releases what no server of Nova has taken in time.

To look which ones these are and to release them is one step: if a server takes
one of them meanwhile, its shard has another revision, and all is read anew.
"""

import sqlalchemy as sa

from nova_ext_resources.reservation import expiry
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import charges
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import reservations
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import shards
from nova_ext_resources.reservation.store import states


def expire(
    database: databases.Database, one: progress.Unfinished, now: int
) -> states.Change | None:
    """Release what is not taken, and all of it if nothing is.

    :param now: seconds since the epoch
    :returns: what was written; None if another program has written something
        since the reservation was read, or it is not due
    :raises StoreError: nothing was written; or if the database did not answer,
        perhaps all
    """
    return retry.call(_try_expire, database, one, now)


def _try_expire(
    database: databases.Database, one: progress.Unfinished, now: int
) -> states.Change | None:
    with database.transaction() as connection:
        revisions, _purged = shards.read_revisions(connection)
        found = servers.read_servers(connection, [one.key], interval.ALWAYS)
        requests = reservations.read_requests(connection, [one.key])
        changes = states.list_changes(connection, one.key)
    held, request = found.get(one.key, ()), requests.get(one.key)
    if len(changes) != one.number + 1 or request is None or not held:
        return None
    if changes[-1].state is state.State.DEGRADED:
        return None
    gaps = states.list_gaps(changes)
    if not expiry.is_due(request, held[0].during, now, gaps):
        return None
    left = expiry.expire(request, held, gaps)
    is_over = left.request is None
    change = states.Change(
        state=state.State.EXPIRED if is_over else one.state,
        changed_at=now,
        reason=left.reason,
    )
    with database.transaction() as connection:
        shards.raise_revisions(
            connection, shards.choose_revisions(left.released, revisions)
        )
        _write(connection, one, left, change, revisions)
    return change


def _write(
    connection: sa.Connection,
    one: progress.Unfinished,
    left: expiry.Expiry,
    change: states.Change,
    revisions: shards.Revisions,
) -> None:
    states.add_change(connection, one.key, one.number + 1, change)
    if left.request is not None:
        reservations.change_reservation(connection, left.request, one.during)
        charges.charge_anew(
            connection,
            left.request,
            one.during,
            left.request.most,
            change.changed_at,
        )
    for released in left.released:
        servers.change_server(
            connection, one.key, released, revisions, is_held=False
        )
