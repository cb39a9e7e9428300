# SPDX-License-Identifier: Apache-2.0

"""The flavor alone says what a server needs."""

from collections.abc import Mapping

from cloud import tree
from demo import ballast
from demo import scene as scenes

_PINNED = {'hw:cpu_policy': 'dedicated'}

#: Of a server with four ways: vCPUs, MiB of memory, extra specs.
GOLD = (2, 512, {**_PINNED, f'resources:{tree.WAYS}': '4'})

#: Name -> (vCPUs, MiB of memory, extra specs).
_FLAVORS = {
    'gold': GOLD,
    'silver': (2, 512, {**_PINNED, f'resources:{tree.WAYS}': '2'}),
    'bronze': (1, 256, {**_PINNED, f'resources:{tree.WAYS}': '1'}),
    'giant': (2, 512, {**_PINNED, f'resources:{tree.WAYS}': '11'}),
    ballast.FLAVOR: (1, 16384, {}),
}

#: Of the acts that are about the kernel's own interface.
_KERNEL_FLAVORS = {
    'elastic': (1, 256, {**_PINNED, f'resources:{tree.BURST}': '1'}),
    'floating': (2, 512, {f'resources:{tree.WAYS}': '2'}),
}


def play(scene: scenes.Scene) -> None:
    """Create the flavors and the image that all servers boot from."""
    scene.stage.act(
        'Flavors',
        'resources:CUSTOM_LLC_WAYS is how many ways of the last-level cache '
        'a server gets for itself, next to the CPUs that it is pinned to.',
    )
    _upload_image(scene)
    flavors = {**_FLAVORS}
    if scene.backend == 'resctrl':
        flavors |= _KERNEL_FLAVORS
    with scene.stage.step('Create the flavors'):
        for name, (vcpus, ram, extra_specs) in flavors.items():
            create(scene, name, vcpus, ram, extra_specs)
    scene.stage.table(
        'Flavors',
        ('name', 'vCPUs', 'MiB', 'extra specs'),
        [
            (name, vcpus, ram, ', '.join(f'{k}={v}' for k, v in specs.items()))
            for name, (vcpus, ram, specs) in flavors.items()
        ],
    )


def _upload_image(scene: scenes.Scene) -> None:
    with scene.stage.step('Upload an image of 512 bytes'):
        image = scene.sdk.image.upload_image(
            name='empty',
            disk_format='raw',
            container_format='bare',
            # Whoever uses the cloud that is kept boots from it, too.
            visibility='public',
            data=bytes(512),
        )
        scene.image_id = image.id


def create(
    scene: scenes.Scene,
    name: str,
    vcpus: int,
    ram: int,
    extra_specs: Mapping[str, str],
) -> None:
    """Create one more flavor.

    :param ram: MiB
    """
    flavor = scene.sdk.compute.create_flavor(
        name=name, vcpus=vcpus, ram=ram, disk=1
    )
    if extra_specs:
        scene.sdk.compute.create_flavor_extra_specs(flavor, dict(extra_specs))
    scene.flavors[name] = str(flavor.id)
