# SPDX-License-Identifier: Apache-2.0

"""The rows of what happened to a reservation, each with its reason."""

from collections.abc import Iterable, Sequence
import dataclasses
import itertools
from typing import Any

import sqlalchemy as sa

from nova_ext_resources.reservation import cause as cause_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import charges
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import tables


#: Made once: an admission takes as long for making a statement as for it.
_ADD = sa.insert(tables.STATES)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a reservation.

    :ivar state: the state from then on
    :ivar changed_at: seconds since the epoch
    :ivar reason: a sentence for whoever asks why
    :ivar cause: what it is about, if no person has written the reason
    :raises ValueError: there is no reason
    """

    state: state_mod.State
    changed_at: int
    reason: str
    cause: cause_mod.Cause | None = None

    @property
    def words(self) -> str:
        """The reason, for those who may see no hosts."""
        return self.cause.words if self.cause else self.reason

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
        sa.select(
            columns.state, columns.changed_at, columns.reason, columns.cause
        )
        .where(columns.reservation == key)
        .order_by(columns.number)
    )
    return [*map(make_change, rows)]


def make_change(row: Any) -> Change:
    """Make a change of a row that has its columns."""
    return Change(
        state=state_mod.State(row.state),
        changed_at=row.changed_at,
        reason=row.reason,
        cause=cause_mod.Cause(row.cause) if row.cause else None,
    )


def find_lack(changes: Sequence[Change]) -> Change | None:
    """Return the newest change that says why a reservation is degraded.

    None if it is not, or no program has said why.

    :param changes: all of them, the first one first
    """
    lacks = list_lacks(changes)
    return lacks[-1] if lacks else None


def find_since(changes: Sequence[Change]) -> int:
    """Return since when a reservation has the state that it has.

    :param changes: all of them, the first one first
    """
    *before, last = changes
    since = last.changed_at
    for one in reversed(before):
        if one.state is not last.state:
            break
        since = one.changed_at
    return since


def list_lacks(changes: Sequence[Change]) -> list[Change]:
    """Return all changes by which programs say why one is degraded now.

    :param changes: all of them, the first one first
    """
    found = itertools.takewhile(
        lambda one: one.state is state_mod.State.DEGRADED, reversed(changes)
    )
    lacks = [one for one in found if one.cause and one.cause.is_lack]
    return lacks[::-1]


def list_gaps(changes: Iterable[Change]) -> list[interval.Interval]:
    """Return when a reservation was degraded, by time, until it was not.

    :param changes: all of them, the first one first
    """
    found = []
    start: int | None = None
    for one in changes:
        if one.state is state_mod.State.DEGRADED:
            start = one.changed_at if start is None else start
        elif start is not None:
            # The clocks of two programs may differ.
            if start < one.changed_at:
                found.append(interval.Interval(start, one.changed_at))
            start = None
    return found


def list_over(connection: sa.Connection, before: int, most: int) -> list[str]:
    """Return reservations that are over since a time, the oldest first.

    Those that have still to become events of subscribers are left out.
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
    connection.execute(_ADD, make_row(key, number, change))
    if change.state.is_final:
        charges.release(connection, key, change.changed_at)


def make_row(key: str, number: int, change: Change) -> dict[str, Any]:
    """Return the row of a change, of which so many were before."""
    return {
        'reservation': key,
        'number': number,
        'state': change.state.value,
        'changed_at': change.changed_at,
        'reason': change.reason,
        'cause': change.cause.value if change.cause else None,
    }


def repeat_state(
    connection: sa.Connection,
    key: str,
    changed_at: int,
    reason: str,
    *,
    is_pending: bool = False,
    cause: cause_mod.Cause | None = None,
) -> None:
    """Write a change of something else than the state of a reservation.

    :param is_pending: whether it is pending from then on, whatever it was
    """
    changes = list_changes(connection, key)
    change = Change(
        state=state_mod.State.PENDING if is_pending else changes[-1].state,
        changed_at=changed_at,
        reason=reason,
        cause=cause,
    )
    add_change(connection, key, len(changes), change)
