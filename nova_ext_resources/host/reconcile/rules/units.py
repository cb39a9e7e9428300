# SPDX-License-Identifier: Apache-2.0

"""Finds units in the ledger that cannot be as they are recorded. Pure.

A resource has changed while servers held it, or two of them got the same
units. Nothing of it is repaired here: which server is to lose is decided by
an operator, or by the enforcer that applies the units anew.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_view

#: A consumer and what it holds.
_Holding: TypeAlias = tuple[str, assignment.Assignment]


def name_place(rp_key: str, resource_class: str) -> str:
    """Return the subject of an alarm about a resource of a provider."""
    return f'{rp_key} {resource_class}'


def list_uncounted(
    view: host_view.HostView,
    entries: Iterable[assignment.Entry],
    trackers: Mapping[str, base.Tracker],
) -> list[alarm.Problem]:
    """Report what servers hold in units of another tracker.

    A resource whose type was changed leaves them behind.
    """
    return [
        alarm.Problem(
            alarm=alarm.UNREADABLE_UNITS,
            subject=entry.consumer_uuid,
            text=f'server {entry.consumer_uuid} holds {one.amount} '
            f'{one.resource_class} of {one.rp_key} in units that tracker '
            f'{tracked.tracker} cannot read ({dict(one.units)}), so these '
            'units are not counted. Restore the former type of the resource, '
            'or delete or move the server',
        )
        for entry in entries
        for one in entry.assignments
        if (tracked := view.tracked.get((one.rp_uuid, one.resource_class)))
        and not trackers[tracked.tracker].can_parse(one.units)
    ]


def list_overallocated(
    view: host_view.HostView, entries: Iterable[assignment.Entry]
) -> list[alarm.Problem]:
    """Report of what servers hold more than the host can allocate.

    A total became smaller, or more of it is reserved, while servers hold it.
    Where all of it is reserved, servers may hold up to the total: it is
    closed to others on purpose.

    :param entries: those that the view's own figures contain
    """
    holders: dict[host_view.Place, dict[str, int]] = {}
    for entry in entries:
        for one in entry.assignments:
            amounts = holders.setdefault((one.rp_uuid, one.resource_class), {})
            amounts[entry.consumer_uuid] = one.amount
    return [
        _explain_overallocated(view.keys[place[0]], place[1], amounts, most)
        for place, amounts in sorted(holders.items())
        if (tracked := view.tracked.get(place)) and tracked.inventory
        if (most := _find_most(tracked.inventory)) < sum(amounts.values())
    ]


def _find_most(inventory: class_inventory.Inventory) -> int:
    is_closed = inventory.reserved == inventory.total
    return inventory.total if is_closed else inventory.capacity


def _explain_overallocated(
    rp_key: str, resource_class: str, amounts: Mapping[str, int], most: int
) -> alarm.Problem:
    holders = ', '.join(
        f'{uuid} {amount}' for uuid, amount in sorted(amounts.items())
    )
    return alarm.Problem(
        alarm=alarm.OVERALLOCATED,
        subject=name_place(rp_key, resource_class),
        text=f'servers hold {sum(amounts.values())} {resource_class} of '
        f'{rp_key}, but the host can allocate only {most} ({holders}). These '
        'servers keep their units, and no other server gets any. Correct the '
        'configured amount, or restore the failed part; otherwise delete or '
        'move servers',
    )


def list_lost(
    view: host_view.HostView,
    entries: Iterable[assignment.Entry],
    trackers: Mapping[str, base.Tracker],
    is_complete: bool = True,
) -> list[alarm.Problem]:
    """Report servers that hold units which the host no longer has.

    Only units with names can be missed one by one. What is being released
    counts no longer.

    :param is_complete: whether the view has all that the host has
    """
    return [
        _explain_lost(entry.consumer_uuid, lost)
        for entry in entries
        if entry.state is not assignment.State.RELEASING
        and (
            lost := [
                f'{name} of {one.rp_key}'
                for one in entry.assignments
                for name in _list_lost(view, one, trackers, is_complete)
            ]
        )
    ]


def _list_lost(
    view: host_view.HostView,
    one: assignment.Assignment,
    trackers: Mapping[str, base.Tracker],
    is_complete: bool,
) -> list[str]:
    tracked = view.tracked.get((one.rp_uuid, one.resource_class))
    if tracked is None:
        names = sorted(list_names(one.units, trackers))
        whole = names or [f'{one.amount} {one.resource_class}']
        return whole if is_complete else []
    tracker = trackers[tracked.tracker]
    if not tracker.can_parse(one.units):
        return []
    return sorted(tracker.find_lost(tracked.state, one.units))


def list_names(
    units: Mapping[str, Any], trackers: Mapping[str, base.Tracker]
) -> Set[str]:
    """Return the names of units whose tracker may not be known any more."""
    return {
        name
        for one in trackers.values()
        if one.can_parse(units)
        for name in one.list_names(units)
    }


def _explain_lost(uuid: str, lost: Iterable[str]) -> alarm.Problem:
    return alarm.Problem(
        alarm=alarm.UNIT_LOST,
        subject=uuid,
        text=f'server {uuid} holds {", ".join(lost)}, but the device vanished '
        'from this host, or plugins report it under another resource class or '
        'not at all. The server keeps the device, and no other server gets '
        'it. Correct the options if they were changed. Otherwise delete the '
        'server, or shelve and unshelve it, so that it gets another device',
    )


def list_overlaps(
    empty: host_view.HostView,
    entries: Iterable[assignment.Entry],
    trackers: Mapping[str, base.Tracker],
) -> list[alarm.Problem]:
    """Report units that several servers hold, each of them alone.

    What is being released counts no longer.

    :param empty: the view in which no server holds anything
    """
    holdings: dict[host_view.Place, list[_Holding]] = {}
    for entry in entries:
        for one in entry.assignments:
            place = one.rp_uuid, one.resource_class
            tracked = empty.tracked.get(place)
            if (
                tracked is not None
                and entry.state is not assignment.State.RELEASING
                and trackers[tracked.tracker].can_parse(one.units)
            ):
                holdings.setdefault(place, []).append(
                    (entry.consumer_uuid, one)
                )
    return [
        found
        for place, ours in holdings.items()
        for found in _list_overlaps_at(empty.tracked[place], ours, trackers)
    ]


def _list_overlaps_at(
    tracked: host_view.Tracked,
    holdings: list[_Holding],
    trackers: Mapping[str, base.Tracker],
) -> Iterator[alarm.Problem]:
    """Report those for which too little is left by the ones before."""
    tracker, state = trackers[tracked.tracker], tracked.state
    for index, (uuid, one) in enumerate(holdings):
        grown = _take(tracker, state, one)
        if _count(tracker, tracked.state, [one]) > grown.used - state.used:
            others = [
                (other, theirs)
                for other, theirs in holdings[:index]
                if _is_common(tracker, tracked.state, one, theirs)
            ]
            yield _make_overlap(uuid, one, others)
        state = grown


def _take(
    tracker: base.Tracker,
    state: host_view.TrackerState,
    one: assignment.Assignment,
) -> host_view.TrackerState:
    return tracker.allocate(state, one.amount, one.units)[0]


def _count(
    tracker: base.Tracker,
    empty: host_view.TrackerState,
    holdings: Iterable[assignment.Assignment],
) -> int:
    """Return how many units these have together."""
    state = empty
    for one in holdings:
        state = _take(tracker, state, one)
    return state.used - empty.used


def _is_common(
    tracker: base.Tracker,
    empty: host_view.TrackerState,
    one: assignment.Assignment,
    other: assignment.Assignment,
) -> bool:
    apart = sum(_count(tracker, empty, [each]) for each in (one, other))
    return _count(tracker, empty, [one, other]) < apart


def _make_overlap(
    uuid: str, one: assignment.Assignment, others: Iterable[_Holding]
) -> alarm.Problem:
    named = ' and '.join(
        f'server {other} ({_describe_units(theirs)})'
        for other, theirs in others
    )
    return alarm.Problem(
        alarm=alarm.UNITS_HELD_TWICE,
        subject=uuid,
        text=f'server {uuid} ({_describe_units(one)}) shares units of '
        f'{one.resource_class} of {one.rp_key} with {named}, although no two '
        'servers should have the same units; shelve and unshelve one of these '
        'servers, or move it to another host',
    )


def _describe_units(one: assignment.Assignment) -> str:
    return str(one.units.get('mask') or dict(one.units))
