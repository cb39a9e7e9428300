# SPDX-License-Identifier: Apache-2.0

"""Which reservations make way for a change of capacity, and where they go.

Pure. What still fits where it is stays there, the highest priority and the
largest first. What has not started is then placed anew, for the same time; the
rest keeps its place, and lacks something there.
"""

from collections.abc import Iterable, Mapping, Sequence
import contextlib
import dataclasses
from typing import TypeAlias

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import packing as packing_mod
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planner as planner_mod
from nova_ext_resources.reservation import room

#: Reservation -> its servers.
Held: TypeAlias = Mapping[str, packing_mod.PlannedServers]

#: Place -> its parts, each with how much is missing of what is booked.
Missing: TypeAlias = Mapping[
    host_view.Place, Sequence[tuple[interval.Interval, int]]
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What becomes of reservations that a change hurts.

    :ivar moved: those that fit elsewhere, with all their servers there
    :ivar degraded: those that have started or are about to, or fit nowhere
    """

    moved: Held = dataclasses.field(default_factory=dict)
    degraded: tuple[str, ...] = ()

    @property
    def hurt(self) -> tuple[str, ...]:
        """All of them, sorted."""
        return tuple(sorted([*self.moved, *self.degraded]))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Reservation:
    """One that may be hurt.

    :ivar request: None where it cannot be planned anew
    :ivar servers: as they are booked
    """

    key: str
    request: plan_request.Request | None
    servers: packing_mod.PlannedServers

    @property
    def weight(self) -> tuple[bool, int, int, str]:
        """What sorts those first that stay, by priority and by size."""
        if self.request is None:
            return False, 0, 0, self.key
        amounts = self.request.demand.largest.values()
        size = len(self.servers) * sum(amounts)
        return True, -self.request.priority, -size, self.key


def list_missing(
    fleet: fleets.Fleet, places: Iterable[host_view.Place], now: int
) -> Missing:
    """Return how much is missing when, of what is booked."""
    during = interval.Interval(now)
    return {
        place: [
            (part, max(used - capacity, 0))
            for part, capacity, used in fleet.calendar.list_steps(
                place, during
            )
        ]
        for place in places
    }


def find_way(
    planner: planner_mod.Planner,
    change: capacity_change.CapacityChange,
    before: Missing,
    held: Held,
    *,
    now: int,
    fixed: int,
) -> Way:
    """Return what becomes of what is booked, without changing anything.

    What was missing without the change is not laid to its charge.

    :param planner: its fleet has the new capacity
    :param before: what was missing with the former capacity
    :param held: reservations with the servers that they hold
    :param now: seconds since the epoch
    :param fixed: what starts until then is not moved
    """
    worse = _list_worse(before, list_missing(planner.fleet, before, now))
    found = [
        _make(planner, key, servers, fixed)
        for key, servers in held.items()
        if any(
            change.concerns(one)
            and any(one.during.overlaps(part) for part in worse)
            for one in servers
        )
    ]
    found.sort(key=lambda one: one.weight)
    return _place(planner, found) if found else Way()


def find_lost(
    change: capacity_change.CapacityChange, held: Held, now: int
) -> Way:
    """Return what a change may hurt whose host is not there to be asked.

    Nobody knows what is left of a host that is disabled: all that takes of
    what is less counts as hurt.
    """
    start = max(change.during.start, now)
    if change.during.end <= start:
        return Way()
    rest = interval.Interval(start, change.during.end)
    found = [
        key
        for key, servers in held.items()
        if any(
            change.concerns(one) and one.during.overlaps(rest)
            for one in servers
        )
    ]
    return Way(degraded=tuple(sorted(found)))


def _list_worse(before: Missing, after: Missing) -> list[interval.Interval]:
    """Return the times in which more is missing than before."""
    return [
        interval.Interval(
            max(part.start, former.start), min(part.end, former.end)
        )
        for place, parts in after.items()
        for part, missing in parts
        for former, known in before[place]
        if missing > known and part.overlaps(former)
    ]


def _make(
    planner: planner_mod.Planner,
    key: str,
    servers: packing_mod.PlannedServers,
    fixed: int,
) -> _Reservation:
    is_fixed = any(
        one.during.start <= fixed or one.consumer is not None
        for one in servers
    )
    bookings = planner.fleet.bookings
    return _Reservation(
        key=key,
        request=None if is_fixed else planner.find_request(key),
        servers=tuple(bookings[one.key] for one in servers),
    )


def _place(planner: planner_mod.Planner, found: Sequence[_Reservation]) -> Way:
    """Place reservations again, those first that come first."""
    fleet = planner.fleet
    moved, degraded = dict[str, packing_mod.PlannedServers](), list[str]()
    later = []
    keys = [server.key for one in found for server in one.servers]
    with contextlib.ExitStack() as stack:
        stack.enter_context(fleet.trying(without=keys))
        for one in found:
            is_kept = not room.find_blocked(
                fleet, one.servers, one.servers[0].during
            )
            if not is_kept and one.request is not None:
                later.append((one, one.request))
                continue
            if not is_kept:
                degraded.append(one.key)
            stack.enter_context(fleet.trying(adding=one.servers))
        for one, request in later:
            servers = _pack(planner, one, request)
            if servers:
                moved[one.key] = servers
            else:
                degraded.append(one.key)
            stack.enter_context(fleet.trying(adding=servers or one.servers))
    return Way(moved=moved, degraded=tuple(sorted(degraded)))


def _pack(
    planner: planner_mod.Planner,
    one: _Reservation,
    request: plan_request.Request,
) -> packing_mod.PlannedServers | None:
    """Return where all servers fit for the same time, None for nowhere."""
    number = len(one.servers)
    same = dataclasses.replace(request, least=number, most=number)
    packing = planner.pack(same, one.servers[0].during)
    return packing.servers if packing.is_enough else None
