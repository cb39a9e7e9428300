# SPDX-License-Identifier: Apache-2.0

"""The rows of reservations."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation.store import documents
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import tables


#: Made once: an admission takes as long for making a statement as for it.
_ADD = sa.insert(tables.RESERVATIONS)
_READ = sa.select(
    tables.RESERVATIONS.c.reservation, tables.RESERVATIONS.c.request
).where(
    tables.RESERVATIONS.c.reservation.in_(sa.bindparam('keys', expanding=True))
)


def add_reservation(
    connection: sa.Connection,
    request: plan_request.Request,
    during: interval.Interval,
) -> None:
    """Write a request that is accepted, and when it is served.

    If there is one of this key, the database refuses the row.
    """
    connection.execute(_ADD, make_row(request, during))


def make_row(
    request: plan_request.Request, during: interval.Interval
) -> dict[str, Any]:
    """Return the row of a request, and of when it is served."""
    return {'reservation': request.key, **_write(request, during)}


def change_reservation(
    connection: sa.Connection,
    request: plan_request.Request,
    during: interval.Interval,
) -> None:
    """Write another request of the same key, and when it is served."""
    connection.execute(
        sa.update(tables.RESERVATIONS)
        .where(tables.RESERVATIONS.c.reservation == request.key)
        .values(**_write(request, during))
    )


def _write(
    request: plan_request.Request, during: interval.Interval
) -> dict[str, Any]:
    return {
        'request': documents.write_request(request),
        'starts_at': during.start,
        'ends_at': during.end,
        'project': request.project,
    }


def read_requests(
    connection: sa.Connection, keys: Iterable[str]
) -> dict[str, plan_request.Request]:
    """Return key -> request, of those that exist.

    :raises StoreError: one of them cannot be read
    """
    return {
        key: parse_request(key, text)
        for key, text in read_texts(connection, keys).items()
    }


def read_texts(
    connection: sa.Connection, keys: Iterable[str]
) -> dict[str, str]:
    """Return key -> what :func:`parse_request` reads, of those that exist."""
    found: dict[str, str] = {}
    for part in servers.chunk(keys):
        rows = connection.execute(_READ, {'keys': part})
        found.update(rows.tuples().all())
    return found


def parse_request(key: str, text: str) -> plan_request.Request:
    """Make a request of its row.

    :raises StoreError: it cannot be read
    """
    try:
        return documents.read_request(text)
    except ValueError as err:
        raise exception.StoreError(
            reason=f'the request of reservation {key} cannot be read: {err}. '
            'No capacity is promised meanwhile. If a newer release wrote the '
            'request, install that release here.'
        ) from err
