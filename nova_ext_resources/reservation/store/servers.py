# SPDX-License-Identifier: Apache-2.0

"""The rows of planned servers and of what they take."""

import collections
from collections.abc import Collection, Iterable, Iterator, Mapping
import dataclasses
import functools
import itertools
import json
from typing import Any, TypeAlias

import sqlalchemy as sa

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import shards
from nova_ext_resources.reservation.store import tables

PlannedServers: TypeAlias = tuple[planned_server.PlannedServer, ...]

#: What :func:`_read_server` makes a server of, after its reservation.
_COLUMNS = [
    tables.SERVERS.c[name]
    for name in (
        'reservation',
        'server',
        'host',
        'cpus',
        'assignments',
        'consumer',
        'taken_at',
        'starts_at',
        'ends_at',
    )
]

#: Made once: an admission takes as long for making a statement as for it.
_ADD = sa.insert(tables.SERVERS)
_READ = sa.select(*_COLUMNS).where(
    tables.SERVERS.c.reservation.in_(sa.bindparam('keys', expanding=True)),
    tables.SERVERS.c.is_held,
    tables.SERVERS.c.ends_at > sa.bindparam('now'),
)
_READ_ON_HOSTS = _READ.where(
    tables.SERVERS.c.host.in_(sa.bindparam('hosts', expanding=True))
)

#: What so many planned servers take is kept, to be the same object for many:
#: that takes less time and less memory than one for each.
_FLYWEIGHTS = 10_000

#: Keys in one statement; SQLite allowed 999 parameters before 3.32.
_CHUNK = 500


def add_servers(
    connection: sa.Connection,
    reservation: str,
    added: Iterable[planned_server.PlannedServer],
    revisions: shards.Revisions,
) -> None:
    """Write servers that are held from now on.

    :param revisions: all of them, before they were raised for it
    """
    connection.execute(
        _ADD,
        [make_row(reservation, one, revisions) for one in added],
    )


def make_row(
    reservation: str,
    server: planned_server.PlannedServer,
    revisions: shards.Revisions,
) -> dict[str, Any]:
    """Return the row of a server that is held."""
    return {
        'reservation': reservation,
        'server': server.key,
        'is_held': True,
        **_write_place(server, revisions),
    }


def replace_servers(
    connection: sa.Connection,
    reservation: str,
    before: Iterable[planned_server.PlannedServer],
    after: Iterable[planned_server.PlannedServer],
    revisions: shards.Revisions,
) -> None:
    """Hold other servers than before; those of the same key are moved.

    :param revisions: all of them, before they were raised for it
    """
    columns = tables.SERVERS.c
    query = sa.select(columns.server).where(columns.reservation == reservation)
    # Also those that an earlier change has released.
    known = set(connection.scalars(query))
    kept = {one.key: one for one in after}
    for one in before:
        if one.key not in kept:
            change_server(
                connection, reservation, one, revisions, is_held=False
            )
    for key in kept.keys() & known:
        change_server(connection, reservation, kept[key], revisions)
    if added := [one for key, one in kept.items() if key not in known]:
        add_servers(connection, reservation, added, revisions)


def change_server(
    connection: sa.Connection,
    reservation: str,
    server: planned_server.PlannedServer,
    revisions: shards.Revisions,
    *,
    is_held: bool = True,
) -> None:
    """Record where, when and whose it is, or that it is not held any more.

    What is not held is nobody's.

    :param revisions: all of them, before they were raised for it
    """
    columns = tables.SERVERS.c
    connection.execute(
        sa.update(tables.SERVERS)
        .where(
            columns.reservation == reservation, columns.server == server.key
        )
        .values(
            is_held=is_held,
            **_write_place(server if is_held else free(server), revisions),
        )
    )


def free(server: planned_server.PlannedServer) -> planned_server.PlannedServer:
    """Return a planned server without the server that has taken it."""
    return dataclasses.replace(server, consumer=None, taken_at=None)


def _write_place(
    server: planned_server.PlannedServer, revisions: shards.Revisions
) -> dict[str, Any]:
    """Return what may change when a server is planned anew."""
    shard, cpus = shards.find_shard(server.host, len(revisions)), server.cpus
    return {
        'host': server.host,
        'cpus': None if cpus is None else json.dumps(sorted(cpus)),
        'assignments': json.dumps([*map(_write, server.assignments)]),
        'starts_at': server.during.start,
        'ends_at': server.during.end,
        'shard': shard,
        'revision': revisions.find_next(shard),
        'consumer': server.consumer,
        'taken_at': server.taken_at,
    }


def _write(one: assignment.Assignment) -> dict[str, Any]:
    return {
        'rp_uuid': one.rp_uuid,
        'rp_key': one.rp_key,
        'resource_class': one.resource_class,
        'amount': one.amount,
        'units': dict(one.units),
        'is_allocated': one.is_allocated,
    }


def list_changed(
    connection: sa.Connection, seen: Mapping[int, int]
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


def find_revisions(
    connection: sa.Connection, reservations: Collection[str]
) -> Mapping[int, int]:
    """Return shard -> up to which revision it has servers of these."""
    columns = tables.SERVERS.c
    rows = connection.execute(
        sa.select(columns.shard, sa.func.max(columns.revision))
        .where(columns.reservation.in_(reservations))
        .group_by(columns.shard)
    )
    return dict(rows.tuples().all())


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
    return _collect(
        connection.execute(_READ, {'keys': keys, 'now': now})
        for keys in chunk(reservations)
    )


def read_servers_on(
    connection: sa.Connection,
    reservations: Collection[str],
    hosts: Collection[str],
) -> dict[str, PlannedServers]:
    """Return reservation -> its servers that are held on some hosts.

    Those without such servers are left out.
    """
    return _collect(
        connection.execute(
            _READ_ON_HOSTS,
            {'keys': keys, 'hosts': part, 'now': interval.ALWAYS},
        )
        for keys in chunk(reservations)
        for part in chunk(hosts)
    )


def _collect(
    results: Iterable[sa.CursorResult[Any]],
) -> dict[str, PlannedServers]:
    found = collections.defaultdict[str, list[planned_server.PlannedServer]](
        list
    )
    for key, *values in itertools.chain.from_iterable(results):
        found[key].append(_read_server(*values))
    return {key: tuple(sorted(ones, key=_sort)) for key, ones in found.items()}


def is_held(
    connection: sa.Connection,
    reservation: str,
    server: planned_server.PlannedServer,
) -> bool:
    """Return whether a planned server is as it was read, and held."""
    columns = tables.SERVERS.c
    query = sa.select(*_COLUMNS).where(
        columns.reservation == reservation,
        columns.server == server.key,
        columns.is_held,
    )
    row = connection.execute(query).one_or_none()
    return row is not None and _read_server(*row[1:]) == server


def find_taken(
    connection: sa.Connection, consumer: str
) -> tuple[str, planned_server.PlannedServer] | None:
    """Return what a server of Nova has taken, after its reservation."""
    query = sa.select(*_COLUMNS).where(
        tables.SERVERS.c.consumer == consumer, tables.SERVERS.c.is_held
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    return row[0], _read_server(*row[1:])


def list_assignments(
    connection: sa.Connection, now: int
) -> list[tuple[str, str | None, str]]:
    """Return what is held after a time.

    :returns: (planned server, who has taken it, what it takes); the last one
        as :func:`parse_assignments` reads it
    """
    columns = tables.SERVERS.c
    rows = connection.execute(
        sa.select(columns.server, columns.consumer, columns.assignments).where(
            columns.is_held, columns.ends_at > now
        )
    )
    return list(rows.tuples())


def count_by_host(
    connection: sa.Connection, now: int
) -> list[tuple[str, str, int, int]]:
    """Count what is held after a time.

    :returns: (reservation, host, servers, how many of them are taken)
    """
    columns = tables.SERVERS.c
    rows = connection.execute(
        sa.select(
            columns.reservation,
            columns.host,
            sa.func.count(columns.server),
            sa.func.count(columns.consumer),
        )
        .where(columns.is_held, columns.ends_at > now)
        .group_by(columns.reservation, columns.host)
        .order_by(columns.reservation, columns.host)
    )
    return list(rows.tuples())


def list_providers(
    connection: sa.Connection, now: int
) -> list[tuple[str, str, frozenset[str]]]:
    """Return on which providers of hosts servers are planned after a time.

    Only those count that nobody has taken.

    :returns: (reservation, host, uuids of providers)
    """
    columns = tables.SERVERS.c
    rows = connection.execute(
        sa.select(columns.reservation, columns.host, columns.assignments)
        .where(
            columns.is_held,
            columns.ends_at > now,
            columns.consumer.is_(None),
        )
        .distinct()
    )
    found = collections.defaultdict[tuple[str, str], set[str]](set)
    for key, host, text in rows:
        found[key, host].update(
            one.rp_uuid for one in parse_assignments(text) if one.is_allocated
        )
    return [
        (key, host, frozenset(rp_uuids))
        for (key, host), rp_uuids in found.items()
    ]


def list_taken(
    connection: sa.Connection, before: int
) -> list[tuple[str, planned_server.PlannedServer]]:
    """Return what servers of Nova had taken by a time.

    Each after its reservation.
    """
    columns = tables.SERVERS.c
    rows = connection.execute(
        sa.select(*_COLUMNS).where(
            columns.is_held,
            columns.consumer.is_not(None),
            columns.taken_at <= before,
        )
    )
    return [(row[0], _read_server(*row[1:])) for row in rows]


def _sort(one: planned_server.PlannedServer) -> tuple[int, str]:
    """Return what sorts ``10`` after ``9``."""
    return len(one.key), one.key


def chunk(keys: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Return keys in as many parts as one statement each can name."""
    left = iter(keys)
    while part := tuple(itertools.islice(left, _CHUNK)):
        yield part


def _read_server(
    key: str,
    host: str,
    cpus: str | None,
    assignments: str,
    consumer: str | None,
    taken_at: int | None,
    *during: int,
) -> planned_server.PlannedServer:
    return planned_server.PlannedServer(
        key=key,
        host=host,
        during=interval.Interval(*during),
        cpus=None if cpus is None else frozenset(foreign_data.load_json(cpus)),
        assignments=parse_assignments(assignments),
        consumer=consumer,
        taken_at=taken_at,
    )


@functools.lru_cache(_FLYWEIGHTS)
def parse_assignments(text: str) -> tuple[assignment.Assignment, ...]:
    """Make of a text what a planned server takes.

    Of one flavor, all servers that a host has ever had take the same.
    """
    return tuple(
        assignment.Assignment(**one) for one in foreign_data.load_json(text)
    )
