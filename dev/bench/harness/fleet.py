# SPDX-License-Identifier: Apache-2.0

"""Many hosts as nova-scheduler sees them after a database load.

Two sockets each, or more, of 12 cores with two threads and one L3 cache of 11
ways.
"""

from collections.abc import Sequence
import random
from typing import Any
import uuid

from nova import objects
from nova.pci import stats as pci_stats
from nova.scheduler import host_manager

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_view

SOCKETS = 2
CORES = 12
WAYS = 11
CLASSES = 6

#: Of each cell.
_MEMORY_MB = 131072

LLC = 'CUSTOM_LLC_WAYS'
CLOS = 'CUSTOM_RDT_CLOS'


class Fleet:
    """Hosts that can be loaded anew, with new documents every time.

    :param sockets: of each host
    """

    def __init__(
        self, size: int, seed: int = 1, sockets: int = SOCKETS
    ) -> None:
        self._random = random.Random(seed)
        self._sockets = sockets
        self.hosts = [self._make_host(number) for number in range(size)]

    def publish(self, is_cpu_local: bool, amount: int) -> None:
        """Give every host a new document and the candidates to go with it.

        All is new, down to the uuids, so that nothing which is kept from
        one request to the next is of use.
        """
        for host_state in self.hosts:
            domains = [self._make_uuid() for _ in range(self._sockets)]
            view = self._make_view(domains, is_cpu_local)
            host_state.stats = {
                'num_instances': '0',
                stats.KEY: stats.encode(view),
            }
            host_state.allocation_candidates = [
                make_candidate(host_state.uuid, rp_uuid, amount)
                for rp_uuid in domains
            ]

    def _make_view(
        self, domains: Sequence[str], is_cpu_local: bool
    ) -> host_view.HostView:
        rdt = self._make_uuid()
        tracked = {(rdt, CLOS): _track_classes(self._random.randrange(4))}
        for socket, rp_uuid in enumerate(domains):
            # One end of the cache is taken, so that 4 ways still fit.
            taken = (1 << self._random.randrange(7)) - 1
            cpus = _format_cpus(socket, self._sockets)
            tracked[rp_uuid, LLC] = _track_ways(
                taken, rdt, cpus if is_cpu_local else None
            )
        return host_view.HostView(tracked=tracked)

    def _make_uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128)))

    def _make_host(self, number: int) -> Any:
        host_state = host_manager.HostState(
            f'compute-{number}', f'compute-{number}', self._make_uuid()
        )
        host_state.uuid = self._make_uuid()
        host_state.numa_topology = self._make_topology()
        host_state.pci_stats = pci_stats.PciDeviceStats(
            host_state.numa_topology
        )
        host_state.cpu_allocation_ratio = 4.0
        host_state.ram_allocation_ratio = 1.0
        return host_state

    def _make_topology(self) -> Any:
        return make_topology(
            [self._random.randrange(6) for _ in range(self._sockets)]
        )


def make_request(extra_specs: dict[str, str], pinned: int = 0) -> Any:
    """Make the request of one server.

    :param pinned: how many dedicated CPUs it has; 0 lets it float
    """
    return objects.RequestSpec(
        flavor=objects.Flavor(name='bench', extra_specs=extra_specs),
        image=objects.ImageMeta(properties=objects.ImageMetaProps()),
        numa_topology=_make_guest(pinned) if pinned else None,
        pci_requests=objects.InstancePCIRequests(requests=[]),
        num_instances=1,
        instance_uuid=str(uuid.UUID(int=1)),
        scheduler_hints={},
    )


def make_topology(taken: Sequence[int] = (0,) * SOCKETS) -> Any:
    """Make the NUMA topology of one host.

    :param taken: how many cores of each cell are pinned, from the low end, as
        servers with threads take them
    """
    return objects.NUMATopology(
        cells=[
            _make_cell(number, cores, len(taken))
            for number, cores in enumerate(taken)
        ]
    )


def _make_cell(socket: int, taken: int, sockets: int) -> Any:
    siblings = _list_siblings(socket, sockets)
    cpus = set[int]().union(*siblings)
    return objects.NUMACell(
        id=socket,
        socket=socket,
        cpuset=cpus,
        pcpuset=cpus,
        memory=_MEMORY_MB,
        cpu_usage=0,
        memory_usage=0,
        pinned_cpus=set[int]().union(*siblings[:taken]),
        siblings=siblings,
        mempages=[
            objects.NUMAPagesTopology(
                size_kb=4, total=_MEMORY_MB * 256, used=0
            )
        ],
        network_metadata=objects.NetworkMetadata(
            physnets=set(), tunneled=False
        ),
    )


def make_empty_view() -> host_view.HostView:
    """Make the view of one host of which nothing is in use."""
    rdt = str(uuid.UUID(int=0))
    tracked = {(rdt, CLOS): _track_classes(0)}
    for socket in range(SOCKETS):
        tracked[str(uuid.UUID(int=socket + 1)), LLC] = _track_ways(
            0, rdt, _format_cpus(socket, SOCKETS)
        )
    return host_view.HostView(tracked=tracked)


def make_wide_view(domains: int) -> host_view.HostView:
    """Make the view of one host with many L3 domains, half in use."""
    rdt = str(uuid.UUID(int=0))
    tracked = {(rdt, CLOS): _track_classes(7, 15)}
    for number in range(domains):
        rp_uuid = str(uuid.UUID(int=(number + 1) << 96))
        low = number * 8
        cpus = f'{low}-{low + 7},{256 + low}-{256 + low + 7}'
        tracked[rp_uuid, LLC] = _track_ways(0xFF, rdt, cpus, 16)
        tracked[rp_uuid, 'CUSTOM_MEMORY_BANDWIDTH_PERCENT'] = (
            host_view.Tracked(
                tracker='count',
                state=count.CountState(100, 50),
                implied=(rdt, CLOS),
                cpus=cpus,
            )
        )
    return host_view.HostView(tracked=tracked)


def _track_classes(used: int, total: int = CLASSES) -> host_view.Tracked:
    return host_view.Tracked(
        tracker='count', state=count.CountState(total, used)
    )


def _track_ways(
    taken: int, rdt: str, cpus: str | None, ways: int = WAYS
) -> host_view.Tracked:
    """Make a cache, each server of which needs a class of service, too."""
    return host_view.Tracked(
        tracker='cache_ways',
        state=cache_ways.CacheWaysState((1 << ways) - 1, taken),
        implied=(rdt, CLOS),
        cpus=cpus,
    )


def make_candidate(root: str, rp_uuid: str, amount: int) -> dict[str, Any]:
    return {
        'allocations': {
            root: {'resources': {'PCPU': 8, 'MEMORY_MB': 4096}},
            rp_uuid: {'resources': {LLC: amount}},
        },
        'mappings': {'': [root, rp_uuid]},
    }


def _make_guest(pinned: int) -> Any:
    return objects.InstanceNUMATopology(
        cells=[
            objects.InstanceNUMACell(
                id=0,
                cpuset=set(),
                pcpuset=set(range(pinned)),
                memory=4096,
                cpu_policy='dedicated',
            )
        ]
    )


def _list_siblings(socket: int, sockets: int) -> list[set[int]]:
    first = socket * CORES
    return [
        {cpu, cpu + sockets * CORES} for cpu in range(first, first + CORES)
    ]


def _format_cpus(socket: int, sockets: int) -> str:
    first = socket * CORES
    second = first + sockets * CORES
    return f'{first}-{first + CORES - 1},{second}-{second + CORES - 1}'
