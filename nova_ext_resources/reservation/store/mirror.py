# SPDX-License-Identifier: Apache-2.0

"""A planner that follows the store."""

from collections.abc import Iterator
import contextlib
import dataclasses

import sqlalchemy as sa

from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import planner as planner_mod
from nova_ext_resources.reservation.store import reader
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import shards
from nova_ext_resources.reservation.store import staying


class Mirror:
    """Keeps a planner as the store is.

    :param since: when its hosts were read; see :class:`.staying.Staying`
    :ivar planner: nobody else may book with it
    :ivar owners: server -> its reservation, of the servers that are held
    :ivar changes: planned changes of capacity
    """

    def __init__(
        self, planner: planner_mod.Planner, since: int | None = None
    ) -> None:
        self.planner = planner
        self.owners: dict[str, str] = {}
        self.changes: capacity_plan.Changes = ()
        #: Those that the fleet follows, and which of them had begun or ended.
        self._applied: tuple[object, ...] = ((), ())
        self._reader = reader.Reader(self)
        self._places = planner.fleet.calendar.places
        #: Reservations of which all servers are with the planner.
        self._accepted: set[str] = set()
        self._staying = staying.Staying(planner.fleet, since)

    @property
    def revisions(self) -> shards.Revisions:
        """Those of all shards, up to which it was read."""
        return self._reader.revisions

    @property
    def held(self) -> dict[str, servers.PlannedServers]:
        """Reservation -> its servers that have not been dropped."""
        return self._reader.held

    def refresh(self, connection: sa.Connection, oldest: int) -> None:
        """Do what :meth:`.reader.Reader.refresh` does."""
        self._reader.refresh(connection, oldest)

    def follow(self, changes: capacity_plan.Changes) -> None:
        """Note planned changes; see :meth:`foresee`."""
        self.changes = changes

    def foresee(self, now: int) -> None:
        """Let the fleet have the capacity that is planned, and what stays.

        :param now: seconds since the epoch: what has come by then, placement
            shows
        """
        passed = tuple(
            (one.during.start <= now, one.during.end <= now)
            for one in self.changes
        )
        is_new = self.planner.fleet.note_inventories()
        if is_new or self._applied != (self.changes, passed):
            capacity_plan.apply(self.planner.fleet, self.changes, now)
            self._applied = self.changes, passed
        self._staying.look(now)

    @contextlib.contextmanager
    def trying(
        self, changes: capacity_plan.Changes, now: int
    ) -> Iterator[None]:
        """Let the fleet have other changes within the context only."""
        try:
            capacity_plan.apply(self.planner.fleet, changes, now)
            yield
        finally:
            capacity_plan.apply(self.planner.fleet, self.changes, now)

    def take(
        self, request: plan_request.Request, found: servers.PlannedServers
    ) -> None:
        """Book what was read."""
        key, fleet = request.key, self.planner.fleet
        known = tuple(self._leave_out(one) for one in found)
        for one in found:
            self._staying.forget(one.key)
            if one.consumer and request.at_end is plan_request.AtEnd.KEEP:
                self._staying.expect(one.key, one.during.end)
        if known == found:
            plan = planner_mod.Plan(during=found[0].during, servers=found)
            self.planner.accept(request, plan)
            self._accepted.add(key)
        else:
            for one in known:
                fleet.book(one)
        self.owners.update((one.key, key) for one in found)

    def drop(self, key: str, found: servers.PlannedServers) -> None:
        """Release what was booked."""
        for one in found:
            del self.owners[one.key]
            self._staying.leave(one.key)
        if key in self._accepted:
            self._accepted.remove(key)
            self.planner.cancel(key)
            return
        for one in found:
            self.planner.fleet.release(one.key)

    def accept(
        self,
        request: plan_request.Request,
        plan: planner_mod.Plan,
        raised: shards.Revisions,
    ) -> None:
        """Take a plan that was stored, without reading it.

        :param raised: revisions that were raised for it. They were as they
            had been read, so that nothing else has changed there
        """
        self.planner.accept(request, plan)
        self._accepted.add(request.key)
        self.owners.update((one.key, request.key) for one in plan.servers)
        self._reader.keep(request.key, plan.servers)
        moved = {one.key: one for one in plan.moved}
        for key in {self.owners[one] for one in moved}:
            found = self.held[key]
            self.held[key] = tuple(moved.get(one.key, one) for one in found)
        self._reader.raise_revisions(raised)

    def _leave_out(
        self, server: planned_server.PlannedServer
    ) -> planned_server.PlannedServer:
        """Return a server without what the fleet does not have (any more).

        What is left is taken all the same. A reservation of which something
        is left out cannot be moved.
        """
        known = tuple(
            one
            for one in server.assignments
            if (one.rp_uuid, one.resource_class) in self._places
        )
        if len(known) == len(server.assignments):
            return server
        return dataclasses.replace(server, assignments=known)
