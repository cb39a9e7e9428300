# SPDX-License-Identifier: Apache-2.0

"""Makes events of what is in the tables, and puts all events in order.

Rows of the history are the events: each becomes one, once, whenever a manager
comes to it. What remains until an end becomes one when the clock passes the
time for it, for each time at which a subscription asks for it.
"""

import bisect
import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import operator
from typing import Any, NamedTuple, TypeAlias

from oslo_log import log as logging
from oslo_utils import uuidutils
import sqlalchemy as sa

from nova_ext_resources.reservation import due
from nova_ext_resources.reservation import event as event_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import events
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import tables

LOG = logging.getLogger(__name__)

_STATES, _EVENTS = tables.STATES, tables.EVENTS


class _New(NamedTuple):
    """What gets a position.

    :ivar time: by which it is put in order
    :ivar change: (reservation, number) of its row of the history
    :ivar number: of its row of events, if it has one
    :ivar row: of its row of events, if it has none yet
    """

    time: int
    change: tuple[str, int] | None = None
    number: int | None = None
    row: dict[str, Any] = {}  # noqa: RUF012


def give_positions(
    database: databases.Database,
    now: int | None = None,
    *,
    is_over: Callable[[], bool] = lambda: False,
) -> bool:
    """Put all that has happened in order.

    :param now: seconds since the epoch; None if the clock is not trusted, so
        that nothing is said of what remains
    :param is_over: whether the rest is left to another time
    :returns: whether nothing is left
    :raises StoreError: the database refused it, or could not be reached. What
        is in order stays so
    """
    while retry.call(_try_give, database, now):
        if is_over():
            return False
    return True


class _Remaining(NamedTuple):
    """What is said of what remains.

    :ivar until: up to which time all of it has been said then
    """

    until: int
    new: Sequence[_New] = ()


def _try_give(database: databases.Database, now: int | None) -> bool:
    """Put some of it in order; return whether there may be more.

    Whatever takes long is read before: others who write wait for the lock.
    """
    with database.transaction() as connection:
        before = events.read_positions(connection)
        remaining = _read_remaining(connection, before.remaining_until, now)
        if remaining.until == before.remaining_until and not _has_new(
            connection
        ):
            return False
    with database.transaction() as connection:
        if events.lock(connection) != before:
            # What was read does not hold: another manager was here, or there
            # is one more subscription.
            return True
        return order(connection, before, remaining)


def _has_new(connection: sa.Connection) -> bool:
    """Return whether anything has no position."""
    return any(
        connection.execute(query.limit(1)).first() is not None
        for query in (
            sa.select(_STATES.c.number).where(_STATES.c.told.is_(None)),
            sa.select(_EVENTS.c.number).where(_EVENTS.c.position.is_(None)),
        )
    )


def order(
    connection: sa.Connection,
    positions: events.Positions,
    remaining: _Remaining | None = None,
) -> bool:
    """Do a part of :func:`give_positions`, under :func:`.events.lock`.

    :returns: whether there may be more
    """
    changes = _list_changes(connection)
    noted = _list_noted(connection)
    said = remaining or _Remaining(positions.remaining_until)
    new = sorted(
        [*changes, *noted, *said.new], key=operator.attrgetter('time')
    )
    is_told = followers.has_any(connection)
    _write(connection, new, positions.last, is_told=is_told)
    after = events.Positions(positions.last + len(new), said.until)
    if after != positions:
        events.write_positions(connection, after)
    return max(len(changes), len(noted)) >= events.MOST


def _list_changes(connection: sa.Connection) -> list[_New]:
    """Return rows of the history, those of a reservation in their order."""
    columns, before = _STATES.c, _STATES.alias()
    reservations = tables.RESERVATIONS.c
    rows = connection.execute(
        sa.select(
            _STATES,
            reservations.project,
            reservations.starts_at,
            reservations.ends_at,
            before.c.state.label('before'),
        )
        .join(
            tables.RESERVATIONS,
            reservations.reservation == columns.reservation,
        )
        .outerjoin(
            before,
            sa.and_(
                before.c.reservation == columns.reservation,
                before.c.number == columns.number - 1,
            ),
        )
        .where(columns.told.is_(None))
        # Cut off anywhere, no row comes before an earlier one of the same.
        .order_by(columns.number, columns.changed_at, columns.reservation)
        .limit(events.MOST)
    )
    times = _Times()
    return [
        _New(
            times.follow(row.reservation, row.changed_at),
            change=(row.reservation, row.number),
            row=events.make_row(_make_change(row)),
        )
        for row in rows
    ]


def _make_change(row: Any) -> event_mod.Event:
    state = state_mod.State(row.state)
    before = None if row.before is None else state_mod.State(row.before)
    during = interval.Interval(row.starts_at, row.ends_at)
    return event_mod.Event(
        uuid=uuidutils.generate_uuid(),
        kind=event_mod.find_kind(before, state),
        project=row.project,
        reservation=row.reservation,
        happened_at=row.changed_at,
        facts={
            'state': state.value,
            'number': row.number,
            'cause': row.cause,
            **event_mod.describe_times(during),
        },
        private={'reason': row.reason},
    )


def _list_noted(connection: sa.Connection) -> list[_New]:
    """Return events that were written when they happened.

    Those of a reservation in the order in which they were written: whoever
    takes a place writes after whoever has freed it.
    """
    columns = _EVENTS.c
    rows = connection.execute(
        sa.select(
            columns.number,
            columns.happened_at,
            columns.subject,
            columns.subscription,
        )
        .where(columns.position.is_(None))
        .order_by(columns.number)
        .limit(events.MOST)
    )
    times = _Times()
    return [
        _New(
            times.follow((row.subject, row.subscription), row.happened_at),
            number=row.number,
        )
        for row in rows
    ]


class _Times:
    """Times by which what has happened is put in order.

    The clock of whoever wrote it may have been behind.
    """

    def __init__(self) -> None:
        self._last: dict[object, int] = {}

    def follow(self, what: object, time: int) -> int:
        """Return a time that is not before the last one.

        :param what: that has happened to
        """
        self._last[what] = max(time, self._last.get(what, time))
        return self._last[what]


def _find_until(until: int, now: int) -> int:
    """Return up to which time was said what remains."""
    if until <= now + 2 * due.MAX_SKEW:
        return until
    LOG.warning(
        'Subscribers were told the time remaining up to %(until)s, a time in '
        'the future: a clock was wrong. They are told again from now on.',
        {'until': interval.format_time(until)},
    )
    return now


def _read_remaining(
    connection: sa.Connection, until: int, now: int | None
) -> _Remaining:
    """Return what was not said yet of what remains, and is due."""
    asking = [] if now is None else followers.list_asking(connection)
    if now is None or not asking:
        return _Remaining(until)
    until = _find_until(until, now)
    if now <= until:
        return _Remaining(until)
    longest = max(each for one in asking for each in one.remaining)
    ending = {
        one.key: one
        for one in progress.list_unfinished(connection)
        if now < one.during.end <= now + longest
    }
    projects = _read_projects(connection, ending)
    found = _list_remaining(asking, _group(ending, projects), until, now)
    return _Remaining(now, [*found])


#: (project or '', reservation or None), as a subscription has them -> what
#: ends of these, by end, with its project.
_Ending: TypeAlias = Mapping[
    tuple[str, str | None], Sequence[tuple[progress.Unfinished, str]]
]


def _group(
    ending: Mapping[str, progress.Unfinished], projects: Mapping[str, str]
) -> _Ending:
    """Return what each subscription may be told of, whoever it is."""
    found: dict[
        tuple[str, str | None], list[tuple[progress.Unfinished, str]]
    ] = collections.defaultdict(list)
    for key, project in projects.items():
        for name in {'', project}:
            found[name, None].append((ending[key], project))
            found[name, key].append((ending[key], project))
    for ones in found.values():
        ones.sort(key=_find_end)
    return found


def _find_end(one: tuple[progress.Unfinished, str]) -> int:
    return one[0].during.end


def _list_remaining(
    asking: Iterable[followers.Asking], ending: _Ending, until: int, now: int
) -> Iterator[_New]:
    for wanted in asking:
        since = max(until, wanted.created_at)
        known = ending.get((wanted.project, wanted.reservation), ())
        for seconds in wanted.remaining:
            first = bisect.bisect_right(known, since + seconds, key=_find_end)
            last = bisect.bisect_right(known, now + seconds, key=_find_end)
            for one, project in known[first:last]:
                time = one.during.end - seconds
                if one.during.start <= time:
                    row = _make_ending(one, project, seconds, wanted.uuid)
                    yield _New(time, row=row)


def _read_projects(
    connection: sa.Connection, keys: Iterable[str]
) -> dict[str, str]:
    columns = tables.RESERVATIONS.c
    found: dict[str, str] = {}
    for part in servers.chunk(keys):
        rows = connection.execute(
            sa.select(columns.reservation, columns.project).where(
                columns.reservation.in_(part)
            )
        )
        found.update(rows.tuples().all())
    return found


def _make_ending(
    one: progress.Unfinished,
    project: str,
    seconds: int,
    subscription: str,
) -> dict[str, Any]:
    event = event_mod.Event(
        uuid=uuidutils.generate_uuid(),
        kind=event_mod.Kind.ENDING,
        project=project,
        reservation=one.key,
        happened_at=one.during.end - seconds,
        facts={
            'state': one.state.value,
            'seconds_left': seconds,
            **event_mod.describe_times(one.during),
        },
    )
    return events.make_row(event, subscription=subscription)


def _write(
    connection: sa.Connection, new: list[_New], last: int, *, is_told: bool
) -> None:
    """Write the positions of events, and the rows that are missing.

    :param is_told: whether anybody follows; if not, nothing is kept of rows
    """
    rows, numbered, told = [], [], []
    for position, one in enumerate(new, last + 1):
        if one.change is not None:
            key, number = one.change
            told.append({'key': key, 'row': number, 'told_at': position})
        if one.number is not None:
            numbered.append({'row': one.number, 'place': position})
        elif is_told:
            rows.append({**one.row, 'position': position})
    if rows:
        connection.execute(sa.insert(_EVENTS), rows)
    if numbered:
        connection.execute(_NUMBER, numbered)
    if told:
        connection.execute(_TELL, told)


_NUMBER = (
    sa.update(_EVENTS)
    .where(_EVENTS.c.number == sa.bindparam('row'))
    .values(position=sa.bindparam('place'))
)

_TELL = (
    sa.update(_STATES)
    .where(
        _STATES.c.reservation == sa.bindparam('key'),
        _STATES.c.number == sa.bindparam('row'),
    )
    .values(told=sa.bindparam('told_at'))
)
