# SPDX-License-Identifier: Apache-2.0

"""How much there is, by zone and resource class, over time."""

from collections.abc import Iterable, Iterator, Mapping
import dataclasses
import itertools
from typing import TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import packing
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import server_demand

#: Parts of a window; each one is a line for people.
MAX_PARTS = 1000

#: Parts in which servers are counted: each one is a plan. A week by the hour.
MAX_PLANS = 200

#: Servers are counted up to that number in each part.
MAX_SERVERS = 1000

#: And up to that one in all parts, which is some seconds of work.
MAX_COUNTED = 50_000

#: Zone, resource class.
Kind: TypeAlias = tuple[str, str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """One resource class in one zone in one part of a window.

    A sharing provider that several zones use is counted in each of them.

    :ivar total: what the inventories allow, allocation ratio counted in, and
        planned changes of capacity: the least at any second of the part, but
        no less than is used
    :ivar used: what consumers hold now, who are taken to stay
    :ivar reserved: the most that is reserved at any second of the part
    :ivar available: the least that is left at any second of it. Where a host
        lacks what it has promised, that is not taken from the others
    """

    zone: str
    resource_class: str
    during: interval.Interval
    total: int
    used: int
    reserved: int
    available: int


def list_amounts(
    fleet: fleets.Fleet,
    during: interval.Interval,
    *,
    zone: str | None = None,
    step: int | None = None,
) -> Iterator[Amounts]:
    """Return what there is, by zone, class and time.

    :param zone: only of this one
    :param step: seconds of each part; without it a part ends where something
        changes
    :raises ValueError: these would be more than ``MAX_PARTS``
    """
    for (name, resource_class), places in sorted(_group(fleet, zone).items()):
        states = list(places.values())
        parts = _list_parts(fleet, places, during)
        used = sum(one.used for one in states)
        for part, reserved, available, capacity in _cut(parts, during, step):
            yield Amounts(
                zone=name,
                resource_class=resource_class,
                during=part,
                total=capacity + used,
                used=used,
                reserved=reserved,
                available=available,
            )


def list_fits(
    fleet: fleets.Fleet,
    tests: Mapping[str, base.ClaimTest],
    demand: server_demand.Demand,
    during: interval.Interval,
    *,
    zone: str | None = None,
    step: int | None = None,
) -> Iterator[tuple[interval.Interval, int]]:
    """Return how many servers fit throughout each part of a window.

    As the planner would place them, ``MAX_SERVERS`` at most.

    :raises ValueError: there would be more parts than ``MAX_PLANS``, or more
        servers in all of them than ``MAX_COUNTED``
    """
    places = {place for kind in _group(fleet, zone).values() for place in kind}
    parts = _list_parts(fleet, places, during)
    counted = 0
    for part, *_amounts in _cut(parts, during, step, MAX_PLANS):
        request = plan_request.Request(
            key='capacity',
            demand=demand,
            during=part,
            most=MAX_SERVERS,
            zone=zone,
        )
        servers = len(packing.Packing(fleet, tests, request, part).servers)
        counted += servers
        if counted > MAX_COUNTED:
            raise ValueError(
                f'the answer would count more than {MAX_COUNTED} servers (up '
                f'to {MAX_SERVERS} in each part of the period); choose a '
                'shorter period, a longer step, or one zone'
            )
        yield part, servers


def list_zones(hosts: Iterable[host_mod.Host]) -> list[str]:
    """Return the zones of hosts, sorted."""
    return sorted({one.zone for one in hosts})


def _group(
    fleet: fleets.Fleet, zone: str | None
) -> dict[Kind, dict[host_view.Place, host_view.TrackerState]]:
    found: dict[Kind, dict[host_view.Place, host_view.TrackerState]] = {}
    for host in fleet.hosts.values():
        if zone in (None, host.zone):
            for place, tracked in host.view.tracked.items():
                kind = found.setdefault((host.zone, place[1]), {})
                kind[place] = tracked.state
    return found


#: Part, most that is reserved in it, least that is available, and least that
#: there is beside what is used now.
_Part: TypeAlias = tuple[interval.Interval, int, int, int]


def _list_parts(
    fleet: fleets.Fleet,
    places: Iterable[host_view.Place],
    during: interval.Interval,
) -> list[_Part]:
    """Return the parts in which nothing changes."""
    changes: dict[int, tuple[int, int, int]] = {}

    def change(time: int, *deltas: int) -> None:
        before = changes.get(time, _NONE)
        changes[time] = _add(before, deltas)

    for place in places:
        for part, capacity, used in fleet.calendar.list_steps(place, during):
            left = max(capacity - used, 0)
            change(part.start, used, left, capacity)
            change(part.end, -used, -left, -capacity)
    values, found = _NONE, list[_Part]()
    for start, end in itertools.pairwise(sorted({*changes, *_ends(during)})):
        delta = changes.get(start, _NONE)
        values = _add(values, delta)
        if delta != _NONE or not found:
            found.append((interval.Interval(start, end), *values))
        else:
            part = interval.Interval(found[-1][0].start, end)
            found[-1] = (part, *found[-1][1:])
    return found


_NONE = (0, 0, 0)


def _add(
    one: tuple[int, int, int], other: Iterable[int]
) -> tuple[int, int, int]:
    first, second, third = map(sum, zip(one, other, strict=True))
    return first, second, third


def _ends(during: interval.Interval) -> tuple[int, int]:
    return during.start, during.end


def _cut(
    parts: list[_Part],
    during: interval.Interval,
    step: int | None,
    most: int = MAX_PARTS,
) -> Iterator[_Part]:
    """Return the parts as they are, or of so many seconds each.

    :raises ValueError: there are too many
    """
    number = len(parts) if step is None else -(-during.seconds // step)
    if number > most:
        raise ValueError(
            f'the period would have {number} parts (the limit is {most}); '
            'choose a shorter period, or a longer step'
        )
    if step is None:
        yield from parts
        return
    index = 0
    for start in range(during.start, during.end, step):
        end = min(start + step, during.end)
        while parts[index][0].end <= start:
            index += 1
        last = index
        while last < len(parts) and parts[last][0].start < end:
            last += 1
        inside = parts[index:last]
        yield (
            interval.Interval(start, end),
            max(one[1] for one in inside),
            min(one[2] for one in inside),
            min(one[3] for one in inside),
        )
