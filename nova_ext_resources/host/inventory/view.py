# SPDX-License-Identifier: Apache-2.0

"""Makes a host's view and its tree of what was found and what is held.

Pure: called under the host's lock.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
import dataclasses

from nova_ext_resources.claims import base
from nova_ext_resources.claims import decide
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view

DEFAULT_TRACKER = 'count'


def make_view(
    found: Iterable[host_provider.HostProvider],
    *,
    uuids: Mapping[str, str],
    trackers: Mapping[str, base.Tracker],
    settled: Iterable[assignment.Assignment],
    resource_classes: frozenset[str],
    constraints: host_constraints.Constraints = host_constraints.NONE,
) -> host_view.HostView:
    """Make the view in which no server of this host holds anything.

    :param uuids: key of a provider -> its uuid
    :param settled: what was applied during the whole discovery, so that
        the host's own figures contain it
    :raises InvalidResource: a plugin reports what its tracker cannot track
    """
    applied = _by_place(settled)
    tracked = {
        (uuids[one.key], resource_class): _make_tracked(
            one, resource_class, uuids, trackers, applied
        )
        for one in found
        for resource_class in one.inventories
    }
    return host_view.HostView(
        tracked=tracked,
        keys={uuids[one.key]: one.key for one in found},
        resource_classes=resource_classes,
        constraints=constraints,
    )


def book(
    view: host_view.HostView,
    entries: Iterable[assignment.Entry],
    trackers: Mapping[str, base.Tracker],
    *,
    places: Container[decide.Place] | None = None,
) -> host_view.HostView:
    """Count what servers hold, on a view where they hold nothing.

    Two servers may have the same units for a while: the host has lost what
    was applied for one, and an enforcer that chooses units itself gave them
    to the other. Then any free units count as taken for one of the two, so
    that no unit is allocated that one of them still needs.

    Units that their tracker does not understand are not counted; the audit
    reports them.

    :param entries: the most certain first; claims come last in any case
    :param places: only these; None for all
    """
    clashes = []
    for one in _list_by_certainty(entries):
        place = one.rp_uuid, one.resource_class
        tracked = view.tracked.get(place)
        if tracked is None or not (places is None or place in places):
            continue
        tracker = trackers[tracked.tracker]
        if not tracker.can_parse(one.units):
            continue
        state = _take_own(tracker, tracked.state, one)
        if state is None:
            clashes.append(one)
        else:
            view = view.with_state(place, state)
    for one in clashes:
        place = one.rp_uuid, one.resource_class
        tracked = view.tracked[place]
        tracker = trackers[tracked.tracker]
        has_room = tracker.fits(tracked.state, one.amount)
        state, _ = tracker.allocate(
            tracked.state, one.amount, None if has_room else one.units
        )
        view = view.with_state(place, state)
    return view


def keep(
    view: host_view.HostView,
    former: assignment.Entry,
    entries: Mapping[str, assignment.Entry],
    trackers: Mapping[str, base.Tracker],
    places: Container[decide.Place] | None,
) -> host_view.HostView:
    """Count what a consumer has had, beside what it has claimed since.

    :param entries: what is counted already
    :param places: only these; None for all
    """
    new = entries.get(former.consumer_uuid)
    for one in former.assignments:
        place = one.rp_uuid, one.resource_class
        tracked = view.tracked.get(place)
        if tracked is None or not (places is None or place in places):
            continue
        tracker, state = trackers[tracked.tracker], tracked.state
        if not tracker.can_parse(one.units):
            continue
        taken, _ = tracker.allocate(state, one.amount, one.units)
        again, _ = tracker.allocate(taken, one.amount, one.units)
        if again.used > taken.used:
            # Of units that are alike, it would have both.
            assignments = _by_place(list_assignments([new] if new else []))
            has = sum(each.amount for each in assignments.get(place, ()))
            more = max(one.amount - has, 0)
            taken, _ = tracker.allocate(state, more, one.units)
        view = view.with_state(place, taken)
    return view


def _take_own(
    tracker: base.Tracker,
    state: host_view.TrackerState,
    one: assignment.Assignment,
) -> host_view.TrackerState | None:
    """Return the state with these units taken; None where others have any."""
    taken, _ = tracker.allocate(state, one.amount, one.units)
    return taken if taken.used - state.used >= one.amount else None


def list_unrecorded(
    amounts: host_view.Amounts, entry: assignment.Entry | None
) -> Iterator[tuple[decide.Place, int]]:
    """Yield what is allocated to a consumer beyond its entry."""
    recorded = _by_place(
        one
        for one in list_assignments([entry] if entry else [])
        if one.is_allocated
    )
    for rp_uuid, own in amounts.items():
        for name, amount in own.items():
            known = recorded.get((rp_uuid, name), ())
            more = amount - sum(one.amount for one in known)
            if more > 0:
                yield (rp_uuid, name), more


def count(
    view: host_view.HostView,
    amounts: Iterable[tuple[decide.Place, int]],
    trackers: Mapping[str, base.Tracker],
) -> host_view.HostView:
    """Count units as taken of which only the number is known.

    In several pieces where one server could not get so many.
    """
    for place, amount in amounts:
        left = amount if place in view.tracked else 0
        while left:
            tracked = view.tracked[place]
            tracker, state = trackers[tracked.tracker], tracked.state
            sizes = range(min(left, state.available), 0, -1)
            size = next((n for n in sizes if tracker.fits(state, n)), 0)
            if not size:
                break
            view = view.with_state(place, tracker.allocate(state, size)[0])
            left -= size
    return view


def _list_by_certainty(
    entries: Iterable[assignment.Entry],
) -> list[assignment.Assignment]:
    ordered = sorted(
        entries, key=lambda one: one.state is assignment.State.CLAIMED
    )
    return list_assignments(ordered)


def list_assignments(
    entries: Iterable[assignment.Entry],
) -> list[assignment.Assignment]:
    """Return what all of these servers hold."""
    return [one for entry in entries for one in entry.assignments]


def make_providers(
    found: Iterable[host_provider.HostProvider],
    view: host_view.HostView,
    *,
    node: host_provider.Node,
    assignments: Iterable[assignment.Assignment],
) -> tuple[host_provider.Provider, ...]:
    """Make the tree that placement shall see below the compute node.

    What servers hold without an allocation is reserved, so that
    placement's count stays true whoever uses the host.
    """
    unallocated = _by_place(one for one in assignments if not one.is_allocated)
    return tuple(
        one.make_wanted(
            node,
            {
                name: _reserve(view, one.make_rp_uuid(node), name, unallocated)
                for name in one.inventories
            },
        )
        for one in found
    )


def _make_tracked(
    one: host_provider.HostProvider,
    resource_class: str,
    uuids: Mapping[str, str],
    trackers: Mapping[str, base.Tracker],
    applied: Mapping[decide.Place, list[assignment.Assignment]],
) -> host_view.Tracked:
    name = one.trackers.get(resource_class, DEFAULT_TRACKER)
    tracker = trackers[name]
    units = one.units.get(resource_class, {})
    inventory = one.inventories[resource_class]
    assignments = [
        other
        for other in applied.get((uuids[one.key], resource_class), ())
        if tracker.can_parse(other.units)
    ]
    inventory = tracker.observe(inventory, units, assignments)
    state = tracker.initial(inventory, units)
    for other in assignments:
        # It looked taken; now it is among what can be allocated.
        state, _ = tracker.allocate(state, other.amount, other.units)
        state = tracker.free(state, other.amount, other.units)
    implied = one.implied.get(resource_class)
    has_implied = implied is not None and one.parent_key is not None
    return host_view.Tracked(
        tracker=name,
        state=state,
        inventory=inventory,
        implied=(
            (uuids[str(one.parent_key)], str(implied)) if has_implied else None
        ),
        cpus=one.cpus if tracker.IS_CPU_LOCAL else None,
        follows_tasks=one.follows_tasks,
        near=one.cpus if tracker.CAN_BE_NEAR else None,
        alike=one.traits if tracker.CAN_BE_NEAR else None,
        reserved=one.reserved.get(resource_class),
    )


def _reserve(
    view: host_view.HostView,
    rp_uuid: str,
    resource_class: str,
    unallocated: Mapping[decide.Place, list[assignment.Assignment]],
) -> class_inventory.Inventory:
    place = rp_uuid, resource_class
    inventory = view.tracked[place].inventory
    assert inventory is not None, 'a view of the host itself has them all'
    extra = sum(one.amount for one in unallocated.get(place, ()))
    reserved = min(inventory.reserved + extra, inventory.total)
    return dataclasses.replace(inventory, reserved=reserved)


def _by_place(
    assignments: Iterable[assignment.Assignment],
) -> dict[decide.Place, list[assignment.Assignment]]:
    places: dict[decide.Place, list[assignment.Assignment]] = {}
    for one in assignments:
        place = one.rp_uuid, one.resource_class
        places.setdefault(place, []).append(one)
    return places
