# SPDX-License-Identifier: Apache-2.0

"""The leases in Blazar's database that have reservations of ours.

By Blazar's tables, for its own functions read every lease with all that it
ever had, one after the other.
"""

from collections.abc import Iterator
import datetime
from typing import Any

from blazar.db import api as db_api
from blazar.db.sqlalchemy import facade_wrapper
from blazar.db.sqlalchemy import models
import sqlalchemy as sa

from nova_ext_resources.reservation.blazar import options
from nova_ext_resources.reservation.blazar import orders
from nova_ext_resources.reservation.blazar import repair

#: Event -> the status that it gets.
_EVENTS = {
    repair.Step.WAIT: {repair.START: 'UNDONE', repair.END: 'UNDONE'},
    repair.Step.GO_ON: {repair.START: 'DONE', repair.END: 'UNDONE'},
}
_RESERVATIONS = {repair.Step.WAIT: 'pending', repair.Step.GO_ON: 'active'}
_LEASES = {repair.Step.WAIT: 'PENDING', repair.Step.GO_ON: 'ACTIVE'}


def list_leases() -> list[repair.Lease]:
    """Return the leases with a reservation of ours that are not over."""
    own, lease, event = models.Reservation, models.Lease, models.Event
    with facade_wrapper.session_for_read() as session:
        wanted = (
            session.query(own.lease_id)
            .join(lease, lease.id == own.lease_id)
            .filter(
                own.resource_type == options.RESOURCE_TYPE,
                lease.status != 'TERMINATED',
            )
            .distinct()
        )
        keys = [key for (key,) in wanted]
        reservations = _collect(session, own, keys)
        events = _collect(session, event, keys)
        leases = _list(session, lease, lease.id, keys)
    return [
        _make_lease(one, reservations[one.id], events.get(one.id, ()))
        for one in leases
        # It may have gone meanwhile.
        if one.id in reservations
    ]


#: Keys in one statement.
_CHUNK = 500


def _list(
    session: Any, model: Any, column: Any, keys: list[str]
) -> Iterator[Any]:
    """Return rows without what else belongs to them."""
    columns = model.__table__.columns
    for first in range(0, len(keys), _CHUNK):
        part = keys[first : first + _CHUNK]
        yield from session.query(*columns).filter(column.in_(part))


def _collect(
    session: Any, model: Any, keys: list[str]
) -> dict[str, list[Any]]:
    """Return lease -> its rows in another table."""
    found: dict[str, list[Any]] = {}
    for row in _list(session, model, model.lease_id, keys):
        found.setdefault(row.lease_id, []).append(row)
    return found


def _make_lease(row: Any, reservations: Any, events: Any) -> repair.Lease:
    ours = [
        one
        for one in reservations
        if one.resource_type == options.RESOURCE_TYPE
    ]
    return repair.Lease(
        key=row.id,
        status=row.status,
        starts_at=orders.count_seconds(row.start_date),
        ends_at=orders.count_seconds(row.end_date),
        changed_at=_count_changed(row),
        reservations={one.id: one.status for one in ours},
        broken=frozenset(one.id for one in ours if one.missing_resources),
        has_others=len(ours) < len(reservations),
        events={
            one.event_type: repair.Event(
                key=one.id,
                status=one.status,
                changed_at=_count_changed(one),
            )
            for one in events
        },
    )


def _count_changed(row: Any) -> int:
    date: datetime.datetime = row.updated_at or row.created_at
    return orders.count_seconds(date)


def exists(reservation: str) -> bool:
    """Return whether Blazar has a reservation."""
    return db_api.reservation_get(reservation) is not None


def clear_missing(key: str) -> None:
    """Note that a reservation has all its servers again.

    Its lease is degraded no more, unless another one of it is flagged; each of
    these may be of another plugin.
    """
    own, lease = models.Reservation, models.Lease
    with facade_wrapper.session_for_write() as session:
        session.query(own).filter(own.id == key).update(
            {'missing_resources': False}, synchronize_session=False
        )
        flagged = session.query(own.lease_id).filter(
            sa.or_(own.missing_resources, own.resources_changed)
        )
        of_key = session.query(own.lease_id).filter(own.id == key)
        session.query(lease).filter(
            lease.id.in_(of_key), lease.id.not_in(flagged)
        ).update({'degraded': False}, synchronize_session=False)


def set_right(lease: repair.Lease, step: repair.Step) -> None:
    """Let Blazar take the next event of a lease."""
    if step is repair.Step.FORGET:
        db_api.lease_destroy(lease.key)
        return
    for reservation in lease.reservations:
        db_api.reservation_update(reservation, {'status': _RESERVATIONS[step]})
    for name, status in _EVENTS[step].items():
        db_api.event_update(lease.events[name].key, {'status': status})
    # The last one: before it is stable, Blazar takes no event of it.
    db_api.lease_update(lease.key, {'status': _LEASES[step]})
