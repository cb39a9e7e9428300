# SPDX-License-Identifier: Apache-2.0

"""A sysfs tree with PCI devices, as the kernel makes it.

Only what this package reads is there. Devices are folders below ``devices/``,
and ``bus/pci/devices`` has links to them.
"""

from collections.abc import Iterable
import pathlib
import shutil

INTEL = '0x8086'


class Tree:
    """A tree in a folder.

    :param nodes: CPUs of each NUMA node; without any, the kernel has no NUMA
    :ivar path: in place of ``/sys``
    """

    def __init__(
        self, path: str, nodes: Iterable[Iterable[int]] = ((0, 1), (2, 3))
    ) -> None:
        self.path = pathlib.Path(path)
        self.bus = self.path / 'bus/pci/devices'
        self.bus.mkdir(parents=True)
        self._drivers = self.path / 'bus/pci/drivers'
        # A host bridge: no host is without any device.
        self.make('0000:00:00.0', vendor=INTEL, **{'class': '0x060000'})
        cpus = 0
        for number, node in enumerate(nodes):
            for cpu in node:
                folder = f'devices/system/node/node{number}/cpu{cpu}'
                (self.path / folder).mkdir(parents=True)
                cpus = max(cpus, cpu)
        (self.path / 'kernel/iommu_groups/0').mkdir(parents=True)
        system = self.path / 'devices/system/cpu'
        system.mkdir(parents=True)
        self.write(system / 'present', f'0-{cpus}')

    def write(self, path: pathlib.Path, text: object) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{text}\n', encoding='ascii')

    def find(self, address: str) -> pathlib.Path:
        return self.bus / address

    def make(self, address: str, **files: object) -> pathlib.Path:
        """Plug in a PCI device with these files."""
        folder = self.path / 'devices/pci0000:00' / address
        folder.mkdir(parents=True)
        (self.bus / address).symlink_to(
            f'../../../devices/pci0000:00/{address}'
        )
        for name, text in files.items():
            self.write(folder / name, text)
        return folder

    def write_config(self, address: str, vendor: str) -> None:
        """Let a device answer reads of its configuration space."""
        (self.find(address) / 'config').write_bytes(
            int(vendor, 16).to_bytes(2, 'little') + bytes(62)
        )

    def bind(self, address: str, driver: str) -> None:
        """Bind a device to a driver; '' to none."""
        self._unbind(address)
        if driver:
            folder = self._drivers / driver
            folder.mkdir(parents=True, exist_ok=True)
            (folder / address).symlink_to(self.find(address).resolve())
            link = self.find(address) / 'driver'
            link.symlink_to(f'../../../bus/pci/drivers/{driver}')

    def _unbind(self, address: str) -> None:
        for link in self._drivers.glob(f'*/{address}'):
            link.unlink()
        (self.find(address) / 'driver').unlink(missing_ok=True)

    def unplug(self, address: str) -> None:
        """Have a device vanish."""
        self._unbind(address)
        folder = self.find(address)
        shutil.rmtree(folder.resolve())
        folder.unlink()

    def kill(self, address: str) -> None:
        """Have a device answer no more: all reads of it return ones."""
        (self.find(address) / 'config').write_bytes(b'\xff' * 64)
