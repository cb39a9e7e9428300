# SPDX-License-Identifier: Apache-2.0

"""Which physical network a card is at, as an option says. Pure."""

from collections.abc import Iterable, Mapping
import re

import os_traits

from nova_ext_resources.drivers.sriov import sysfs

#: As Neutron has it (``neutron_lib.placement.utils.physnet_trait``).
PREFIX = 'PHYSNET_'

_ITEM = re.compile(r'([^:\s]+):(\S+)')


def parse(items: Iterable[str]) -> dict[str, frozenset[str]]:
    """Read ``physnet:device``: device -> names of physical networks.

    :raises ValueError: an item is none
    """
    found: dict[str, set[str]] = {}
    for item in items:
        match = _ITEM.fullmatch(item)
        if not match:
            raise ValueError(
                f'{item!r} is not a physical network with a device, such as '
                'physnet1:ens1f0 or physnet1:0000:3b:00.0'
            )
        device = sysfs.parse_device(match[2])
        found.setdefault(device, set()).add(match[1])
    return {device: frozenset(names) for device, names in found.items()}


def find(
    mapping: Mapping[str, frozenset[str]], card: sysfs.PhysicalFunction
) -> frozenset[str]:
    """Return the physical networks of a card.

    Of a card with several ports none, unless all its ports are at the same:
    its virtual functions may be at either. Its address decides before the
    ports.
    """
    if card.address in mapping:
        return mapping[card.address]
    of_ports = {mapping.get(one.name, frozenset()) for one in card.ports}
    return of_ports.pop() if len(of_ports) == 1 else frozenset()


def make_trait(name: str) -> str:
    """Return the trait of a physical network."""
    return str(os_traits.normalize_name(f'{PREFIX}{name}'))
