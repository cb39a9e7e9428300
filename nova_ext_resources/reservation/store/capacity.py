# SPDX-License-Identifier: Apache-2.0

"""Plans changes of capacity, and moves what they hurt.

As an admission does: what is to be written is decided on what was read, and is
written in one transaction if that has not changed since. So of a change and of
a reservation that would take what it takes away, one comes second, and knows.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import itertools
import threading
from typing import TypeAlias

from oslo_log import log as logging
import sqlalchemy as sa

from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import cause as cause_mod
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import forecast
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import capacity_changes
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import mirror as mirror_mod
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import shards
from nova_ext_resources.reservation.store import states
from nova_ext_resources.reservation import way as way_mod

LOG = logging.getLogger(__name__)

Cause = cause_mod.Cause

#: Makes a change for a fleet for which others are planned already.
Make: TypeAlias = Callable[
    [fleets.Fleet, capacity_plan.Changes], capacity_change.CapacityChange
]

#: Reservations that a refusal names, of each kind.
_MAX_NAMED = 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A change that was planned or taken back, and what became of others.

    :ivar way: the reservations that were moved or degraded
    """

    change: capacity_change.CapacityChange
    way: way_mod.Way


class Capacity:
    """Changes of the capacity of one fleet.

    :param lock: held while the mirror is used
    :param refresh: lets the mirror be as the store is; takes the key of a
        reservation, and seconds since the epoch
    :param find_fixed: returns until when nothing that starts is moved; takes
        seconds since the epoch
    """

    def __init__(
        self,
        database: databases.Database,
        mirror: mirror_mod.Mirror,
        lock: threading.Lock,
        refresh: Callable[[str, int], object],
        find_fixed: Callable[[int], int],
    ) -> None:
        self._database = database
        self._mirror = mirror
        self._lock = lock
        self._refresh = refresh
        self._find_fixed = find_fixed

    def plan(
        self, key: str, make: Make, *, now: int, is_forced: bool = False
    ) -> Outcome:
        """Plan a change.

        The same change again changes nothing: whoever does not know whether
        an answer was lost asks once more.

        :param make: called with what there is now, and again if others were
            faster
        :param now: seconds since the epoch
        :param is_forced: whether reservations may be moved and degraded
        :raises CapacityChangeExists: the key was used for another one
        :raises CapacityChangeRefused: it takes what is promised
        :raises StoreError: as of :meth:`.admission.Admission.admit`
        """
        made: list[Outcome] = []
        outcome = retry.call(self._try_plan, key, make, now, is_forced, made)
        if made:
            _log_planned(outcome, is_forced=is_forced)
        return outcome

    def withdraw(
        self,
        key: str,
        *,
        now: int,
        is_forced: bool = False,
        deleted_by: str = '',
    ) -> Outcome:
        """Take a change back.

        :param deleted_by: who does so, for the log
        :raises CapacityChangeNotFound: there is none
        :raises CapacityChangeRefused: reservations count on what it adds
        :raises StoreError: as of :meth:`.admission.Admission.admit`
        """
        made: list[Outcome] = []
        outcome = retry.call(self._try_withdraw, key, now, is_forced, made)
        _log_withdrawn(outcome, deleted_by, is_forced=is_forced)
        return outcome

    def _try_plan(
        self,
        key: str,
        make: Make,
        now: int,
        is_forced: bool,
        made: list[Outcome],
    ) -> Outcome:
        """Plan it.

        :param made: what attempts before this one were about to write
        """
        with self._lock:
            self._refresh('', now)
            if (known := self._find(key)) and made:
                # The answer to one of them was lost.
                if made[-1].change == known:
                    return made[-1]
            others = [one for one in self._mirror.changes if one.key != key]
            change = make(self._mirror.planner.fleet, others)
            if known:
                if not _is_same(known, change):
                    raise errors.CapacityChangeExists(key=key)
                made.clear()
                return Outcome(change=known, way=way_mod.Way())
            way = self._find_way(change, [*others, change], now)
            if way.hurt and not is_forced:
                raise _refuse(change, way)
            made.append(Outcome(change=change, way=way))
            self._write(change, way, now)
        return made[-1]

    def _try_withdraw(
        self, key: str, now: int, is_forced: bool, made: list[Outcome]
    ) -> Outcome:
        """Take it back; ``made`` as of :meth:`_try_plan`."""
        with self._lock:
            self._refresh('', now)
            change = self._find(key)
            if change is None:
                if made:
                    return made[-1]
                raise errors.CapacityChangeNotFound(key=key)
            others = self._rebase(change, now)
            way = self._find_way(change, others, now, is_withdrawn=True)
            if way.hurt and not is_forced:
                raise _refuse(change, way, is_withdrawn=True)
            made.append(Outcome(change=change, way=way))
            self._write(change, way, now, others=others, is_withdrawn=True)
        return made[-1]

    def _rebase(
        self, change: capacity_change.CapacityChange, now: int
    ) -> list[capacity_change.CapacityChange]:
        """Return the others as they are once a change is taken back."""
        fleet, bases = self._mirror.planner.fleet, dict[str, int]()
        for name, amount in change.amounts.items():
            place = change.rp_uuid, name
            own = [one for one in self._mirror.changes if one.has(place)]
            own = [one for one in own if one.amounts]
            if place in fleet.calendar.places:
                tracked = capacity_plan.find_tracked(fleet, place)
                shown = capacity_plan.get_capacity(tracked)
                known = forecast.make(own, name, shown, now)
                bases[name] = known.find_base(change.key)
            elif change.during.start <= now:
                # It is not known what has come of it: no more than nothing,
                # if it was more.
                base = forecast.make(own, name, None, now).base
                bases[name] = base + min(amount, 0)
        return [
            one.rebase(bases) if one.rp_uuid == change.rp_uuid else one
            for one in self._mirror.changes
            if one.key != change.key
        ]

    def _find(self, key: str) -> capacity_change.CapacityChange | None:
        with self._database.transaction() as connection:
            found = capacity_changes.read_changes(connection, key=key)
        return found[0] if found else None

    def _find_way(
        self,
        change: capacity_change.CapacityChange,
        changes: capacity_plan.Changes,
        now: int,
        *,
        is_withdrawn: bool = False,
    ) -> way_mod.Way:
        """Return what becomes of others with a change, or without it."""
        planner = self._mirror.planner
        places = capacity_plan.find_places(planner.fleet, change)
        if not places and change.takes(is_withdrawn=is_withdrawn):
            # As if the host had just that for each reservation.
            return way_mod.find_lost(change, self._mirror.held, now)
        before = way_mod.list_missing(planner.fleet, places, now)
        with self._mirror.trying(changes, now):
            return way_mod.find_way(
                planner,
                change,
                before,
                self._mirror.held,
                now=now,
                fixed=self._find_fixed(now),
            )

    def _write(
        self,
        change: capacity_change.CapacityChange,
        way: way_mod.Way,
        now: int,
        *,
        others: capacity_plan.Changes = (),
        is_withdrawn: bool = False,
    ) -> None:
        """Store all of it, if what it was made of has not changed.

        :param others: the changes that are left, as they are to be
        """
        reason = change.describe(is_withdrawn=is_withdrawn)
        revisions, held = self._mirror.revisions, self._mirror.held
        with self._database.transaction() as connection:
            shards.raise_revisions(
                connection, self._choose_revisions(change, way)
            )
            if is_withdrawn:
                capacity_changes.delete_change(connection, change.key)
            else:
                capacity_changes.add_change(connection, change)
                others = [
                    one.rebase(change.before)
                    for one in self._mirror.changes
                    if one.rp_uuid == change.rp_uuid
                ]
            capacity_changes.change_bases(
                connection, self._mirror.changes, others
            )
            for key, after in sorted(way.moved.items()):
                states.repeat_state(
                    connection,
                    key,
                    now,
                    f'moved: {reason}',
                    is_pending=True,
                    cause=Cause.MOVED,
                )
                servers.replace_servers(
                    connection, key, held[key], after, revisions
                )
            for key in way.degraded:
                lack = Cause.WITHDRAWN if is_withdrawn else Cause.CAPACITY
                _degrade(connection, key, now, reason, lack)

    def _choose_revisions(
        self, change: capacity_change.CapacityChange, way: way_mod.Way
    ) -> shards.Revisions:
        """Return the revisions of all that is changed, left or taken."""
        revisions, held = self._mirror.revisions, self._mirror.held
        numbers = {
            shards.find_shard(name, len(revisions)) for name in change.names
        }
        touched = itertools.chain(
            *way.moved.values(), *(held[key] for key in way.moved)
        )
        return revisions.pick(
            numbers | shards.choose_revisions(touched, revisions).keys()
        )


def list_changes(
    database: databases.Database,
    oldest: int,
    *,
    key: str | None = None,
) -> capacity_plan.Changes:
    """Return planned changes by their start.

    :param oldest: without what had ended by then, in seconds since the epoch
    :raises StoreError: the database cannot be read
    """
    with database.transaction() as connection:
        return capacity_changes.read_changes(connection, oldest, key=key)


def _degrade(
    connection: sa.Connection,
    key: str,
    now: int,
    reason: str,
    cause: cause_mod.Cause,
) -> None:
    changes = states.list_changes(connection, key)
    wanted = state.State.DEGRADED
    state.check_next(key, changes[-1].state, wanted)
    change = states.Change(
        state=wanted, changed_at=now, reason=reason, cause=cause
    )
    states.add_change(connection, key, len(changes), change)


def _log_planned(outcome: Outcome, *, is_forced: bool) -> None:
    change, way = outcome.change, outcome.way
    LOG.info(
        'Capacity change %(key)s was planned by %(user)s%(forced)s: %(what)s. '
        'Reason: %(reason)s. Moved: %(moved)s; degraded: %(degraded)s.',
        {
            'key': change.key,
            'user': change.created_by or 'somebody',
            'forced': ', forced' if is_forced else '',
            'what': change.describe(),
            'reason': change.reason,
            'moved': _list_named(sorted(way.moved)),
            'degraded': _list_named(way.degraded),
        },
    )


def _log_withdrawn(outcome: Outcome, user: str, *, is_forced: bool) -> None:
    change, way = outcome.change, outcome.way
    LOG.info(
        'Capacity change %(key)s was deleted by %(user)s%(forced)s; the '
        'change was: %(what)s, planned by %(planner)s. Moved: %(moved)s; '
        'degraded: %(degraded)s.',
        {
            'key': change.key,
            'user': user or 'somebody',
            'forced': ', forced' if is_forced else '',
            'what': change.describe(),
            'planner': change.created_by or 'somebody',
            'moved': _list_named(sorted(way.moved)),
            'degraded': _list_named(way.degraded),
        },
    )


def _is_same(
    one: capacity_change.CapacityChange, other: capacity_change.CapacityChange
) -> bool:
    """Return whether the same was asked for, whenever and by whomever."""
    unlike: Mapping[str, object] = {
        name: getattr(one, name)
        for name in ('before', 'created_by', 'created_at', 'provider')
    }
    return dataclasses.replace(other, **unlike) == one  # type: ignore[arg-type]


def _refuse(
    change: capacity_change.CapacityChange,
    way: way_mod.Way,
    *,
    is_withdrawn: bool = False,
) -> errors.CapacityChangeRefused:
    parts = []
    for names, words in (
        (sorted(way.moved), 'would have to be moved'),
        (way.degraded, 'would lack capacity that is promised to them'),
    ):
        if names:
            parts.append(f'reservations {_list_named(names)} {words}')
    refused = errors.CapacityChangeRefused
    if is_withdrawn:
        refused = errors.CapacityChangeNeeded
    return refused(
        key=change.key,
        moved=tuple(sorted(way.moved)),
        degraded=way.degraded,
        reasons='; '.join(parts),
    )


def _list_named(names: Sequence[str]) -> str:
    """Return reservations in words, some of many."""
    listed = ', '.join(names[:_MAX_NAMED])
    if len(names) > _MAX_NAMED:
        listed += f' and {len(names) - _MAX_NAMED} others'
    return listed or 'none'
