# SPDX-License-Identifier: Apache-2.0

"""The rows of planned changes of capacity."""

import json

import sqlalchemy as sa

from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation.store import tables


def add_change(
    connection: sa.Connection, change: capacity_change.CapacityChange
) -> None:
    """Write a change. If there is one of this key, the row is refused."""
    connection.execute(
        sa.insert(tables.CAPACITY_CHANGES),
        {
            'capacity_change': change.key,
            'host': change.host,
            'rp_uuid': change.rp_uuid,
            'provider': change.provider,
            'amounts': _write_amounts(change),
            'starts_at': change.during.start,
            'ends_at': change.during.end,
            'reason': change.reason,
            'created_by': change.created_by,
            'created_at': change.created_at,
        },
    )


def change_bases(
    connection: sa.Connection,
    before: capacity_plan.Changes,
    after: capacity_plan.Changes,
) -> None:
    """Write what there would be without any change, where that differs.

    :param before: as they were read
    :param after: those that are kept
    """
    columns = tables.CAPACITY_CHANGES.c
    known = {one.key: one.before for one in before}
    for one in after:
        if known.get(one.key) != one.before:
            connection.execute(
                sa.update(tables.CAPACITY_CHANGES)
                .where(columns.capacity_change == one.key)
                .values(amounts=_write_amounts(one))
            )


def _write_amounts(change: capacity_change.CapacityChange) -> str:
    return json.dumps(
        {
            name: [amount, change.before.get(name, 0)]
            for name, amount in sorted(change.amounts.items())
        }
    )


def delete_change(connection: sa.Connection, key: str) -> None:
    """Delete the row of a change."""
    columns = tables.CAPACITY_CHANGES.c
    connection.execute(
        sa.delete(tables.CAPACITY_CHANGES).where(
            columns.capacity_change == key
        )
    )


def forget(connection: sa.Connection, before: int) -> None:
    """Delete the rows of what ended before a time."""
    connection.execute(
        sa.delete(tables.CAPACITY_CHANGES).where(
            tables.CAPACITY_CHANGES.c.ends_at <= before
        )
    )


def read_changes(
    connection: sa.Connection,
    oldest: int = interval.ALWAYS,
    *,
    key: str | None = None,
) -> capacity_plan.Changes:
    """Return changes by their start, then by their key.

    :param oldest: without what had ended by then, in seconds since the epoch
    :param key: only this one
    """
    columns = tables.CAPACITY_CHANGES.c
    query = (
        sa.select(tables.CAPACITY_CHANGES)
        .where(columns.ends_at > oldest)
        .order_by(columns.starts_at, columns.capacity_change)
    )
    if key is not None:
        query = query.where(columns.capacity_change == key)
    return tuple(map(_read, connection.execute(query)))


def _read(row: sa.Row[tuple[object, ...]]) -> capacity_change.CapacityChange:
    amounts = foreign_data.load_json(row.amounts)
    return capacity_change.CapacityChange(
        key=row.capacity_change,
        during=interval.Interval(row.starts_at, row.ends_at),
        host=row.host,
        rp_uuid=row.rp_uuid,
        provider=row.provider,
        amounts={name: one[0] for name, one in amounts.items()},
        before={name: one[1] for name, one in amounts.items()},
        reason=row.reason,
        created_by=row.created_by,
        created_at=row.created_at,
    )
