# SPDX-License-Identifier: Apache-2.0

"""Files of the kernel's sysfs that describe devices. Only reads.

Files vanish while they are read: a device is unplugged.

Sources: kernel documentation, *ABI/testing/sysfs-bus-pci* and
*ABI/stable/sysfs-devices-node*.
"""

import os
import re

from nova_ext_resources.objects import bitmask

#: Domain, bus, slot, function. Domains of VMD have five digits.
ADDRESS = re.compile(r'[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]')

#: A PCI address as people write it, as lspci prints it, too.
_WRITTEN = re.compile(r'([0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]', re.I)

#: A vendor id that no vendor has: all reads of a device that is gone return
#: ones.
_DEAD = b'\xff\xff'

_MAX_SHOWN = 64


class Unsteady(Exception):
    """A device changes while it is read."""


def parse_address(text: str) -> str:
    """Return a PCI address as sysfs has it; '' where the text is none."""
    match = _WRITTEN.fullmatch(text)
    if not match:
        return ''
    return text.lower() if match[1] else f'0000:{text.lower()}'


def show(name: str) -> str:
    """Return a name that may be anything, fit for logs and pages."""
    return ascii(name)[:_MAX_SHOWN]


def is_dead(path: str) -> bool:
    """Return whether a PCI device does not answer any more.

    :raises OSError: its configuration space cannot be read
    """
    return read_bytes(path, 'config', len(_DEAD)) == _DEAD


def read_cpus(root: str, node: int) -> frozenset[int]:
    """Return the CPUs of a NUMA node, also those that are offline.

    :param root: ``/sys``
    :param node: -1 when the firmware does not say; then all CPUs, if there is
        only one node, and none otherwise
    :raises (OSError, ValueError): it cannot be read
    """
    folder = f'{root}/devices/system/node'
    nodes = [
        one for one in list_folder(folder) if re.fullmatch('node[0-9]+', one)
    ]
    if not nodes:
        # A kernel without NUMA.
        present = read(f'{root}/devices/system/cpu', 'present')
        return bitmask.parse_list(present)
    if node < 0 and len(nodes) > 1:
        return frozenset()
    name = nodes[0] if node < 0 else f'node{node}'
    # Its cpulist has those only that are online.
    return frozenset(
        int(one.removeprefix('cpu'))
        for one in os.listdir(f'{folder}/{name}')
        if re.fullmatch('cpu[0-9]+', one)
    )


def read(folder: str, name: str) -> str:
    """Return the text of a file, without white space around it.

    :raises (OSError, ValueError): it cannot be read, or is no ASCII text
    """
    return read_bytes(folder, name, 4096).decode('ascii').strip()


def read_optional(folder: str, name: str, default: str = '') -> str:
    """Return what is in a file, and the default where there is none.

    A switch of a driver that is off has its file, which answers EAGAIN.
    """
    try:
        return read(folder, name)
    except (FileNotFoundError, BlockingIOError):
        return default


def read_bytes(folder: str, name: str, size: int) -> bytes:
    with open(os.path.join(folder, name), 'rb') as file:
        return file.read(size)


def read_link(folder: str, name: str) -> str:
    """Return the last part of where a link leads; '' without one."""
    try:
        return os.path.basename(os.readlink(os.path.join(folder, name)))
    except FileNotFoundError:
        return ''


def list_folder(path: str) -> list[str]:
    """Return the names in a folder, none where there is no such folder."""
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []
