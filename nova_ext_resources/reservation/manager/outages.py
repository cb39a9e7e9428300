# SPDX-License-Identifier: Apache-2.0

"""Moves what has lost its hosts or capacity, or says that it is degraded.

A reservation that has not started is planned anew on the hosts that there are.
Where that is not possible, or where it has started, it keeps its place: the
host may come back.
"""

from collections.abc import Sequence

from oslo_log import log as logging
import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation.manager import chores
from nova_ext_resources.reservation.manager import cloud as cloud_mod
from nova_ext_resources.reservation.manager import sight
from nova_ext_resources.reservation.manager import watch as watch_mod
from nova_ext_resources.reservation import outage
from nova_ext_resources.reservation import planner as planner_mod
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import capacity_changes
from nova_ext_resources.reservation.store import database as database_mod
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import states

LOG = logging.getLogger(__name__)

#: Seconds after which it is tried again to move what fitted nowhere. All hosts
#: are read for it.
RETRY_SECONDS = 300

State = state_mod.State


class Outages:
    """Follows which hosts are there."""

    def __init__(
        self, database: database_mod.Database, cloud: cloud_mod.Cloud
    ) -> None:
        self._database = database
        self._cloud = cloud
        #: Reservation -> what it had lost when it was tried to move it, when,
        #: and which hosts there were.
        self._tried: dict[str, tuple[str, int, outage.Enabled]] = {}
        self._admission: admission_mod.Admission | None = None

    def run(self, reading: watch_mod.Reading) -> bool:
        """See :class:`~.chores.Chore`."""
        now = reading.now
        enabled = self._cloud.list_enabled()
        with self._database.transaction() as connection:
            found = progress.list_unfinished(connection)
            rows = servers.count_by_host(connection, now)
            changes = capacity_changes.read_changes(connection, now)
            cut = _list_cut(connection, found, rows, changes, now)
        spared = _list_spared(found, changes, now)
        lost = outage.list_lost(
            (one for one in rows if one[:2] not in spared), enabled
        )
        if lost and not sight.can_trust(enabled):
            return False
        reasons = outage.explain(lost, enabled, cut)
        self._admission = None
        self._tried = {
            key: one for key, one in self._tried.items() if key in reasons
        }
        done = []
        for one in found:
            if one.key in reasons:
                done.append(self._lose(one, reasons[one.key], enabled, now))
            elif one.state is State.DEGRADED and now < one.during.end:
                done.append(self._restore(one, now))
        return all(done)

    def _lose(
        self,
        one: progress.Unfinished,
        reason: str,
        enabled: outage.Enabled,
        now: int,
    ) -> bool:
        """Move a reservation, or say that it is degraded."""
        lost = reason
        if one.during.start > now:
            try_now = (lost, enabled) != self._find_tried(one.key, now)
            if try_now and self._move(one.key, reason, now):
                return True
            if try_now:
                self._tried[one.key] = (lost, now, enabled)
            reason = f'{reason}; there is no other place for it now'
        if one.state is State.DEGRADED:
            return True
        LOG.error(
            'Reservation %(key)s is degraded: %(reason)s',
            {'key': one.key, 'reason': reason},
        )
        return chores.write(
            self._database, one, State.DEGRADED, now, reason
        ).is_well

    def _find_tried(
        self, key: str, now: int
    ) -> tuple[str, outage.Enabled] | None:
        """Return what was known when a move was tried a short while ago."""
        if key not in self._tried:
            return None
        lost, when, enabled = self._tried[key]
        return (lost, enabled) if abs(now - when) < RETRY_SECONDS else None

    def _move(self, key: str, reason: str, now: int) -> bool:
        """Return whether a reservation has another place, or needs none."""
        reason = f'moved: {reason}'
        try:
            if self._admission is None:
                self._admission = self._cloud.make_admission(self._database)
            answer = self._admission.relocate(key, now=now, reason=reason)
        except (exception.PlacementError, exception.ComputeUnavailable) as err:
            LOG.error(
                'Reservation %(key)s cannot be planned anew now: %(err)s',
                {'key': key, 'err': err},
            )
            return False
        if isinstance(answer, planner_mod.Refusal):
            return False
        if answer is not None:
            change = states.Change(
                state=State.PENDING, changed_at=now, reason=reason
            )
            chores.report(key, change)
        return True

    def _restore(self, one: progress.Unfinished, now: int) -> bool:
        """Say that all is well again, if hosts were what was missing."""
        with self._database.transaction() as connection:
            changes = states.list_changes(connection, one.key)
        cause = outage.find_cause(
            [(each.state, each.reason) for each in changes]
        )
        if not outage.is_outage(cause):
            return True
        state = State.PENDING if now < one.during.start else State.ACTIVE
        reason = 'its hosts and their capacity are there again'
        return chores.write(self._database, one, state, now, reason).is_well


def _list_spared(
    found: Sequence[progress.Unfinished],
    changes: capacity_plan.Changes,
    now: int,
) -> frozenset[tuple[str, str]]:
    """Return reservations, each with a host that is away until it begins."""
    return frozenset(
        (one.key, change.host)
        for change in changes
        for one in found
        if outage.is_back(change, one.during.start, now)
    )


def _list_cut(
    connection: sa.Connection,
    found: Sequence[progress.Unfinished],
    rows: Sequence[tuple[str, str, int, int]],
    changes: capacity_plan.Changes,
    now: int,
) -> dict[str, list[str]]:
    """Return reservation -> what changes of capacity take from it."""
    degraded = {one.key for one in found if one.state is State.DEGRADED}
    hosts = {one.host for one in changes}
    # Of a provider that hosts share, it is not known here which these are.
    touched = {one[0] for one in rows if one[1] in hosts or '' in hosts}
    keys = degraded | touched & {one.key for one in found}
    cut = {}
    for key, held in servers.read_servers(connection, keys, now).items():
        causes = list[str]()
        if key in degraded:
            last = states.list_changes(connection, key)
            causes = outage.list_causes([(e.state, e.reason) for e in last])
        if words := outage.list_cut(held, changes, causes):
            cut[key] = words
    return cut
