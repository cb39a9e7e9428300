# SPDX-License-Identifier: Apache-2.0

"""PCI devices of FPGA cards. Only reads."""

from collections.abc import Container
import dataclasses

from nova_ext_resources.drivers.devices import files
from nova_ext_resources.drivers.devices import functions

#: First two bytes of the class code of processing accelerators.
_ACCELERATOR = '0x1200'

#: Vendors of FPGAs among the many of accelerators: Intel, Xilinx, Altera.
_VENDORS = frozenset({'8086', '10ee', '1172'})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pci:
    """The PCI device of a card.

    :ivar parent: address of its physical function; its own, if it is one
    :ivar vendor_id: four hexadecimal digits, as is ``product_id``
    :ivar driver: of the kernel; '' without one
    """

    address: str
    parent: str
    vendor_id: str
    product_id: str
    driver: str = ''
    interfaces: frozenset[str] = frozenset()


def find(root: str, path: str) -> Pci | None:
    """Return the PCI device that a folder of sysfs is of; None without one.

    :raises (OSError, ValueError): it cannot be read
    """
    for part in reversed(path.split('/')):
        if files.ADDRESS.fullmatch(part):
            return _read(root, part)
    return None


def list_accelerators(root: str, known: Container[str]) -> tuple[Pci, ...]:
    """Return accelerators of vendors of FPGAs.

    :param known: addresses of those that are left out
    """
    found = []
    folder = f'{root}/bus/pci/devices'
    for name in files.list_folder(folder):
        if name in known or not files.ADDRESS.fullmatch(name):
            continue
        try:
            kind = files.read(f'{folder}/{name}', 'class')
            if kind.startswith(_ACCELERATOR):
                found.append(_read(root, name))
        except (OSError, ValueError):
            # They are a note in the log, no more.
            continue
    return tuple(one for one in found if one.vendor_id in _VENDORS)


def _read(root: str, address: str) -> Pci:
    folder = f'{root}/bus/pci/devices/{address}'
    return Pci(
        address=address,
        parent=functions.find_card(root, address),
        vendor_id=files.read(folder, 'vendor').removeprefix('0x'),
        product_id=files.read(folder, 'device').removeprefix('0x'),
        driver=files.read_link(folder, 'driver'),
    )
