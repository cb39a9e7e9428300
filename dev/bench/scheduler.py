# SPDX-License-Identifier: Apache-2.0

"""Our filter and weigher beside Nova's own, over ten thousand hosts.

And our filter beside itself, over more and larger hosts.
"""

from collections.abc import Callable
import dataclasses
import functools
from typing import Any

import nova.conf
from nova import objects
from nova.scheduler import filters as nova_filters
from nova.scheduler.filters import compute_capabilities_filter
from nova.scheduler.filters import numa_topology_filter
from nova.scheduler import weights as nova_weights
from nova.scheduler.weights import pci

from dev.bench.harness import fleet as fleet_mod
from dev.bench.harness import rows as rows_mod
from dev.bench.harness import timing
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.scheduler import filters
from nova_ext_resources.scheduler import weighers

HOSTS = 10_000

#: Hosts with as many sockets, of which there are fewer.
MANY_SOCKETS, MANY_HOSTS = 16, 1_000

#: To see how the time of a request grows.
FEW_HOSTS = 100

#: What a host may take among ten thousand, of what it takes among a hundred.
MAX_GROWTH = 1.5

#: Nova's NUMATopologyFilter takes seconds.
REPETITIONS = 7
SLOW_REPETITIONS = 2

WAYS = {f'resources:{fleet_mod.LLC}': '4'}
# The whole document must be parsed to look at one value of it.
CAPABILITIES = {f'capabilities:{stats.KEY}:v': f'= {stats.VERSION}'}

#: Bytes; a quarter of what the TEXT column that MySQL keeps stats in holds.
MAX_DOCUMENT = 16 * 1024


class PassThroughFilter(nova_filters.BaseHostFilter):
    """The least that a filter can do."""

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        return True


def run() -> list[rows_mod.Row]:
    nova.conf.CONF([], project='nova', default_config_files=[])
    objects.register_all()
    fleet = fleet_mod.Fleet(HOSTS)
    return [
        *_run_filters(fleet),
        _run_on_many_sockets(),
        _run_growing(fleet),
        *_run_weighers(fleet),
        _measure_document(),
    ]


def _run_filters(fleet: fleet_mod.Fleet) -> list[rows_mod.Row]:
    ours = filters.ExtendedResourcesFilter()
    capabilities = compute_capabilities_filter.ComputeCapabilitiesFilter()
    numa = numa_topology_filter.NUMATopologyFilter()
    plain = fleet_mod.make_request({})
    floating = fleet_mod.make_request(WAYS)
    pinned = fleet_mod.make_request(WAYS, pinned=8)
    asking = fleet_mod.make_request(CAPABILITIES)
    shared = functools.partial(fleet.publish, False, 4)
    local = functools.partial(fleet.publish, True, 4)
    full = functools.partial(fleet.publish, True, fleet_mod.WAYS)

    def compare(
        what: str,
        publish: Callable[[], None],
        mine: Any,
        peer: tuple[Any, Any],
        goal: float | None,
        repetitions: int = REPETITIONS,
    ) -> rows_mod.Row:
        def prepare() -> tuple[timing.Call, timing.Call]:
            publish()
            kept = [one.allocation_candidates for one in fleet.hosts]
            return (
                lambda: _filter(fleet, kept, ours, mine),
                lambda: _filter(fleet, kept, *peer),
            )

        return _make_row(what, prepare, goal, repetitions)

    return [
        compare(
            'filter, nothing asked : pass-through filter',
            local,
            plain,
            (PassThroughFilter(), plain),
            1.3,
        ),
        compare(
            'filter, 4 ways, floating : ComputeCapabilitiesFilter on JSON',
            shared,
            floating,
            (capabilities, asking),
            1.5,
        ),
        compare(
            'filter, 4 ways, pinned : ComputeCapabilitiesFilter on JSON',
            local,
            pinned,
            (capabilities, asking),
            None,
        ),
        compare(
            'filter, all refused : ComputeCapabilitiesFilter on JSON',
            full,
            pinned,
            (capabilities, asking),
            1.5,
        ),
        compare(
            'filter, 4 ways, pinned : NUMATopologyFilter',
            local,
            pinned,
            (numa, pinned),
            0.1,
            SLOW_REPETITIONS,
        ),
    ]


def _run_on_many_sockets() -> rows_mod.Row:
    """Compare a host of 16 L3 domains, of 16 candidates, with one of two."""
    many = fleet_mod.Fleet(MANY_HOSTS, sockets=MANY_SOCKETS)
    return _compare_fleets(
        f'filter, pinned, {MANY_SOCKETS} domains a host : 2 domains',
        many,
        fleet_mod.Fleet(MANY_HOSTS),
        goal=MANY_SOCKETS / fleet_mod.SOCKETS,
    )


def _run_growing(fleet: fleet_mod.Fleet) -> rows_mod.Row:
    few = fleet_mod.Fleet(FEW_HOSTS)
    return _compare_fleets(
        f'filter, pinned, a host of {HOSTS} : of {FEW_HOSTS}',
        fleet,
        few,
        goal=MAX_GROWTH,
    )


def _compare_fleets(
    what: str, large: fleet_mod.Fleet, small: fleet_mod.Fleet, goal: float
) -> rows_mod.Row:
    """Compare the time that one host takes, in microseconds."""
    spec = fleet_mod.make_request(WAYS, pinned=8)
    ours = filters.ExtendedResourcesFilter()

    def prepare(fleet: fleet_mod.Fleet, rounds: int) -> timing.Call:
        fleet.publish(True, 4)
        kept = [one.allocation_candidates for one in fleet.hosts]

        def run() -> None:
            for _ in range(rounds):
                _filter(fleet, kept, ours, spec)

        return run

    rounds = max(len(large.hosts) // len(small.hosts), 1)
    pairs = timing.compare(
        lambda: (prepare(large, 1), prepare(small, rounds)), REPETITIONS
    )
    compared = rows_mod.compare_pairs(what, pairs, goal, 'us a host')
    return dataclasses.replace(
        compared,
        ours=round(compared.ours * 1000 / len(large.hosts), 2),
        peer=round(compared.peer * 1000 / len(small.hosts) / rounds, 2),
    )


def _run_weighers(fleet: fleet_mod.Fleet) -> list[rows_mod.Row]:
    ours = weighers.ExtendedResourcesWeigher()
    theirs = pci.PCIWeigher()

    def compare(what: str, spec: Any) -> rows_mod.Row:
        def prepare() -> tuple[timing.Call, timing.Call]:
            fleet.publish(True, 4)
            return (
                lambda: _weigh(fleet, ours, spec),
                lambda: _weigh(fleet, theirs, spec),
            )

        return _make_row(what, prepare, 1.3, REPETITIONS)

    plain = fleet_mod.make_request({})
    asking = fleet_mod.make_request(WAYS, pinned=8)
    return [
        compare('weigher, nothing asked : PCIWeigher', plain),
        compare('weigher, 4 ways : PCIWeigher', asking),
    ]


def _make_row(
    what: str,
    prepare: Callable[[], tuple[timing.Call, timing.Call]],
    goal: float | None,
    repetitions: int,
) -> rows_mod.Row:
    pairs = timing.compare(prepare, repetitions)
    return rows_mod.compare_pairs(what, pairs, goal)


def _filter(
    fleet: fleet_mod.Fleet, kept: list[Any], host_filter: Any, spec: Any
) -> None:
    for host_state, options in zip(fleet.hosts, kept, strict=True):
        host_state.allocation_candidates = options
    handler = nova_filters.HostFilterHandler()
    handler.get_filtered_objects([host_filter], fleet.hosts, spec)


def _weigh(fleet: fleet_mod.Fleet, weigher: Any, spec: Any) -> None:
    handler = nova_weights.HostWeightHandler()
    handler.get_weighed_objects([weigher], fleet.hosts, spec)


def _measure_document() -> rows_mod.Row:
    document = stats.encode(fleet_mod.make_wide_view(32))
    return rows_mod.make_row(
        'stats document of 32 L3 domains',
        len(document.encode()),
        MAX_DOCUMENT,
        'bytes',
    )
