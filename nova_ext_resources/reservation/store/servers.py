# SPDX-License-Identifier: Apache-2.0

"""The rows of planned servers and of what they take."""

from collections.abc import Collection, Iterable, Iterator, Sequence
import itertools
import json
from typing import Any, TypeAlias

import sqlalchemy as sa

from nova_ext_resources.objects import assignment
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import server as server_mod
from nova_ext_resources.reservation.store import shards
from nova_ext_resources.reservation.store import tables

PlannedServers: TypeAlias = tuple[server_mod.PlannedServer, ...]

#: Keys in one statement; SQLite allowed 999 parameters before 3.32.
_CHUNK = 500


def add_server(
    connection: sa.Connection,
    reservation: str,
    server: server_mod.PlannedServer,
    revisions: shards.Revisions,
) -> None:
    """Write a server that is held from now on.

    :param revisions: all of them, before they were raised for it
    """
    added = connection.execute(
        sa.insert(tables.SERVERS).values(
            server=server.key,
            reservation=reservation,
            host=server.host,
            cpus=_write_cpus(server.cpus),
            starts_at=server.during.start,
            ends_at=server.during.end,
            is_held=True,
            **_mark(server, revisions),
        )
    )
    assert added.inserted_primary_key
    (server_id,) = added.inserted_primary_key
    connection.execute(
        sa.insert(tables.ALLOCATIONS),
        [
            {'server_id': server_id, 'number': number, **_write(one)}
            for number, one in enumerate(server.assignments)
        ],
    )


def release_server(
    connection: sa.Connection,
    server: server_mod.PlannedServer,
    revisions: shards.Revisions,
) -> None:
    """Record that a server is not held any more.

    :param revisions: all of them, before they were raised for it
    """
    columns = tables.SERVERS.c
    connection.execute(
        sa.update(tables.SERVERS)
        .where(columns.server == server.key, columns.is_held)
        .values(is_held=False, **_mark(server, revisions))
    )


def _mark(
    server: server_mod.PlannedServer, revisions: shards.Revisions
) -> dict[str, int]:
    """Return the shard of a server's host, and its revision from now on."""
    shard = shards.find_shard(server.host, len(revisions))
    return {'shard': shard, 'revision': revisions[shard] + 1}


def _write_cpus(cpus: frozenset[int] | None) -> str | None:
    return None if cpus is None else json.dumps(sorted(cpus))


def _read_cpus(text: str | None) -> frozenset[int] | None:
    return None if text is None else frozenset(json.loads(text))


def _write(one: assignment.Assignment) -> dict[str, Any]:
    return {
        'rp_uuid': one.rp_uuid,
        'rp_key': one.rp_key,
        'resource_class': one.resource_class,
        'amount': one.amount,
        'units': json.dumps(dict(one.units)),
        'is_allocated': one.is_allocated,
    }


def list_changed(
    connection: sa.Connection, seen: shards.Revisions
) -> list[str]:
    """Return the reservations with servers written or released since.

    :param seen: up to which revision each shard was read; only shards that
        are listed
    """
    columns = tables.SERVERS.c
    later = [
        sa.and_(columns.shard == number, columns.revision > revision)
        for number, revision in seen.items()
    ]
    query = sa.select(columns.reservation).where(sa.or_(*later)).distinct()
    return list(connection.scalars(query))


def list_unfinished(connection: sa.Connection, now: int) -> list[str]:
    """Return the reservations with servers that are held after a time."""
    columns = tables.SERVERS.c
    query = (
        sa.select(columns.reservation)
        .where(columns.ends_at > now, columns.is_held)
        .distinct()
    )
    return list(connection.scalars(query))


def read_servers(
    connection: sa.Connection, reservations: Collection[str], now: int
) -> dict[str, PlannedServers]:
    """Return reservation -> its servers that are held after a time.

    Those without such servers are left out.
    """
    found: dict[str, PlannedServers] = {}
    for keys in chunk(reservations):
        rows = connection.execute(_select_servers(keys, now))
        for _id, parts in itertools.groupby(rows, key=lambda row: row.id):
            one = list(parts)
            key = one[0].reservation
            found[key] = (*found.get(key, ()), _read_server(one))
    return found


def chunk(keys: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Return keys in as many parts as one statement each can name."""
    left = iter(keys)
    while part := tuple(itertools.islice(left, _CHUNK)):
        yield part


def _select_servers(keys: Collection[str], now: int) -> sa.Select[Any]:
    server, allocation = tables.SERVERS.c, tables.ALLOCATIONS.c
    return (
        sa.select(
            *(one for one in server if one.name not in ('shard', 'revision')),
            *(
                one
                for one in allocation
                if one.name not in ('server_id', 'number')
            ),
        )
        .join_from(tables.SERVERS, tables.ALLOCATIONS)
        .where(
            server.reservation.in_(keys), server.is_held, server.ends_at > now
        )
        .order_by(server.id, allocation.number)
    )


def _read_server(rows: Sequence[sa.Row[Any]]) -> server_mod.PlannedServer:
    first = rows[0]
    return server_mod.PlannedServer(
        key=first.server,
        host=first.host,
        during=interval.Interval(first.starts_at, first.ends_at),
        cpus=_read_cpus(first.cpus),
        assignments=tuple(
            assignment.Assignment(
                rp_uuid=row.rp_uuid,
                rp_key=row.rp_key,
                resource_class=row.resource_class,
                amount=row.amount,
                units=json.loads(row.units),
                is_allocated=row.is_allocated,
            )
            for row in rows
        ),
    )
