# SPDX-License-Identifier: Apache-2.0

"""The provider of some devices, with what servers hold of them. Pure."""

from collections.abc import Set

from nova_ext_resources.drivers.devices import assignments
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider

#: Gives out devices by name.
TRACKER = 'device'


def make_provider(
    name: str,
    holders: assignments.DeviceAssignments,
    *,
    ours: Set[str],
    there: Set[str],
    used: Set[str] = frozenset(),
    cpus: str = '',
    traits: frozenset[str] = frozenset(),
    is_unread: bool = False,
) -> host_provider.HostProvider | None:
    """Return the provider of devices; None where there is nothing to count.

    :param name: key of the provider, without the prefix
    :param ours: devices that this package allocates
    :param there: all devices that the host has
    :param is_unread: see :class:`.HostProvider`
    :param used: those of ours that the host itself uses
    """
    held_here = holders.names.get(name, frozenset())
    names = ours | (there & held_here)
    total = len(names | held_here)
    if not total:
        return None
    foreign = used | (names & holders.others.get(name, frozenset()))
    # What a server holds stays its own, whoever else claims it by now.
    foreign |= names - ours
    resource_class = holders.resource_class
    return host_provider.HostProvider(
        key=f'{holders.prefix}{name}',
        inventories={resource_class: class_inventory.Inventory(total=total)},
        trackers={resource_class: TRACKER},
        units={
            resource_class: {
                'names': sorted(names),
                'foreign': sorted(foreign),
            }
        },
        cpus=cpus,
        traits=traits,
        is_unread=is_unread,
    )
