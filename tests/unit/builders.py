# SPDX-License-Identifier: Apache-2.0

"""Makes values for tests: everything has a default that works."""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.claims import base
from nova_ext_resources.claims.trackers import bandwidth
from nova_ext_resources.claims.trackers import burst_ways
from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.claims.trackers import device
from nova_ext_resources.claims.trackers import shared_ways
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import requirements
from nova_ext_resources.objects import resource

WAYS = 'CUSTOM_LLC_WAYS'
CLOS = 'CUSTOM_RDT_CLOS'
SEATS = 'CUSTOM_LICENCE_SEAT'

RDT: str = uuidsentinel.rdt
L3_0: str = uuidsentinel.l3_0
L3_1: str = uuidsentinel.l3_1
POOL: str = uuidsentinel.pool

#: Two sockets of 12 CPUs, hyper-threads behind them.
CPUS = ('0-11,24-35', '12-23,36-47')

DOMAINS = (L3_0, L3_1)


def make_trackers() -> dict[str, base.Tracker]:
    return {
        'bandwidth': bandwidth.BandwidthTracker(),
        'burst_ways': burst_ways.BurstWaysTracker(),
        'cache_ways': cache_ways.CacheWaysTracker(),
        'count': count.CountTracker(),
        'device': device.DeviceTracker(),
        'shared_ways': shared_ways.SharedWaysTracker(),
    }


def make_definition(**fields: Any) -> resource.ResourceDefinition:
    given: dict[str, Any] = {
        'name': SEATS,
        'units': 'seats',
        'description': 'Seats of a licence that floats on the host.',
    }
    return resource.ResourceDefinition(**{**given, **fields})


def make_inventory(
    total: int = 10, **fields: Any
) -> class_inventory.Inventory:
    return class_inventory.Inventory(total=total, **fields)


def make_host_provider(**fields: Any) -> host_provider.HostProvider:
    given: dict[str, Any] = {
        'key': 'LICENCES',
        'inventories': {SEATS: make_inventory()},
    }
    return host_provider.HostProvider(**{**given, **fields})


def make_assignment(**fields: Any) -> assignment.Assignment:
    given: dict[str, Any] = {
        'rp_uuid': L3_0,
        'rp_key': 'L3_0',
        'resource_class': WAYS,
        'amount': 4,
        'units': {'mask': 'f'},
    }
    return assignment.Assignment(**{**given, **fields})


def make_entry(consumer_uuid: str, **fields: Any) -> assignment.Entry:
    """Make the entry of a server that holds one thing, which is applied."""
    return assignment.Entry(
        consumer_uuid=consumer_uuid,
        state=assignment.State.APPLIED,
        assignments=(make_assignment(**fields),),
    )


def make_requirement(**groups: Mapping[str, int]) -> requirements.Requirement:
    """Make one of groups named by suffix; ``_`` is the one without."""
    return requirements.Requirement(
        groups=tuple(
            requirements.RequestGroup(
                suffix='' if suffix == '_' else suffix, resources=resources
            )
            for suffix, resources in sorted(groups.items())
        )
    )


def make_request(
    allocations: Mapping[str, Mapping[str, int]] | None = None,
    *,
    cpus: Sequence[int] | None = (0, 1),
    float_cpus: Sequence[int] | None = None,
    asked: Mapping[str, int] | None = None,
    attributes: Mapping[str, Mapping[str, str]] | None = None,
) -> assignment.ClaimRequest:
    needs = make_requirement(_=asked) if asked else make_requirement()
    return assignment.ClaimRequest(
        consumer_uuid=uuidsentinel.server,
        allocations={L3_0: {WAYS: 4}} if allocations is None else allocations,
        requirement=dataclasses.replace(needs, attributes=attributes or {}),
        cpus=None if cpus is None else frozenset(cpus),
        float_cpus=None if float_cpus is None else frozenset(float_cpus),
    )


def make_ways(
    free: int = 0x7FF,
    taken: int = 0,
    *,
    cpus: str | None = CPUS[0],
    follows_tasks: bool = False,
) -> host_view.Tracked:
    """Make a cache domain of 11 ways, of which ``free`` are free."""
    ways = free | taken
    return host_view.Tracked(
        tracker='cache_ways',
        state=cache_ways.CacheWaysState(ways, taken),
        inventory=make_inventory(11),
        implied=(RDT, CLOS),
        cpus=cpus,
        follows_tasks=follows_tasks,
    )


def make_count(
    capacity: int = 6, used: int = 0, **fields: Any
) -> host_view.Tracked:
    return host_view.Tracked(
        tracker='count',
        state=count.CountState(capacity, used),
        inventory=make_inventory(max(capacity, 1), **fields),
    )


def make_view(
    free: Sequence[int] = (0x7FF, 0x7FF),
    *,
    clos: int = 6,
    seats: int = 0,
    follows_tasks: bool = False,
) -> host_view.HostView:
    """Make a host with one cache domain per mask of free ways."""
    tracked = {
        (DOMAINS[i], WAYS): make_ways(
            mask, cpus=CPUS[i], follows_tasks=follows_tasks
        )
        for i, mask in enumerate(free)
    }
    tracked[RDT, CLOS] = make_count(clos)
    if seats:
        tracked[POOL, SEATS] = make_count(seats)
    return host_view.HostView(
        tracked=tracked,
        keys={RDT: 'RDT', L3_0: 'L3_0', L3_1: 'L3_1', POOL: 'POOL'},
        resource_classes=frozenset({WAYS, CLOS, SEATS}),
    )
