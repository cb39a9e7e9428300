# SPDX-License-Identifier: Apache-2.0

"""What is there at any second of an interval, as one view of a host.

``claims.decide`` answers for it as for the view of today.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses

from nova_ext_resources.claims import base
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import stays


@dataclasses.dataclass(frozen=True, slots=True)
class Future:
    """What is there throughout an interval."""

    view: host_view.HostView
    cells: tuple[frozenset[int], ...] | None


def add_servers(
    view: host_view.HostView,
    part: interval.Interval,
    held: Iterable[planned_server.PlannedServer],
    trackers: Mapping[str, base.Tracker],
) -> host_view.HostView:
    """Return a view with all that is booked at any second of a part."""
    taken: dict[host_view.Place, list[stays.Stay]] = {}
    for one in held:
        for each in one.assignments:
            stay = stays.Stay(
                key=one.key,
                during=one.during,
                amount=each.amount,
                units=each.units,
            )
            place = each.rp_uuid, each.resource_class
            taken.setdefault(place, []).append(stay)
    tracked = dict(view.tracked)
    for place in taken.keys() & tracked.keys():
        before = tracked[place]
        state = stays.join(
            trackers[before.tracker], before.state, part, taken[place]
        )
        tracked[place] = dataclasses.replace(before, state=state)
    return dataclasses.replace(view, tracked=tracked)


def join(
    views: Sequence[host_view.HostView],
    trackers: Mapping[str, base.Tracker],
) -> host_view.HostView:
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


def leave_cells(
    cells: Sequence[frozenset[int]],
    held: Sequence[planned_server.PlannedServer],
) -> tuple[frozenset[int], ...]:
    """Return the dedicated CPUs of each cell that no booking needs.

    Bookings may have been planned without CPUs, or with some that others have
    got meanwhile: for these, as many are left out, of one cell if it has them.

    :param held: all with a second of the time, of one host
    """
    there = frozenset[int]().union(*cells)
    known = [one for one in held if one.cpus and one.cpus <= there]
    used = frozenset[int]().union(*(one.cpus or () for one in known))
    left = [cell - used for cell in cells]
    for one in held:
        amount = _count_cpus(one)
        if amount and one not in known:
            left = _leave_some(left, amount)
    return tuple(left)


def _count_cpus(server: planned_server.PlannedServer) -> int:
    return sum(
        one.amount
        for one in server.assignments
        if one.resource_class == 'PCPU'
    )


def _leave_some(
    cells: Sequence[frozenset[int]], amount: int
) -> list[frozenset[int]]:
    """Return cells without so many CPUs, of the fullest that has them."""
    left = [*cells]
    numbers = sorted(range(len(left)), key=lambda number: len(left[number]))
    fitting = [one for one in numbers if len(left[one]) >= amount]
    for number in fitting[:1] or numbers[::-1]:
        gone = sorted(left[number])[:amount]
        left[number] -= frozenset(gone)
        amount -= len(gone)
    return left
