# SPDX-License-Identifier: Apache-2.0

"""The rows of reservations."""

from collections.abc import Iterable

import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import request as request_mod
from nova_ext_resources.reservation.store import documents
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import tables


def add_reservation(
    connection: sa.Connection,
    request: request_mod.Request,
    during: interval.Interval,
) -> None:
    """Write a request that is accepted, and when it is served.

    If there is one of this key, the database refuses the row.
    """
    connection.execute(
        sa.insert(tables.RESERVATIONS),
        {
            'reservation': request.key,
            'request': documents.write_request(request),
            'starts_at': during.start,
            'ends_at': during.end,
        },
    )


def read_requests(
    connection: sa.Connection, keys: Iterable[str]
) -> dict[str, request_mod.Request]:
    """Return key -> request, of those that exist.

    :raises StoreError: one of them cannot be read
    """
    columns = tables.RESERVATIONS.c
    found = {}
    for part in servers.chunk(keys):
        rows = connection.execute(
            sa.select(columns.reservation, columns.request).where(
                columns.reservation.in_(part)
            )
        )
        for key, text in rows:
            found[key] = _read_request(key, text)
    return found


def _read_request(key: str, text: str) -> request_mod.Request:
    try:
        return documents.read_request(text)
    except ValueError as err:
        raise exception.StoreError(
            reason=f'the request of reservation {key} cannot be read: {err}. '
            'Nothing is promised meanwhile. If a newer release wrote it, '
            'install that one here.'
        ) from err
