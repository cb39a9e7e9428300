# SPDX-License-Identifier: Apache-2.0

"""A sysfs tree with network cards, as the kernel makes it, of several shapes.

Only what this package reads is there. Devices are folders below ``devices/``,
and ``bus/pci/devices`` has links to them.
"""

from collections.abc import Iterable
import os
import pathlib
import shutil

INTEL = '0x8086'
MELLANOX = '0x15b3'

#: Class code of Ethernet controllers.
ETHERNET = '0x020000'


class Sysfs:
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
        # A host bridge: no host is without any device.
        self._make('0000:00:00.0', vendor=INTEL, **{'class': '0x060000'})
        cpus = 0
        for number, node in enumerate(nodes):
            for cpu in node:
                folder = f'devices/system/node/node{number}/cpu{cpu}'
                (self.path / folder).mkdir(parents=True)
                cpus = max(cpus, cpu)
        system = self.path / 'devices/system/cpu'
        system.mkdir(parents=True)
        self.write(system / 'present', f'0-{cpus}')

    def write(self, path: pathlib.Path, text: object) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{text}\n', encoding='ascii')

    def find(self, address: str) -> pathlib.Path:
        return self.bus / address

    def _make(self, address: str, **files: object) -> pathlib.Path:
        folder = self.path / 'devices/pci0000:00' / address
        folder.mkdir(parents=True)
        (self.bus / address).symlink_to(
            f'../../../devices/pci0000:00/{address}'
        )
        for name, text in files.items():
            self.write(folder / name, text)
        return folder

    def add_card(
        self,
        address: str,
        *,
        interfaces: Iterable[str] = (),
        driver: str = 'ixgbe',
        vendor: str = INTEL,
        device: str = '0x10fb',
        total: int = 63,
        node: int = 0,
        speed: int | None = 10000,
        kind: str = ETHERNET,
    ) -> None:
        """Plug in a card of which no virtual function is enabled."""
        folder = self._make(
            address,
            vendor=vendor,
            device=device,
            numa_node=node,
            sriov_totalvfs=total,
            sriov_numvfs=0,
            **{'class': kind},
        )
        (folder / 'config').write_bytes(
            int(vendor, 16).to_bytes(2, 'little') + bytes(62)
        )
        self.bind(address, driver)
        for one in interfaces:
            self.add_interface(address, one, speed=speed)

    def add_interface(
        self,
        address: str,
        name: str,
        *,
        speed: int | None = None,
        port: str = '',
    ) -> None:
        """Give a function a network interface.

        :param port: its ``phys_port_name``; '' where the driver has none
        """
        folder = self.find(address) / 'net' / name
        folder.mkdir(parents=True)
        if speed is not None:
            self.write(folder / 'speed', speed)
        if port:
            self.write(folder / 'phys_port_name', port)

    def bind(self, address: str, driver: str) -> None:
        """Bind a function to a driver; '' to none."""
        link = self.find(address) / 'driver'
        link.unlink(missing_ok=True)
        if driver:
            link.symlink_to(f'../../../bus/pci/drivers/{driver}')

    def enable(
        self,
        address: str,
        count: int,
        *,
        driver: str = 'vfio-pci',
        device: str = '0x10ed',
    ) -> list[str]:
        """Write ``sriov_numvfs`` of a card; return what it has then.

        The first is at function 0 of the device number behind that of the
        card, as with many cards.
        """
        folder = self.find(address)
        for link in folder.glob('virtfn*'):
            self.unplug(os.path.basename(os.readlink(link)))
            link.unlink()
        vendor = (folder / 'vendor').read_text(encoding='ascii').strip()
        made = []
        front, slot = address.rsplit(':', 1)
        first = (int(slot[:2], 16) + 2) * 8 + int(slot[3]) * 64
        for number in range(count):
            at = first + number
            own = f'{front}:{at >> 3 & 31:02x}.{at & 7}'
            self._make(own, vendor=vendor, device=device)
            (self.find(own) / 'physfn').symlink_to(f'../{address}')
            (folder / f'virtfn{number}').symlink_to(f'../{own}')
            self.bind(own, driver)
            made.append(own)
        self.write(folder / 'sriov_numvfs', count)
        return made

    def unplug(self, address: str) -> None:
        """Have a device vanish, with its virtual functions."""
        folder = self.find(address)
        for link in folder.glob('virtfn*'):
            self.unplug(os.path.basename(os.readlink(link)))
        shutil.rmtree(folder.resolve())
        folder.unlink()

    def kill(self, address: str) -> None:
        """Have a card answer no more: all reads of it return ones."""
        (self.find(address) / 'config').write_bytes(b'\xff' * 64)
