# SPDX-License-Identifier: Apache-2.0

"""Reservations as they are stored, to be shown."""

from collections.abc import Collection, Iterator, Mapping
import dataclasses
import functools
from typing import Any

import sqlalchemy as sa

from nova_ext_resources.reservation import chart
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import reservations
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import states
from nova_ext_resources.reservation.store import tables


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One reservation.

    :ivar request: what was asked for
    :ivar during: when it is served
    :ivar last: its newest change; see ``state``
    :ivar state: as the clock has it, which the newest change may be late for
    :ivar servers: those that are held
    """

    request: plan_request.Request
    during: interval.Interval
    last: states.Change
    state: state_mod.State
    servers: servers.PlannedServers

    @property
    def hosts(self) -> list[str]:
        """The hosts of its servers, sorted."""
        return sorted({one.host for one in self.servers})

    def list_bars(
        self, zones: Mapping[str, str] | None
    ) -> Iterator[tuple[str, chart.Bar]]:
        """Return its bar in each row of a chart.

        :param zones: host -> zone; None makes a row of each host
        """
        numbers: dict[str, int] = {}
        for one in self.servers:
            name = one.host if zones is None else zones.get(one.host, '')
            numbers[name] = numbers.get(name, 0) + 1
        for name, number in numbers.items():
            yield (
                name,
                chart.Bar(
                    key=self.request.key,
                    during=self.during,
                    servers=number,
                    state=self.state,
                ),
            )


def list_records(
    connection: sa.Connection,
    now: int,
    *,
    key: str | None = None,
    name: str | None = None,
    during: interval.Interval | None = None,
    project: str | None = None,
    wanted: Collection[state_mod.State] = (),
) -> list[Record]:
    """Return reservations by their start, then by their key.

    :param now: seconds since the epoch
    :param key: only this one
    :param name: only those of this name
    :param during: only those with a second of it
    :param project: only those of this project
    :param wanted: only those in one of these states
    :raises StoreError: one of them cannot be read
    """
    given: dict[str, object] = {'key': key, 'project': project}
    if name is not None:
        given.update(name=name, length=len(name))
    if during is not None:
        given.update(start=during.start, end=during.end)
    given = {name: one for name, one in given.items() if one is not None}
    rows = connection.execute(_make_query(frozenset(given)), given).all()
    found = []
    for row in rows:
        when = interval.Interval(row.starts_at, row.ends_at)
        last = states.make_change(row)
        state = last.state.find_now(when, now)
        is_meant = name is None or plan_request.is_named(row.reservation, name)
        if is_meant and (not wanted or state in wanted):
            found.append((row, when, last, state))
    keys = [row.reservation for row, *_others in found]
    held = servers.read_servers(connection, keys, interval.ALWAYS)
    return [
        Record(
            request=reservations.parse_request(row.reservation, row.request),
            during=when,
            last=last,
            state=state,
            servers=held.get(row.reservation, ()),
        )
        for row, when, last, state in found
    ]


@functools.cache
def _make_query(given: frozenset[str]) -> sa.Select[Any]:
    """Return the rows of reservations, each with its newest change.

    Made once: that takes longer than to read one reservation.

    :param given: names of the parameters that it has
    """
    columns, changes = tables.RESERVATIONS.c, tables.STATES.c
    key: sa.BindParameter[str] = sa.bindparam('key')
    numbers = sa.select(
        changes.reservation, sa.func.max(changes.number).label('number')
    ).group_by(changes.reservation)
    if 'key' in given:
        # No database finds out by itself that it needs no others.
        numbers = numbers.where(changes.reservation == key)
    if 'name' in given:
        # Of names that begin so. With LIKE a name may have wildcards.
        length = sa.bindparam('length', type_=sa.Integer)
        begin = sa.func.substr(changes.reservation, 1, length)
        numbers = numbers.where(begin == sa.bindparam('name'))
    newest = numbers.subquery()
    query = (
        sa.select(
            columns.reservation,
            columns.request,
            columns.starts_at,
            columns.ends_at,
            changes.state,
            changes.changed_at,
            changes.reason,
            changes.cause,
        )
        .join(newest, newest.c.reservation == columns.reservation)
        .join(
            tables.STATES,
            sa.and_(
                changes.reservation == newest.c.reservation,
                changes.number == newest.c.number,
            ),
        )
        .order_by(columns.starts_at, columns.reservation)
    )
    if 'key' in given:
        query = query.where(columns.reservation == key)
    if 'start' in given:
        query = query.where(
            columns.starts_at < sa.bindparam('end'),
            columns.ends_at > sa.bindparam('start'),
        )
    if 'project' in given:
        query = query.where(columns.project == sa.bindparam('project'))
    return query
