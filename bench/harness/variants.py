# SPDX-License-Identifier: Apache-2.0

"""Small clouds side by side: plain Nova, and Nova with this package."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
import contextlib
import dataclasses
import pathlib
import time

from cloud import extended
from cloud import folder as folders
from cloud.lite import cloud as clouds
from cloud.machines import rmd
from cloud import options
from cloud import servers
from cloud import settings as cloud_settings
from cloud import tree

#: As many as have room for the servers of all threads twice: during a resize.
HOSTS = tuple(f'node{number}' for number in range(1, 9))

#: What a busy machine takes, in seconds.
_PATIENCE = 300.0

PLAIN, PINNED = 'plain', 'pinned'

_SEAT = 'CUSTOM_LICENCE_SEAT'
_SEATS = f"""
resources:
  - name: {_SEAT}
    type: count
    units: seats
    description: Seats of a licence.
    inventory: {{total: 100}}
"""

#: Of the flavors of a kind; one that requests resources also pins.
_PIN = {'hw:cpu_policy': 'dedicated'}
_REQUEST = {**_PIN, f'resources:{tree.WAYS}': '1', f'resources:{_SEAT}': '1'}

#: As by default: the demo's hosts look at everything each few seconds.
_COMMON: cloud_settings.Options = {
    'DEFAULT': {'update_resources_interval': '60'},
    'ext_resources': {'refresh_interval': '60'},
}
_NOVA: cloud_settings.Options = {
    'DEFAULT': {'compute_driver': 'fake.FakeDriver'},
    'filter_scheduler': {
        'enabled_filters': 'ComputeFilter,ImagePropertiesFilter,'
        'ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,'
        'NUMATopologyFilter',
    },
}


@dataclasses.dataclass(slots=True, kw_only=True)
class Variant:
    """One cloud, which rests while another one works.

    :ivar flavors: kind -> two flavors, to resize between
    """

    cloud: clouds.Cloud
    image_id: str
    flavors: Mapping[str, Sequence[str]]

    @property
    def etc(self) -> pathlib.Path:
        """The folder of its configuration."""
        return self.cloud.folder.etc

    def boot(self, kind: str) -> str:
        """Boot a server; return its uuid when it is active."""
        made = servers.boot(
            self.cloud.sdk,
            'guest',
            flavor_id=self.flavors[kind][0],
            image_id=self.image_id,
            seconds=_PATIENCE,
        )
        servers.check_active(made)
        return str(made.id)

    def resize(self, uuid: str, kind: str) -> None:
        """Resize a server and confirm that."""
        sdk = self.cloud.sdk
        sdk.compute.resize_server(uuid, self.flavors[kind][1])
        servers.wait_for(sdk, uuid, 'VERIFY_RESIZE', seconds=_PATIENCE)
        sdk.compute.confirm_server_resize(uuid)
        servers.wait_for(sdk, uuid, 'ACTIVE', seconds=_PATIENCE)

    def delete(self, uuid: str) -> None:
        servers.delete(self.cloud.sdk, uuid, seconds=_PATIENCE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Variants:
    """All of them.

    :ivar nova: plain Nova, with its fake driver
    :ivar nothing: with our driver, filter and weigher, and no plugin
    :ivar resources: with two plugins and RMD
    """

    nova: Variant
    nothing: Variant
    resources: Variant


@contextlib.contextmanager
def started(prepare: str) -> Iterator[Variants]:
    """Start all clouds; stop them at the end.

    :param prepare: a function that Nova's process calls first
    :raises CloudError: one did not start
    """
    with contextlib.ExitStack() as stack:
        yield Variants(
            nova=_start(stack, _NOVA, {PLAIN: {}}, prepare),
            nothing=_start(
                stack, extended.NOVA, {PLAIN: {}, PINNED: _PIN}, prepare
            ),
            resources=_start_with_resources(stack, prepare),
        )


def _start(
    stack: contextlib.ExitStack,
    nova: cloud_settings.Options,
    kinds: Mapping[str, Mapping[str, str]],
    prepare: str,
    per_host: Mapping[str, cloud_settings.Options] | None = None,
    folder: folders.Folder | None = None,
) -> Variant:
    settings = cloud_settings.Settings(
        hosts=HOSTS,
        nova=options.merge(nova, _COMMON),
        per_host=per_host or {},
        prepare=(prepare,),
    )
    cloud = stack.enter_context(clouds.Cloud(settings, folder=folder))
    image = cloud.sdk.image.upload_image(
        name='empty',
        disk_format='raw',
        container_format='bare',
        data=bytes(512),
    )
    return Variant(
        cloud=cloud,
        image_id=image.id,
        flavors={
            kind: [_make_flavor(cloud, kind, ram, specs) for ram in (64, 128)]
            for kind, specs in kinds.items()
        },
    )


def _start_with_resources(
    stack: contextlib.ExitStack, prepare: str
) -> Variant:
    folder = folders.Folder.create()
    stack.callback(folder.remove)
    definitions = folder.etc / 'seats.yaml'
    definitions.write_text(_SEATS)
    machines = [rmd.Machine(host, folder) for host in HOSTS]
    for one in machines:
        stack.callback(one.stop)
        one.start()
    for one in machines:
        one.wait()
    chosen: cloud_settings.Options = {
        'ext_resources': {
            'inventory_providers': 'rmd,static',
            'enforcers': 'rmd',
        },
        'ext_resources_static': {'definitions_file': str(definitions)},
    }
    return _start(
        stack,
        options.merge(extended.NOVA, chosen),
        {PINNED: _REQUEST},
        prepare,
        {one.host: one.options() for one in machines},
        folder,
    )


def _make_flavor(
    cloud: clouds.Cloud, kind: str, ram: int, specs: Mapping[str, str]
) -> str:
    made = cloud.sdk.compute.create_flavor(
        name=f'{kind}-{ram}', vcpus=2, ram=ram, disk=0
    )
    if specs:
        cloud.sdk.compute.create_flavor_extra_specs(made, dict(specs))
    return str(made.id)


def time_threads(count: int, act: Callable[[int], object]) -> float:
    """Run it in so many threads, once in each; return milliseconds.

    :param act: gets the number of its thread
    """
    began = time.perf_counter()
    with futures.ThreadPoolExecutor(count) as pool:
        for _done in pool.map(act, range(count)):
            pass
    return (time.perf_counter() - began) * 1000
