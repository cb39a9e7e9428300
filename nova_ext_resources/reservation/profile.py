# SPDX-License-Identifier: Apache-2.0

"""A number that changes at known times: a run-length profile.

Two sorted lists, the times of the changes and the values from them on, make a
question about an interval a search in the one (``bisect``) and a ``min`` or
``max`` over a slice of the other, both in C. For the 20 changes that ten
leases cause on a host, and even for thousands, that is faster in Python than
a balanced tree, whose steps are Python's. It is exact: no slots of time. YARN
plans with the same structure (``RLESparseResourceAllocation``), and so do
batch systems that backfill.

With n changes in all and k of them in the interval: O(log n + k) to read, the
same and one move of the list's tail to add.
"""

import bisect
from collections.abc import Iterable, Iterator, Mapping
from typing import Self

from nova_ext_resources.reservation import interval


class Profile:
    """A step function of time: one whole number for every second.

    :param value: the number before the first change
    """

    __slots__ = ('_times', '_values')

    def __init__(self, value: int = 0) -> None:
        self._times = [interval.ALWAYS]
        self._values = [value]

    @classmethod
    def sum(cls, changes: Mapping[int, int]) -> Self:
        """Make a profile at once of what is added at each time, for good.

        :param changes: time -> what is added from then on
        """
        made = cls()
        value = changes.get(interval.ALWAYS, 0)
        made._values = [value]
        ends = {interval.ALWAYS, interval.FOREVER}
        for time in sorted(changes.keys() - ends):
            if changes[time]:
                value += changes[time]
                made._times.append(time)
                made._values.append(value)
        return made

    def __len__(self) -> int:
        """Return how many steps it has."""
        return len(self._times)

    def add(self, during: interval.Interval, amount: int) -> None:
        """Raise the number by ``amount`` in an interval."""
        first, last = self._split(during)
        for index in range(first, last):
            self._values[index] += amount
        self._join(last)
        self._join(first)

    def set(self, during: interval.Interval, value: int) -> None:
        """Let the number be ``value`` in an interval."""
        first, last = self._split(during)
        self._values[first:last] = [value] * (last - first)
        del self._times[first + 1 : last]
        del self._values[first + 1 : last]
        self._join(first + 1)
        self._join(first)

    def highest(self, during: interval.Interval) -> int:
        """Return the largest number in an interval."""
        return max(self.list_values(during))

    def lowest(self, during: interval.Interval) -> int:
        """Return the smallest number in an interval."""
        return list_lowest([self], during)[0]

    def list_values(self, during: interval.Interval) -> list[int]:
        """Return the numbers of an interval, in order of time."""
        times = self._times
        first = bisect.bisect_right(times, during.start) - 1
        return self._values[first : bisect.bisect_left(times, during.end)]

    def list_times(self, since: int) -> list[int]:
        """Return the times of the changes after ``since``, in order."""
        return self._times[bisect.bisect_right(self._times, since) :]

    def list_steps(
        self, during: interval.Interval
    ) -> Iterator[tuple[interval.Interval, int]]:
        """Return the steps of an interval, cut to it, in order of time."""
        times, values = self._times, self._values
        index = bisect.bisect_right(times, during.start) - 1
        start = during.start
        while start < during.end:
            index += 1
            end = times[index] if index < len(times) else interval.FOREVER
            end = min(end, during.end)
            yield interval.Interval(start, end), values[index - 1]
            start = end

    def list_gaps(
        self, during: interval.Interval, amount: int
    ) -> Iterator[tuple[int, int]]:
        """Return (start, end) of the times when it is below ``amount``.

        Cut to the interval, in order of time; gaps that touch are one.
        """
        times, values = self._times, self._values
        index = bisect.bisect_right(times, during.start) - 1
        begun: int | None = None
        for place in range(index, bisect.bisect_left(times, during.end)):
            if values[place] >= amount:
                if begun is not None:
                    yield begun, times[place]
                begun = None
            elif begun is None:
                begun = max(times[place], during.start)
        if begun is not None:
            yield begun, during.end

    def forget(self, before: int) -> None:
        """Drop all changes before a time; what was then is as at that time."""
        index = bisect.bisect_right(self._times, before) - 1
        del self._times[1 : index + 1]
        del self._values[:index]

    def _split(self, during: interval.Interval) -> tuple[int, int]:
        """Return the range of steps of an interval, making its borders."""
        return self._cut(during.start), self._cut(during.end)

    def _cut(self, time: int) -> int:
        """Return the index of the step that begins at a time; make it."""
        if time == interval.FOREVER:
            return len(self._times)
        index = bisect.bisect_left(self._times, time)
        if index == len(self._times) or self._times[index] != time:
            self._times.insert(index, time)
            self._values.insert(index, self._values[index - 1])
        return index

    def _join(self, index: int) -> None:
        """Drop a border between steps of the same value."""
        if 0 < index < len(self._times):
            if self._values[index] == self._values[index - 1]:
                del self._times[index]
                del self._values[index]


def list_lowest(
    profiles: Iterable[Profile], during: interval.Interval
) -> list[int]:
    """Return the smallest number of each profile in an interval.

    At once, because a search asks thousands, where a call for each shows.
    """
    start, end = during.start, during.end
    left, right = bisect.bisect_left, bisect.bisect_right
    return [
        min(one._values[right(one._times, start) - 1 : left(one._times, end)])
        for one in profiles
    ]
