# SPDX-License-Identifier: Apache-2.0

"""Moves what has lost its hosts, or says that it is degraded.

A reservation that has not started is planned anew on the hosts that there are.
Where that is not possible, or where it has started, it keeps its place: the
host may come back.
"""

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.reservation import cause as cause_mod
from nova_ext_resources.reservation.manager import chores
from nova_ext_resources.reservation.manager import cloud as cloud_mod
from nova_ext_resources.reservation.manager import sight
from nova_ext_resources.reservation.manager import watch as watch_mod
from nova_ext_resources.reservation import outage
from nova_ext_resources.reservation import planner as planner_mod
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import database as database_mod
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import states

LOG = logging.getLogger(__name__)

#: Seconds after which it is tried again to move what fitted nowhere. All hosts
#: are read for it.
RETRY_SECONDS = 300

Cause = cause_mod.Cause
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
        self._tried: dict[str, tuple[outage.Lost, int, outage.Enabled]] = {}
        self._admission: admission_mod.Admission | None = None

    def run(self, reading: watch_mod.Reading) -> bool:
        """See :class:`~.chores.Chore`."""
        now = reading.now
        enabled = self._cloud.list_enabled()
        with self._database.transaction() as connection:
            found = progress.list_unfinished(connection)
            rows = servers.count_by_host(connection, now)
        lost = outage.list_lost(rows, enabled)
        if lost and not sight.can_trust(enabled):
            return False
        self._admission = None
        self._tried = {
            key: one for key, one in self._tried.items() if key in lost
        }
        done = []
        for one in found:
            if one.key in lost:
                done.append(self._lose(one, lost[one.key], enabled, now))
            elif one.state is State.DEGRADED and now < one.during.end:
                done.append(self._restore(one, now))
        return all(done)

    def _lose(
        self,
        one: progress.Unfinished,
        lost: outage.Lost,
        enabled: outage.Enabled,
        now: int,
    ) -> bool:
        """Move a reservation, or say that it is degraded."""
        reason = outage.describe(lost, enabled)
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
            self._database,
            one,
            State.DEGRADED,
            now,
            reason,
            cause=Cause.OUTAGE,
        ).is_well

    def _find_tried(
        self, key: str, now: int
    ) -> tuple[outage.Lost, outage.Enabled] | None:
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
        lack = states.find_lack(changes)
        if lack is None or lack.cause is not Cause.OUTAGE:
            return True
        state = State.PENDING if now < one.during.start else State.ACTIVE
        reason = 'its hosts are there again'
        return chores.write(self._database, one, state, now, reason).is_well
