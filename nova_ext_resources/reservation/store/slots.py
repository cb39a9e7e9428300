# SPDX-License-Identifier: Apache-2.0

"""Which server of Nova has taken which planned server: its slot.

A slot has one server at most, and a server one slot at most, of whatever
reservation. Both are written as a plan is: if the shards of the slot still
have the revisions that were read. So whoever follows the store sees it.
"""

from collections.abc import Callable, Iterator, Mapping
import dataclasses
from typing import TypeAlias

from oslo_utils import timeutils
import sqlalchemy as sa

from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.reservation import cause as cause_mod
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import events
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import shards
from nova_ext_resources.reservation.store import states

#: Returns the slot to take, or None to leave all as it is.
Choose: TypeAlias = Callable[
    [servers.PlannedServers], planned_server.PlannedServer | None
]

#: How long is tried. Whoever boots a server waits meanwhile.
MAX_SECONDS = 10.0


def take(
    database: databases.Database,
    key: str,
    consumer: str,
    choose: Choose,
    *,
    now: int,
) -> planned_server.PlannedServer | None:
    """Let a server of Nova have a slot, instead of the one that it has.

    :param key: the reservation
    :param consumer: uuid of the server
    :param choose: called with what the reservation holds now, and again if
        another process was faster. It must return one that is free, or the
        one that the server has
    :param now: seconds since the epoch; what has ended by then is left out
    :returns: what was taken; None if nothing was, and nothing freed
    :raises StoreError: the database refused it, or could not be reached, or
        too many others wrote, for as long as it was tried again
    """
    return retry.call_within(
        MAX_SECONDS, _try_take, database, key, consumer, choose, now
    )


def _try_take(
    database: databases.Database,
    key: str,
    consumer: str,
    choose: Choose,
    now: int,
) -> planned_server.PlannedServer | None:
    with database.transaction() as connection:
        revisions, _purged = shards.read_revisions(connection)
        held = servers.read_servers(connection, [key], now)
        former = servers.find_taken(connection, consumer)
    chosen = choose(held.get(key, ()))
    if chosen is None:
        return None
    if chosen.consumer not in (None, consumer):
        raise ValueError(
            f'{chosen.key} was taken by server {chosen.consumer}; choose '
            'one that is free'
        )
    taken = dataclasses.replace(chosen, consumer=consumer, taken_at=now)
    freed = [former] if former and former[1].key != taken.key else []
    touched = [taken, *(one for _owner, one in freed)]
    with database.transaction() as connection:
        shards.raise_revisions(
            connection, shards.choose_revisions(touched, revisions)
        )
        # First: no two slots may have the same server.
        for owner, one in freed:
            _free(connection, owner, one, revisions)
            events.add_allocations(connection, owner, now, released=[one])
        servers.change_server(connection, key, taken, revisions)
        if chosen.consumer is None:
            events.add_allocations(connection, key, now, taken=[taken])
    return taken


class Taken(Mapping[str, Mapping[host_view.Place, int]]):
    """Consumer -> the places of its slot.

    Of thousands, those few are made of their rows that placement knows.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def __getitem__(self, consumer: str) -> Mapping[host_view.Place, int]:
        return planned_server.list_places(
            servers.parse_assignments(self._texts[consumer])
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def list_places(database: databases.Database, now: int) -> Taken:
    """Return consumer -> the places of its slot.

    That is the server of Nova that has taken the slot, and what may hold the
    room of a slot for the servers to come.

    :param now: seconds since the epoch; what has ended by then is left out
    :raises StoreError: the database cannot be read
    """
    with database.transaction() as connection:
        rows = servers.list_assignments(connection, now)
    return Taken(
        {
            consumer: text
            for key, taken_by, text in rows
            for consumer in (taken_by, planned_hold.make_consumer(key))
            if consumer is not None
        }
    )


def free(
    database: databases.Database,
    key: str,
    slot: planned_server.PlannedServer,
    *,
    now: int | None = None,
    reason: str = '',
    cause: cause_mod.Cause = cause_mod.Cause.FREED,
) -> bool:
    """Free a slot.

    :param key: the reservation
    :param slot: as it was read
    :param now: seconds since the epoch, of the row that says why
    :param reason: a sentence; '' writes no row
    :param cause: of that row
    :returns: whether it was freed. It is not if it is free, or was taken
        again since it was read
    :raises StoreError: as of :func:`take`
    """
    return retry.call_within(
        MAX_SECONDS, _try_free, database, key, slot, now, reason, cause
    )


def _try_free(
    database: databases.Database,
    key: str,
    slot: planned_server.PlannedServer,
    now: int | None,
    reason: str,
    cause: cause_mod.Cause,
) -> bool:
    if slot.consumer is None:
        return False
    with database.transaction() as connection:
        revisions, _purged = shards.read_revisions(connection)
        found = servers.find_taken(connection, slot.consumer)
    if found is None or found[0] != key or _differs(found[1], slot):
        return False
    with database.transaction() as connection:
        shards.raise_revisions(
            connection, shards.choose_revisions([found[1]], revisions)
        )
        _free(connection, key, found[1], revisions)
        released_at = int(timeutils.utcnow_ts()) if now is None else now
        events.add_allocations(
            connection, key, released_at, released=[found[1]]
        )
        if now is not None and reason:
            states.repeat_state(connection, key, now, reason, cause=cause)
    return True


def _differs(
    one: planned_server.PlannedServer, other: planned_server.PlannedServer
) -> bool:
    return (one.key, one.taken_at) != (other.key, other.taken_at)


def _free(
    connection: sa.Connection,
    key: str,
    slot: planned_server.PlannedServer,
    revisions: shards.Revisions,
) -> None:
    servers.change_server(connection, key, servers.free(slot), revisions)
