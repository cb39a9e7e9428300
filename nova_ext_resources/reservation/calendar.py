# SPDX-License-Identifier: Apache-2.0

"""Capacity and bookings over time, by provider and resource class.

A booking takes an amount of each of its places (a place is a resource class
of a provider) in one interval; whether it holds for a reservation or for a
server that runs makes no difference. Capacity may change from a date on, for
maintenance or growth. All answers are exact to the second.

Per place there are two profiles: the capacity, and what is free of it; what is
used is the first less the second. Since intervals that overlap in pairs have a
second in common, the peak within an interval decides whether an amount fits;
to add up all bookings that touch the interval would refuse what fits, and to
look at the bookings one by one would promise too much.

Say a host of eight CPUs, in hours of a day::

    >>> day.set_capacity(CPUS, 8)
    >>> day.add('night', hours(0, 6), {CPUS: 6})
    >>> day.add('noon', hours(6, 12), {CPUS: 4})
    >>> day.add('base', hours(3), {CPUS: 2})
    >>> day.peak(CPUS, hours(0, 12))
    8
    >>> day.find_largest(CPUS, hours(0, 12)), day.find_largest(CPUS, hours(6))
    (0, 2)

Night and noon touch, and share no second. Four CPUs are not free until noon::

    >>> list(day.list_gaps(CPUS, hours(0, 24), 4))
    [(0, 12)]

and, if half of the host is in repair until six in the evening, then::

    >>> day.set_capacity(CPUS, 4, hours(12, 18))
    >>> list(day.list_gaps(CPUS, hours(0, 24), 4))
    [(0, 18)]
"""

from collections.abc import Iterable, Iterator, Mapping
import dataclasses
from typing import TypeAlias

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import profile

#: Place -> amount.
Places: TypeAlias = Mapping[host_view.Place, int]

_EVER = interval.Interval(interval.ALWAYS)


@dataclasses.dataclass(frozen=True, slots=True)
class Booking:
    """What is taken, and when."""

    during: interval.Interval
    places: Places


class _Column:
    """One resource class of one provider, over time."""

    __slots__ = ('capacity', 'free')

    def __init__(self) -> None:
        self.capacity = profile.Profile()
        self.free = profile.Profile()

    def set_capacity(self, during: interval.Interval, capacity: int) -> None:
        for part, before in list(self.capacity.list_steps(during)):
            self.free.add(part, capacity - before)
        self.capacity.set(during, capacity)

    def book(self, during: interval.Interval, amount: int) -> None:
        self.free.add(during, -amount)

    def list_steps(
        self, during: interval.Interval
    ) -> Iterator[tuple[interval.Interval, int, int]]:
        """Return each part of an interval with its capacity and use."""
        for outer, capacity in self.capacity.list_steps(during):
            for part, free in self.free.list_steps(outer):
                yield part, capacity, capacity - free

    def forget(self, before: int) -> None:
        self.capacity.forget(before)
        self.free.forget(before)


class Calendar:
    """Who has booked what, and what is free when.

    Places are those whose capacity was set; all others are refused with
    ``KeyError``, because nothing is known of them.
    """

    def __init__(self) -> None:
        self._columns: dict[host_view.Place, _Column] = {}
        self.bookings: dict[str, Booking] = {}
        self._changed: set[host_view.Place] = set()

    @property
    def places(self) -> frozenset[host_view.Place]:
        """All that have a capacity, be it zero."""
        return frozenset(self._columns)

    def set_capacity(
        self,
        place: host_view.Place,
        capacity: int,
        during: interval.Interval = _EVER,
    ) -> None:
        """Let a place have so many units in an interval.

        What was set for that interval before is replaced, bookings stay, so
        that less than nothing may be free. To follow an inventory in
        placement, set it from now on, and then again the changes that are
        planned.

        :raises ValueError: it is not a number of units that placement stores
        """
        _check_amount('capacity', capacity, place, 0)
        column = self._columns.setdefault(place, _Column())
        column.set_capacity(during, capacity)
        self._changed.add(place)

    def add(self, key: str, during: interval.Interval, places: Places) -> None:
        """Book amounts, whether or not they fit.

        A server that runs has what it has, even if its host has shrunk.

        :raises KeyError: a place is unknown; nothing is booked
        :raises ValueError: the key is in use, or an amount is not a number
            of units; nothing is booked
        """
        if key in self.bookings:
            raise ValueError(
                f'{key} is booked already; remove the booking first'
            )
        for place, amount in places.items():
            _check_amount('amount', amount, place, 1)
            self._find(place)
        self.bookings[key] = Booking(during, dict(places))
        self._book(self.bookings[key], 1)

    def remove(self, key: str) -> Booking:
        """Take a booking out, and return it.

        :raises KeyError: there is no such booking
        """
        booking = self.bookings.pop(key)
        self._book(booking, -1)
        return booking

    def peak(self, place: host_view.Place, during: interval.Interval) -> int:
        """Return the most units that are used at once in an interval."""
        steps = self._find(place).list_steps(during)
        return max(used for _part, _capacity, used in steps)

    def find_free(
        self, place: host_view.Place, during: interval.Interval
    ) -> int:
        """Return the units that are free throughout an interval.

        Below zero where more is booked than there is.
        """
        return self._find(place).free.lowest(during)

    def list_free(
        self, places: Iterable[host_view.Place], during: interval.Interval
    ) -> list[int]:
        """Return what :meth:`find_free` does of each place, at once.

        :raises KeyError: a place is unknown
        """
        columns = self._columns
        return profile.list_lowest(
            [columns[place].free for place in places], during
        )

    def find_largest(
        self, place: host_view.Place, during: interval.Interval
    ) -> int:
        """Return the largest amount that fits in an interval."""
        return max(self.find_free(place, during), 0)

    def list_counts(
        self,
        needs: Iterable[tuple[Iterable[host_view.Place], int]],
        since: int,
        most: int,
    ) -> Iterator[tuple[int, int]]:
        """Return from when on how many times all amounts are there at once.

        In order of time; ``most`` times at most.

        :param needs: each amount, with the places of which one must have it
        """
        needed = [
            ([self._columns[place].free for place in places], amount)
            for places, amount in needs
        ]
        times = {since}.union(
            *(
                one.list_times(since)
                for free, _amount in needed
                for one in free
            )
        )
        for time in sorted(times):
            moment = interval.Interval(time, time + 1)
            counts = [
                sum(
                    max(left, 0) // amount
                    for left in profile.list_lowest(free, moment)
                )
                for free, amount in needed
            ]
            yield time, min([most, *counts])

    def list_gaps(
        self, place: host_view.Place, during: interval.Interval, amount: int
    ) -> Iterator[tuple[int, int]]:
        """Return (start, end) of the times when an amount is not free."""
        return self._find(place).free.list_gaps(during, amount)

    def list_steps(
        self, place: host_view.Place, during: interval.Interval
    ) -> Iterator[tuple[interval.Interval, int, int]]:
        """Return each part of an interval with its capacity and use."""
        return self._find(place).list_steps(during)

    def forget(self, before: int) -> None:
        """Drop what ended before a time, to keep no more than is needed.

        Later answers about times before it are as if all that holds then had
        held always.
        """
        for key, booking in list(self.bookings.items()):
            if booking.during.end <= before:
                del self.bookings[key]
        for column in self._columns.values():
            column.forget(before)

    def pop_changed(self) -> set[host_view.Place]:
        """Return the places that have changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def _find(self, place: host_view.Place) -> _Column:
        try:
            return self._columns[place]
        except KeyError:
            raise KeyError(
                f'provider {place[0]} has no known capacity of {place[1]}'
            ) from None

    def _book(self, booking: Booking, sign: int) -> None:
        for place, amount in booking.places.items():
            self._columns[place].book(booking.during, sign * amount)
        self._changed.update(booking.places)


def _check_amount(
    name: str, amount: int, place: host_view.Place, least: int
) -> None:
    if (
        type(amount) is not int
        or not least <= amount <= class_inventory.MAX_INT
    ):
        raise ValueError(
            f'the {name} {amount!r} of {place[1]} of provider {place[0]} is '
            f'not a whole number from {least} to {class_inventory.MAX_INT}'
        )
