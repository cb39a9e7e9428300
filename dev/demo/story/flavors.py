# SPDX-License-Identifier: Apache-2.0

"""The flavor alone says what a server needs."""

from dev.cloud import tree
from dev.demo import ballast
from dev.demo import scene as scenes

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
    with scene.stage.step('Upload an image of 512 bytes'):
        scene.image_id = scene.upload_image('empty')
    flavors = {**_FLAVORS}
    if scene.backend == 'resctrl':
        flavors |= _KERNEL_FLAVORS
    with scene.stage.step('Create the flavors'):
        for name, (vcpus, ram, extra_specs) in flavors.items():
            scene.add_flavor(name, extra_specs, vcpus=vcpus, ram=ram)
    scene.stage.table(
        'Flavors',
        ('name', 'vCPUs', 'MiB', 'extra specs'),
        [
            (name, vcpus, ram, ', '.join(f'{k}={v}' for k, v in specs.items()))
            for name, (vcpus, ram, specs) in flavors.items()
        ],
    )
