# SPDX-License-Identifier: Apache-2.0

"""Has servers wait for their reservation, shelved, and unshelves them then.

A server takes its slot in the tables first. Then what holds the room of the
slot is released, and Nova is asked to unshelve the server on its host. Where a
manager is killed in between, the next pass, of any manager, finds a server
that has a slot and is on no host, and goes on. Where Nova has failed, the slot
is freed again, with a row in the history, and its room is held again.
"""

import collections
from collections.abc import Callable, Sequence
import functools

from oslo_log import log as logging

from nova_ext_resources.claims import extra_specs
from nova_ext_resources import exception
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.reservation import cause
from nova_ext_resources.reservation import cuts
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation.manager import case as case_mod
from nova_ext_resources.reservation.manager import cloud_services
from nova_ext_resources.reservation.manager import holds as holds_mod
from nova_ext_resources.reservation.manager import request_cache
from nova_ext_resources.reservation.manager import room as room_mod
from nova_ext_resources.reservation.manager import shelving
from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation.manager import watch
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation.store import capacity_changes
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import slots
from nova_ext_resources.reservation.store import states
from nova_ext_resources.reservation import waiting

LOG = logging.getLogger(__name__)

#: Seconds between two looks at the servers of a project where nothing begins
#: and nothing goes on.
CHECK_SECONDS = 60

#: Characters of a reason.
_LONGEST = 1000

Cause = cause.Cause


class Waking:
    """Looks at the servers of projects that have reservations.

    :param grammar: of extra specs
    """

    def __init__(
        self,
        database: databases.Database,
        cloud: cloud_services.Cloud,
        holds: holds_mod.Holds,
        grammar: extra_specs.Grammar,
    ) -> None:
        self._database = database
        self._cloud = cloud
        self._holds = holds
        self._grammar = grammar
        self._requests = request_cache.Requests()
        self._cuts = cuts.Cuts()
        self._places = room_mod.Places(cloud, holds, self._cuts, grammar)
        self._shelving = shelving.Shelving(database, cloud)
        #: Project -> when its servers were looked at.
        self._looked: dict[str, int] = {}
        #: Projects with servers on their way.
        self._busy: set[str] = set()
        #: Server -> the slot for which this manager has asked Nova.
        self._asked: dict[str, str] = {}
        #: What was logged, once.
        self._logged: set[tuple[str, str]] = set()

    def run(self, reading: watch.Reading) -> bool:
        """See :class:`~.chores.Chore`."""
        now = reading.now
        effort = time_budget.Effort()
        self._shelving.begin(effort, now)
        found = self._list_by_project(now)
        self._looked = {
            project: at
            for project, at in self._looked.items()
            if project in found
        }
        self._busy &= found.keys()
        due = [one for one in found if self._is_due(one, found[one], now)]
        due.sort(key=lambda one: self._looked.get(one, 0))
        done = []
        for project in due:
            if effort.is_over:
                return False
            what = f'servers of project {project}'
            look = functools.partial(
                self._look, effort, project, found[project], reading
            )
            done.append(effort.attempt(what, look))
            if not done[-1]:
                self._busy.add(project)
        return all(done)

    def _list_by_project(
        self, now: int
    ) -> dict[str, list[progress.Unfinished]]:
        """Return project -> what it has reserved that is not over."""
        with self._database.transaction() as connection:
            found = [
                one
                for one in progress.list_unfinished(connection)
                if now < one.during.end
            ]
            requests = self._requests.read(connection, found)
        projects: dict[str, list[progress.Unfinished]] = {}
        for one in found:
            request = requests.get(one.key)
            # Without a project, it is nobody's servers that may be touched.
            if request is not None and request.project:
                projects.setdefault(request.project, []).append(one)
        return projects

    def _is_due(
        self, project: str, ones: Sequence[progress.Unfinished], now: int
    ) -> bool:
        at = self._looked.get(project)
        return (
            at is None
            or project in self._busy
            or not at <= now < at + CHECK_SECONDS
            or any(at < one.during.start <= now for one in ones)
        )

    def _look(
        self,
        effort: time_budget.Effort,
        project: str,
        ones: Sequence[progress.Unfinished],
        reading: watch.Reading,
    ) -> bool:
        """Look at all servers of a project."""
        tagged = collections.defaultdict[str, list[nova_server.NovaServer]](
            list
        )
        for server in self._cloud.list_servers(project):
            key = server.metadata.get(nova_server.RESERVATION, '')
            if server.project == project:
                tagged[key].append(server)
        self._looked[project] = reading.now
        self._busy.discard(project)
        with self._database.transaction() as connection:
            self._cuts.follow(
                capacity_changes.read_changes(connection, reading.now)
            )
            held = servers.read_servers(
                connection, [one.key for one in ones], interval.ALWAYS
            )
        done = []
        for one in ones:
            case = case_mod.Case(
                one=one,
                held=held.get(one.key, ()),
                now=reading.now,
                is_steady=reading.is_steady,
            )
            what = f'servers for {one.key}'
            names = {one.key, plan_request.find_name(one.key)}
            mine = [each for name in names for each in tagged.get(name, ())]
            handle = functools.partial(self._handle, case, mine, project)
            done.append(effort.attempt(what, handle))
        return all(done)

    def _handle(
        self,
        case: case_mod.Case,
        tagged: Sequence[nova_server.NovaServer],
        project: str,
    ) -> bool:
        """Go on with the servers that are for a reservation.

        No more of them are shelved than can have slots.
        """
        room = room_mod.make_room(case)
        for server in sorted(tagged, key=_order):
            slot = case.own.get(server.uuid)
            if slot is not None:
                is_busy = self._follow(case, server, slot)
            elif room.has_more and self._can_wait(case, server):
                is_busy = self._go_on(case, room, server)
            else:
                continue
            if is_busy:
                self._busy.add(project)
        return True

    def _can_wait(
        self, case: case_mod.Case, server: nova_server.NovaServer
    ) -> bool:
        """Return whether a server without a slot here may ever have one."""
        if server.status == 'ERROR':
            return False
        with self._database.transaction() as connection:
            if servers.find_taken(connection, server.uuid) is not None:
                return False
        failures = self._list_failures(case, server)
        times = [one.changed_at for one in failures]
        if waiting.find_next_try(times) is None:
            self._log_once(
                server,
                'has failed to unshelve too often, and Nova is not asked '
                'again: delete the server, and create another one',
            )
            return False
        demand = room_mod.find_demand(server, self._grammar)
        if demand is not None and any(
            waiting.fits(demand, one) for one in case.held
        ):
            return True
        self._log_once(
            server,
            f'needs more of a resource class than reservation {case.key} has '
            'for a server; create a server of a flavor that fits',
        )
        return False

    def _log_once(self, server: nova_server.NovaServer, words: str) -> None:
        if (server.uuid, words) not in self._logged:
            self._logged.add((server.uuid, words))
            LOG.warning(
                'Server %(uuid)s %(words)s.',
                {'uuid': server.uuid, 'words': words},
            )

    # A server that has a slot

    def _follow(
        self,
        case: case_mod.Case,
        server: nova_server.NovaServer,
        slot: planned_server.PlannedServer,
    ) -> bool:
        """See that a server comes to the host of its slot.

        :returns: whether it is on its way
        """
        if not waiting.is_offloaded(server):
            if server.host and not server.task_state:
                self._asked.pop(server.uuid, None)
            return bool(server.task_state)
        if not case.has_started:
            return False
        if not self._still_waits(server):
            return True
        if self._asked.pop(server.uuid, None) == slot.key:
            self._give_up(
                case,
                server,
                slot,
                'Nova has found no room for the server on the host, or '
                f'failed; see "openstack server event list {server.uuid}"',
            )
            return True
        self._unshelve(case, server, slot)
        return True

    def _unshelve(
        self,
        case: case_mod.Case,
        server: nova_server.NovaServer,
        slot: planned_server.PlannedServer,
    ) -> None:
        """Give up what holds the room of a slot, and have Nova take it.

        :raises ComputeUnavailable: Nova is away; the next pass asks again
        """
        self._holds.release(planned_hold.make_consumer(slot.key))
        try:
            self._cloud.unshelve(server.uuid, slot.host)
        except exception.ComputeUnavailable as err:
            if err.is_away:
                raise
            if self._still_waits(server):
                self._give_up(case, server, slot, str(err))
            return
        self._asked[server.uuid] = slot.key
        LOG.info(
            'Asked Nova to unshelve server %(uuid)s of reservation %(key)s '
            'on host %(host)s',
            {'uuid': server.uuid, 'key': case.key, 'host': slot.host},
        )

    def _still_waits(self, server: nova_server.NovaServer) -> bool:
        """Return whether Nova has not begun to unshelve a server meanwhile.

        Another manager, or its owner, may have asked since it was listed.
        """
        found = self._cloud.find_server(server.uuid)
        return found is not None and waiting.is_offloaded(found)

    def _give_up(
        self,
        case: case_mod.Case,
        server: nova_server.NovaServer,
        slot: planned_server.PlannedServer,
        words: str,
    ) -> None:
        """Free the slot again, and say why."""
        reason = (
            f'server {server.uuid} could not be unshelved '
            f'{_name_host(slot.host)}and its place there is free again: '
            f'{words}'
        )[:_LONGEST]
        LOG.warning(
            'Reservation %(key)s: %(reason)s',
            {'key': case.key, 'reason': reason},
        )
        slots.free(
            self._database,
            case.key,
            slot,
            now=case.now,
            reason=reason,
            cause=Cause.UNSHELVED,
        )

    # A server that has none

    def _go_on(
        self,
        case: case_mod.Case,
        room: room_mod.Room,
        server: nova_server.NovaServer,
    ) -> bool:
        """Shelve a server, or give it a slot.

        :returns: whether it is on its way
        """
        match waiting.find_step(server, has_started=case.has_started):
            case waiting.Step.UNSHELVE:
                return self._wake(case, room, server)
            case waiting.Step.SHELVE:
                if self._adopt(case, room, server):
                    return False
                if not waiting.can_be_shelved(server):
                    return False
                if not self._places.has_one(case, room, server):
                    return False
                room.coming += 1
                return self._shelving.shelve(case, server)
        # One that its owner has stopped, say, keeps no place from others.
        is_busy = bool(server.task_state)
        room.coming += is_busy or waiting.is_offloaded(server)
        return is_busy

    def _wake(
        self,
        case: case_mod.Case,
        room: room_mod.Room,
        server: nova_server.NovaServer,
    ) -> bool:
        """Give a server a slot, and have it unshelved there."""
        failures = self._list_failures(case, server)
        next_at = waiting.find_next_try([one.changed_at for one in failures])
        if next_at is None or next_at > case.now:
            return False
        enabled = self._cloud.list_enabled()

        def rank(one: planned_server.PlannedServer) -> tuple[int, str]:
            # Another host may do where one has failed.
            words = _name_host(one.host)
            return sum(words in each.reason for each in failures), one.key

        def choose(
            free: Sequence[planned_server.PlannedServer],
        ) -> planned_server.PlannedServer | None:
            found = [
                one
                for one in free
                if enabled.get(one.host)
                and not self._cuts.find_maintenance(one, case.now)
            ]
            return min(found, key=rank, default=None)

        taken = self._take(case, room, server, choose)
        if taken is None:
            return False
        self._unshelve(case, server, taken)
        return True

    def _list_failures(
        self, case: case_mod.Case, server: nova_server.NovaServer
    ) -> list[states.Change]:
        """Return what the history says of a server that was not unshelved."""
        with self._database.transaction() as connection:
            changes = states.list_changes(connection, case.key)
        return [
            one
            for one in changes
            if one.cause in (Cause.UNSHELVED, Cause.FREED)
            and server.uuid in one.reason
        ]

    def _take(
        self,
        case: case_mod.Case,
        room: room_mod.Room,
        server: nova_server.NovaServer,
        choose: Callable[
            [Sequence[planned_server.PlannedServer]],
            planned_server.PlannedServer | None,
        ],
    ) -> planned_server.PlannedServer | None:
        """Let a server take one of the slots that it fits into.

        :param choose: called with those that are free now
        """
        demand = room_mod.find_demand(server, self._grammar)

        def choose_free(
            found: servers.PlannedServers,
        ) -> planned_server.PlannedServer | None:
            if any(one.consumer == server.uuid for one in found):
                return None  # Another manager was faster.
            return choose(
                [
                    one
                    for one in found
                    if one.consumer is None
                    and one.during.start <= case.now < one.during.end
                    and demand is not None
                    and waiting.fits(demand, one)
                ]
            )

        taken = slots.take(
            self._database, case.key, server.uuid, choose_free, now=case.now
        )
        if taken is not None:
            room.free.pop(taken.key, None)
        return taken

    def _adopt(
        self,
        case: case_mod.Case,
        room: room_mod.Room,
        server: nova_server.NovaServer,
    ) -> bool:
        """Give a server a slot of the host where it runs, if one is free.

        It has what it needs there, so that what is held for the slot is free
        for others.
        """
        if not (
            case.has_started
            and server.status == 'ACTIVE'
            and any(one.host == server.host for one in room.free.values())
        ):
            return False
        held = self._cloud.list_held(server.uuid)

        def choose(
            free: Sequence[planned_server.PlannedServer],
        ) -> planned_server.PlannedServer | None:
            found = [
                one
                for one in free
                if one.host == server.host
                and {place[0] for place in one.allocations} <= held
            ]
            return min(found, key=lambda one: one.key, default=None)

        taken = self._take(case, room, server, choose)
        if taken is None:
            return False
        LOG.info(
            'Server %(uuid)s has a place of reservation %(key)s on host '
            '%(host)s, where it runs',
            {'uuid': server.uuid, 'key': case.key, 'host': taken.host},
        )
        return True


def _order(server: nova_server.NovaServer) -> tuple[bool, int, str]:
    """Order what is on its way, or waits, before what runs."""
    is_running = server.status == 'ACTIVE' and not server.task_state
    return is_running, server.created_at, server.uuid


def _name_host(host: str) -> str:
    return f'on host {host}, '
