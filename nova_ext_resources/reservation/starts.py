# SPDX-License-Identifier: Apache-2.0

"""The starts from which the amounts of a request would do.

A host can take k servers from a start on if nothing blocks k times their
amounts until the end. So for each host and each k there are ranges of starts,
between one gap and the next; counted over all hosts, the ranges that a start
is in are the servers that fit then. The count changes only where a range
begins or ends, so that all starts are looked at by sorting these.

What hosts share with others is of none of them: of all hosts that use the same
sharing providers, no more servers count than these have room for.

Amounts are necessary and not always enough: ways must be contiguous, and a
server cannot change providers meanwhile. So several starts are returned, to
be tried in turn.
"""

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
import itertools
from typing import TypeAlias

from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.reservation import fleet as fleet_mod
from nova_ext_resources.reservation import index as index_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import profile
from nova_ext_resources.reservation import request as request_mod

#: Host, first and last start.
_Range: TypeAlias = tuple[str, int, int]

#: Of each class of sharing providers that is asked for, where a host has it.
_Pools: TypeAlias = tuple[tuple[view_obj.Place, ...], ...]


def make_ask(
    fleet: fleet_mod.Fleet,
    request: request_mod.Request,
    servers: int = 1,
) -> index_mod.Ask:
    """Return what a host must have for so many servers.

    Classes of sharing providers are left out, for they are of no host. Where
    a host has several providers of a class, they can share the servers: what
    one server needs of it is all that is sure.
    """
    return {
        name: amount * (1 if name in fleet.spread else servers)
        for name, amount in request.demand.largest.items()
        if name not in fleet.shared_classes
    }


def list_starts(
    fleet: fleet_mod.Fleet,
    request: request_mod.Request,
    latest: int,
    names: Set[str],
) -> Iterator[int]:
    """Return starts at which enough servers would fit, in order of time.

    All those at which one more of them may fit than just before: where a range
    begins, and in it where a booking of the host ends.

    :param latest: seconds since the epoch, none is later
    :param names: hosts that may be used
    """
    needed, asks = _list_asks(fleet, request)
    start, seconds = request.during.start, request.during.seconds

    def collect(
        ask: index_mod.Ask, latest: int, names: Set[str] = names
    ) -> list[_Range]:
        return [
            (name, first, last)
            for name, gaps in fleet.index.list_gaps(ask, names)
            for first, last in _list_ranges(gaps, start, seconds, latest)
        ]

    # If amounts are all that matters, the first one does. It is no later than
    # if each host took one server only, so that few ranges count for it.
    single = collect(asks[0], latest)
    bound = next(_list_enough(single, needed), latest + 1)
    near = [one for one in single if one[1] <= bound]
    near += _collect_more(collect, asks[1:], single, bound - 1)
    earliest = next(_list_enough(near, needed), None)
    if earliest is None:
        return
    is_shared = not fleet.shared_classes.isdisjoint(request.demand.largest)
    if not is_shared:
        yield earliest
    ends = {end for one in single for end in fleet.list_ends(*one)}
    whole = [*single, *_collect_more(collect, asks[1:], single, latest)]
    sharing = _Sharing(fleet, request, whole if is_shared else ())
    for time in _list_enough(whole, needed, ends | sharing.list_rises()):
        if sharing.count(time) >= needed if is_shared else time > earliest:
            yield time


class _Sharing:
    """Counts the servers that sharing providers have room for.

    :param ranges: of the hosts that may be used
    """

    def __init__(
        self,
        fleet: fleet_mod.Fleet,
        request: request_mod.Request,
        ranges: Iterable[_Range],
    ) -> None:
        self._calendar, self._during = fleet.calendar, request.during
        demand = request.demand.largest
        classes = sorted(demand.keys() & fleet.shared_classes)
        is_together = request.affinity is request_mod.Affinity.SAME_HOST
        self._amounts = [demand[one] for one in classes]
        self._together = request.least if is_together else 1
        by_pools: dict[_Pools, list[_Range]] = {}
        for one in ranges:
            places = fleet.places[one[0]]
            pools = tuple(tuple(places.get(name, ())) for name in classes)
            by_pools.setdefault(pools, []).append(one)
        #: Pools -> how many ranges there are when, of the hosts that use them.
        self._hosts = {
            pools: profile.Profile.sum(_list_changes(own))
            for pools, own in by_pools.items()
        }
        self._every = tuple(
            tuple({*itertools.chain.from_iterable(own)})
            for own in zip(*by_pools, strict=True)
        )

    def list_rises(self) -> set[int]:
        """Return the times from which more is free than just before."""
        rest = interval.Interval(self._during.start)
        return {
            part.start
            for place in itertools.chain.from_iterable(self._every)
            for (_part, had, lost), (part, has, used) in itertools.pairwise(
                self._calendar.list_steps(place, rest)
            )
            if has - used > had - lost
        }

    def count(self, time: int) -> int:
        """Return how many ranges there is room for from a start on."""
        moment = interval.Interval(time, time + 1)
        found = sum(
            min(hosts.lowest(moment), self._count_room(pools, time))
            for pools, hosts in self._hosts.items()
        )
        return min(found, self._count_room(self._every, time))

    def _count_room(self, pools: _Pools, time: int) -> int:
        during = self._during.shift(time)
        free = [
            sum(
                self._calendar.find_largest(place, during) // amount
                for place in places
            )
            for places, amount in zip(pools, self._amounts, strict=True)
        ]
        return min(free) // self._together


def _collect_more(
    collect: Callable[[index_mod.Ask, int, Set[str]], list[_Range]],
    asks: Iterable[index_mod.Ask],
    ranges: Iterable[_Range],
    latest: int,
) -> list[_Range]:
    """Return the ranges for two servers of a host, for three, and so on.

    :param ranges: for one server; what takes two then takes one
    """
    found: list[_Range] = []
    for ask in asks:
        names = {name for name, first, _last in ranges if first <= latest}
        ranges = collect(ask, latest, names)
        if not ranges:
            break
        found += ranges
    return found


def _list_enough(
    ranges: Sequence[_Range], needed: int, others: Set[int] = frozenset()
) -> Iterator[int]:
    """Return when ranges begin, and other times, that enough ranges are at."""
    times = {first for _name, first, _last in ranges} | others
    changes = _list_changes(ranges)
    servers = 0
    for time in sorted(changes.keys() | times):
        servers += changes.get(time, 0)
        if servers >= needed and time in times:
            yield time


def _list_changes(ranges: Iterable[_Range]) -> dict[int, int]:
    """Return how many more ranges there are from each time on."""
    changes: dict[int, int] = {}
    for _name, first, last in ranges:
        changes[first] = changes.get(first, 0) + 1
        changes[last + 1] = changes.get(last + 1, 0) - 1
    return changes


def _list_asks(
    fleet: fleet_mod.Fleet, request: request_mod.Request
) -> tuple[int, Sequence[index_mod.Ask]]:
    """Return what hosts are asked for, and how often it must be met."""
    least = request.least
    if request.affinity is request_mod.Affinity.SAME_HOST:
        return 1, [make_ask(fleet, request, least)]
    if request.affinity is request_mod.Affinity.DIFFERENT_HOSTS:
        return least, [make_ask(fleet, request)]
    numbers = range(1, least + 1)
    return least, [make_ask(fleet, request, one) for one in numbers]


def _list_ranges(
    gaps: index_mod.Gaps, free: int, seconds: int, latest: int
) -> list[tuple[int, int]]:
    """Return the first and the last start of each range without a gap.

    :param free: the earliest start
    :param seconds: how long; ``FOREVER`` for an end that is open
    """
    found = []
    # What has ended before does not matter, but for the last that began.
    begun = max(bisect.bisect_left(gaps, (free,)) - 1, 0)
    for start, end in itertools.islice(gaps, begun, None):
        if free <= min(start - seconds, latest):
            found.append((free, min(start - seconds, latest)))
        free = max(free, end)
        if free > latest or free == interval.FOREVER:
            return found
    found.append((free, latest))
    return found
