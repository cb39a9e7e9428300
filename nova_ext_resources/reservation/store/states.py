# SPDX-License-Identifier: Apache-2.0

"""The rows of what happened to a reservation, each with its reason."""

import dataclasses

import sqlalchemy as sa

from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import charges
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import tables


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a reservation.

    :ivar state: the state from then on
    :ivar changed_at: seconds since the epoch
    :ivar reason: a sentence for whoever asks why
    :raises ValueError: there is no reason
    """

    state: state_mod.State
    changed_at: int
    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError(
                f'a reservation cannot become {self.state} without a reason; '
                'say why'
            )


def list_changes(connection: sa.Connection, key: str) -> list[Change]:
    """Return all changes of a reservation, the first one first."""
    columns = tables.STATES.c
    rows = connection.execute(
        sa.select(columns.state, columns.changed_at, columns.reason)
        .where(columns.reservation == key)
        .order_by(columns.number)
    )
    return [
        Change(
            state=state_mod.State(row.state),
            changed_at=row.changed_at,
            reason=row.reason,
        )
        for row in rows
    ]


def list_over(connection: sa.Connection, before: int, most: int) -> list[str]:
    """Return reservations that are over since a time, the oldest first.

    Those of which subscribers have still to be told are left out.
    """
    columns = tables.STATES.c
    over = [one.value for one in state_mod.State if one.is_final]
    query = (
        sa.select(columns.reservation)
        .where(columns.state.in_(over), columns.changed_at <= before)
        .order_by(columns.changed_at)
        .limit(most)
    )
    if followers.has_any(connection):
        query = query.where(columns.told.is_not(None))
    return list(connection.scalars(query))


def add_change(
    connection: sa.Connection, key: str, number: int, change: Change
) -> None:
    """Write a change.

    If nothing follows the state, nobody is charged from then on.

    :param number: how many there were before. If another one has this number
        already, the database refuses the row
    """
    connection.execute(
        sa.insert(tables.STATES),
        {
            'reservation': key,
            'number': number,
            'state': change.state.value,
            'changed_at': change.changed_at,
            'reason': change.reason,
        },
    )
    if change.state.is_final:
        charges.release(connection, key, change.changed_at)


def repeat_state(
    connection: sa.Connection,
    key: str,
    changed_at: int,
    reason: str,
    *,
    is_pending: bool = False,
) -> None:
    """Write a change of something else than the state of a reservation.

    :param is_pending: whether it is pending from then on, whatever it was
    """
    changes = list_changes(connection, key)
    change = Change(
        state=state_mod.State.PENDING if is_pending else changes[-1].state,
        changed_at=changed_at,
        reason=reason,
    )
    add_change(connection, key, len(changes), change)
