# SPDX-License-Identifier: Apache-2.0

"""Nova's provider configuration files, where they collide with plugins.

nova-compute reads them at its start and adds what they have to the providers
of its host. Where a provider has a class already, Nova's update fails: the
compute node gets no inventory at all. See Nova's "Managing Resource Providers
Using Config Files".
"""

from collections.abc import Collection, Iterator
import dataclasses
import glob
import os

from nova.compute import provider_config
from nova import exception as nova_exc
import yaml

from nova_ext_resources import exception

_OPTION = '[compute] provider_config_location'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """A resource class of a file that a plugin reports too.

    :ivar line: of the file, from 1
    """

    path: str
    line: int
    resource_class: str

    def __str__(self) -> str:
        return (
            f'{self.path}, line {self.line}: {self.resource_class} is what a '
            'plugin of this host reports, too. Placement counts it twice, or, '
            'where both are of one provider, Nova gives the compute node no '
            'inventory at all. Remove it from the file, restart nova-compute, '
            'and delete what is left in placement ("openstack resource '
            'provider inventory delete")'
        )


def list_collisions(
    folder: str, classes: Collection[str]
) -> tuple[Collision, ...]:
    """Return what the files of a folder have of these resource classes.

    :raises InvalidConfiguration: Nova refuses a file, and would not start
    """
    try:
        provider_config.get_provider_configs(folder)
    except nova_exc.ProviderConfigException as err:
        raise exception.InvalidConfiguration(
            option=_OPTION, value=folder, reason=str(err)
        ) from err
    return tuple(
        Collision(path=path, line=line, resource_class=name)
        for path in sorted(glob.glob(os.path.join(folder, '*.yaml')))
        for name, line in _list_classes(path)
        if name in classes
    )


def _list_classes(path: str) -> Iterator[tuple[str, int]]:
    """Return each resource class of a file that Nova takes, and its line."""
    with open(path, encoding='utf-8') as file:
        document = yaml.compose(file, Loader=yaml.SafeLoader)
    for one in _list_items(_find(document, 'providers')):
        inventories = _find(one, 'inventories')
        for inventory in _list_items(_find(inventories, 'additional')):
            for key, _ in inventory.value:
                yield key.value, key.start_mark.line + 1


def _find(node: yaml.Node | None, name: str) -> yaml.Node | None:
    """Return the value of a key of a mapping; None: it has no such key."""
    pairs = [] if node is None else node.value
    return next((value for key, value in pairs if key.value == name), None)


def _list_items(node: yaml.Node | None) -> list[yaml.Node]:
    return [] if node is None else node.value
