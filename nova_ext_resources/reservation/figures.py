# SPDX-License-Identifier: Apache-2.0

"""How much is promised, taken and lent now, for those who watch a cloud."""

import collections
from collections.abc import Iterable, Mapping
import dataclasses
from typing import TypeAlias

from nova_ext_resources.reservation import amounts
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import state as state_mod

#: The state of a reservation by the clock, and its slots.
Held: TypeAlias = tuple[
    state_mod.State, Iterable[planned_server.PlannedServer]
]

_Counter: TypeAlias = collections.Counter[amounts.Kind]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One resource class in one zone.

    :ivar total: what the inventories allow
    :ivar used: what servers without a slot hold
    :ivar promised: what is reserved now
    :ivar taken: how much of that is of slots that servers have taken
    :ivar available: what is left
    :ivar lent: what is promised for some time from now on, and not free:
        whoever holds it must go before
    :ivar degraded: of slots of reservations that are degraded, now or later
    """

    total: int
    used: int
    promised: int
    taken: int = 0
    available: int
    lent: int = 0
    degraded: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What there is of all reservations.

    :ivar measured_at: seconds since the epoch
    :ivar kinds: zone and resource class -> its amounts
    :ivar reservations: state -> how many, of those that are not over
    :ivar taken: how many slots have been taken, of those that can be
    :ivar free: how many have not
    """

    measured_at: int
    kinds: Mapping[amounts.Kind, Figure]
    reservations: Mapping[state_mod.State, int]
    taken: int
    free: int


def make_figures(
    fleet: fleets.Fleet, held: Iterable[Held], now: int
) -> Figures:
    """Add up what is held on some hosts.

    :param fleet: with all that is booked
    :param held: all that is not over
    :param now: seconds since the epoch
    """
    zones = {name: one.zone for name, one in fleet.hosts.items()}
    taken, degraded = _Counter(), _Counter()
    states = {one: 0 for one in state_mod.State if not one.is_final}
    slots = collections.Counter[bool]()
    for state, servers in held:
        states[state] += 1
        for one in servers:
            zone = zones.get(one.host, '')
            if state is state_mod.State.DEGRADED:
                _add(degraded, zone, one)
            if one.during.start <= now < one.during.end:
                slots[one.consumer is not None] += 1
                if one.consumer is not None:
                    _add(taken, zone, one)
    lent = _count_lent(fleet, now)
    kinds = {
        kind: Figure(
            total=one.total,
            used=one.used,
            promised=one.reserved,
            available=one.available,
            taken=taken[kind],
            degraded=degraded[kind],
            lent=lent[kind],
        )
        for one in amounts.list_amounts(fleet, interval.Interval(now, now + 1))
        for kind in [(one.zone, one.resource_class)]
    }
    return Figures(
        measured_at=now,
        kinds=kinds,
        reservations=states,
        taken=slots[True],
        free=slots[False],
    )


def _add(
    counter: _Counter, zone: str, slot: planned_server.PlannedServer
) -> None:
    for (_rp_uuid, resource_class), amount in slot.places.items():
        counter[zone, resource_class] += amount


def _count_lent(fleet: fleets.Fleet, now: int) -> _Counter:
    """Return how much is short of what is promised from now on."""
    found = _Counter()
    places = {
        (host.zone, place)
        for host in fleet.hosts.values()
        for place in host.view.tracked
    }
    for zone, place in places:
        steps = fleet.calendar.list_steps(place, interval.Interval(now))
        short = max(booked - free for _part, free, booked in steps)
        found[zone, place[1]] += max(short, 0)
    return found
