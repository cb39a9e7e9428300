# SPDX-License-Identifier: Apache-2.0

"""Hosts with Nova's libvirt driver, above Nova's own fake of libvirt."""

import io
import re
from typing import Any
from unittest import mock
import uuid

import fixtures
from nova.tests import fixtures as nova_fixtures
from nova.tests.fixtures import libvirt as fakelibvirt

from tests.functional.virt import backends

#: What Nova's driver would do with files, devices and processes; as Nova's own
#: tests of it replace that.
_REPLACED: dict[str, dict[str, Any]] = {
    'nova.privsep.utils.supports_direct_io': {'return_value': True},
    'nova.virt.libvirt.LibvirtDriver._create_image': {
        'return_value': (False, False)
    },
    'nova.virt.libvirt.LibvirtDriver._get_local_gb_info': {
        'return_value': {'total': 128, 'used': 44, 'free': 84}
    },
    # Runs uptime, which not every machine has.
    'nova.virt.libvirt.LibvirtDriver.get_host_uptime': {
        'return_value': 'up 1 day'
    },
    'nova.virt.libvirt.LibvirtDriver.snapshot': {},
    'nova.virt.libvirt.driver.libvirt_utils.file_open': {
        'side_effect': lambda *_args, **_kwargs: io.BytesIO()
    },
    'nova.virt.libvirt.driver.libvirt_utils.is_valid_hostname': {
        'return_value': True
    },
    'nova.virt.libvirt.host.Host.get_online_cpus': {
        'return_value': set(range(8))
    },
}

ALL_DOMAINS = (
    fakelibvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
    | fakelibvirt.VIR_CONNECT_LIST_DOMAINS_INACTIVE
)


class EmulatedTestCase(backends.PinnedStatic):
    """Each host has CPUs 2 to 7 for pinned servers."""

    compute_driver = 'ext_resources.LibvirtDriver'

    def _write_conf(self) -> None:
        super()._write_conf()
        self.connections: dict[str, Any] = {}
        folder = self.useFixture(fixtures.TempDir()).path
        self.flags(instances_path=folder)
        self.flags(
            cpu_dedicated_set='2-7', cpu_shared_set='0-1', group='compute'
        )
        for kind in (
            nova_fixtures.LibvirtImageBackendFixture,
            nova_fixtures.CGroupsFixture,
            nova_fixtures.LibvirtFixture,
            nova_fixtures.OSBrickFixture,
        ):
            self.useFixture(kind())
        for name, options in _REPLACED.items():
            self.useFixture(fixtures.MockPatch(name, **options))

    def _start_compute(self, host: str, cell_name: str | None = None) -> Any:
        # Of a host that starts again, the guests have stayed.
        connection = self.connections.setdefault(host, _make_libvirt(host))
        node_uuid = str(uuid.uuid5(uuid.NAMESPACE_DNS, host))
        with (
            mock.patch(
                'nova.virt.libvirt.host.Host.get_connection',
                return_value=connection,
            ),
            mock.patch(
                'nova.virt.node.get_local_node_uuid', return_value=node_uuid
            ),
            mock.patch(
                'nova.virt.node.read_local_node_uuid', return_value=node_uuid
            ),
        ):
            made = super()._start_compute(host, cell_name)
            # It is read once.
            made.driver._host.get_node_uuid()
        made.driver._host.get_connection = lambda: connection
        return made

    def list_guests(self, host: str) -> dict[str, tuple[bool, set[int]]]:
        """Return server -> whether its guest runs, and its CPUs."""
        return {
            one.UUIDString(): (bool(one.isActive()), _find_cpus(one))
            for one in self.connections[host].listAllDomains(ALL_DOMAINS)
        }


def _make_libvirt(host: str) -> Any:
    return fakelibvirt.Connection(
        'qemu:///system',
        version=fakelibvirt.FAKE_LIBVIRT_VERSION,
        hv_version=fakelibvirt.FAKE_QEMU_VERSION,
        host_info=fakelibvirt.HostInfo(
            cpu_nodes=1, cpu_sockets=1, cpu_cores=4, cpu_threads=2
        ),
        hostname=host,
    )


def _find_cpus(domain: Any) -> set[int]:
    pattern = r'<vcpupin vcpu="\d+" cpuset="(\d+)"'
    return {int(cpu) for cpu in re.findall(pattern, domain.XMLDesc(0))}
