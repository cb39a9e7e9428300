# SPDX-License-Identifier: Apache-2.0

"""Makes hosts and requests for tests of plans."""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Any

from nova_ext_resources.claims import base
from nova_ext_resources.claims.checks import cache_affinity
from nova_ext_resources.claims.checks import capacity
from nova_ext_resources.claims.checks import granularity
from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import calendar as calendar_mod
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import host
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import server_demand
from tests.unit import builders

TRACKERS = builders.make_trackers()

WAYS = builders.WAYS
CLOS = builders.CLOS

#: CPUs of the two NUMA cells, each with a cache of its own.
CELLS = (frozenset({0, 1, 2, 3}), frozenset({4, 5, 6, 7}))


EVER = interval.Interval(interval.ALWAYS)


def make_tests() -> dict[str, base.ClaimTest]:
    return {
        'granularity': granularity.GranularityTest(TRACKERS),
        'capacity': capacity.CapacityTest(TRACKERS),
        'cache_affinity': cache_affinity.CacheAffinityTest(TRACKERS),
    }


def span(start: int, end: int = interval.FOREVER) -> interval.Interval:
    return interval.Interval(start, end)


def make_provider(
    rp_uuid: str, traits: Iterable[str] = (), **totals: int
) -> host_provider.Provider:
    return host_provider.Provider(
        rp_uuid=rp_uuid,
        name=rp_uuid,
        traits=frozenset(traits),
        inventories={
            name: class_inventory.Inventory(total=total)
            for name, total in totals.items()
        },
    )


def make_host(name: str, zone: str = '', **totals: int) -> host.Host:
    """Make a host with nothing but its own provider."""
    root = make_provider(name, (), **(totals or {'VCPU': 8}))
    return host.make_host(name, [root], host_view.HostView(), zone=zone)


def make_cached_host(
    name: str, ways: int = 8, *, clos: int = 8, follows_tasks: bool = False
) -> host.Host:
    """Make a host of two caches, with the CPUs of a cell each."""
    rdt, caches = f'{name} RDT', (f'{name} L3_0', f'{name} L3_1')
    tracked = {(rdt, CLOS): builders.make_count(clos)}
    for rp_uuid, cpus in zip(caches, ('0-3', '4-7'), strict=True):
        tracked[rp_uuid, WAYS] = dataclasses.replace(
            builders.make_ways(cpus=cpus, follows_tasks=follows_tasks),
            state=cache_ways.CacheWaysState((1 << ways) - 1),
            implied=(rdt, CLOS),
        )
    return host.make_host(
        name,
        [
            make_provider(name, VCPU=8, PCPU=8),
            make_provider(rdt),
            *(make_provider(one, ['CUSTOM_L3']) for one in caches),
        ],
        host_view.HostView(
            tracked=tracked, resource_classes=frozenset({WAYS, CLOS})
        ),
        cells=CELLS,
    )


def make_demand(
    attributes: Mapping[str, Mapping[str, str]] | None = None,
    *,
    cells: tuple[int, ...] = (),
    is_isolated: bool = False,
    traits: Mapping[str, server_demand.Traits] | None = None,
    **groups: Mapping[str, int],
) -> server_demand.Demand:
    """Make a demand of groups named by suffix; ``_`` is the one without."""
    return server_demand.Demand(
        requirement=dataclasses.replace(
            builders.make_requirement(**groups), attributes=attributes or {}
        ),
        cells=cells,
        is_isolated=is_isolated,
        traits=traits or {},
    )


def make_request(
    key: str,
    during: interval.Interval,
    demand: server_demand.Demand | None = None,
    **fields: Any,
) -> plan_request.Request:
    """Make a request of four VCPU per server, unless given."""
    return plan_request.Request(
        key=key,
        during=during,
        demand=demand or make_demand(_={'VCPU': 4}),
        **fields,
    )


def make_planner(*hosts: host.Host) -> planner.Planner:
    fleet = fleets.Fleet(hosts, TRACKERS)
    return planner.Planner(fleet, make_tests())


def list_overbooked(calendar: calendar_mod.Calendar) -> list[host_view.Place]:
    """Return the places of which more is booked than there is, at any time."""
    return [
        one
        for one in sorted(calendar.places)
        if calendar.find_free(one, EVER) < 0
    ]
