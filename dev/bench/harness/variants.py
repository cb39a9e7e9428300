# SPDX-License-Identifier: Apache-2.0

"""Small clouds side by side: plain Nova, and Nova with this package."""

from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
import contextlib
import dataclasses
import pathlib
import time

from dev.cloud import extended
from dev.cloud import folder as folders
from dev.cloud.lite import cloud as clouds
from dev.cloud import machines
from dev.cloud import options
from dev.cloud import settings as cloud_settings
from dev.cloud import site
from dev.cloud import tree

#: As many as have room for the servers of all threads twice: during a resize.
HOSTS = tuple(f'node{number}' for number in range(1, 9))

#: Of the two flavors of a kind, between which servers are resized.
_RAM = (64, 128)

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


@dataclasses.dataclass(kw_only=True)
class Variant(site.Site):
    """One cloud, which rests while another one works."""

    patience: float = 300.0

    @property
    def etc(self) -> pathlib.Path:
        """The folder of its configuration."""
        return self.cloud.folder.etc

    def start(self, kind: str) -> str:
        """Boot a server; return its uuid when it is active."""
        return str(self.boot('guest', f'{kind}-{_RAM[0]}').id)

    def resize(self, uuid: str, kind: str) -> None:
        """Resize a server and confirm that."""
        compute = self.sdk.compute
        compute.resize_server(uuid, self.flavors[f'{kind}-{_RAM[1]}'])
        self.wait_for('VERIFY_RESIZE', uuid)
        compute.confirm_server_resize(uuid)
        self.wait_for('ACTIVE', uuid)


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
    made = Variant(cloud=cloud)
    made.image_id = made.upload_image('empty')
    for kind, specs in kinds.items():
        for ram in _RAM:
            made.add_flavor(f'{kind}-{ram}', specs, vcpus=2, ram=ram)
    return made


def _start_with_resources(
    stack: contextlib.ExitStack, prepare: str
) -> Variant:
    folder = folders.Folder.create()
    stack.callback(folder.remove)
    definitions = folder.etc / 'seats.yaml'
    definitions.write_text(_SEATS)
    started = machines.start(dict.fromkeys(HOSTS, 'rmd'), folder, stack)
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
        {host: one.options() for host, one in started.items()},
        folder,
    )


def time_threads(count: int, act: Callable[[int], object]) -> float:
    """Run it in so many threads, once in each; return milliseconds.

    :param act: gets the number of its thread
    """
    began = time.perf_counter()
    with futures.ThreadPoolExecutor(count) as pool:
        for _done in pool.map(act, range(count)):
            pass
    return (time.perf_counter() - began) * 1000
