# SPDX-License-Identifier: Apache-2.0

"""A host with the units that it has published, where placement agrees.

Pure. Placement knows amounts; which ways of a cache are free, and which CPUs,
only the host knows, and says some time later. So what it says is believed only
while each server has as much of everything there as placement shows. If not,
the amounts are all that is known.
"""

from collections.abc import Iterable, Iterator, Mapping
import dataclasses
from typing import TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects.documents import holders as holders_obj
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.reservation import host
from nova_ext_resources.reservation import publication

#: Place -> consumer -> how much of it placement has allocated to it.
Uses: TypeAlias = Mapping[host_view.Place, Mapping[str, int]]

#: Server -> the places of the slot that it has taken.
Taken: TypeAlias = Mapping[str, Mapping[host_view.Place, int]]

_Holders: TypeAlias = Mapping[str, holders_obj.Holder]
_Tracked: TypeAlias = Mapping[host_view.Place, host_view.Tracked]


def apply(
    counted: host.Host,
    published: publication.Publication,
    uses: Uses,
    taken: Taken,
    trackers: Mapping[str, base.Tracker],
) -> host.Host:
    """Return a host with its units, or as it is.

    :param counted: with amounts only, its root provider first
    :param taken: of slots that are not over yet
    :param trackers: all that are installed, by name
    """
    document = stats.decode(published.document)
    holders = holders_obj.decode(published.holders)
    if document is None or holders is None:
        return counted
    view = stats.make_view(document, trackers)
    tracked = {
        place: one
        for place, one in view.tracked.items()
        if host.can_join(one, trackers)
        and (place in counted.view.tracked or one.state.free or one.state.used)
    }
    if not all(
        _agrees(place, one, counted, uses.get(place, {}), holders)
        and _understands(place, trackers[one.tracker], holders)
        for place, one in tracked.items()
    ):
        return counted
    slots = _list_slots(counted, taken, holders)
    held = {
        consumer: _find_held(holders[consumer], slot, tracked)
        for consumer, slot in slots.items()
    }
    states = _give_back(tracked, held, holders, slots, trackers)
    return dataclasses.replace(
        counted,
        view=dataclasses.replace(
            counted.view,
            tracked={**counted.view.tracked, **_complete(states, counted)},
            # What a host cannot do now says nothing of a later time.
            constraints=dataclasses.replace(view.constraints, refused={}),
        ),
        cells=_find_cells(counted, published, uses, taken, holders),
        held=held,
    )


def _agrees(
    place: host_view.Place,
    tracked: host_view.Tracked,
    counted: host.Host,
    used: Mapping[str, int],
    holders: _Holders,
) -> bool:
    """Return whether placement shows what the host says of a place.

    Room that is held for planned servers is not known to the host.
    """
    capacity = _find_capacity(counted, place)
    real = planned_hold.leave_out(used)
    said = {
        consumer: amount
        for consumer, one in holders.items()
        if (amount := one.find_allocated(place))
    }
    in_all = sum(one.amount for one in _list_of(place, holders))
    return (
        capacity is not None
        and real == said
        and in_all == tracked.state.used
        and capacity - sum(real.values()) == tracked.state.free
    )


def _understands(
    place: host_view.Place, tracker: base.Tracker, holders: _Holders
) -> bool:
    """Return whether it is known which units of a place servers hold."""
    return all(
        tracker.can_parse(one.units) for one in _list_of(place, holders)
    )


def _list_of(
    place: host_view.Place, holders: _Holders
) -> Iterator[assignment.Assignment]:
    for one in holders.values():
        for each in one.assignments:
            if (each.rp_uuid, each.resource_class) == place:
                yield each


def _find_capacity(counted: host.Host, place: host_view.Place) -> int | None:
    tracked = counted.view.tracked.get(place)
    if tracked and isinstance(tracked.state, count.CountState):
        return tracked.state.capacity
    return None


def _list_slots(counted: host.Host, taken: Taken, holders: _Holders) -> Taken:
    """Return the slots on a host of servers that hold something there."""
    return {
        consumer: slot
        for consumer, slot in taken.items()
        if consumer in holders
        and not slot.keys().isdisjoint(counted.view.tracked)
    }


def _find_held(
    holder: holders_obj.Holder,
    slot: Mapping[host_view.Place, int],
    tracked: _Tracked,
) -> host.Held:
    """Return what a server has in place of what was planned for it.

    Units that are all alike only where it has just as many: of fewer, the
    whole slot stays promised. What it has beyond its slot is no part of it, so
    that it keeps all of that class for good.
    """
    planned = _add_up(slot.items())
    own = [
        one
        for one in holder.assignments
        if (one.rp_uuid, one.resource_class) in tracked
    ]
    has = _add_up(
        ((one.rp_uuid, one.resource_class), one.amount) for one in own
    )
    alike = {
        place[1]
        for place, one in tracked.items()
        if isinstance(one.state, count.CountState)
    }
    classes = {
        name
        for name, amount in has.items()
        if name in planned and (name not in alike or amount == planned[name])
    }
    return host.Held(
        classes=frozenset(classes),
        assignments=tuple(
            one
            for one in own
            if one.resource_class in classes
            and has[one.resource_class] <= planned[one.resource_class]
        ),
        cpus=holder.cpus,
    )


def _add_up(
    amounts: Iterable[tuple[host_view.Place, int]],
) -> dict[str, int]:
    found: dict[str, int] = {}
    for (_rp_uuid, name), amount in amounts:
        found[name] = found.get(name, 0) + amount
    return found


def _give_back(
    tracked: _Tracked,
    held: Mapping[str, host.Held],
    holders: _Holders,
    slots: Taken,
    trackers: Mapping[str, base.Tracker],
) -> _Tracked:
    """Return places without what servers hold of their slots."""
    given = [each for one in held.values() for each in one.assignments]
    for consumer, slot in slots.items():
        others = holders[consumer].assignments
        given += _list_counted(others, slot, held[consumer], tracked)
    states = {place: one.state for place, one in tracked.items()}
    for one in given:
        place = one.rp_uuid, one.resource_class
        tracker = trackers[tracked[place].tracker]
        states[place] = tracker.free(states[place], one.amount, one.units)
    return {
        place: dataclasses.replace(one, state=states[place])
        for place, one in tracked.items()
    }


def _list_counted(
    holding: Iterable[assignment.Assignment],
    slot: Mapping[host_view.Place, int],
    held: host.Held,
    tracked: _Tracked,
) -> list[assignment.Assignment]:
    """Return what a server has of places of its slot, as they were planned."""
    return [
        dataclasses.replace(one, amount=min(one.amount, slot[place]))
        for one in holding
        if (place := (one.rp_uuid, one.resource_class)) in slot
        and place in tracked
        and place[1] not in held.classes
    ]


def _complete(states: _Tracked, counted: host.Host) -> _Tracked:
    """Return places with the inventories that placement has."""
    known = counted.view.tracked
    return {
        place: dataclasses.replace(
            one, inventory=known[place].inventory if place in known else None
        )
        for place, one in states.items()
    }


def _find_cells(
    counted: host.Host,
    published: publication.Publication,
    uses: Uses,
    taken: Taken,
    holders: _Holders,
) -> tuple[frozenset[int], ...] | None:
    """Return the dedicated CPUs that no server outside of the bookings has.

    None where they do not agree with placement, or where it is not known
    which of them a server has that has taken a slot.
    """
    cells = publication.read_cells(published.cells)
    place = counted.providers[0].rp_uuid, 'PCPU'
    capacity = _find_capacity(counted, place)
    if cells is None or capacity is None:
        return None
    used = planned_hold.leave_out(uses.get(place, {}))
    free = sum(len(one.free) for one in cells)
    if free != capacity - sum(used.values()):
        return None
    back = frozenset[int]()
    for consumer in used:
        if place not in taken.get(consumer, {}):
            continue
        holder = holders.get(consumer)
        if holder is None or holder.cpus is None:
            return None
        back |= holder.cpus
    return tuple(one.free | (one.cpus & back) for one in cells)
