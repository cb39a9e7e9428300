# SPDX-License-Identifier: Apache-2.0

"""Who has too little of what is promised, once all that is planned counts.

Pure. Booked is compared with what there will be, second by second, so that it
is the same whatever was said before: nobody lacks anything where there is
enough.
"""

from collections.abc import Collection, Iterator, Mapping
import dataclasses
from typing import TypeAlias

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import packing
from nova_ext_resources.reservation import profile

#: Reservation -> its servers.
Held: TypeAlias = Mapping[str, packing.PlannedServers]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """What there is of a place.

    :ivar capacity: from now on
    :ivar used: what servers without a reservation hold now. Most of them go
        when they are told to: a reservation is not degraded by them ahead of
        its time, but it is not well again beside them either
    """

    capacity: profile.Profile
    used: int = 0


Supplies: TypeAlias = Mapping[host_view.Place, Supply]


def list_lacking(
    held: Held,
    supplies: Supplies,
    now: int,
    *,
    degraded: Collection[str],
    priorities: Mapping[str, int],
) -> dict[str, frozenset[host_view.Place]]:
    """Return reservation -> where it lacks something.

    Those keep what they have that have started, and then those of the highest
    priority. Those that are degraded come last: nobody is degraded that
    another one may be well.

    :param held: all that is booked there
    :param now: seconds since the epoch
    """
    ordered = sorted(
        held,
        key=lambda key: (
            key in degraded,
            not _has_begun(held[key], now),
            -priorities.get(key, 0),
            key,
        ),
    )
    found = {}
    tried = _try_all(
        {key: held[key] for key in ordered}, supplies, now, degraded
    )
    for key, (free, booked) in zip(ordered, tried, strict=True):
        if lacks := _find_lacks(free, booked):
            found[key] = lacks
            if not _has_begun(held[key], now):
                _give_back(free, booked)
    return found


#: What is free of each place, and what one reservation has booked there.
_Free: TypeAlias = dict[host_view.Place, profile.Profile]
_Booked: TypeAlias = list[tuple[host_view.Place, interval.Interval, int]]


def _try_all(
    held: Held, supplies: Supplies, now: int, degraded: Collection[str]
) -> Iterator[tuple[_Free, _Booked]]:
    """Book one after the other, whether it fits or not."""
    rest = interval.Interval(now)
    free = {place: _copy(one.capacity) for place, one in supplies.items()}
    is_beside = False
    for key, servers in held.items():
        if key in degraded and not is_beside:
            is_beside = True
            for place, one in supplies.items():
                free[place].add(rest, -one.used)
        booked = [*_list_booked(servers, supplies, now)]
        for place, during, amount in booked:
            free[place].add(during, -amount)
        yield free, booked


def _copy(one: profile.Profile) -> profile.Profile:
    made = profile.Profile()
    for part, amount in one.list_steps(interval.Interval(interval.ALWAYS)):
        made.set(part, amount)
    return made


def _list_booked(
    servers: packing.PlannedServers, supplies: Supplies, now: int
) -> Iterator[tuple[host_view.Place, interval.Interval, int]]:
    for one in servers:
        start = max(one.during.start, now)
        if start >= one.during.end:
            continue
        for place, amount in one.places.items():
            if place in supplies:
                during = interval.Interval(start, one.during.end)
                yield place, during, amount


def _find_lacks(free: _Free, booked: _Booked) -> frozenset[host_view.Place]:
    return frozenset(
        place
        for place, during, _amount in booked
        if free[place].lowest(during) < 0
    )


def _give_back(free: _Free, booked: _Booked) -> None:
    for place, during, amount in booked:
        free[place].add(during, amount)


def _has_begun(servers: packing.PlannedServers, now: int) -> bool:
    return any(
        one.during.start <= now or one.consumer is not None for one in servers
    )
