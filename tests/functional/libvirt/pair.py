# SPDX-License-Identifier: Apache-2.0

"""Two compute hosts, between which servers migrate live, in a cloud."""

import contextlib
import ipaddress
import os

from dev.cloud import folder as folders
from dev.cloud.lite import cloud as clouds
from dev.cloud import settings as cloud_settings
from dev.cloud import tree
from tests.functional.libvirt import guest
from tests.functional.libvirt import host as hosts
from tests.functional.libvirt import site as sites

HOSTS = ('lv1', 'lv2')

WAYS, MORE_WAYS = 2, 3

#: Some of it is written to, see ``guest``. Of this machine's memory, libvirt
#: sees only what it has been given so far: it may be little.
_RAM_MB = 64

_NOVA: cloud_settings.Options = {
    'DEFAULT': {
        'compute_driver': 'ext_resources.LibvirtDriver',
        'update_resources_interval': '3600',
        # Tests say which host is down. Nova would delete a server without a
        # host that seems to be, because it starts slowly.
        'service_down_time': '3600',
        'resume_guests_state_on_host_boot': 'true',
        # The guests have no system that would hear it.
        'shutdown_timeout': '2',
    },
    'libvirt': {
        'virt_type': 'qemu',
        'cpu_mode': 'none',
        'images_type': 'raw',
        'live_migration_permit_post_copy': 'true',
    },
    'scheduler': {'discover_hosts_in_cells_interval': '1'},
    'ext_resources': {
        'inventory_providers': 'resctrl',
        'enforcers': 'resctrl',
        # What is mended in between would hide what was not done.
        'refresh_interval': '3600',
    },
    'ext_resources_placement': {'auth_section': 'placement'},
    'filter_scheduler': {
        'available_filters': (
            'nova.scheduler.filters.all_filters',
            'nova_ext_resources.scheduler.filters.all_filters',
        ),
        'enabled_filters': (
            'ComputeFilter,NUMATopologyFilter,ExtendedResourcesFilter'
        ),
    },
}


def find_address(number: int) -> str:
    """Return an address of a host that no other process gives to its own.

    Each libvirtd takes the first port that is free, and another may have it
    before QEMU does; the same port at another address is another one.
    """
    # Linux has at most 2**22 processes.
    return str(ipaddress.IPv4Address('127.0.0.0') + 4 * os.getpid() + number)


class Pair:
    """A context manager; everything is gone afterwards."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> 'Pair':
        with contextlib.ExitStack() as stack:
            self._stack = stack
            self._start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop and remove everything."""
        self._stack.close()

    def _start(self) -> None:
        sites.start_event_loop()
        self.folder = folders.Folder.create()
        self._stack.callback(self.folder.remove)
        cpus = sorted(os.sched_getaffinity(0))
        self.hosts = {
            name: hosts.Host(name, find_address(number), cpu, self.folder)
            for number, (name, cpu) in enumerate(
                zip(HOSTS, cpus, strict=False)
            )
        }
        (self.folder.lib / 'instances').mkdir()
        for one in self.hosts.values():
            one.start(self._stack)
        self.cloud = self._stack.enter_context(
            clouds.Cloud(
                cloud_settings.Settings(
                    hosts=HOSTS,
                    prepare=('tests.functional.libvirt.compute:prepare',),
                    nova=_NOVA,
                ),
                folder=self.folder,
            )
        )
        for one in self.hosts.values():
            one.start_compute()
            self._stack.callback(one.kill_compute)
        for one in self.hosts.values():
            self.wait_for(one)
        self.image_id = self.upload('tiny')
        self.flavors = {
            'pinned': self._create_flavor('pinned', WAYS, True),
            'floating': self._create_flavor('floating', WAYS, False),
            'more pinned': self._create_flavor('more-p', MORE_WAYS, True),
            'more floating': self._create_flavor('more-f', MORE_WAYS, False),
        }

    def wait_for(self, host: hosts.Host) -> None:
        """Wait until Nova can use a host."""
        hosts.wait(lambda: self._is_up(host), f'nova-compute of {host.name}')

    def _is_up(self, host: hosts.Host) -> bool:
        api = self.cloud.sdk.compute
        services = api.services(binary='nova-compute', host=host.name)
        return (
            host.has_started
            and any(one.state == 'up' for one in services)
            # Nova shows none that is not mapped to a cell yet, and starts no
            # server there.
            and any(one.name == host.name for one in api.hypervisors())
            and any(
                tree.WAYS in one.amounts and one.host == host.name
                for one in tree.list_providers(self.cloud.placement)
            )
        )

    def upload(self, name: str) -> str:
        """Make an image of the guest; return its id."""
        image = self.cloud.sdk.image.upload_image(
            name=name,
            disk_format='raw',
            container_format='bare',
            data=guest.make_image(),
        )
        return str(image.id)

    def _create_flavor(self, name: str, ways: int, is_pinned: bool) -> str:
        api = self.cloud.sdk.compute
        flavor = api.create_flavor(name=name, vcpus=1, ram=_RAM_MB, disk=0)
        specs = {f'resources:{tree.WAYS}': str(ways)}
        if is_pinned:
            specs['hw:cpu_policy'] = 'dedicated'
        api.create_flavor_extra_specs(flavor, specs)
        return str(flavor.id)

    # -- what is -------------------------------------------------------

    def list_allocated(self, consumer: str) -> dict[str, int]:
        """Return what placement says: host -> ways; also hosts without."""
        names = {
            one.uuid: one.host
            for one in tree.list_providers(self.cloud.placement)
        }
        found: dict[str, int] = {}
        allocated = tree.list_allocations(self.cloud.placement, consumer)
        for rp_uuid, resources in allocated.items():
            host = names[rp_uuid]
            found[host] = found.get(host, 0) + resources.get(tree.WAYS, 0)
        return found

    def console(self, uuid: str) -> bytes:
        """Return what the guest wrote since it was started last."""
        path = self.folder.lib / 'instances' / uuid / 'console.log'
        return path.read_bytes() if path.exists() else b''
