# SPDX-License-Identifier: Apache-2.0

"""What a region is, and what is programmed into it, as traits. Pure.

The names are those of OpenStack Cyborg, where it has one: the vendor
(``CUSTOM_FPGA_INTEL``), the product (``CUSTOM_FPGA_PRODUCT_ID_<id>``), the
function (``CUSTOM_FPGA_FUNCTION_ID_INTEL_<id>``) and the region
(``CUSTOM_FPGA_REGION_INTEL_<id>``).
"""

from collections.abc import Sequence

import os_traits

from nova_ext_resources.drivers.fpga import managers as managers_mod
from nova_ext_resources.drivers.fpga import sysfs

#: PCI vendor -> its name; others have their ids.
VENDORS = {
    '8086': 'INTEL',
    '10ee': 'XILINX',
    '1172': 'ALTERA',
    '1c2c': 'SILICOM',
}

#: The longest name that placement takes.
_MAX_NAME = 255


def find(
    region: sysfs.Region,
    card: sysfs.Card,
    managers: Sequence[managers_mod.Manager] = (),
) -> frozenset[str]:
    """Return all traits of a region.

    :param managers: of the host; which of them programs a region of a device
        tree is known only if there is one
    """
    names = []
    vendor = ''
    if card.pci:
        vendor = VENDORS.get(card.pci.vendor_id, card.pci.vendor_id)
        names += [vendor, f'PRODUCT_ID_{card.pci.product_id}']
        vendor += '_'
    elif len(managers) == 1:
        names.append(f'MANAGER_{managers[0].name}')
    if region.function_id:
        names.append(f'FUNCTION_ID_{vendor}{region.function_id}')
    names += [f'REGION_{vendor}{one}' for one in card.region_ids]
    return frozenset(_make(one) for one in names)


def _make(name: str) -> str:
    return str(os_traits.normalize_name(f'FPGA_{name}'))[:_MAX_NAME]
