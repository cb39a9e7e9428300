# SPDX-License-Identifier: Apache-2.0

"""PCI functions that are handed to guests. Only reads."""

import os

from nova_ext_resources.drivers.devices import files

#: The driver of a function that a guest has.
_DRIVER = 'vfio-pci'


def find_problem(root: str, address: str) -> str:
    """Explain why no guest can have a PCI function; '' if one can.

    :param root: ``/sys``
    """
    path = f'{root}/bus/pci/devices/{address}'
    if not os.path.lexists(path):
        return 'the host has no such device'
    # A virtual function has no vendor id in its own configuration space.
    card = find_card(root, address)
    try:
        if files.is_dead(f'{root}/bus/pci/devices/{card}'):
            return f'{card} does not answer: the card has failed'
    except OSError as err:
        return f'the device cannot be read: {err}'
    return ''


def find_card(root: str, address: str) -> str:
    """Return the physical function of a PCI function, which may be itself.

    :param root: ``/sys``
    """
    path = f'{root}/bus/pci/devices/{address}'
    return files.read_link(path, 'physfn') or address


def list_passed(root: str) -> frozenset[str]:
    """Return the functions that guests have, or may have.

    :raises OSError: they cannot be read
    """
    folder = f'{root}/bus/pci/drivers/{_DRIVER}'
    return frozenset(
        name
        for name in files.list_folder(folder)
        if files.ADDRESS.fullmatch(name) and not find_problem(root, name)
    )


def has_iommu(root: str) -> bool:
    """Return whether the kernel can give a device to a guest at all.

    Source: kernel documentation, *driver-api/vfio*.

    :raises OSError: it cannot be read
    """
    return bool(files.list_folder(f'{root}/kernel/iommu_groups'))
