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

import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
from typing import Any, TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.objects import host_view
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


#: What puts those in order that begin in the same second.
_Order: TypeAlias = Callable[[Stay], tuple[int, str]]

#: Time, whether it begins, and its order; and which.
_Event: TypeAlias = tuple[tuple[int, bool, tuple[int, str]], Stay]

_Units: TypeAlias = Mapping[str, Any]

_ORDERS: Sequence[_Order] = (
    lambda one: (0, one.key),
    lambda one: (-one.amount, one.key),
    lambda one: (one.amount, one.key),
)

_EVER = interval.Interval(interval.ALWAYS)


def settle(
    tracker: base.Tracker,
    state: host_view.TrackerState,
    list_met: Callable[[interval.Interval], Iterable[Stay]],
    new: Iterable[Stay],
) -> dict[str, _Units]:
    """Choose units for those that cannot have the ones that were planned.

    Because others got them meanwhile, or they were planned by amounts alone.
    What fits nowhere keeps what it has.

    :param state: without any of them
    :param list_met: returns those that have a second of an interval
    :param new: those that may be in the way of the others, or not
    :returns: key -> the units that are others than before
    """
    for one in new:
        others = [each for each in list_met(one.during) if each.key != one.key]
        before = join(tracker, state, one.during, others)
        if not _is_free(tracker, before, one):
            break
    else:
        return {}
    ordered = sorted(
        list_met(_EVER),
        key=lambda one: (not one.is_there, one.during.start, one.key),
    )
    placed = interval.Table[Stay]()
    waiting = []
    for one in ordered:
        met = placed.list_overlapping(one.during)
        before = join(tracker, state, one.during, met)
        if one.is_there or _is_free(tracker, before, one):
            placed.put(one)
        else:
            waiting.append(one)
    chosen: dict[str, _Units] = {}
    for one in waiting:
        met = placed.list_overlapping(one.during)
        before = join(tracker, state, one.during, met)
        if tracker.fits(before, one.amount):
            _after, chosen[one.key] = tracker.allocate(before, one.amount)
            placed.put(dataclasses.replace(one, units=chosen[one.key]))
    return chosen


def _is_free(
    tracker: base.Tracker, state: host_view.TrackerState, one: Stay
) -> bool:
    if not tracker.can_parse(one.units):
        return False
    after, _units = tracker.allocate(state, one.amount, one.units)
    # Less is gone if some of these units were not free.
    return state.free - after.free == one.amount


def join(
    tracker: base.Tracker,
    state: host_view.TrackerState,
    during: interval.Interval,
    stays: Iterable[Stay],
) -> host_view.TrackerState:
    """Return what is free throughout an interval beside some others.

    Of what was planned by amounts alone, and has no room, no unit is known: it
    is left out.
    """
    states = [state]
    met = [
        one
        for one in stays
        if one.during.overlaps(during) and tracker.can_parse(one.units)
    ]
    for (time, is_start, _order), one in _list_events(met, _ORDERS[0]):
        if not is_start:
            state = tracker.free(state, one.amount, one.units)
        else:
            state, _units = tracker.allocate(state, one.amount, one.units)
        if time < during.end:
            states.append(state)
    return tracker.join(states)


class Rehearsal:
    """All stays of a place, which come in turn and get what is chosen then.

    A change is played from where it begins until all is as it was without it.

    :param state: without any of them
    """

    def __init__(
        self,
        tracker: base.Tracker,
        state: host_view.TrackerState,
        order: _Order,
    ) -> None:
        self._tracker = tracker
        self._order = order
        self._stays: dict[str, Stay] = {}
        self._events: list[_Event] = []
        #: Before each event, and after the last one.
        self._states = [state]
        #: Key -> units; None where it was refused.
        self._has: dict[str, _Units | None] = {}

    def play(
        self, changes: Mapping[str, Stay | None], *, is_kept: bool = False
    ) -> Stay | None:
        """Return one that is refused because of changes.

        One of these, or one that would not be refused without them.

        :param changes: key -> what is there, also in place of what has the
            same key; None for what is no longer there
        :param is_kept: whether they are kept
        """
        after = {key: one for key, one in changes.items() if one}
        known = [self._stays[key] for key in changes if key in self._stays]
        new = _list_events(after.values(), self._order)
        times = [key for key, _one in _list_events(known, self._order) + new]
        if not times:
            return None
        first = end = bisect.bisect_left(
            self._events, min(times), key=lambda event: event[0]
        )
        run, last = _Run(self._states[first]), max(times)
        new.reverse()
        while new or end < len(self._events):
            event = self._events[end] if end < len(self._events) else None
            if event is None or (new and new[-1][0] < event[0]):
                self._step(run, new.pop())
            elif event[0] > last and run.is_at(self._states[end]):
                break
            else:
                end += 1
                if event[1].key not in changes:
                    self._step(run, event)
        refused = [
            key
            for key, units in run.has.items()
            if units is None and self._has.get(key, {}) is not None
        ]
        key = refused[0] if refused else ''
        found = after.get(key) or self._stays.get(key)
        if is_kept:
            self._events[first:end] = run.events
            self._states[first : end + 1] = run.states
            self._has |= run.has
            self._stays |= after
            for key in changes.keys() - after.keys():
                self._stays.pop(key, None)
                self._has.pop(key, None)
        return found

    def _step(self, run: '_Run', event: _Event) -> None:
        (_time, is_start, _order), one = event
        before = self._has.get(one.key)
        if is_start:
            run.states.append(self._take(run, one))
            if run.has[one.key] != before:
                run.other.add(one.key)
        else:
            run.other.discard(one.key)
            state, units = run.states[-1], run.has.get(one.key, before)
            if units is not None:
                state = self._tracker.free(state, one.amount, units)
            run.states.append(state)
        run.events.append(event)

    def _take(self, run: '_Run', one: Stay) -> host_view.TrackerState:
        state, units = run.states[-1], None
        if one.is_there:
            state, units = self._tracker.allocate(state, one.amount, one.units)
        elif self._tracker.fits(state, one.amount):
            state, units = self._tracker.allocate(state, one.amount)
        run.has[one.key] = units
        return state


class _Run:
    """A part of a rehearsal, with changes.

    :ivar events: with the states before them, and after the last one
    :ivar has: key -> units of what begins; None where it was refused
    :ivar other: those that are there with other units than without changes
    """

    def __init__(self, state: host_view.TrackerState) -> None:
        self.events: list[_Event] = []
        self.states = [state]
        self.has: dict[str, _Units | None] = {}
        self.other: set[str] = set()

    def is_at(self, state: host_view.TrackerState) -> bool:
        """Return whether all is as it was without the changes."""
        return not self.other and self.states[-1] == state


def make_rehearsals(
    tracker: base.Tracker, state: host_view.TrackerState
) -> list[Rehearsal]:
    """Return one for each order that is tried, without any stays."""
    return [Rehearsal(tracker, state, order) for order in _ORDERS]


def _list_events(stays: Iterable[Stay], order: _Order) -> list[_Event]:
    """Return what begins and ends, in order of time.

    What ends in a second is given back before others take. What is there is
    there before all else.
    """
    events: list[_Event] = []
    for one in stays:
        start = interval.ALWAYS if one.is_there else one.during.start
        events.append(((start, True, order(one)), one))
        events.append(((one.during.end, False, order(one)), one))
    return sorted(events, key=lambda event: event[0])
