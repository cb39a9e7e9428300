# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""From what was found and what is held to the host's view and its tree.

Pure: called under the host's lock.
"""

from collections.abc import Collection, Container, Iterable, Mapping
import dataclasses
from typing import Any

from nova_ext_resources import alarms
from nova_ext_resources import claims
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.plugins import base

DEFAULT_TRACKER = 'count'


def make_view(
    found: Iterable[provider.HostProvider],
    *,
    node: provider.Node,
    trackers: Mapping[str, base.Tracker],
    settled: Iterable[assignment.Assignment],
    resource_classes: frozenset[str],
) -> view_obj.HostView:
    """Make the view in which no server of this host holds anything.

    :param settled: what was in force during the whole discovery, so that
        the host's own figures contain it
    :raises InvalidResource: a plugin reports what its tracker cannot track
    """
    uuids = {one.key: one.make_rp_uuid(node) for one in found}
    in_force = _by_place(settled)
    tracked = {
        (uuids[one.key], resource_class): _make_tracked(
            one, resource_class, uuids, trackers, in_force
        )
        for one in found
        for resource_class in one.inventories
    }
    return view_obj.HostView(
        tracked=tracked,
        keys={rp_uuid: key for key, rp_uuid in uuids.items()},
        resource_classes=resource_classes,
    )


def book(
    view: view_obj.HostView,
    entries: Mapping[str, assignment.Entry],
    trackers: Mapping[str, base.Tracker],
    *,
    first: str = '',
    places: Container[claims.Place] | None = None,
) -> tuple[view_obj.HostView, dict[str, assignment.Entry]]:
    """Book what servers hold already, on a view where they hold nothing.

    Units can be somebody's on paper and somebody else's in truth for a
    while: a host may give out other units than were claimed. Then the one
    whose units are more certain keeps them, and the other is booked
    elsewhere until its turn comes; otherwise fewer units would look taken
    than there are.

    What its tracker does not understand is not booked, see
    :func:`list_unbookable`.

    :param first: consumer uuid of the most certain entry
    :param places: only these; None for all
    :return: the view, and the entries as they are booked
    """
    ordered = sorted(
        entries.values(),
        key=lambda one: (
            one.consumer_uuid != first,
            one.state is assignment.State.CLAIMED,
        ),
    )
    clashes = []
    for entry in ordered:
        for one in _list_bookable(view, entry.assignments, trackers):
            place = one.rp_uuid, one.resource_class
            if places is not None and place not in places:
                continue
            state, is_clash = _hold(view.tracked[place], one, trackers)
            if is_clash:
                clashes.append((entry.consumer_uuid, one))
            else:
                view = view.with_state(place, state)
    booked = dict(entries)
    for consumer_uuid, one in clashes:
        view, units = _book_elsewhere(view, one, trackers)
        booked[consumer_uuid] = _exchange(booked[consumer_uuid], one, units)
    return view, booked


def rebook(
    view: view_obj.HostView,
    entries: Mapping[str, assignment.Entry],
    trackers: Mapping[str, base.Tracker],
    *,
    drop: Collection[str] = (),
    put: assignment.Entry | None = None,
) -> tuple[view_obj.HostView, dict[str, assignment.Entry]]:
    """Exchange what servers hold.

    :param entries: as they are booked in the view
    :param drop: consumer uuids of those that hold nothing any more
    :param put: an entry with what its server really has
    :return: the view, and the entries as they are booked
    """
    after = {u: one for u, one in entries.items() if u not in drop}
    changed = [entries[uuid] for uuid in drop if uuid in entries]
    first = ''
    if put is not None:
        first = put.consumer_uuid
        changed += [after.pop(first)] if first in after else []
    held = _list_bookable(view, list_held(changed), trackers)
    places = _by_place((*held, *(put.assignments if put else ())))
    quick = claims.give(view, held, trackers)
    if put is not None:
        after[first] = put
        quick = _hold_all(quick, put.assignments, trackers)
    booked = _by_place(
        _list_bookable(view, list_held(after.values()), trackers)
    )
    if all(_is_exact(quick, place, booked) for place in places):
        return quick, after
    everything = _list_bookable(view, list_held(entries.values()), trackers)
    view = claims.give(
        view,
        (
            one
            for one in everything
            if (one.rp_uuid, one.resource_class) in places
        ),
        trackers,
    )
    return book(view, after, trackers, first=first, places=places)


def _hold_all(
    view: view_obj.HostView,
    held: Iterable[assignment.Assignment],
    trackers: Mapping[str, base.Tracker],
) -> view_obj.HostView:
    for one in _list_bookable(view, held, trackers):
        place = one.rp_uuid, one.resource_class
        state, _ = _hold(view.tracked[place], one, trackers)
        view = view.with_state(place, state)
    return view


def list_unbookable(
    view: view_obj.HostView,
    entries: Iterable[assignment.Entry],
    trackers: Mapping[str, base.Tracker],
) -> list[alarms.Problem]:
    """Report what servers hold in units of another tracker.

    A resource whose type has been changed leaves them behind.
    """
    problems = []
    for entry in entries:
        for one in entry.assignments:
            tracked = view.tracked.get((one.rp_uuid, one.resource_class))
            if tracked and not _can_book(
                trackers[tracked.tracker], tracked.state, one
            ):
                problems.append(
                    alarms.Problem(
                        alarm=alarms.UNBOOKABLE_UNITS,
                        subject=entry.consumer_uuid,
                        text=_tell_unbookable(entry, one, tracked.tracker),
                    )
                )
    return problems


def _tell_unbookable(
    entry: assignment.Entry, one: assignment.Assignment, tracker: str
) -> str:
    return (
        f'server {entry.consumer_uuid} holds {one.amount} '
        f'{one.resource_class} of {one.rp_key} in units that tracker '
        f'{tracker} does not understand ({dict(one.units)}); they are not '
        'counted. Give the resource its former type again, or delete or '
        'move the server'
    )


def list_held(
    entries: Iterable[assignment.Entry],
) -> list[assignment.Assignment]:
    """Give what all of these servers hold."""
    return [one for entry in entries for one in entry.assignments]


def _list_bookable(
    view: view_obj.HostView,
    held: Iterable[assignment.Assignment],
    trackers: Mapping[str, base.Tracker],
) -> list[assignment.Assignment]:
    """Leave out those of providers that are gone, or of other units."""
    return [
        one
        for one in held
        if (tracked := view.tracked.get((one.rp_uuid, one.resource_class)))
        and _can_book(trackers[tracked.tracker], tracked.state, one)
    ]


def _can_book(
    tracker: base.Tracker, state: view_obj.State, one: assignment.Assignment
) -> bool:
    """Tell whether a tracker understands the units of the ledger."""
    try:
        tracker.take(state, one.amount, one.units)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False
    return True


def _is_exact(
    view: view_obj.HostView,
    place: claims.Place,
    booked: Mapping[claims.Place, list[assignment.Assignment]],
) -> bool:
    """Tell whether nobody shares units on paper: then all add up."""
    if place not in view.tracked:
        return True
    amount = sum(one.amount for one in booked.get(place, ()))
    return view.tracked[place].state.used == amount


def _hold(
    tracked: view_obj.Tracked,
    one: assignment.Assignment,
    trackers: Mapping[str, base.Tracker],
) -> tuple[view_obj.State, bool]:
    """Take given units; tell whether some of them were taken before."""
    tracker = trackers[tracked.tracker]
    state, _ = tracker.take(tracked.state, one.amount, one.units)
    return state, state.used - tracked.state.used < one.amount


def _book_elsewhere(
    view: view_obj.HostView,
    one: assignment.Assignment,
    trackers: Mapping[str, base.Tracker],
) -> tuple[view_obj.HostView, Mapping[str, Any]]:
    """Book any units that are free; where there are none, its own."""
    place = one.rp_uuid, one.resource_class
    tracked = view.tracked[place]
    tracker = trackers[tracked.tracker]
    has_room = tracker.fits(tracked.state, one.amount)
    state, units = tracker.take(
        tracked.state, one.amount, None if has_room else one.units
    )
    return view.with_state(place, state), units


def _exchange(
    entry: assignment.Entry,
    one: assignment.Assignment,
    units: Mapping[str, Any],
) -> assignment.Entry:
    return dataclasses.replace(
        entry,
        assignments=tuple(
            dataclasses.replace(other, units={**other.units, **units})
            if other is one
            else other
            for other in entry.assignments
        ),
    )


def make_providers(
    found: Iterable[provider.HostProvider],
    view: view_obj.HostView,
    *,
    node: provider.Node,
    held: Iterable[assignment.Assignment],
) -> tuple[provider.Provider, ...]:
    """Make the tree that placement shall see below the compute node.

    What servers hold without an allocation is reserved, so that
    placement's count stays true whoever uses the host.
    """
    unallocated = _by_place(one for one in held if not one.is_allocated)
    return tuple(
        provider.Provider(
            rp_uuid=one.make_rp_uuid(node),
            name=f'{node.hypervisor_hostname}_{one.key}',
            parent_uuid=(
                node.uuid
                if one.parent_key is None
                else provider.make_rp_uuid(node.uuid, one.parent_key)
            ),
            inventories={
                name: _reserve(view, one.make_rp_uuid(node), name, unallocated)
                for name in one.inventories
            },
            traits=one.traits | {provider.OWNER_TRAIT},
        )
        for one in found
    )


def _make_tracked(
    one: provider.HostProvider,
    resource_class: str,
    uuids: Mapping[str, str],
    trackers: Mapping[str, base.Tracker],
    in_force: Mapping[claims.Place, list[assignment.Assignment]],
) -> view_obj.Tracked:
    name = one.trackers.get(resource_class, DEFAULT_TRACKER)
    tracker = trackers[name]
    units = one.units.get(resource_class, {})
    inventory = one.inventories[resource_class]
    nothing = tracker.initial(tracker.observe(inventory, units, ()), units)
    held = [
        other
        for other in in_force.get((uuids[one.key], resource_class), [])
        if _can_book(tracker, nothing, other)
    ]
    inventory = tracker.observe(inventory, units, held)
    implied = one.implied.get(resource_class)
    has_implied = implied is not None and one.parent_key is not None
    return view_obj.Tracked(
        tracker=name,
        state=tracker.initial(inventory, units),
        inventory=inventory,
        implied=(
            (uuids[str(one.parent_key)], str(implied)) if has_implied else None
        ),
        cpus=one.cpus if tracker.IS_CPU_LOCAL else None,
        follows_tasks=one.follows_tasks,
    )


def _reserve(
    view: view_obj.HostView,
    rp_uuid: str,
    resource_class: str,
    unallocated: Mapping[claims.Place, list[assignment.Assignment]],
) -> inventory_obj.Inventory:
    place = rp_uuid, resource_class
    inventory = view.tracked[place].inventory
    assert inventory is not None, 'a view of the host itself has them all'
    extra = sum(one.amount for one in unallocated.get(place, ()))
    reserved = min(inventory.reserved + extra, inventory.total)
    return dataclasses.replace(inventory, reserved=reserved)


def _by_place(
    held: Iterable[assignment.Assignment],
) -> dict[claims.Place, list[assignment.Assignment]]:
    places: dict[claims.Place, list[assignment.Assignment]] = {}
    for one in held:
        place = one.rp_uuid, one.resource_class
        places.setdefault(place, []).append(one)
    return places
