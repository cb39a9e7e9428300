# SPDX-License-Identifier: Apache-2.0

"""A sysfs tree with network cards of several shapes, as kernels make it."""

from collections.abc import Iterable
import os

from nova_ext_resources.testing import sysfs

INTEL = sysfs.INTEL
MELLANOX = '0x15b3'

#: Class code of Ethernet controllers.
ETHERNET = '0x020000'


class Sysfs(sysfs.Tree):
    """A tree in a folder."""

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
        self.make(
            address,
            vendor=vendor,
            device=device,
            numa_node=node,
            sriov_totalvfs=total,
            sriov_numvfs=0,
            **{'class': kind},
        )
        self.write_config(address, vendor)
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
        bus: str = '',
    ) -> None:
        """Give a function a network interface.

        :param port: its ``phys_port_name``; '' where the driver has none
        :param bus: the device that has it, such as ``virtio3``; '' for the
            function itself
        """
        folder = self.find(address) / bus / 'net' / name
        folder.mkdir(parents=True)
        if speed is not None:
            self.write(folder / 'speed', speed)
        if port:
            self.write(folder / 'phys_port_name', port)

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
            self.make(own, vendor=vendor, device=device)
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
        super().unplug(address)
