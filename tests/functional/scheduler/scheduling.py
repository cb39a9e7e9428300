# SPDX-License-Identifier: Apache-2.0

"""Nova's own scheduler objects, filled as from its database."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import nova.conf
from nova import context
from nova import objects
from nova.scheduler import host_manager
from oslo_config import fixture as config_fixture
from oslo_utils.fixture import uuidsentinel
from oslo_utils import uuidutils

from nova_ext_resources.conf import scheduler
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_view
from tests import base
from tests.unit import builders

ASKS_WAYS = {f'resources:{builders.WAYS}': '4'}


class TestCase(base.TestCase):
    """Nova's options as they are by default, and Nova's objects."""

    def setUp(self) -> None:
        super().setUp()
        objects.register_all()
        scheduler.register_opts(nova.conf.CONF)
        self.config = self.useFixture(config_fixture.Config(nova.conf.CONF))
        nova.conf.CONF([], project='nova', default_config_files=[])

    def configure(self, **values: Any) -> None:
        self.config.config(group=scheduler.GROUP.name, **values)


def make_host(
    view: host_view.HostView | None = None,
    *,
    host: str = 'host-1',
    pinned: Iterable[int] = (),
    text: str | None = None,
    domains: Sequence[str] = builders.DOMAINS,
    amount: int = 4,
) -> Any:
    """Make a host state with one candidate per domain.

    :param text: what it has published, instead of a view
    :param pinned: CPUs that other servers hold
    """
    node = uuidutils.generate_uuid()
    published = stats.encode(view) if view is not None else text
    host_state = host_manager.HostState(host, host, uuidsentinel.cell)
    host_state.update(
        compute=objects.ComputeNode(
            uuid=node,
            host=host,
            hypervisor_hostname=host,
            memory_mb=65536,
            free_ram_mb=65536,
            local_gb=100,
            free_disk_gb=100,
            local_gb_used=0,
            disk_available_least=None,
            vcpus=48,
            vcpus_used=0,
            updated_at=None,
            numa_topology=_make_topology(frozenset(pinned))._to_json(),
            pci_device_pools=None,
            stats={} if published is None else {stats.KEY: published},
            metrics=None,
            host_ip=None,
            hypervisor_type='QEMU',
            hypervisor_version=1,
            cpu_info='',
            supported_hv_specs=[],
            cpu_allocation_ratio=1.0,
            ram_allocation_ratio=1.0,
            disk_allocation_ratio=1.0,
        )
    )
    host_state.allocation_candidates = [
        {
            'allocations': {
                node: {'resources': {'PCPU': 2, 'MEMORY_MB': 512}},
                rp_uuid: {'resources': {builders.WAYS: amount}},
            },
            'mappings': {'': [node, rp_uuid]},
        }
        for rp_uuid in domains
    ]
    return host_state


def make_spec(
    extra_specs: Mapping[str, str] = ASKS_WAYS,
    *,
    pinned: int = 2,
    shared: int = 0,
    cells: int = 1,
    num_instances: int = 1,
    **fields: Any,
) -> Any:
    """Make the request for servers; ``pinned=0`` lets them float.

    :param shared: vCPUs that float beside the pinned ones
        (``hw:cpu_policy=mixed``)
    :param cells: guest NUMA cells, of so many CPUs each
    """
    return objects.RequestSpec(
        context.RequestContext(request_id='req-1'),
        flavor=objects.Flavor(
            name='ways',
            vcpus=2,
            memory_mb=512,
            root_gb=1,
            ephemeral_gb=0,
            swap=0,
            extra_specs=dict(extra_specs),
        ),
        image=objects.ImageMeta(properties=objects.ImageMetaProps()),
        instance_uuid=uuidsentinel.server,
        num_instances=num_instances,
        numa_topology=(_make_guest(pinned, shared, cells) if pinned else None),
        pci_requests=objects.InstancePCIRequests(requests=[]),
        requested_resources=[],
        **fields,
    )


def list_domains(host_state: Any) -> list[str]:
    """Return the domain of each candidate that is left, in order."""
    return [
        rp_uuid
        for candidate in host_state.allocation_candidates
        for rp_uuid in candidate['allocations']
        if rp_uuid in builders.DOMAINS
    ]


def _make_guest(pinned: int, shared: int, cells: int) -> Any:
    return objects.InstanceNUMATopology(
        cells=[
            objects.InstanceNUMACell(
                id=number,
                cpuset=set(range(pinned, pinned + shared)),
                pcpuset=set(range(pinned)),
                memory=512,
                cpu_policy='mixed' if shared else 'dedicated',
            )
            for number in range(cells)
        ]
    )


def _make_topology(pinned: frozenset[int]) -> Any:
    return objects.NUMATopology(
        cells=[_make_cell(number, pinned) for number in range(2)]
    )


def _make_cell(number: int, pinned: frozenset[int]) -> Any:
    cpus = set(range(number * 12, number * 12 + 12))
    return objects.NUMACell(
        id=number,
        socket=number,
        cpuset=cpus,
        pcpuset=cpus,
        memory=32768,
        cpu_usage=0,
        memory_usage=0,
        pinned_cpus=cpus & pinned,
        siblings=[{cpu} for cpu in cpus],
        mempages=[],
        network_metadata=objects.NetworkMetadata(
            physnets=set(), tunneled=False
        ),
    )
