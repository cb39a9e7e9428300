# SPDX-License-Identifier: Apache-2.0

"""The end of reservations, and of their servers where that is asked for."""

import dataclasses
import functools

from oslo_log import log as logging

from nova_ext_resources.reservation import cause
from nova_ext_resources.reservation import due
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation.manager import chores
from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.manager import removal
from nova_ext_resources.reservation.manager import request_cache
from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation.manager import watch
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import states

LOG = logging.getLogger(__name__)

#: Seconds after the first try for which servers are asked to go.
MAX_SECONDS = 86400

#: How many servers a reason names.
_NAMED = 5

_WORDS = {
    plan_request.AtEnd.KEEP: 'its servers stay until another reservation '
    'needs their resources',
    plan_request.AtEnd.SHELVE: 'its servers are shelved then',
    plan_request.AtEnd.DELETE: 'its servers are deleted then',
}


@dataclasses.dataclass(slots=True, kw_only=True)
class _Leaving:
    """How far the servers of one reservation have gone.

    :ivar first: when the first of them was asked, in seconds since the epoch
    :ivar gone: those that have
    :ivar turns: server -> number of its last turn
    """

    first: int
    gone: set[str] = dataclasses.field(default_factory=set)
    turns: dict[str, int] = dataclasses.field(default_factory=dict)


class Ending:
    """Writes that reservations have ended, when their servers have gone.

    :param notice: seconds before the end at which a row says so; 0 for none
    :param is_once: there is no pass before this one that is known of
    """

    def __init__(
        self,
        database: databases.Database,
        cloud: cloud_services.Cloud,
        notice: int = 0,
        *,
        is_once: bool = False,
    ) -> None:
        self._database = database
        self._notice = notice
        self._is_once = is_once
        #: Reservation and its end -> how far its servers have gone.
        self._leaving: dict[tuple[str, int], _Leaving] = {}
        self._turn = 0
        self._removal = removal.Removal(cloud)
        self._requests = request_cache.Requests()
        #: Reservation -> what was missing, so that it is logged once.
        self._missing: dict[str, list[str]] = {}
        #: Reservation -> when its servers were asked to go last.
        self._tried: dict[str, int] = {}

    def run(self, reading: watch.Reading) -> bool:
        """See :class:`~.chores.Chore`."""
        if not reading.is_steady:
            return True
        effort = time_budget.Effort()
        self._removal.begin(effort, reading.now)
        with self._database.transaction() as connection:
            found = [
                one
                for one in progress.list_unfinished(connection)
                if one.during.end <= reading.now + self._notice
            ]
            requests = self._requests.read(connection, found)
        # Those come first that had no turn for the longest time.
        found.sort(key=lambda one: self._tried.get(one.key, 0))
        self._tried = {one.key: self._tried.get(one.key, 0) for one in found}
        ends = {(one.key, one.during.end) for one in found}
        self._leaving = {
            key: one for key, one in self._leaving.items() if key in ends
        }
        done = [
            effort.attempt(
                f'end of {one.key}',
                self._handle,
                effort,
                one,
                requests.get(one.key),
                reading.now,
            )
            for one in found
        ]
        return all(done)

    def _handle(
        self,
        effort: time_budget.Effort,
        one: progress.Unfinished,
        request: plan_request.Request | None,
        now: int,
    ) -> bool:
        wanted = due.find_due(one.state, one.during, now)
        if request is None:
            return False
        if now < one.during.end:
            self._announce(one, request, now)
            return True
        if wanted is None:
            return True
        if request.at_end is not plan_request.AtEnd.KEEP and effort.is_over:
            return False
        self._tried[one.key] = now
        return self._end(one, request, now, wanted[1])

    def _announce(
        self,
        one: progress.Unfinished,
        request: plan_request.Request,
        now: int,
    ) -> None:
        """Write once that the end is near, for each end."""
        end = interval.format_time(one.during.end)
        reason = f'it ends at {end}: {_WORDS[request.at_end]}'
        with self._database.transaction() as connection:
            changes = states.list_changes(connection, one.key)
        if all(each.reason != reason for each in changes):
            chores.write(self._database, one, one.state, now, reason)

    def _end(
        self,
        one: progress.Unfinished,
        request: plan_request.Request,
        now: int,
        reason: str,
    ) -> bool:
        """Remove its servers; then it has ended."""
        removed: frozenset[str] | None = None
        waiting: list[str] = []
        if request.at_end is not plan_request.AtEnd.KEEP:
            if now < one.during.end + due.MAX_SKEW:
                # By a clock that is behind it may be prolonged until then.
                return True
            leaving = self._leaving.setdefault(
                (one.key, one.during.end),
                _Leaving(first=one.during.end if self._is_once else now),
            )
            missing = self._remove(one, request.at_end, leaving)
            waiting = [each for each in missing.values() if each]
            # Nobody is given up who had no turn in this pass.
            if waiting and (
                now - leaving.first < MAX_SECONDS
                or any(self._removal.has_put_off(each) for each in missing)
            ):
                return self._report(one, waiting)
            reason = _explain(reason, request.at_end, waiting)
            removed = frozenset(missing)
        self._missing.pop(one.key, None)
        outcome = chores.write(
            self._database,
            one,
            due.State.ENDED,
            now,
            reason,
            cause=cause.Cause.LEFT if waiting else None,
            consumers=removed,
        )
        return outcome.is_well

    def _remove(
        self,
        one: progress.Unfinished,
        at_end: plan_request.AtEnd,
        leaving: _Leaving,
    ) -> dict[str, str]:
        """Return server -> what is missing until it is gone, '' for nothing.

        Of all servers that have a place. Those come first that had no turn
        for the longest time.
        """
        with self._database.transaction() as connection:
            found = servers.read_servers(
                connection, [one.key], interval.ALWAYS
            )
        slots = {
            each.consumer: each
            for each in found.get(one.key, ())
            if each.consumer
        }
        missing = dict.fromkeys(slots.keys() & leaving.gone, '')
        for uuid in sorted(
            slots.keys() - leaving.gone,
            key=lambda uuid: (leaving.turns.get(uuid, 0), uuid),
        ):
            missing[uuid] = self._removal.remove(
                uuid,
                functools.partial(self._check, one, slots[uuid]),
                is_deleted=at_end is plan_request.AtEnd.DELETE,
            )
            if not self._removal.has_put_off(uuid):
                self._turn += 1
                leaving.turns[uuid] = self._turn
            if not missing[uuid]:
                leaving.gone.add(uuid)
        return missing

    def _check(
        self,
        one: progress.Unfinished,
        slot: planned_server.PlannedServer,
        server: nova_server.NovaServer,
    ) -> str:
        """Return why a server stays: its reservation is not as it was."""
        with self._database.transaction() as connection:
            found = progress.list_unfinished(connection, one.key)
            taken = servers.find_taken(connection, server.uuid)
        if found != [one]:
            return f'reservation {one.key} has changed meanwhile'
        if taken != (one.key, slot):
            return f'it has no place in reservation {one.key} any more'
        return ''

    def _report(self, one: progress.Unfinished, missing: list[str]) -> bool:
        if self._missing.get(one.key) != missing:
            self._missing[one.key] = missing
            LOG.warning(
                'Reservation %(key)s is over, and waits for its servers to '
                'go: %(missing)s',
                {'key': one.key, 'missing': '; '.join(missing)},
            )
        return False


def _explain(
    reason: str, at_end: plan_request.AtEnd, missing: list[str]
) -> str:
    verb = 'deleted' if at_end is plan_request.AtEnd.DELETE else 'shelved'
    if not missing:
        return f'{reason}; its servers are {verb}'
    named = '; '.join(missing[:_NAMED])
    return (
        f'{reason}; {len(missing)} of its servers were not {verb} within '
        f'{MAX_SECONDS // 3600} hours: {named}'
    )
