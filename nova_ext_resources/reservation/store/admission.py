# SPDX-License-Identifier: Apache-2.0

"""Who gets what: a plan becomes a promise, or a promise is changed.

An admission reads the revisions of the shards and what has changed since it
last did, plans, and writes the plan in one transaction, in which the shards of
all that the plan takes from still have the revisions that were read. If not,
it begins anew. A refusal writes nothing: it was right when it was read.
"""

from collections.abc import Iterable
import dataclasses
import itertools
import threading
from typing import TypeAlias

import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import cause
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import planner as planner_mod
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import capacity
from nova_ext_resources.reservation.store import charges
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import events
from nova_ext_resources.reservation.store import mirror
from nova_ext_resources.reservation.store import quotas
from nova_ext_resources.reservation.store import reader
from nova_ext_resources.reservation.store import reservations
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import shards
from nova_ext_resources.reservation.store import states

#: The clock of a caller may be so many seconds behind that of another one. So
#: long is kept what has ended.
KEPT_SECONDS = 3600

#: What starts in so many seconds is not moved. A plan may be tried again for a
#: minute, and wait for other writers, until it is stored; clocks differ; and a
#: scheduler must have read the new place before a server is created there.
FIXED_SECONDS = 300


#: The request of a reservation, and when it is served.
Known: TypeAlias = tuple[plan_request.Request, interval.Interval]


class Admission:
    """Admits requests to one fleet. Its threads plan one after the other.

    :param planner: with nothing accepted, and used by nothing else
    :param since: when its hosts were read, in seconds since the epoch; None:
        when something is asked for the first time
    :ivar capacity: plans changes of capacity
    """

    def __init__(
        self,
        database: databases.Database,
        planner: planner_mod.Planner,
        since: int | None = None,
    ) -> None:
        self._database = database
        self._mirror = mirror.Mirror(planner, since)
        self._lock = threading.Lock()
        self.capacity = capacity.Capacity(
            database,
            self._mirror,
            self._lock,
            self._refresh,
            lambda now: now + FIXED_SECONDS,
        )
        #: What ended before is forgotten.
        self._oldest = interval.ALWAYS

    def admit(
        self, request: plan_request.Request, *, now: int, reason: str
    ) -> planner_mod.Plan | planner_mod.Refusal:
        """Plan a request and store the plan, or refuse it.

        The same request again gets the plan that it has: whoever does not
        know whether an answer was lost asks once more.

        :param now: seconds since the epoch
        :param reason: a sentence that is kept with the new state
        :raises ReservationExists: the key was used for something else
        :raises QuotaExceeded: the quota of its project is in the way
        :raises StoreError: the database refused it, or could not be reached,
            or too many others wrote, for as long as it was tried again
        :raises ValueError: there is no reason, or the request starts before
            now
        """
        return retry.call(self._try_admit, request, now, reason)

    def replace(
        self,
        request: plan_request.Request,
        *,
        now: int,
        reason: str,
        expected: Known | None = None,
    ) -> planner_mod.Plan | planner_mod.Refusal | None:
        """Plan a reservation anew for another request of the same key.

        All of the new plan takes the place of the old one, or nothing
        changes. What has started, or starts within :data:`FIXED_SECONDS`,
        keeps its start, its hosts and its units.

        :param now: seconds since the epoch
        :param reason: a sentence that is kept with the change
        :param expected: what the request was made of; None takes any
        :returns: None if another one has changed it since: make another
            request, of what there is now
        :raises ReservationNotFound: there is no such reservation
        :raises StateRefused: it is over
        :raises QuotaExceeded: the quota of its project is in the way
        :raises StoreError: as of :meth:`admit`
        :raises ValueError: there is no reason, or the request starts before
            now, or it changes what is not moved
        """
        return retry.call(self._try_replace, request, now, reason, expected)

    def relocate(
        self, key: str, *, now: int, reason: str, number: int | None = None
    ) -> planner_mod.Plan | planner_mod.Refusal | None:
        """Plan a reservation anew for the same time, on the hosts there are.

        As many servers as it has, or nothing changes. It is pending then, even
        if it was degraded.

        :param now: seconds since the epoch
        :param reason: a sentence that is kept with the change
        :param number: of the newest row that the caller knows; None for any
        :returns: None if it has started, or is over, or a server has taken a
            part of it, or there is a newer row: it is not moved then
        :raises StoreError: as of :meth:`admit`
        :raises ValueError: there is no reason
        """
        return retry.call(self._try_relocate, key, now, reason, number)

    def change(
        self, key: str, state: state_mod.State, *, now: int, reason: str
    ) -> None:
        """Let a reservation have another state.

        If nothing follows the new state, its servers are released.

        :raises ReservationNotFound: there is no such reservation
        :raises StateRefused: its state does not allow the new one
        :raises StoreError: as of :meth:`admit`
        :raises ValueError: there is no reason
        """
        retry.call(self._try_change, key, state, now, reason)

    def refresh(self, now: int) -> None:
        """Let the planner's fleet be as the store is.

        :param now: seconds since the epoch
        :raises StoreError: the database cannot be read
        """
        with self._lock:
            self._refresh('', now)

    def list_changes(self, key: str) -> list[states.Change]:
        """Return what happened to a reservation, the first change first.

        :raises ReservationNotFound: there is no such reservation
        :raises StoreError: the database cannot be read
        """
        with self._database.transaction() as connection:
            changes = states.list_changes(connection, key)
        if not changes:
            raise exception.ReservationNotFound(key=key)
        return changes

    def _try_admit(
        self, request: plan_request.Request, now: int, reason: str
    ) -> planner_mod.Plan | planner_mod.Refusal:
        change = states.Change(
            state=state_mod.State.PENDING, changed_at=now, reason=reason
        )
        with self._lock:
            known, quota = self._read(request.key, now, request.project)
            if known is not None:
                return self._find_plan(known, request)
            allowed = quota.account.limit(request, now)
            plan = self._mirror.planner.plan(allowed, now, lead=FIXED_SECONDS)
            if isinstance(plan, planner_mod.Plan):
                self._write(request, plan, change, quota)
            return plan

    def _read_quota(
        self, request: plan_request.Request, now: int
    ) -> quotas.State:
        """Return what counts against the quotas of a request's project."""
        with self._database.transaction() as connection:
            return quotas.read(connection, request.project, now)

    def _refresh(self, key: str, now: int) -> plan_request.Request | None:
        """Read what is new, and the request of a reservation if it exists."""
        return self._read(key, now)[0]

    def _read(
        self, key: str, now: int, project: str = ''
    ) -> tuple[plan_request.Request | None, quotas.State]:
        """Do the same, and read what counts against a project's quotas."""
        self._oldest = reader.choose_oldest(self._oldest, now, KEPT_SECONDS)
        with self._database.transaction() as connection:
            self._mirror.refresh(connection, self._oldest)
            known = reservations.read_requests(connection, [key]).get(key)
            quota = quotas.read(connection, project, now)
        self._mirror.foresee(now)
        return known, quota

    def _find_plan(
        self, known: plan_request.Request, request: plan_request.Request
    ) -> planner_mod.Plan:
        held = self._mirror.held.get(request.key)
        if known != request or not held:
            raise exception.ReservationExists(key=request.key)
        return planner_mod.Plan(during=held[0].during, servers=held)

    def _write(
        self,
        request: plan_request.Request,
        plan: planner_mod.Plan,
        change: states.Change,
        quota: quotas.State,
    ) -> None:
        """Store a plan, if what it was made of has not changed."""
        revisions = self._mirror.revisions
        raised = self._choose_revisions(plan)
        with self._database.transaction() as connection:
            shards.raise_revisions(connection, raised)
            quotas.raise_revisions(connection, request, quota)
            reservations.add_reservation(connection, request, plan.during)
            charges.charge(
                connection,
                request,
                plan.during,
                len(plan.servers),
                change.changed_at,
            )
            states.add_change(connection, request.key, 0, change)
            servers.add_servers(
                connection, request.key, plan.servers, revisions
            )
            self._write_moved(connection, request.key, plan, change)
        self._mirror.accept(request, plan, raised)

    def _try_replace(
        self,
        request: plan_request.Request,
        now: int,
        reason: str,
        expected: Known | None,
    ) -> planner_mod.Plan | planner_mod.Refusal | None:
        with self._lock:
            known = self._refresh(request.key, now)
            last = self.list_changes(request.key)[-1]
            held = self._mirror.held.get(request.key, ())
            self._check_going_on(last.state, request.key, held, now)
            if known == request:
                return planner_mod.Plan(during=held[0].during, servers=held)
            if expected not in (None, (known, held[0].during)):
                return None
            planner = self._mirror.planner
            quota = self._read_quota(request, now)
            if held[0].during.start <= now + FIXED_SECONDS:
                _check_fixed(request, known or request, held)
                # Room may be short, but no server is released for a quota.
                kept = max(min(request.most, len(held)), request.least)
                allowed = quota.account.limit(request, now, kept)
                plan = planner.prolong(allowed, held)
            else:
                allowed = quota.account.limit(request, now)
                plan = planner.replan(allowed, held, now, lead=FIXED_SECONDS)
            if isinstance(plan, planner_mod.Plan):
                change = states.Change(
                    state=last.state, changed_at=now, reason=reason
                )
                self._rewrite(request, held, plan, change, quota)
            return plan

    def _try_relocate(
        self, key: str, now: int, reason: str, number: int | None
    ) -> planner_mod.Plan | planner_mod.Refusal | None:
        with self._lock:
            known = self._refresh(key, now)
            held = self._mirror.held.get(key, ())
            if not known or not held or held[0].during.start <= now:
                return None
            if number not in (None, len(self.list_changes(key)) - 1):
                return None
            if any(one.consumer is not None for one in held):
                return None
            request = dataclasses.replace(
                known,
                during=held[0].during,
                delay=0,
                least=len(held),
                most=len(held),
            )
            plan = self._mirror.planner.replan(
                request, held, now, lead=FIXED_SECONDS
            )
            if isinstance(plan, planner_mod.Plan):
                change = states.Change(
                    state=state_mod.State.PENDING,
                    changed_at=now,
                    reason=reason,
                    cause=cause.Cause.MOVED,
                )
                # As many servers for the same time: no quota forbids that.
                quota = self._read_quota(known, now)
                self._rewrite(
                    known, held, plan, change, quota, is_pending=True
                )
            return plan

    def _check_going_on(
        self,
        state: state_mod.State,
        key: str,
        held: servers.PlannedServers,
        now: int,
    ) -> None:
        """Check that a reservation can be planned anew.

        :raises StateRefused: it is over, be it by the clock alone
        """
        if not held or held[0].during.end <= now:
            over = state if state.is_final else state_mod.State.ENDED
            state_mod.check_next(key, over, state)
        state_mod.check_next(key, state, state)

    def _rewrite(
        self,
        request: plan_request.Request,
        held: servers.PlannedServers,
        plan: planner_mod.Plan,
        change: states.Change,
        quota: quotas.State,
        *,
        is_pending: bool = False,
    ) -> None:
        """Store a plan in place of another one, as :meth:`_write` does.

        The mirror reads it when it is refreshed.

        :param is_pending: whether it is pending then; by default it keeps the
            state that it has when it is written
        """
        revisions = self._mirror.revisions
        raised = self._choose_revisions(plan, held)
        with self._database.transaction() as connection:
            shards.raise_revisions(connection, raised)
            quotas.raise_revisions(connection, request, quota)
            reservations.change_reservation(connection, request, plan.during)
            charges.charge_anew(
                connection,
                request,
                plan.during,
                len(plan.servers),
                change.changed_at,
            )
            states.repeat_state(
                connection,
                request.key,
                change.changed_at,
                change.reason,
                is_pending=is_pending,
                cause=change.cause,
            )
            servers.replace_servers(
                connection, request.key, held, plan.servers, revisions
            )
            kept = {one.key for one in plan.servers}
            events.add_allocations(
                connection,
                request.key,
                change.changed_at,
                released=[
                    one for one in held if one.consumer and one.key not in kept
                ],
            )
            self._write_moved(connection, request.key, plan, change)

    def _choose_revisions(
        self,
        plan: planner_mod.Plan,
        *others: Iterable[planned_server.PlannedServer],
    ) -> shards.Revisions:
        """Return the revisions of all that a plan takes from, or frees."""
        bookings = self._mirror.planner.fleet.bookings
        before = [bookings[one.key] for one in plan.moved]
        touched = itertools.chain(before, plan.moved, plan.servers, *others)
        return shards.choose_revisions(touched, self._mirror.revisions)

    def _write_moved(
        self,
        connection: sa.Connection,
        key: str,
        plan: planner_mod.Plan,
        change: states.Change,
    ) -> None:
        """Write what a plan has moved out of its way."""
        owners = self._mirror.owners
        for one in plan.moved:
            servers.change_server(
                connection, owners[one.key], one, self._mirror.revisions
            )
        for other in sorted({owners[one.key] for one in plan.moved}):
            reason = f'moved to make room for reservation {key}'
            states.repeat_state(
                connection,
                other,
                change.changed_at,
                reason,
                cause=cause.Cause.MOVED,
            )

    def _try_change(
        self, key: str, state: state_mod.State, now: int, reason: str
    ) -> None:
        change = states.Change(state=state, changed_at=now, reason=reason)
        with self._lock:
            self._make_change(key, change)

    def _make_change(self, key: str, change: states.Change) -> None:
        state = change.state
        self._refresh(key, change.changed_at)
        changes = self.list_changes(key)
        if changes[-1] == change:
            return  # The answer to an attempt before this one was lost.
        state_mod.check_next(key, changes[-1].state, state)
        released = self._mirror.held.get(key, ()) if state.is_final else ()
        revisions = self._mirror.revisions
        with self._database.transaction() as connection:
            shards.raise_revisions(
                connection, shards.choose_revisions(released, revisions)
            )
            states.add_change(connection, key, len(changes), change)
            for one in released:
                servers.change_server(
                    connection, key, one, revisions, is_held=False
                )


def _check_fixed(
    request: plan_request.Request,
    known: plan_request.Request,
    held: servers.PlannedServers,
) -> None:
    """Check that what is not moved keeps its start, and what it needs.

    :param known: the request that it has
    :raises ValueError: it does not
    """
    start = held[0].during.start
    is_same = (request.demand, request.zone, request.affinity) == (
        known.demand,
        known.zone,
        known.affinity,
    )
    if request.during.start != start or request.delay or not is_same:
        raise ValueError(
            f'reservation {request.key} has started or is about to start, at '
            f'{interval.format_time(start)}, and is not moved: only its end '
            'can be changed, and servers can be released'
        )
