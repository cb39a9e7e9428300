# SPDX-License-Identifier: Apache-2.0

"""The rows of servers that were told to leave their hosts."""

from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import tables


def add_notices(
    connection: sa.Connection,
    *,
    key: str,
    hosts: Mapping[str, str],
    now: int,
) -> None:
    """Write that servers are told to leave, for a reservation.

    :param hosts: server of Nova -> the host that it is to leave
    :param now: seconds since the epoch
    """
    columns = tables.NOTICES.c
    for part in servers.chunk(hosts):
        connection.execute(
            sa.delete(tables.NOTICES).where(
                columns.reservation == key, columns.consumer.in_(part)
            )
        )
    connection.execute(
        sa.insert(tables.NOTICES),
        [
            {
                'reservation': key,
                'consumer': consumer,
                'host': host,
                'told_at': now,
            }
            for consumer, host in hosts.items()
        ],
    )


def read_notices(
    connection: sa.Connection, consumers: Iterable[str], since: int = 0
) -> dict[tuple[str, str], int]:
    """Return (server, host) -> when it was told last to leave that host.

    For whatever reservation it was.

    :param since: seconds since the epoch; older ones are left out
    """
    columns = tables.NOTICES.c
    found: dict[tuple[str, str], int] = {}
    for part in servers.chunk(consumers):
        rows = connection.execute(
            sa.select(
                columns.consumer,
                columns.host,
                sa.func.max(columns.told_at),
            )
            .where(columns.consumer.in_(part), columns.told_at >= since)
            .group_by(columns.consumer, columns.host)
        )
        found.update(
            ((consumer, host), told_at) for consumer, host, told_at in rows
        )
    return found
