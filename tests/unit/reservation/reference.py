# SPDX-License-Identifier: Apache-2.0

"""Capacity over time the slow way: every second by itself.

Nothing of it is shared with the code that it is compared with, but for the
types of what goes in.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planned_server


@dataclasses.dataclass
class Reference:
    """Knows the seconds from 0 on; after the last, all is as in the last.

    :ivar seconds: how many
    :ivar capacity: place -> units in each second
    :ivar bookings: key -> (interval, place -> amount)
    """

    seconds: int
    capacity: dict[host_view.Place, list[int]] = dataclasses.field(
        default_factory=dict
    )
    bookings: dict[
        str, tuple[interval.Interval, dict[host_view.Place, int]]
    ] = dataclasses.field(default_factory=dict)

    def list_seconds(self, during: interval.Interval) -> range:
        return range(during.start, min(during.end, self.seconds))

    def set_capacity(
        self, place: host_view.Place, capacity: int, during: interval.Interval
    ) -> None:
        units = self.capacity.setdefault(place, [0] * self.seconds)
        for second in self.list_seconds(during):
            units[second] = capacity

    def count_used(self, place: host_view.Place, second: int) -> int:
        return sum(
            places.get(place, 0)
            for during, places in self.bookings.values()
            if during.start <= second < during.end
        )

    def count_free(self, place: host_view.Place, second: int) -> int:
        return self.capacity[place][second] - self.count_used(place, second)

    def peak(self, place: host_view.Place, during: interval.Interval) -> int:
        return max(
            self.count_used(place, one) for one in self.list_seconds(during)
        )

    def find_free(
        self, place: host_view.Place, during: interval.Interval
    ) -> int:
        return min(
            self.count_free(place, one) for one in self.list_seconds(during)
        )

    def fits(
        self, places: dict[host_view.Place, int], during: interval.Interval
    ) -> bool:
        return all(
            self.count_free(place, second) >= amount
            for place, amount in places.items()
            for second in self.list_seconds(during)
        )


def list_overbooked(
    bookings: Iterable[planned_server.PlannedServer],
    capacity: Mapping[host_view.Place, Sequence[int]],
) -> list[tuple[host_view.Place, int]]:
    """Return the places, with the second, where more is booked than there is.

    It knows nothing of hosts: what is booked of a place is added up.

    :param capacity: place -> units in each second
    """
    used: dict[host_view.Place, list[int]] = {
        place: [0] * len(units) for place, units in capacity.items()
    }
    for one in bookings:
        for each in one.assignments:
            units = used[each.rp_uuid, each.resource_class]
            end = min(one.during.end, len(units))
            for second in range(one.during.start, end):
                units[second] += each.amount
    return [
        (place, second)
        for place, units in used.items()
        for second, amount in enumerate(units)
        if amount > capacity[place][second]
    ]
