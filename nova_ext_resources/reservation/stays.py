# SPDX-License-Identifier: Apache-2.0

"""Who has which units of one place when, and who will.

Pure. A plan names units, which shows that all of it fits together. Which ones
a server gets is decided when it comes: by the tracker, on what is free then.
So there are two questions beside the plan. Are the units that were planned
still there, beside those that servers got in fact? And does each server find
what it needs, if all of them come in turn and get what the tracker chooses? In
which order servers come that begin in the same second, nobody knows; three
orders are tried.

Say of eight ways the middle two are taken, ``...XX...``. One server of three
ways fits, and one of two beside it. But if the one of one way that begins
before them takes the upper end, and the next one grows from there, it is the
order that decides.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
import dataclasses
from typing import Any, TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.reservation import interval


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """Units of one place that a server has for a time.

    :ivar key: of the planned server
    :ivar units: in the tracker's format, as they were planned; or those that
        it has, if it is there
    :ivar is_there: whether a server of Nova has just these units now
    """

    key: str
    during: interval.Interval
    amount: int
    units: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_there: bool = False


#: (time, whether it begins, which)
_Event: TypeAlias = tuple[int, bool, Stay]

#: What puts those in order that begin in the same second.
_Order: TypeAlias = Callable[[Stay], tuple[int, str]]

_ORDERS: Sequence[_Order] = (
    lambda one: (0, one.key),
    lambda one: (-one.amount, one.key),
    lambda one: (one.amount, one.key),
)


def settle(
    tracker: base.Tracker,
    state: view_obj.State,
    stays: Sequence[Stay],
    new: Set[str],
) -> dict[str, Mapping[str, Any]]:
    """Choose units for those that cannot have the ones that were planned.

    Because others got them meanwhile, or they were planned by amounts alone.
    What fits nowhere keeps what it has.

    :param state: without any of them
    :param new: keys of those that may be in the way of the others, or not
    :returns: key -> the units that are others than before
    """
    if not _clash(tracker, state, stays, new):
        return {}
    ordered = sorted(
        stays,
        key=lambda one: (not one.is_there, one.during.start, one.key),
    )
    placed: list[Stay] = []
    waiting = []
    for one in ordered:
        before = _join(tracker, state, one.during, placed)
        if one.is_there or _is_free(tracker, before, one):
            placed.append(one)
        else:
            waiting.append(one)
    chosen: dict[str, Mapping[str, Any]] = {}
    for one in waiting:
        before = _join(tracker, state, one.during, placed)
        if tracker.fits(before, one.amount):
            _after, chosen[one.key] = tracker.take(before, one.amount)
            placed.append(dataclasses.replace(one, units=chosen[one.key]))
    return chosen


def _clash(
    tracker: base.Tracker,
    state: view_obj.State,
    stays: Sequence[Stay],
    new: Set[str],
) -> bool:
    """Return whether one that is new cannot have its units beside others."""
    for one in stays:
        if one.key in new:
            others = [each for each in stays if each.key != one.key]
            before = _join(tracker, state, one.during, others)
            if not _is_free(tracker, before, one):
                return True
    return False


def _is_free(tracker: base.Tracker, state: view_obj.State, one: Stay) -> bool:
    if not tracker.understands(one.units):
        return False
    after, _units = tracker.take(state, one.amount, one.units)
    # Less is gone if some of these units were not free.
    return state.free - after.free == one.amount


def _join(
    tracker: base.Tracker,
    state: view_obj.State,
    during: interval.Interval,
    stays: Iterable[Stay],
) -> view_obj.State:
    """Return what is free throughout an interval beside some others."""
    states = [state]
    met = [
        one
        for one in stays
        if one.during.overlaps(during) and tracker.understands(one.units)
    ]
    for time, is_start, one in _list_events(met, _ORDERS[0]):
        if not is_start:
            state = tracker.give(state, one.amount, one.units)
        else:
            state, _units = tracker.take(state, one.amount, one.units)
        if time < during.end:
            states.append(state)
    return tracker.join(states)


def find_refused(
    tracker: base.Tracker,
    state: view_obj.State,
    before: Sequence[Stay],
    ours: Sequence[Stay],
) -> Stay | None:
    """Return one that is refused because of others, if all come in turn.

    One of ours, or one that would not be refused without them. What never
    meets them, or those that they meet, is left out.

    :param state: without any of them
    :param before: what is planned by now
    :param ours: what is to be, also in place of what has the same key
    """
    keys = {one.key for one in ours}
    others = [one for one in before if one.key not in keys]
    after = _list_met([*others, *ours], keys)
    met = {one.key for one in after}
    known = [one for one in before if one.key in met]
    tried = set()
    for order in _ORDERS:
        events = _list_events(after, order)
        turns = tuple((is_start, one.key) for _time, is_start, one in events)
        if turns in tried:
            continue
        tried.add(turns)
        refused = _rehearse(tracker, state, events)
        if refused:
            former = _rehearse(tracker, state, _list_events(known, order))
            new = [one for key, one in refused.items() if key not in former]
            if new:
                return new[0]
    return None


def _list_met(stays: Sequence[Stay], keys: set[str]) -> list[Stay]:
    """Return all that overlap some, or overlap what overlaps them."""
    groups: list[list[Stay]] = []
    end = interval.ALWAYS
    for one in sorted(stays, key=lambda one: one.during.start):
        if not groups or one.during.start >= end:
            groups.append([])
        groups[-1].append(one)
        end = max(end, one.during.end)
    return [
        one
        for group in groups
        if any(each.key in keys for each in group)
        for one in group
    ]


def _rehearse(
    tracker: base.Tracker,
    state: view_obj.State,
    events: Iterable[_Event],
) -> dict[str, Stay]:
    """Return those that find nothing when they come."""
    has: dict[str, Mapping[str, Any]] = {}
    refused: dict[str, Stay] = {}
    for _time, is_start, one in events:
        if not is_start:
            if one.key in has:
                state = tracker.give(state, one.amount, has.pop(one.key))
        elif one.is_there:
            state, has[one.key] = tracker.take(state, one.amount, one.units)
        elif tracker.fits(state, one.amount):
            state, has[one.key] = tracker.take(state, one.amount)
        else:
            refused[one.key] = one
    return refused


def _list_events(stays: Iterable[Stay], order: _Order) -> list[_Event]:
    """Return what begins and ends, in order of time.

    What ends in a second is given back before others take. What is there is
    there before all else.
    """
    events: list[tuple[tuple[int, bool, tuple[int, str]], Stay]] = []
    for one in stays:
        start = interval.ALWAYS if one.is_there else one.during.start
        events.append(((start, True, order(one)), one))
        events.append(((one.during.end, False, order(one)), one))
    events.sort(key=lambda event: event[0])
    return [(key[0], key[1], one) for key, one in events]
