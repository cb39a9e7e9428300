# SPDX-License-Identifier: Apache-2.0

"""All rows of a store at one time, as tests look at them."""

from collections.abc import Mapping, Sequence
import dataclasses
import functools
import json
from typing import Any

import sqlalchemy as sa

from nova_ext_resources.objects import planned_hold as hold
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import reservations
from nova_ext_resources.reservation.store import states
from nova_ext_resources.reservation.store import tables

State = state.State


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A planned server that is held, on a host that is its own provider.

    :ivar amount: VCPU of it
    """

    reservation: str
    server: str
    host: str
    start: int
    end: int
    amount: int
    consumer: str | None
    taken_at: int | None

    @property
    def hold(self) -> str:
        """What may hold its room in placement."""
        return hold.make_consumer(self.server)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A planned change of capacity.

    :ivar less: VCPU that the host will have less; None in a maintenance
    """

    host: str
    start: int
    end: int
    less: int | None

    def is_on(self, time: int) -> bool:
        return self.start <= time < self.end


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
    """What is in the tables.

    :ivar histories: reservation -> its rows, the first one first
    :ivar during: reservation -> its start and its end
    :ivar requests: reservation -> what was asked for
    :ivar changes: capacity change -> what it is
    """

    slots: Sequence[Slot]
    histories: Mapping[str, Sequence[states.Change]]
    during: Mapping[str, tuple[int, int]]
    requests: Mapping[str, plan_request.Request]
    changes: Mapping[str, Change]

    @functools.cached_property
    def unfinished(self) -> list[str]:
        return [
            key
            for key, rows in self.histories.items()
            if not rows[-1].state.is_final
        ]

    @functools.cached_property
    def consumers(self) -> frozenset[str]:
        """The servers that have taken slots."""
        return frozenset(one.consumer for one in self.slots if one.consumer)

    def get_state(self, key: str) -> State:
        return self.histories[key][-1].state

    def list_slots(self, key: str) -> list[Slot]:
        return [one for one in self.slots if one.reservation == key]

    def list_at(self, host: str, time: int) -> list[Slot]:
        """Return the slots of a host at a time, taken or not."""
        return [
            one
            for one in self.slots
            if one.host == host and one.start <= time < one.end
        ]

    def count(self, host: str, time: int) -> int:
        """Return what is promised of a host at a time."""
        return sum(one.amount for one in self.list_at(host, time))

    def list_changes(self, host: str) -> list[Change]:
        return [one for one in self.changes.values() if one.host == host]

    def is_away(self, host: str, time: int) -> bool:
        """Return whether a host is in maintenance then."""
        return any(
            one.less is None and one.is_on(time)
            for one in self.list_changes(host)
        )

    def list_starts(self, host: str) -> set[int]:
        """Return when slots and changes of a host begin."""
        slots = {one.start for one in self.slots if one.host == host}
        return slots | {one.start for one in self.list_changes(host)}

    def count_less(self, host: str, time: int) -> int:
        """Return how much less a host is planned to have then."""
        return sum(
            one.less or 0 for one in self.list_changes(host) if one.is_on(time)
        )


def read(database: databases.Database) -> View:
    with database.transaction() as connection:

        def select(table: sa.Table) -> Sequence[sa.Row[Any]]:
            query = sa.select(table).order_by(*table.primary_key)
            return connection.execute(query).all()

        histories: dict[str, list[states.Change]] = {}
        for row in select(tables.STATES):
            change = states.make_change(row)
            histories.setdefault(row.reservation, []).append(change)
        rows = select(tables.RESERVATIONS)
        return View(
            slots=[
                _make_slot(row)
                for row in select(tables.SERVERS)
                if row.is_held
            ],
            histories=histories,
            during={
                row.reservation: (row.starts_at, row.ends_at) for row in rows
            },
            requests=reservations.read_requests(
                connection, [row.reservation for row in rows]
            ),
            changes={
                row.capacity_change: _make_change(row)
                for row in select(tables.CAPACITY_CHANGES)
            },
        )


def _make_slot(row: Any) -> Slot:
    (one,) = json.loads(row.assignments)
    assert one['rp_uuid'] == row.host, 'hosts have one provider'
    return Slot(
        reservation=row.reservation,
        server=row.server,
        host=row.host,
        start=row.starts_at,
        end=row.ends_at,
        amount=one['amount'],
        consumer=row.consumer,
        taken_at=row.taken_at,
    )


def _make_change(row: Any) -> Change:
    amounts = json.loads(row.amounts)
    return Change(
        host=row.host,
        start=row.starts_at,
        end=row.ends_at,
        less=-amounts['VCPU'][0] if amounts else None,
    )
