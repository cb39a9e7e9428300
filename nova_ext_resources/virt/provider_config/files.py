# SPDX-License-Identifier: Apache-2.0

"""Nova's provider configuration files, where they collide with plugins.

nova-compute reads them at its start and adds what they have to the providers
of its host. Where a provider has a class already, Nova's update fails: the
compute node gets no inventory at all. See Nova's "Managing Resource Providers
Using Config Files".
"""

from collections.abc import Collection, Iterator, Mapping
import dataclasses
import glob
import os
import textwrap
from typing import Any, TypeAlias

from nova.compute import provider_config

from nova_ext_resources import exception
from nova_ext_resources.host.inventory import config_files

_OPTION = '[compute] provider_config_location'

#: What stands for each compute node that reads a file.
COMPUTE_NODE = '$COMPUTE_NODE'

#: Name or uuid of a provider -> its entry, as Nova has read it.
Configs: TypeAlias = Mapping[str, Mapping[str, Any]]

#: Characters; after them, Nova shows its whole schema.
_MAX_REASON = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """A resource class of a file that a plugin reports too.

    :ivar provider: as the file identifies it
    :ivar lines: of the file that name the class, from 1
    """

    path: str
    lines: tuple[int, ...]
    provider: str
    resource_class: str

    def __str__(self) -> str:
        place = config_files.locate(self.path, self.lines)
        return (
            f'{place}: a plugin of this host also reports '
            f'{self.resource_class} of provider {self.provider}. If this '
            'provider belongs to this host, the host refuses servers that '
            'request the class, or Nova gives the compute node no inventory '
            'at all. Remove the class from the file, and restart '
            'nova-compute, which moves the allocations of servers from the '
            'compute node'
        )


def list_collisions(
    folder: str, classes: Collection[str]
) -> tuple[Collision, ...]:
    """Return what the files of a folder have of these resource classes.

    :raises InvalidConfiguration: Nova cannot read a file, and would not start
    """
    found = _read(folder)
    return tuple(
        Collision(
            path=path,
            lines=config_files.find_lines(path, name),
            provider=identification,
            resource_class=name,
        )
        for identification, one in found.items()
        for path in [os.path.join(folder, one['__source_file'])]
        for name in list_classes(one)
        if name in classes
    )


def _read(folder: str) -> Configs:
    """Return what Nova reads of a folder, nothing where it is missing.

    :raises InvalidConfiguration: Nova cannot read a file, and would not start
    """
    try:
        os.listdir(folder)
        found: Mapping[str, Any] = provider_config.get_provider_configs(folder)
    except FileNotFoundError:
        return {}
    # Nova expects a mapping in many places, and dies of other things as well.
    except Exception as err:
        raise exception.InvalidConfiguration(
            option=_OPTION, value=folder, reason=_describe(folder, err)
        ) from err
    return found


def list_named(folder: str, node_uuid: str, name: str) -> dict[str, str]:
    """Return what Nova would add to a compute node if it started now.

    :returns: resource class -> path of the file
    :raises InvalidConfiguration: Nova cannot read a file, and would not start
    """
    return {
        one: os.path.join(folder, file)
        for one, file in list_added(_read(folder), node_uuid, name).items()
    }


def list_added(configs: Configs, node_uuid: str, name: str) -> dict[str, str]:
    """Return what Nova adds to a compute node, as it does it.

    An entry that names the node itself is taken in place of the one for all
    nodes (ResourceTracker ``_merge_provider_configs``).

    :param configs: as ``get_provider_configs`` returns them
    :returns: resource class -> name of the file
    """
    own = [configs[one] for one in (node_uuid, name) if one in configs]
    common = [configs[COMPUTE_NODE]] if COMPUTE_NODE in configs else []
    return {
        resource_class: str(one['__source_file'])
        for one in own or common
        for resource_class in list_classes(one)
    }


def _describe(folder: str, err: Exception) -> str:
    """Return which files Nova reads, and why it refuses one of them."""
    reason = ' '.join(f'{type(err).__name__}: {err}'.split())
    reason = textwrap.shorten(reason, _MAX_REASON, placeholder=' ...')
    paths = sorted(glob.glob(os.path.join(folder, '*.yaml')))
    return f'{", ".join(paths) or folder}: {reason}'


def list_classes(one: Mapping[str, Any]) -> Iterator[str]:
    """Return the resource classes that Nova adds to a provider."""
    for inventory in one.get('inventories', {}).get('additional', ()):
        yield from inventory
