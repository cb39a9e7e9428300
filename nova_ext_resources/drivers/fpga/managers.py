# SPDX-License-Identifier: Apache-2.0

"""FPGA managers, which program the regions of a host. Only reads.

Sysfs does not show which manager programs a region: it is known where a host
has one only. Those of DFL cards are not read. They are of one kind, and the
card says more.

Source: kernel documentation, *ABI/testing/sysfs-class-fpga-manager*.
"""

import dataclasses
import os

from nova_ext_resources.drivers.devices import files

_DFL_MANAGER = 'dfl-fme-mgr'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """One manager.

    :ivar key: the kernel's name, such as ``fpga0``
    :ivar name: of the hardware, such as ``Xilinx Zynq FPGA Manager``
    :ivar state: such as ``operating`` or ``write error``
    """

    key: str
    name: str
    state: str

    @property
    def has_failed(self) -> bool:
        return self.state.endswith('error')


def read(root: str) -> tuple[Manager, ...]:
    """Read the managers of a host, but those of DFL cards.

    One that vanishes while it is read, or that makes no sense, is left out: it
    adds to what is known of a region, and takes nothing away.

    :param root: ``/sys``
    """
    found = []
    folder = f'{root}/class/fpga_manager'
    for key in files.list_folder(folder):
        path = f'{folder}/{key}'
        if _DFL_MANAGER in os.path.realpath(path):
            continue
        try:
            name, state = (files.read(path, one) for one in ('name', 'state'))
        except (OSError, ValueError):
            continue
        if all(one.isprintable() for one in (key, name, state)):
            found.append(Manager(key=key, name=name, state=state))
    return tuple(found)
