# SPDX-License-Identifier: Apache-2.0

"""The cloud of the gate, with its machines, its image and its flavors."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import dataclasses
import pathlib
import random

from openstack.compute.v2 import server as sdk_server

from cloud import extended
from cloud import folder as folders
from cloud.full import cloud as clouds
from cloud import machines as machines_mod
from cloud.machines import base as machines_base
from cloud import options
from cloud import servers
from cloud import settings as cloud_settings

#: Seconds for what takes a few of them on an idle machine.
PATIENCE = 600.0

#: Flavor -> the ways of its servers.
WAYS = {'plain': 0, 'one': 1, 'two': 2, 'three': 3}

#: A class for each server that has ways.
HARDWARE = machines_base.Hardware(closids=16)

IMAGES = ('first', 'second')


@dataclasses.dataclass(slots=True, kw_only=True)
class Site:
    """What all scenarios share.

    :ivar wheels: the package, and its previous release
    :ivar flavors: name -> id
    :ivar images: name -> id
    """

    cloud: clouds.Cloud
    machines: Mapping[str, machines_base.Machine]
    wheels: Mapping[str, pathlib.Path]
    random: random.Random
    flavors: dict[str, str] = dataclasses.field(default_factory=dict)
    images: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the compute hosts."""
        return self.cloud.settings.hosts

    def add_flavor(self, name: str, extra_specs: Mapping[str, str]) -> None:
        """Make one more flavor, as small as the others."""
        compute = self.cloud.sdk.compute
        made = compute.create_flavor(name=name, vcpus=1, ram=64, disk=1)
        self.flavors[name] = made.id
        if extra_specs:
            compute.create_flavor_extra_specs(made, dict(extra_specs))

    def boot(
        self, name: str, flavor: str, *, host: str | None = None
    ) -> sdk_server.Server:
        """Boot a server that must be ACTIVE.

        :raises NotAsTold: it is not
        """
        made = servers.boot(
            self.cloud.sdk,
            name,
            flavor_id=self.flavors[flavor],
            image_id=self.images[IMAGES[0]],
            host=host,
            seconds=PATIENCE,
        )
        servers.check_active(made)
        return made

    def delete(self, server_id: str) -> None:
        """Delete a server and wait until it is gone.

        :raises NotAsTold: it stays
        """
        servers.delete(self.cloud.sdk, server_id, seconds=PATIENCE)


def get_ledger_path(site: Site, host: str) -> pathlib.Path:
    """Return the file of a host's ledger."""
    return _ledger_path(site.cloud.folder, host)


def _ledger_path(folder: folders.Folder, host: str) -> pathlib.Path:
    return folder.lib / f'{host}-ledger.sqlite'


@contextlib.contextmanager
def opened(
    backends: Sequence[str],
    folder: folders.Folder,
    wheels: Mapping[str, pathlib.Path],
    chance: random.Random,
) -> Iterator[Site]:
    """Start machines and cloud; stop all of it at the end.

    :param backends: of each host, in their order
    :raises CloudError: something did not start
    """
    with contextlib.ExitStack() as stack:
        machines = _start_machines(backends, folder, stack)
        cloud = clouds.Cloud(make_settings(machines, folder), folder=folder)
        stack.enter_context(cloud)
        site = Site(
            cloud=cloud, machines=machines, wheels=wheels, random=chance
        )
        _fill(site)
        yield site


def _start_machines(
    backends: Sequence[str],
    folder: folders.Folder,
    stack: contextlib.ExitStack,
) -> dict[str, machines_base.Machine]:
    made = {
        f'node{number}': machines_mod.BACKENDS[backend](
            f'node{number}', folder, HARDWARE
        )
        for number, backend in enumerate(backends, 1)
    }
    for one in made.values():
        stack.callback(one.stop)
        one.start()
    for one in made.values():
        one.wait()
    return made


def make_settings(
    machines: Mapping[str, machines_base.Machine], folder: folders.Folder
) -> cloud_settings.Settings:
    """Return the configuration of a cloud that has the package."""
    return cloud_settings.Settings(
        hosts=tuple(machines),
        nova=extended.NOVA,
        per_host={
            host: options.merge(
                {
                    'ext_resources': {
                        'inventory_providers': one.backend,
                        'enforcers': one.backend,
                        'ledger_path': str(_ledger_path(folder, host)),
                    }
                },
                one.options(),
            )
            for host, one in machines.items()
        },
    )


def _fill(site: Site) -> None:
    sdk = site.cloud.sdk
    for name in IMAGES:
        site.images[name] = sdk.image.upload_image(
            name=name,
            disk_format='raw',
            container_format='bare',
            # Users of other projects boot from it, too.
            visibility='public',
            data=bytes(512),
        ).id
    for name, ways in WAYS.items():
        specs = {
            'hw:cpu_policy': 'dedicated',
            'resources:CUSTOM_LLC_WAYS': str(ways),
        }
        site.add_flavor(name, specs if ways else {})
