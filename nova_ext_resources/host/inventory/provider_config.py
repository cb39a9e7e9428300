# SPDX-License-Identifier: Apache-2.0

"""What plugins find on a host, for Nova's provider configuration files. Pure.

Such a file adds inventories to the compute node itself, because it can make no
provider below it. So all that the host has of a class is one inventory there.
"""

from collections.abc import Iterable, Sequence
import math
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider

#: Of the files, see Nova's "Managing Resource Providers Using Config Files".
_SCHEMA_VERSION = '1.0'

#: What Nova takes for the compute node of each host that reads the file.
_COMPUTE_NODE = '$COMPUTE_NODE'

_CUSTOM = 'CUSTOM_'


def make_document(
    found: Iterable[host_provider.HostProvider],
    node_traits: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the content of a file, in types of JSON.

    With custom classes and traits alone: Nova takes no others.

    :param node_traits: of the compute node itself
    :raises InvalidResource: placement cannot store as much of a class
    """
    by_class: dict[str, list[class_inventory.Inventory]] = {}
    traits = set(node_traits)
    for one in found:
        traits |= {name for name in one.traits if name.startswith(_CUSTOM)}
        for name, inventory in one.inventories.items():
            if name.startswith(_CUSTOM):
                by_class.setdefault(name, []).append(inventory)
    added: dict[str, Any] = {
        'identification': {'uuid': _COMPUTE_NODE},
        'inventories': {
            'additional': [
                {name: unite(name, inventories).to_dict()}
                for name, inventories in sorted(by_class.items())
            ]
        },
    }
    if traits:
        added['traits'] = {'additional': sorted(traits)}
    return {
        'meta': {'schema_version': _SCHEMA_VERSION},
        'providers': [added] if by_class or traits else [],
    }


def unite(
    resource_class: str, inventories: Sequence[class_inventory.Inventory]
) -> class_inventory.Inventory:
    """Return one inventory for all of a class.

    A server may get of it what it could get of any one provider, and no more
    is given than of all of them together.

    :raises InvalidResource: placement cannot store as much
    """
    if sum(one.total for one in inventories) > class_inventory.MAX_INT:
        raise exception.InvalidResource(
            name=resource_class,
            reason='the host has more units than placement can store '
            f'({class_inventory.MAX_INT})',
        )
    return class_inventory.Inventory(
        total=sum(one.total for one in inventories),
        reserved=sum(one.reserved for one in inventories),
        min_unit=min(one.min_unit for one in inventories),
        max_unit=max(one.max_unit for one in inventories),
        step_size=math.gcd(*(one.step_size for one in inventories)),
        allocation_ratio=min(one.allocation_ratio for one in inventories),
    )
