# SPDX-License-Identifier: Apache-2.0

"""The rows of what projects are charged for."""

from collections.abc import Collection

import sqlalchemy as sa

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import quota
from nova_ext_resources.reservation.store import tables


#: Made once: an admission takes as long for making a statement as for it.
_ADD = sa.insert(tables.CHARGES)


def charge(
    connection: sa.Connection,
    request: plan_request.Request,
    during: interval.Interval,
    servers: int,
    now: int,
) -> None:
    """Charge the project of a request from now on; without one, nobody.

    :param during: when it is served
    :param servers: how many it has
    :param now: seconds since the epoch
    """
    charges = quota.list_charges(request, during, servers, now)
    if request.project and charges:
        connection.execute(
            _ADD,
            [
                {
                    'reservation': one.reservation,
                    'project': request.project,
                    'resource_class': one.resource_class,
                    'amount': one.amount,
                    'starts_at': one.starts_at,
                    'ends_at': one.ends_at,
                    'reserved_from': one.reserved_from,
                }
                for one in charges
            ],
        )


def charge_anew(
    connection: sa.Connection,
    request: plan_request.Request,
    during: interval.Interval,
    servers: int,
    now: int,
) -> None:
    """Charge for a reservation that was changed: from now on for that only.

    :param during: when it is served
    :param servers: how many it has
    :param now: seconds since the epoch
    """
    release(connection, request.key, now)
    charge(connection, request, during, servers, now)


def release(connection: sa.Connection, key: str, now: int) -> None:
    """Charge nobody for a reservation from now on.

    :param now: seconds since the epoch
    """
    columns = tables.CHARGES.c
    left = sa.and_(columns.reservation == key, columns.ends_at > now)
    connection.execute(
        sa.delete(tables.CHARGES).where(left, columns.starts_at >= now)
    )
    connection.execute(
        sa.update(tables.CHARGES).where(left).values(ends_at=now)
    )


def read_charges(
    connection: sa.Connection,
    project: str,
    classes: Collection[str],
    oldest: int,
) -> tuple[quota.Charge, ...]:
    """Return what a project is charged for after a time.

    :param classes: only these resource classes
    :param oldest: seconds since the epoch
    """
    columns = tables.CHARGES.c
    rows = connection.execute(
        sa.select(
            columns.reservation,
            columns.resource_class,
            columns.amount,
            columns.starts_at,
            columns.ends_at,
            columns.reserved_from,
        ).where(
            columns.project == project,
            columns.resource_class.in_(classes),
            columns.ends_at > oldest,
        )
    )
    return tuple(map(quota.Charge._make, rows))


def forget(connection: sa.Connection, before: int) -> None:
    """Delete what ended so long before a time that no quota counts it.

    :param before: seconds since the epoch
    """
    longest = connection.scalar(sa.select(sa.func.max(tables.QUOTAS.c.days)))
    days = max(longest or 0, quota.DEFAULT_DAYS)
    connection.execute(
        sa.delete(tables.CHARGES).where(
            tables.CHARGES.c.ends_at <= before - days * quota.DAY
        )
    )
