# SPDX-License-Identifier: Apache-2.0

"""Which hosts serve a request and when; or what could be had instead.

A server fits on a host in an interval if ``claims.decide`` lets it in on the
view of all that is there at any second of it. So contiguous ways, classes of
service, L3 locality and every attribute mean what they mean at a boot, and the
plan names the units.

Hosts are tried in their order and filled one after another, so that others
stay whole for large servers. If that does not do, reservations that have not
started are moved, of the hosts where least is short: first each one by itself,
then all of one host, then all together. The request is placed first, and then
again what was in its way, the highest priority and the largest first. To
arrange all of them in the best way is bin packing over time, which is NP-hard,
so that the search is bounded. What runs is never moved.
"""

import bisect
import collections
from collections.abc import Collection, Iterator, Mapping
import contextlib
import dataclasses
import itertools

from nova_ext_resources.claims import base
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import packing as packing_mod
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import room
from nova_ext_resources.reservation import shortfalls as shortfalls_mod
from nova_ext_resources.reservation import starts

#: Starts at which the amounts would do that are tried in earnest.
MAX_STARTS = 32

#: Reservations of which it is tried to move them.
MAX_MOVED = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Servers that can be had.

    :ivar servers: one per server, ``least`` at least
    :ivar moved: servers of other reservations that have other units or
        another host for it, as they will be
    """

    during: interval.Interval
    servers: packing_mod.PlannedServers
    moved: packing_mod.PlannedServers = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request is refused, and what can be had instead.

    :ivar during: the interval that is refused, without any delay
    :ivar largest: as many servers as were found to fit in it; None if not
        even one does
    :ivar earliest: ``least`` servers as early as they were found to fit,
        however late; None if never
    :ivar shortfalls: host -> what is short there for one more server. Hosts
        of other zones are left out
    """

    during: interval.Interval
    largest: Plan | None
    earliest: Plan | None
    shortfalls: shortfalls_mod.Shortfalls


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Reservation:
    """A request that was accepted, and the keys of its servers."""

    request: plan_request.Request
    keys: tuple[str, ...]


class Planner:
    """Plans for one fleet.

    A plan holds as long as nothing else is booked: accept it, or ask again.

    :param tests: all claim tests that are installed, by name
    """

    def __init__(
        self, fleet: fleets.Fleet, tests: Mapping[str, base.ClaimTest]
    ) -> None:
        self.fleet = fleet
        self._tests = tests
        self._reservations: dict[str, _Reservation] = {}
        #: Key of a server -> its reservation.
        self._owners: dict[str, _Reservation] = {}

    def accept(self, request: plan_request.Request, plan: Plan) -> None:
        """Book a plan.

        It is not checked again: whoever plans for several requests at a time
        must see to it that nothing was booked since it was made.

        :raises ValueError: the reservation exists
        """
        self._check_new(request)
        for one in plan.moved:
            self.fleet.release(one.key)
        for one in (*plan.moved, *plan.servers):
            self.fleet.book(one)
        keys = tuple(one.key for one in plan.servers)
        reservation = _Reservation(request, keys)
        self._reservations[request.key] = reservation
        self._owners.update(dict.fromkeys(keys, reservation))

    def _check_new(self, request: plan_request.Request) -> None:
        if request.key in self._reservations:
            raise ValueError(
                f'reservation {request.key} exists; cancel it first'
            )

    def cancel(self, key: str) -> None:
        """Release all servers of a reservation.

        :raises KeyError: there is no such reservation
        """
        for one in self._reservations.pop(key).keys:
            self.fleet.release(one)
            del self._owners[one]

    def find_request(self, key: str) -> plan_request.Request | None:
        """Return the request of a reservation that can be planned anew."""
        known = self._reservations.get(key)
        return known.request if known else None

    def plan(
        self, request: plan_request.Request, now: int, *, lead: int = 0
    ) -> Plan | Refusal:
        """Plan a request, without changing anything.

        :param now: seconds since the epoch; what has started runs
        :param lead: what starts in so many seconds is not moved either
        :raises ValueError: it starts in the past, or the reservation exists
        """
        self._check_new(request)
        if request.during.start < now:
            raise ValueError(
                f'reservation {request.key} starts at '
                f'{interval.format_time(request.during.start)}, before now '
                f'({interval.format_time(now)})'
            )
        packing = self.pack(request, request.during, gives_up=False)
        if packing.is_enough:
            return Plan(during=request.during, servers=packing.servers)
        return (
            (request.delay and self._find_start(request, request.latest))
            or self._repack(request, packing, now + lead)
            or self._refuse(request, packing)
        )

    def replan(
        self,
        request: plan_request.Request,
        held: packing_mod.PlannedServers,
        now: int,
        *,
        lead: int = 0,
    ) -> Plan | Refusal:
        """Plan a reservation as if it were not there yet; change nothing.

        :param held: its servers, none of which has started
        :raises ValueError: it would start in the past
        """
        known = self._reservations.pop(request.key, None)
        try:
            with self.fleet.trying(without=[one.key for one in held]):
                return self.plan(request, now, lead=lead)
        finally:
            if known:
                self._reservations[request.key] = known

    def prolong(
        self,
        request: plan_request.Request,
        held: packing_mod.PlannedServers,
    ) -> Plan | Refusal:
        """Plan another end for servers that are not moved; change nothing.

        They keep their hosts and their units, because they have started, or
        will before all programs know of it. Where fewer are asked for, the
        last ones are left out, those that no server of Nova has taken first.

        :param request: with the start that the servers have
        :param held: its servers
        :raises ValueError: it asks for more servers than are held
        """
        number = min(request.most, len(held))
        if request.least > number:
            raise ValueError(
                f'reservation {request.key} has {len(held)} servers and has '
                'started or is about to start: it cannot grow to '
                f'{request.least} servers. Create another reservation for '
                'the additional servers'
            )
        kept = sorted(held, key=lambda one: one.consumer is None)[:number]
        servers = tuple(
            dataclasses.replace(one, during=request.during) for one in kept
        )
        before = min(one.during.end for one in kept)
        if before >= request.during.end:
            return Plan(during=request.during, servers=servers)
        gap = interval.Interval(before, request.during.end)
        short = self._find_short(servers, gap)
        if not short:
            return Plan(during=request.during, servers=servers)
        # If some of the first ones fit, so do fewer of them.
        fitting = bisect.bisect_left(
            range(1, number),
            True,
            key=lambda some: bool(self._find_short(servers[:some], gap)),
        )
        offer = Plan(during=request.during, servers=servers[:fitting])
        return Refusal(
            during=request.during,
            largest=offer if fitting else None,
            earliest=None,
            shortfalls=shortfalls_mod.Shortfalls((), short),
        )

    def _find_short(
        self, servers: packing_mod.PlannedServers, gap: interval.Interval
    ) -> Mapping[str, shortfalls_mod.Found]:
        """Return why servers cannot go on until the end of a gap.

        :param servers: with their new end
        """
        return room.find_blocked(
            self.fleet, servers, gap
        ) or room.find_refused(
            self.fleet,
            [
                dataclasses.replace(
                    self.fleet.bookings.get(one.key, one), during=one.during
                )
                for one in servers
            ],
        )

    def pack(
        self,
        request: plan_request.Request,
        during: interval.Interval,
        *,
        gives_up: bool = True,
    ) -> packing_mod.Packing:
        """Put a request on hosts, nothing being moved; change nothing.

        :param gives_up: see :class:`.packing.Packing`
        """
        return packing_mod.Packing(
            self.fleet, self._tests, request, during, gives_up=gives_up
        )

    def _find_start(
        self, request: plan_request.Request, latest: int
    ) -> Plan | None:
        """Return the earliest plan up to a start, nothing being moved."""
        hosts = packing_mod.list_hosts(self.fleet, request)
        names = {one.name for one in hosts}
        found = starts.list_starts(self.fleet, request, latest, names)
        for start in _thin_out(found):
            during = request.during.shift(start)
            packing = self.pack(request, during)
            if packing.is_enough:
                return Plan(during=during, servers=packing.servers)
        return None

    def _refuse(
        self, request: plan_request.Request, packing: packing_mod.Packing
    ) -> Refusal:
        during, found = request.during, packing.servers
        fewest = dataclasses.replace(request, most=request.least)
        return Refusal(
            during=during,
            largest=Plan(during=during, servers=found) if found else None,
            earliest=self._find_start(fewest, interval.FOREVER),
            shortfalls=packing.shortfalls,
        )

    def _repack(
        self,
        request: plan_request.Request,
        packing: packing_mod.Packing,
        fixed: int,
    ) -> Plan | None:
        """Plan without delay, with reservations moved that may be.

        What is moved may need the room of all servers beyond ``least``.

        :param fixed: what starts until then is not moved
        """
        fewest = dataclasses.replace(request, most=request.least)
        by_host = self._list_movable(request, packing, fixed)
        together = {one for ones in by_host for one in ones}
        sets = [frozenset([one]) for one in sorted(together, key=_weigh)]
        sets += [*map(frozenset, by_host), frozenset(together)]
        needed = request.least - len(packing.servers)
        for moved in dict.fromkeys(sets):
            if sum(_find_gain(one, request) for one in moved) >= needed:
                ordered = sorted(moved, key=_weigh)
                if plan := self._try_moving(fewest, ordered):
                    return plan
        return None

    def _list_movable(
        self,
        request: plan_request.Request,
        packing: packing_mod.Packing,
        fixed: int,
    ) -> list[list[_Reservation]]:
        """Return what may be moved, of the hosts where least is short."""
        by_host: list[list[_Reservation]] = []
        left = MAX_MOVED
        for name in packing.shortfalls.nearest:
            movable = [
                one
                for server in self.fleet.list_overlapping(name, request.during)
                if (one := self._owners.get(server.key))
                and server.during.start > fixed
                and one.request.priority <= request.priority
            ][:left]
            if movable:
                by_host.append(movable)
            left -= len(movable)
            if not left:
                break
        return by_host

    def _list_servers(
        self, reservation: _Reservation
    ) -> packing_mod.PlannedServers:
        bookings = self.fleet.bookings
        return tuple(bookings[key] for key in reservation.keys)

    def _try_moving(
        self, request: plan_request.Request, moved: Collection[_Reservation]
    ) -> Plan | None:
        """Place a request first, and then again what was in its way."""
        before = [
            server for one in moved for server in self._list_servers(one)
        ]
        with self.fleet.trying(without=[one.key for one in before]):
            packing = self.pack(request, request.during)
            if not packing.is_enough:
                return None
            after = self._place_again(packing.servers, moved, before)
        if after is None:
            return None
        return Plan(
            during=request.during,
            servers=packing.servers,
            moved=tuple(one for one in after if one not in before),
        )

    def _place_again(
        self,
        kept: packing_mod.PlannedServers,
        moved: Collection[_Reservation],
        before: Collection[planned_server.PlannedServer],
    ) -> list[planned_server.PlannedServer] | None:
        """Return where all that is moved fits beside a request, or None."""
        during = {one.key: one.during for one in before}
        after: list[planned_server.PlannedServer] = []
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.fleet.trying(adding=kept))
            for one in moved:
                number = len(one.keys)
                same = dataclasses.replace(
                    one.request, least=number, most=number
                )
                packing = self.pack(same, during[one.keys[0]])
                if not packing.is_enough:
                    return None
                stack.enter_context(self.fleet.trying(adding=packing.servers))
                after += packing.servers
        return after


def _find_gain(one: _Reservation, request: plan_request.Request) -> int:
    """Return the most servers that may fit once a reservation is moved.

    What is left on either side of it may make room for one more each.
    """
    asked, had = request.demand.largest, one.request.demand.requirement
    return len(one.keys) * max(
        amount // asked[name] + 2 if name in asked else 0
        for name, amount in had.resources.items()
    )


def _thin_out(found: Iterator[int]) -> Iterator[int]:
    """Return the first starts, and the last one.

    By then most has ended: if that does not do, nothing does.
    """
    yield from itertools.islice(found, MAX_STARTS)
    yield from collections.deque(found, maxlen=1)


def _weigh(one: _Reservation) -> tuple[int, int, str]:
    """Return what sorts by priority, then by size, the largest first."""
    amounts = one.request.demand.largest.values()
    return -one.request.priority, -sum(amounts), one.request.key
