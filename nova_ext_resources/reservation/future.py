# SPDX-License-Identifier: Apache-2.0

"""What is there at any second of an interval, as one view of a host.

``claims.decide`` answers for it as for the view of today.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses

from nova_ext_resources.claims import base
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import server as server_mod


@dataclasses.dataclass(frozen=True, slots=True)
class Future:
    """What is there throughout an interval."""

    view: view_obj.HostView
    cells: tuple[frozenset[int], ...] | None


def add_servers(
    view: view_obj.HostView,
    part: interval.Interval,
    held: Iterable[server_mod.PlannedServer],
    trackers: Mapping[str, base.Tracker],
) -> view_obj.HostView:
    """Return a view with all that is booked at any second of a part."""
    taken: dict[
        view_obj.Place,
        list[tuple[interval.Interval, assignment.Assignment]],
    ] = {}
    for one in held:
        if one.during.overlaps(part):
            for each in one.assignments:
                place = each.rp_uuid, each.resource_class
                taken.setdefault(place, []).append((one.during, each))
    tracked = dict(view.tracked)
    for place, items in taken.items():
        if place in tracked:
            tracked[place] = _sweep(
                trackers[tracked[place].tracker], tracked[place], part, items
            )
    return dataclasses.replace(view, tracked=tracked)


def _sweep(
    tracker: base.Tracker,
    tracked: view_obj.Tracked,
    part: interval.Interval,
    items: Sequence[tuple[interval.Interval, assignment.Assignment]],
) -> view_obj.Tracked:
    """Return a place with the states after each change joined."""
    state, states = tracked.state, []
    # What ends in a second is given back before others take.
    events = [(during.end, 0, one) for during, one in items]
    events += [
        (max(during.start, part.start), 1, one) for during, one in items
    ]
    events.sort(key=lambda event: event[:2])
    for _time, is_start, one in events:
        if not is_start:
            state = tracker.give(state, one.amount, one.units)
            continue
        state, _units = tracker.take(state, one.amount, one.units)
        states.append(state)
    return dataclasses.replace(tracked, state=tracker.join(states))


def join(
    views: Sequence[view_obj.HostView],
    trackers: Mapping[str, base.Tracker],
) -> view_obj.HostView:
    """Return a view of what all of several views offer.

    What the host can never do is taken from the first.
    """
    tracked = {
        place: dataclasses.replace(
            one,
            state=trackers[one.tracker].join(
                [view.tracked[place].state for view in views]
            ),
        )
        for place, one in views[0].tracked.items()
        if all(place in view.tracked for view in views)
    }
    return dataclasses.replace(views[0], tracked=tracked)
