# SPDX-License-Identifier: Apache-2.0

"""Which CPUs a region is near. Only reads."""

from collections.abc import Iterable
import os
import re

from nova_ext_resources.drivers.devices import files
from nova_ext_resources.drivers.fpga import pci

#: Cards in the package of a processor, by their ids; of these alone
#: ``socket_id`` means something.
_IN_PACKAGE = frozenset({('8086', 'bcbd'), ('8086', 'bcc0')})


def read_cpus(
    root: str, path: str, device: pci.Pci | None, engines: Iterable[str]
) -> frozenset[int]:
    """Return the CPUs of a card's NUMA node; none when it is not known.

    :param path: of the card's own region
    :param engines: names of its management engines
    :raises (OSError, ValueError): they cannot be read
    """
    cpus = files.read_cpus(root, _read_node(root, path))
    if device and (device.vendor_id, device.product_id) in _IN_PACKAGE:
        for one in () if cpus else engines:
            # Kernels before 5.4 do not say.
            socket = int(
                files.read_optional(f'{path}/{one}', 'socket_id', '-1')
            )
            cpus = _read_package(root, socket)
    return cpus


def _read_node(root: str, path: str) -> int:
    """Return the NUMA node of the next device above; -1 if none says."""
    top = os.path.realpath(f'{root}/devices')
    folder = path
    while folder.startswith(top):
        if node := files.read_optional(folder, 'numa_node'):
            return int(node)
        folder = os.path.dirname(folder)
    return -1


def _read_package(root: str, number: int) -> frozenset[int]:
    """Return the CPUs of a processor that are online."""
    folder = f'{root}/devices/system/cpu'
    found = set()
    for one in os.listdir(folder):
        topology = f'{folder}/{one}/topology'
        if re.fullmatch('cpu[0-9]+', one) and os.path.isdir(topology):
            if int(files.read(topology, 'physical_package_id')) == number:
                found.add(int(one.removeprefix('cpu')))
    return frozenset(found)
