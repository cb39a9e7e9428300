# SPDX-License-Identifier: Apache-2.0

"""The starts from which the amounts of a request would do.

A host can take k servers from a start on if nothing blocks k times their
amounts until the end. So for each host and each k there are ranges of starts,
between one gap and the next; counted over all hosts, the ranges that a start
is in are the servers that fit then. The count changes only where a range
begins or ends, so that all starts are looked at by sorting these. Ranges of
several k that are alike are one, which counts as often: a host has no more of
them than changes, were a thousand servers asked for.

What hosts share with others is of none of them: of all hosts that use the same
sharing providers, no more servers count than these have room for.

Amounts are necessary and not always enough: ways must be contiguous, and a
server cannot change providers meanwhile. So several starts are returned, to
be tried in turn.
"""

import bisect
from collections.abc import Iterable, Iterator, Sequence, Set
import itertools
from typing import TypeAlias

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import index
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import profile

#: Host, first and last start, and how many servers it stands for.
_Range: TypeAlias = tuple[str, int, int, int]

#: Of each class of sharing providers that is asked for, where a host has it.
_Pools: TypeAlias = tuple[tuple[host_view.Place, ...], ...]


def make_ask(fleet: fleets.Fleet, request: plan_request.Request) -> index.Ask:
    """Return what a host must have for one server.

    Classes of sharing providers are left out, for they are of no host.
    """
    return {
        name: amount
        for name, amount in request.demand.largest.items()
        if name not in fleet.shared_classes
    }


def list_starts(
    fleet: fleets.Fleet,
    request: plan_request.Request,
    latest: int,
    names: Set[str],
) -> Iterator[int]:
    """Return starts at which enough servers would fit, in order of time.

    All those at which one more of them may fit than just before: where a range
    begins, and in it where a booking of the host ends.

    :param latest: seconds since the epoch, none is later
    :param names: hosts that may be used
    """
    start, seconds = request.during.start, request.during.seconds
    is_together = request.affinity is plan_request.Affinity.SAME_HOST
    needed = 1 if is_together else request.least
    single = [
        (name, first, last, 1)
        for name, gaps in fleet.index.list_gaps(
            make_ask(fleet, request), names
        )
        for first, last in _list_ranges(gaps, start, seconds, latest)
    ]
    if is_together:
        single = _list_more(fleet, request, single, latest)
    # If amounts are all that matters, the first one does. It is no later than
    # if each host took one server only, so that few ranges count for it.
    bound = next(_list_enough(single, needed), latest + 1)
    near = [one for one in single if one[1] <= bound]
    if request.affinity is plan_request.Affinity.ANY:
        near += _list_more(fleet, request, single, bound - 1)
    earliest = next(_list_enough(near, needed), None)
    if earliest is None:
        return
    is_shared = not fleet.shared_classes.isdisjoint(request.demand.largest)
    if not is_shared:
        yield earliest
    ends = {end for one in single for end in fleet.list_ends(*one[:3])}
    whole = single
    if request.affinity is plan_request.Affinity.ANY:
        whole = single + _list_more(fleet, request, single, latest)
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
        fleet: fleets.Fleet,
        request: plan_request.Request,
        ranges: Iterable[_Range],
    ) -> None:
        self._calendar, self._during = fleet.calendar, request.during
        demand = request.demand.largest
        classes = sorted(demand.keys() & fleet.shared_classes)
        is_together = request.affinity is plan_request.Affinity.SAME_HOST
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


def _list_more(
    fleet: fleets.Fleet,
    request: plan_request.Request,
    single: Iterable[_Range],
    latest: int,
) -> list[_Range]:
    """Return the ranges for two servers of a host, for three, and so on.

    All of them at once, however many servers are asked for. If all servers
    must be on the same host, the ranges for so many, as of one.

    :param single: for one server; what takes two then takes one
    """
    ask, least = make_ask(fleet, request).items(), request.least
    is_together = request.affinity is plan_request.Affinity.SAME_HOST
    found: list[_Range] = []
    for name in sorted({one[0] for one in single if one[1] <= latest}):
        places = fleet.places[name]
        counts = fleet.calendar.list_counts(
            [(places.get(each, ()), amount) for each, amount in ask],
            request.during.start,
            least,
        )
        layers = _list_layers(
            (time, servers // least if is_together else servers - 1)
            for time, servers in counts
        )
        for begin, end, servers in layers:
            last = min(end - request.during.seconds, latest)
            if end == interval.FOREVER:
                last = latest
            if begin <= last:
                found.append((name, begin, last, servers))
    return found


def _list_layers(
    steps: Iterable[tuple[int, int]],
) -> Iterator[tuple[int, int, int]]:
    """Return the longest intervals of which the sum is a step function.

    :param steps: from when on, and how many
    :returns: start, end, how many
    """
    #: What has begun: from when on, and up to how many.
    begun: list[tuple[int, int]] = []
    for time, number in itertools.chain(steps, [(interval.FOREVER, 0)]):
        start = time
        while begun and begun[-1][1] > number:
            start, high = begun.pop()
            low = max(number, begun[-1][1] if begun else 0)
            yield start, time, high - low
        if number > (begun[-1][1] if begun else 0):
            begun.append((start, number))


def _list_enough(
    ranges: Sequence[_Range], needed: int, others: Set[int] = frozenset()
) -> Iterator[int]:
    """Return when ranges begin, and other times, that enough ranges are at."""
    times = {one[1] for one in ranges} | others
    changes = _list_changes(ranges)
    servers = 0
    for time in sorted(changes.keys() | times):
        servers += changes.get(time, 0)
        if servers >= needed and time in times:
            yield time


def _list_changes(ranges: Iterable[_Range]) -> dict[int, int]:
    """Return how many more ranges there are from each time on."""
    changes: dict[int, int] = {}
    for _name, first, last, servers in ranges:
        changes[first] = changes.get(first, 0) + servers
        changes[last + 1] = changes.get(last + 1, 0) - servers
    return changes


def _list_ranges(
    gaps: index.Gaps, free: int, seconds: int, latest: int
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
