# SPDX-License-Identifier: Apache-2.0

"""A planner that follows the store: only what has changed is read.

A reservation whose servers have changed is taken out and booked anew. That is
the same however often it is done, so that rows may be newer than the revision
up to which they were asked for.
"""

import dataclasses
import heapq

import sqlalchemy as sa

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planner as planner_mod
from nova_ext_resources.reservation import request as request_mod
from nova_ext_resources.reservation import server as server_mod
from nova_ext_resources.reservation.store import reservations
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import shards


class Mirror:
    """Keeps a planner as the store is.

    :ivar planner: nobody else may book with it
    :ivar revisions: of all shards, up to which it was read
    :ivar held: reservation -> its servers that have not been dropped
    :ivar owners: server -> its reservation, of the same servers
    """

    def __init__(self, planner: planner_mod.Planner) -> None:
        self.planner = planner
        self._places = planner.fleet.calendar.places
        self.revisions: shards.Revisions = {}
        self.held: dict[str, servers.PlannedServers] = {}
        self.owners: dict[str, str] = {}
        #: What ended until then has been dropped.
        self._oldest = interval.ALWAYS
        #: Reservations of which all servers are with the planner.
        self._accepted: set[str] = set()
        #: (end, reservation), the first end at the front.
        self._ends: list[tuple[int, str]] = []

    def refresh(self, connection: sa.Connection, oldest: int) -> None:
        """Read what has changed, and drop what ended before a time.

        :param oldest: seconds since the epoch. If less than before, all is
            read anew
        """
        revisions, purged = shards.read_revisions(connection)
        if oldest < self._oldest or self._has_missed(purged):
            self._clear()
        self._oldest = oldest
        changed = self._list_changed(connection, revisions, oldest)
        if changed:
            requests = reservations.read_requests(connection, changed)
            found = servers.read_servers(connection, changed, oldest)
            for key in changed:
                self._drop(key)
                if key in found:
                    self._take(requests[key], found[key])
        self.revisions = revisions
        self._forget(oldest)

    def _has_missed(self, purged: shards.Revisions) -> bool:
        """Return whether rows are gone that were not read in time."""
        return any(
            self.revisions.get(number, one) < one
            for number, one in purged.items()
        )

    def _clear(self) -> None:
        """Drop all, so that all is read anew."""
        for key in [*self.held]:
            self._drop(key)
        self._ends.clear()
        self.revisions = {}

    def _list_changed(
        self,
        connection: sa.Connection,
        revisions: shards.Revisions,
        oldest: int,
    ) -> list[str]:
        if not self.revisions:
            return servers.list_unfinished(connection, oldest)
        seen = {
            number: self.revisions[number]
            for number, revision in revisions.items()
            if revision != self.revisions[number]
        }
        return servers.list_changed(connection, seen) if seen else []

    def _take(
        self, request: request_mod.Request, found: servers.PlannedServers
    ) -> None:
        key, fleet = request.key, self.planner.fleet
        known = tuple(self._leave_out(one) for one in found)
        if known == found:
            plan = planner_mod.Plan(during=found[0].during, servers=found)
            self.planner.accept(request, plan)
            self._accepted.add(key)
        else:
            for one in known:
                fleet.book(one)
        self._keep(key, found)

    def _keep(self, key: str, found: servers.PlannedServers) -> None:
        self.held[key] = found
        self.owners.update((one.key, key) for one in found)
        heapq.heappush(self._ends, (max(one.during.end for one in found), key))

    def accept(
        self,
        request: request_mod.Request,
        plan: planner_mod.Plan,
        raised: shards.Revisions,
    ) -> None:
        """Take a plan that was stored, without reading it.

        :param raised: revisions that were raised for it. They were as they
            had been read, so that nothing else has changed there
        """
        self.planner.accept(request, plan)
        self._accepted.add(request.key)
        self._keep(request.key, plan.servers)
        moved = {one.key: one for one in plan.moved}
        for key in {self.owners[one] for one in moved}:
            found = self.held[key]
            self.held[key] = tuple(moved.get(one.key, one) for one in found)
        self.revisions = {
            **self.revisions,
            **{number: one + 1 for number, one in raised.items()},
        }

    def _leave_out(
        self, server: server_mod.PlannedServer
    ) -> server_mod.PlannedServer:
        """Return a server without what the fleet does not have (any more).

        What is left is taken all the same. A reservation of which something
        is left out cannot be moved.
        """
        known = tuple(
            one
            for one in server.assignments
            if (one.rp_uuid, one.resource_class) in self._places
        )
        return dataclasses.replace(server, assignments=known)

    def _drop(self, key: str) -> None:
        found = self.held.pop(key, ())
        for one in found:
            del self.owners[one.key]
        if key in self._accepted:
            self._accepted.remove(key)
            self.planner.cancel(key)
            return
        for one in found:
            self.planner.fleet.release(one.key)

    def _forget(self, oldest: int) -> None:
        while self._ends and self._ends[0][0] <= oldest:
            _end, key = heapq.heappop(self._ends)
            if all(one.during.end <= oldest for one in self.held.get(key, ())):
                self._drop(key)
