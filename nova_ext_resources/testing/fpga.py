# SPDX-License-Identifier: Apache-2.0

"""A sysfs tree with FPGAs of several shapes, as kernels make it."""

import os
import pathlib
import shutil

from nova_ext_resources.testing import sysfs

XILINX = '0x10ee'

#: Class code of processing accelerators.
ACCELERATOR = '0x120000'

#: Intel's programmable acceleration cards.
N3000 = '0x0b30'
D5005 = '0x0b2b'

#: What Intel's cards have as delivered: a loopback.
AFU = 'd8424dc4a4a3c413f89e433683f9040b'
REGION = '69528db6eb31577a8c3668f9faa081f6'


class Sysfs(sysfs.Tree):
    """A tree in a folder, at first without any FPGA."""

    _regions = 0
    _ports = 0
    _engines = 0

    @property
    def regions(self) -> pathlib.Path:
        return self.path / 'class/fpga_region'

    def load(self) -> None:
        """Load the kernel's modules, which make the classes."""
        for name in ('fpga_manager', 'fpga_region'):
            (self.path / 'class' / name).mkdir(parents=True, exist_ok=True)

    def add_region(
        self, device: pathlib.Path, compat_id: str = ''
    ) -> pathlib.Path:
        """Register a region of a device."""
        self.load()
        name = f'region{self._regions}'
        self._regions += 1
        folder = device / 'fpga_region' / name
        folder.mkdir(parents=True)
        if compat_id:
            self.write(folder / 'compat_id', compat_id)
        (self.regions / name).symlink_to(os.path.relpath(folder, self.regions))
        return folder

    def add_platform_region(self, name: str, within: str = '') -> pathlib.Path:
        """Make a region of a device tree.

        :param within: name of the region that it is a part of
        """
        parent = self.path / 'devices/platform/soc'
        if within:
            parent = self.find_platform_region(within)
        return self.add_region(parent / name)

    def find_platform_region(self, name: str) -> pathlib.Path:
        [found] = (self.path / 'devices/platform').rglob(
            f'{name}/fpga_region/region*'
        )
        return found

    def add_manager(
        self,
        name: str,
        state: str = 'operating',
        device: str = 'devices/platform/soc/mgr',
    ) -> pathlib.Path:
        """Register a manager of a device, as of a device tree."""
        self.load()
        folder = self.path / 'class/fpga_manager'
        key = f'fpga{len(list(folder.iterdir()))}'
        own = self.path / device / 'fpga_manager' / key
        self.write(own / 'name', name)
        self.write(own / 'state', state)
        (folder / key).symlink_to(os.path.relpath(own, folder))
        return own

    def add_card(
        self,
        address: str,
        *,
        device: str = N3000,
        ports: int = 1,
        vendor: str = sysfs.INTEL,
        node: int = 0,
        afu: str = AFU,
        compat_id: str = REGION,
        socket: int = 0,
    ) -> None:
        """Plug in a card with a Device Feature List."""
        self.make_function(address, vendor=vendor, device=device, node=node)
        base = self.add_region(self.find(address).resolve())
        engine = base / f'dfl-fme.{self._engines}'
        self._engines += 1
        self.write(engine / 'ports_num', ports)
        self.write(engine / 'bitstream_id', '0x2300010504001e1')
        self.write(engine / 'socket_id', socket)
        manager = engine.relative_to(self.path.resolve()) / 'dfl-fme-mgr.0'
        self.add_manager('DFL FPGA Manager', 'unknown', str(manager))
        for number in range(ports):
            self.add_region(engine / f'dfl-fme-region.{number}', compat_id)
            self.add_port(address, number, afu)

    def add_function(self, address: str, *, driver: str = 'pr-pci') -> None:
        """Plug in a PCI function that is a region as a whole."""
        self.make_function(address, vendor=XILINX, device='0x9038')
        self.bind(address, driver)
        self.add_region(self.find(address).resolve())

    def pass_on(self, address: str) -> None:
        """Give a PCI function to a guest, as libvirt does."""
        self.remove_region(self.find_base(address))
        self.bind(address, 'vfio-pci')

    def make_function(
        self, address: str, *, vendor: str, device: str, node: int = 0
    ) -> None:
        """Plug in a PCI function of a card, without a region."""
        self.make(
            address,
            vendor=vendor,
            device=device,
            numa_node=node,
            **{'class': ACCELERATOR},
        )
        self.write_config(address, vendor)
        self.bind(address, 'dfl-pci')

    def find_base(self, address: str) -> pathlib.Path:
        """Return the region that is the whole card."""
        [found] = (self.find(address) / 'fpga_region').iterdir()
        return found

    def add_port(self, address: str, number: int, afu: str = AFU) -> None:
        folder = self.find_base(address) / f'dfl-port.{self._ports}'
        self._ports += 1
        self.write(folder / 'id', number)
        self.write(folder / 'dev', '238:0')
        if afu:
            self.write(folder / 'afu_id', afu)

    def find_port(self, address: str, number: int) -> pathlib.Path:
        for one in self.find_base(address).glob('dfl-port.*'):
            if (one / 'id').read_text(encoding='ascii') == f'{number}\n':
                return one
        raise FileNotFoundError(f'{address} has no port {number}')

    def release_port(self, address: str, number: int) -> None:
        """Take a port away from the card, for a virtual function."""
        shutil.rmtree(self.find_port(address, number))

    def add_virtual(self, address: str, parent: str, number: int) -> None:
        """Make a virtual function with a port, as the host's driver has it."""
        device = f'0x{int(N3000, 16) + 1:04x}'
        self.make_function(address, vendor=sysfs.INTEL, device=device)
        # By the standard, all of them answer so.
        self.kill(address)
        (self.find(address) / 'physfn').symlink_to(f'../{parent}')
        self.add_region(self.find(address).resolve())
        self.add_port(address, number)

    def remove_region(self, folder: pathlib.Path) -> None:
        """Unregister the region of a device, and all below it."""
        for link in self.regions.iterdir():
            if folder.resolve() in (one := link.resolve()).parents or (
                one == folder.resolve()
            ):
                link.unlink()
        shutil.rmtree(folder.parent)

    def unplug(self, address: str) -> None:
        for folder in (self.find(address) / 'fpga_region').glob('*'):
            self.remove_region(folder)
        super().unplug(address)
