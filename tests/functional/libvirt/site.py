# SPDX-License-Identifier: Apache-2.0

"""One compute host with libvirt, QEMU and a simulated RMD, in a cloud."""

from collections.abc import Iterator, Mapping
import contextlib
import dataclasses
import functools
import os
import pathlib
import threading
from typing import Any, Self

import requests

from dev.cloud import folder as folders
from dev.cloud import ledger as ledger_mod
from dev.cloud.lite import cloud as clouds
from dev.cloud.machines import base as machines
from dev.cloud.machines import rmd
from dev.cloud import settings as cloud_settings
from dev.cloud import tree
from tests.functional.libvirt import daemon
from tests.functional.libvirt import guest
from tests.functional.libvirt import inside

HOST = 'lv1'

#: Of six. The scheduler may still count those of the server before.
WAYS = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A moment at which a guest began to run, or to run on.

    :ivar cpus: CPUs that were in its group of RMD then; empty without one
    """

    uuid: str
    cpus: str


class Site:
    """A context manager; everything is gone afterwards.

    :ivar starts: every start of a guest so far
    :ivar cpu: the CPU of this machine that servers are pinned to
    """

    BACKEND = 'rmd'

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self.starts: list[Start] = []
        *shared, self.cpu = sorted(os.sched_getaffinity(0))
        self._shared = ','.join(map(str, shared))

    def __enter__(self) -> Self:
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
        self.folder = folders.Folder.create()
        self._stack.callback(self.folder.remove)
        self.machine = self._start_machine()
        self.libvirtd = self._start_libvirtd()
        self._watch()
        self.cloud = self._stack.enter_context(
            clouds.Cloud(self._settings(), folder=self.folder)
        )
        self.image_id = self._upload()
        self.flavor_id = self._create_flavor()

    def _start_libvirtd(self) -> daemon.Libvirtd:
        return self._stack.enter_context(
            daemon.Libvirtd(self.folder.root / 'libvirt', HOST)
        )

    def _start_machine(self) -> Any:
        made = rmd.Machine(
            HOST,
            self.folder,
            # RMD numbers the CPUs of one cache from 0 on.
            machines.Hardware(sockets=1, cpus=self.cpu + 1),
        )
        self._stack.callback(made.stop)
        made.start()
        made.wait()
        return made

    def _settings(self) -> cloud_settings.Settings:
        instances = self.folder.lib / 'nova' / 'instances'
        instances.mkdir()
        return cloud_settings.Settings(
            hosts=(HOST,),
            prepare=('tests.functional.libvirt.inside:prepare',),
            nova=self._nova(),
            per_host={
                HOST: {
                    'ext_resources': {'ledger_path': str(self._ledger)},
                    **self._list_options(),
                }
            },
        )

    def _list_options(self) -> cloud_settings.Options:
        """Return the options of the backend."""
        return {
            'ext_resources_rmd': {
                'url': self.machine.url,
                'timeout': '15',
                'retries': '0',
            }
        }

    def _nova(self) -> cloud_settings.Options:
        return {
            'DEFAULT': {
                'compute_driver': 'ext_resources.LibvirtDriver',
                'host': HOST,
                'running_deleted_instance_poll_interval': '2',
                'running_deleted_instance_timeout': '0',
            },
            'compute': {
                'cpu_dedicated_set': str(self.cpu),
                'cpu_shared_set': self._shared,
            },
            'libvirt': {
                'connection_uri': self.libvirtd.uri,
                'virt_type': 'qemu',
                'cpu_mode': 'none',
                'images_type': 'raw',
                'snapshot_image_format': 'qcow2',
                'wait_soft_reboot_seconds': '20',
            },
            # Has a snapshot save the guest and start it again.
            'workarounds': {'disable_libvirt_livesnapshot': 'true'},
            'ext_resources': {
                'inventory_providers': self.BACKEND,
                'enforcers': self.BACKEND,
                # What is mended in between would hide what was not done.
                'refresh_interval': '3600',
            },
            'filter_scheduler': {
                'available_filters': (
                    'nova.scheduler.filters.all_filters',
                    'nova_ext_resources.scheduler.filters.all_filters',
                ),
                'enabled_filters': 'ComputeFilter,NUMATopologyFilter,'
                'ExtendedResourcesFilter',
            },
        }

    def _upload(self) -> str:
        image = self.cloud.sdk.image.upload_image(
            name='tiny',
            disk_format='raw',
            container_format='bare',
            data=guest.make_image(),
        )
        return str(image.id)

    def _create_flavor(self) -> str:
        compute = self.cloud.sdk.compute
        flavor = compute.create_flavor(name='ways', vcpus=1, ram=64, disk=0)
        compute.create_flavor_extra_specs(flavor, self._list_extra_specs())
        return str(flavor.id)

    def _list_extra_specs(self) -> dict[str, str]:
        return {
            'hw:cpu_policy': 'dedicated',
            'resources:CUSTOM_LLC_WAYS': str(WAYS),
        }

    @property
    def _ledger(self) -> pathlib.Path:
        return self.folder.lib / 'ledger.sqlite'

    # -- what is -------------------------------------------------------

    def find_domain(self, uuid: str) -> Any:
        """Return its ``virDomain``, or None."""
        import libvirt

        with contextlib.suppress(libvirt.libvirtError):
            return self._connection.lookupByUUIDString(uuid)
        return None

    def find_pid(self, uuid: str) -> int | None:
        """Return the process of a guest."""
        for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b'\0')
                if b'-uuid' in words and uuid.encode() in words:
                    return int(path.parent.name)
        return None

    def console(self, uuid: str) -> bytes:
        """Return what the guest wrote since it was started last."""
        path = self.folder.lib / 'nova' / 'instances' / uuid / 'console.log'
        return path.read_bytes() if path.exists() else b''

    def find_group(self, uuid: str) -> Mapping[str, Any]:
        """Return the server's group in RMD; empty without one."""
        for group in self.machine.groups():
            if uuid in group['workloads']:
                found: Mapping[str, Any] = group
                return found
        return {}

    def list_held(self, uuid: str) -> dict[str, Any]:
        """Return what the ledger says: resource class -> units."""
        return {
            one.resource_class: one.units
            for one in ledger_mod.read(self._ledger)
            if one.consumer_uuid == uuid
        }

    def list_allocated(self, uuid: str) -> dict[str, int]:
        """Return what placement says: resource class -> amount."""
        found = tree.list_allocations(self.cloud.placement, uuid)
        return {
            name: amount
            for resources in found.values()
            for name, amount in resources.items()
        }

    # -- how things go wrong -------------------------------------------

    def lose_ledger(self) -> None:
        """Remove the ledger, while nova-compute does not run."""
        for path in self.folder.lib.glob(f'{self._ledger.name}*'):
            path.unlink()

    def drop_workload(self, uuid: str) -> None:
        """Have RMD lose what is in force for a server."""
        for one in self.machine.workloads():
            if uuid in (one.get('uuid'), one['id']):
                self._rmd_call('DELETE', f'/v1/workloads/{one["id"]}')

    @contextlib.contextmanager
    def rmd_fault(self, **fault: Any) -> Iterator[None]:
        """Have RMD fail for a while."""
        self._rmd_call('POST', '/-/faults', fault)
        try:
            yield
        finally:
            self._rmd_call('DELETE', '/-/faults')

    def _rmd_call(self, method: str, path: str, body: Any = None) -> None:
        requests.request(
            method, self.machine.url + path, json=body, timeout=60
        ).raise_for_status()

    def refresh(self) -> None:
        """Have the host looked at, and reported to the scheduler, now.

        A host that RMD has failed takes no servers until it has been looked
        at again.
        """
        inside.call(self.folder.etc, 'refresh')

    def stop_compute(self) -> None:
        inside.call(self.folder.etc, 'stop')

    def start_compute(self) -> None:
        inside.call(self.folder.etc, 'start')

    @contextlib.contextmanager
    def patched(self) -> Iterator[None]:
        """Have Nova write ``<cachetune>`` into the domains of its guests."""
        inside.call(self.folder.etc, 'patch')
        try:
            yield
        finally:
            inside.call(self.folder.etc, 'mend')

    # -- libvirt's events ----------------------------------------------

    def _watch(self) -> None:
        import libvirt

        start_event_loop()
        self._connection = self.libvirtd.connect()
        self._stack.callback(self._connection.close)
        self._connection.domainEventRegisterAny(
            None,
            libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE,
            self._note,
            None,
        )

    def _note(
        self, _connection: Any, domain: Any, event: int, *_: object
    ) -> None:
        import libvirt

        if event == libvirt.VIR_DOMAIN_EVENT_RESUMED:
            uuid = domain.UUIDString()
            cpus = self.find_group(uuid).get('cpus', '')
            self.starts.append(Start(uuid=uuid, cpus=cpus))


@functools.cache
def start_event_loop() -> None:
    """Start libvirt's loop, once, before its first connection."""
    import libvirt

    libvirt.virEventRegisterDefaultImpl()
    # Errors come as exceptions; it would print them, too.
    libvirt.registerErrorHandler(lambda *_: None, None)

    def run() -> None:
        while True:
            libvirt.virEventRunDefaultImpl()

    threading.Thread(target=run, daemon=True, name='libvirt').start()
