# SPDX-License-Identifier: Apache-2.0

"""The capacity of a fleet over time, as planned changes make it.

Pure. All that is planned is put together for each time in which nothing
changes, so that the order in which changes were made does not matter.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import itertools
from typing import TypeAlias

from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import forecast
from nova_ext_resources.reservation import interval

Changes: TypeAlias = capacity_change.Changes

#: When a place has so many units more, or less.
_Delta: TypeAlias = tuple[interval.Interval, int]


def apply(fleet: fleets.Fleet, changes: Changes, now: int) -> None:
    """Let a fleet have the capacity that is planned, and no other.

    Changes of hosts and providers that the fleet does not have are left out.

    :param changes: all of them
    :param now: seconds since the epoch
    """
    fleet.restore()
    for name, host in fleet.hosts.items():
        found = [one for one in changes if _is_of(one, name, host.view)]
        if found:
            _change(fleet, name, found, now)


def find_places(
    fleet: fleets.Fleet, change: capacity_change.CapacityChange
) -> frozenset[host_view.Place]:
    """Return the places whose capacity a change is about."""
    if change.is_of_host:
        if change.host not in fleet.hosts:
            return frozenset()
        return frozenset(
            place
            for place in fleet.hosts[change.host].view.tracked
            if place[0] not in fleet.shared
        )
    return frozenset(
        place for place in fleet.calendar.places if change.has(place)
    )


def find_tracked(
    fleet: fleets.Fleet, place: host_view.Place
) -> host_view.Tracked:
    """Return a place of any host, as it is now.

    :raises KeyError: no host has it
    """
    for one in fleet.hosts.values():
        if place in one.view.tracked:
            return one.view.tracked[place]
    raise KeyError(place)


def get_capacity(tracked: host_view.Tracked) -> int:
    """Return what placement shows of a place, whoever uses it."""
    return tracked.state.free + tracked.state.used


def can_count(tracked: host_view.Tracked) -> bool:
    """Return whether units of a place are all alike."""
    return isinstance(tracked.state, count.CountState)


def _is_of(
    change: capacity_change.CapacityChange, name: str, view: host_view.HostView
) -> bool:
    if change.is_of_host:
        return change.host == name
    return any(place[0] == change.rp_uuid for place in view.tracked)


def _change(
    fleet: fleets.Fleet, name: str, changes: Changes, now: int
) -> None:
    """Change one host, in each time in which nothing changes."""
    view = fleet.hosts[name].view
    deltas = {
        place: found
        for place, one in view.tracked.items()
        if (found := _list_deltas(changes, place, one, now))
    }
    gone = [one for one in changes if one.is_maintenance]
    whole = [one for one in gone if one.is_of_host]
    during = [one.during for one in gone]
    during += [one for found in deltas.values() for one, _delta in found]
    times = sorted({time for one in during for time in (one.start, one.end)})
    for start, end in itertools.pairwise(times):
        part = interval.Interval(start, end)
        missing = [
            one
            for one in gone
            if not one.is_of_host and one.during.overlaps(part)
        ]
        changed = _make_view(view, part, deltas, missing)
        if changed.tracked != view.tracked:
            fleet.change(name, changed, part)
        # Also then a sharing provider has what it was changed to.
        if any(one.during.overlaps(part) for one in whole):
            fleet.change(name, None, part)


def _list_deltas(
    changes: Changes,
    place: host_view.Place,
    tracked: host_view.Tracked,
    now: int,
) -> list[_Delta]:
    """Return how much more or less than now there is when."""
    own = [one for one in changes if one.amounts and one.has(place)]
    if not own:
        return []
    shown = get_capacity(tracked)
    found = forecast.make(own, place[1], shown, now).count()
    return [
        (part, capacity - shown)
        for part, capacity in found.list_steps(interval.Interval(now))
        if capacity != shown
    ]


def _make_view(
    view: host_view.HostView,
    part: interval.Interval,
    deltas: Mapping[host_view.Place, Iterable[_Delta]],
    missing: Changes,
) -> host_view.HostView:
    """Return what a host offers in a part, without what is missing then."""
    tracked = {}
    for place, one in view.tracked.items():
        if any(change.has(place) for change in missing):
            continue
        delta = sum(
            amount
            for during, amount in deltas.get(place, ())
            if during.overlaps(part)
        )
        if not delta:
            tracked[place] = one
        elif isinstance(one.state, count.CountState):
            capacity = max(one.state.capacity + delta, 0)
            state = dataclasses.replace(one.state, capacity=capacity)
            grown = one.inventory and _grow(one.inventory, delta)
            tracked[place] = dataclasses.replace(
                one, state=state, inventory=grown
            )
        elif delta > 0:
            # The host chooses which units there will be: none are promised.
            tracked[place] = one
    return dataclasses.replace(view, tracked=tracked)


def _grow(
    inventory: class_inventory.Inventory, delta: int
) -> class_inventory.Inventory:
    """Return an inventory of which one server can have all that it gets.

    Unless less was the most that one server can have.
    """
    units = max(int(delta / inventory.allocation_ratio), 0)
    total = min(inventory.total + units, class_inventory.MAX_INT)
    has_limit = inventory.max_unit < inventory.total
    return dataclasses.replace(
        inventory,
        total=total,
        max_unit=inventory.max_unit if has_limit else total,
    )
