# SPDX-License-Identifier: Apache-2.0

"""The cloud of the gate, with its machines, its image and its flavors."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import dataclasses
import pathlib
import random

from dev.cloud import extended
from dev.cloud import folder as folders
from dev.cloud.full import cloud as clouds
from dev.cloud import machines as machines_mod
from dev.cloud.machines import base as machines_base
from dev.cloud import options
from dev.cloud import settings as cloud_settings
from dev.cloud import site as cloud_site

#: Flavor -> the ways of its servers.
WAYS = {'plain': 0, 'one': 1, 'two': 2, 'three': 3}

#: A class for each server that has ways.
HARDWARE = machines_base.Hardware(closids=16)

IMAGES = ('first', 'second')


@dataclasses.dataclass(kw_only=True)
class Site(cloud_site.Site):
    """What all scenarios share.

    :ivar wheels: the package, and its previous release
    """

    cloud: clouds.Cloud
    wheels: Mapping[str, pathlib.Path]
    random: random.Random
    patience: float = 600.0

    def configure(
        self, per_host: Mapping[str, cloud_settings.Options]
    ) -> None:
        """Start the hosts anew with these options."""
        self.cloud.configure(
            dataclasses.replace(self.cloud.settings, per_host=per_host)
        )
        self.cloud.restart(*self.hosts)


def add_plugins(
    own: cloud_settings.Options, more: str
) -> cloud_settings.Options:
    """Return the option with more inventory providers than the own ones.

    :param own: options of a host
    :param more: names, by commas
    """
    former = own['ext_resources']['inventory_providers']
    return {'ext_resources': {'inventory_providers': f'{former},{more}'}}


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
        machines = machines_mod.start(
            {f'node{number}': one for number, one in enumerate(backends, 1)},
            folder,
            stack,
            HARDWARE,
        )
        cloud = clouds.Cloud(make_settings(machines, folder), folder=folder)
        stack.enter_context(cloud)
        site = Site(
            cloud=cloud, machines=machines, wheels=wheels, random=chance
        )
        _fill(site)
        yield site


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
                        'ledger_path': str(folder.get_ledger(host)),
                    }
                },
                one.options(),
            )
            for host, one in machines.items()
        },
    )


def _fill(site: Site) -> None:
    site.image_id, *_others = map(site.upload_image, IMAGES)
    for name, ways in WAYS.items():
        specs = {
            'hw:cpu_policy': 'dedicated',
            'resources:CUSTOM_LLC_WAYS': str(ways),
        }
        site.add_flavor(name, specs if ways else {})
