# SPDX-License-Identifier: Apache-2.0

"""Which hosts may have room for a server throughout an interval.

To look at one host after another takes a microsecond each, which is too long
for thousands of them when most are full. So for every ask (what a flavor needs
of each class) there is one profile for all hosts together. Its value is a
whole number with one bit per host, set while the host is blocked, that is,
short of some class. An ``or`` over the steps of an interval answers for all
hosts at once: a thousand of them are 125 bytes.

The profile knows quarters of an hour only, which bounds its size whatever
leases there are. A quarter in which a host is blocked for a second counts as
blocked, so that only the whole quarters of an interval are looked at, and the
answer is "perhaps": what is blocked at the very ends is found by whoever looks
at that host. No host that has room is ever left out.

Profiles are made when an ask is first seen, and brought up to date by the
places that have changed since. Flavors are few, so that asks recur; those not
used for longest are dropped.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import functools
import operator
from typing import TypeAlias

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import calendar as calendar_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import profile

#: Resource class -> the amount that one provider of a host must have free.
Ask: TypeAlias = Mapping[str, int]

#: Resource class -> the places of a host that have it.
Classes: TypeAlias = Mapping[str, Sequence[host_view.Place]]

#: (start, end), in order of time, none touching another.
Gaps: TypeAlias = list[tuple[int, int]]

#: Seconds.
QUARTER = 900

#: How many asks are kept. For 10,000 hosts and leases in 30 days one takes up
#: to 4 MB.
MAX_ASKS = 32


class Index:
    """Looks for hosts by bits.

    :param hosts: host -> its own places, by class; found in this order. Not
        those of sharing providers, which are of no host
    """

    def __init__(
        self, calendar: calendar_mod.Calendar, hosts: Mapping[str, Classes]
    ) -> None:
        self._calendar = calendar
        self._names = list(hosts)
        self._hosts = {name: index for index, name in enumerate(self._names)}
        self._classes = list(hosts.values())
        self._all = (1 << len(self._names)) - 1
        self._asks: dict[frozenset[tuple[str, int]], _Blocked] = {}
        self._numbers = {
            place: number
            for number, classes in enumerate(self._classes)
            for places in classes.values()
            for place in places
        }

    def find(self, ask: Ask, during: interval.Interval) -> Iterator[str]:
        """Return the hosts that may have room, and all that have."""
        blocked = self._find_blocked(ask)
        left = self._all & ~blocked.read(during)
        while left:
            lowest = left & -left
            yield self._names[lowest.bit_length() - 1]
            left ^= lowest

    def list_gaps(
        self, ask: Ask, names: Iterable[str]
    ) -> Iterator[tuple[str, Gaps]]:
        """Return each host with the times when it certainly has no room."""
        gaps = self._find_blocked(ask).gaps
        for name in names:
            yield name, gaps[self._hosts[name]]

    def _find_blocked(self, ask: Ask) -> '_Blocked':
        self._note_changes()
        key = frozenset(ask.items())
        found = self._asks.pop(key, None)
        if found is None:
            found = _Blocked(
                self._list_gaps(ask, one) for one in self._classes
            )
        for number in sorted(found.stale):
            found.update(number, self._list_gaps(ask, self._classes[number]))
        found.stale.clear()
        self._asks[key] = found
        if len(self._asks) > MAX_ASKS:
            del self._asks[next(iter(self._asks))]
        return found

    def _note_changes(self) -> None:
        changed = self._calendar.pop_changed()
        numbers = {
            self._numbers[one] for one in changed if one in self._numbers
        }
        for blocked in self._asks.values():
            blocked.stale |= numbers

    def _list_gaps(self, ask: Ask, classes: Classes) -> Gaps:
        """Return when a host is short of some class."""
        found: Gaps = []
        for resource_class, amount in ask.items():
            places = classes.get(resource_class, ())
            found += self._list_gaps_of(places, amount)
        return _join(found)

    def _list_gaps_of(
        self, places: Sequence[host_view.Place], amount: int
    ) -> Gaps:
        """Return when no place has so much free."""
        gaps: Gaps | None = None
        for place in places:
            own = list(self._calendar.list_gaps(place, _EVER, amount))
            gaps = own if gaps is None else _intersect(gaps, own)
        return [(_EVER.start, _EVER.end)] if gaps is None else gaps


_EVER = interval.Interval(interval.ALWAYS)


class _Blocked:
    """The bits of the hosts that are blocked for one ask, over time.

    :ivar gaps: of each host, exactly when it is blocked
    :ivar stale: numbers of hosts that have changed since
    """

    def __init__(self, gaps: Iterable[Gaps]) -> None:
        self.stale: set[int] = set()
        self.gaps = list(gaps)
        changes: dict[int, int] = {}
        for number, one in enumerate(self.gaps):
            bit = 1 << number
            for start, end in _round_outwards(one):
                changes[start] = changes.get(start, 0) + bit
                changes[end] = changes.get(end, 0) - bit
        self._bits = profile.Profile.sum(changes)

    def read(self, during: interval.Interval) -> int:
        """Return the bits of all that are blocked in some whole quarter."""
        start = -(-during.start // QUARTER) * QUARTER
        end = during.end // QUARTER * QUARTER
        if start >= end:
            return 0
        values = self._bits.list_values(interval.Interval(start, end))
        return functools.reduce(operator.or_, values)

    def update(self, number: int, gaps: Gaps) -> None:
        # Of many gaps, a booking changes few.
        before = {*_round_outwards(self.gaps[number])}
        after = {*_round_outwards(gaps)}
        bit = 1 << number
        for start, end in before - after:
            self._bits.add(interval.Interval(start, end), -bit)
        for start, end in after - before:
            self._bits.add(interval.Interval(start, end), bit)
        self.gaps[number] = gaps


def _round_outwards(gaps: Gaps) -> Gaps:
    """Return the whole quarters of which some second is in a gap."""
    return _join(
        (
            max(start // QUARTER * QUARTER, interval.ALWAYS),
            min(-(-end // QUARTER) * QUARTER, interval.FOREVER),
        )
        for start, end in gaps
    )


def _join(gaps: Iterable[tuple[int, int]]) -> Gaps:
    """Return the same times with what touches or overlaps made one."""
    joined: Gaps = []
    for start, end in sorted(gaps):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _intersect(one: Gaps, other: Gaps) -> Gaps:
    """Return the times that are in both."""
    both: Gaps = []
    left, right = 0, 0
    while left < len(one) and right < len(other):
        start = max(one[left][0], other[right][0])
        end = min(one[left][1], other[right][1])
        if start < end:
            both.append((start, end))
        if one[left][1] < other[right][1]:
            left += 1
        else:
            right += 1
    return both
