# SPDX-License-Identifier: Apache-2.0

"""A sysfs tree with the settings of CPUs, of several shapes."""

from collections.abc import Iterable
import errno
import os
import pathlib
import shutil

from nova_ext_resources.drivers.devices import files

#: Idle states of servers with processors of Intel.
INTEL = ('POLL', 'C1', 'C1E', 'C6')


class Sysfs:
    """A tree in a folder, of a virtual machine: nothing can be set.

    :ivar path: in place of ``/sys``
    :ivar errors: file, or folder of files -> what reads of it answer, such
        as ``errno.EBUSY``; in force for what reads by :meth:`read_bytes`
    """

    def __init__(self, path: str, cpus: int = 4) -> None:
        self.path = pathlib.Path(path)
        self.folder = self.path / 'devices/system/cpu'
        self.cpus = cpus
        self.errors: dict[pathlib.Path, int] = {}
        self._read_bytes = files.read_bytes
        for cpu in range(cpus):
            (self.folder / f'cpu{cpu}').mkdir(parents=True)
        self.write('present', f'0-{cpus - 1}')
        self.write('online', f'0-{cpus - 1}')
        (self.folder / 'cpufreq').mkdir()
        self.write('cpuidle/current_driver', 'none')
        self.set_smt(False)

    def write(self, name: str, text: object) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{text}\n', encoding='utf-8')

    def read_bytes(self, folder: str, name: str, size: int) -> bytes:
        """Stand in for that of ``devices.files``: no file of a disk is busy.

        :raises OSError: as the kernel
        """
        path = pathlib.Path(folder, name)
        for one in (path, path.parent):
            if code := self.errors.get(one):
                raise OSError(code, os.strerror(code), str(path))
        return self._read_bytes(folder, name, size)

    def set_smt(self, is_active: bool) -> None:
        self.write('smt/active', int(is_active))

    def add_policies(
        self,
        driver: str = 'intel_pstate',
        *,
        governor: str = 'powersave',
        preference: str = 'balance_performance',
    ) -> None:
        """Give each CPU a policy of its own.

        :param preference: '' where the hardware has none
        """
        for cpu in range(self.cpus):
            name = f'cpufreq/policy{cpu}'
            self.write(f'{name}/affected_cpus', cpu)
            self.write(f'{name}/scaling_driver', driver)
            self.write(f'{name}/scaling_governor', governor)
            if preference:
                self.write(f'{name}/energy_performance_preference', preference)
            (self.folder / f'cpu{cpu}/cpufreq').symlink_to(f'../{name}')

    def set_governor(self, governor: str, cpus: Iterable[int]) -> None:
        for cpu in cpus:
            self.write(f'cpufreq/policy{cpu}/scaling_governor', governor)

    def set_no_turbo(self, is_set: bool) -> None:
        """Write the switch of ``intel_pstate``."""
        self.write('intel_pstate/no_turbo', int(is_set))

    def add_idle_states(self, names: Iterable[str] = INTEL) -> None:
        self.write('cpuidle/current_driver', 'intel_idle')
        for cpu in range(self.cpus):
            for number, name in enumerate(names):
                state = f'cpu{cpu}/cpuidle/state{number}'
                self.write(f'{state}/name', name)
                self.write(f'{state}/disable', 0)

    def disable(self, name: str, cpus: Iterable[int]) -> None:
        """Disable an idle state of some CPUs."""
        for cpu in cpus:
            for state in (self.folder / f'cpu{cpu}/cpuidle').iterdir():
                if (state / 'name').read_text(
                    encoding='utf-8'
                ).strip() == name:
                    (state / 'disable').write_text('1\n', encoding='ascii')

    def take_offline(self, cpu: int) -> None:
        """Take the last CPU offline, as kernels since Linux 5.19 do."""
        self.take_offline_before_5_19(cpu)
        self.errors[self.folder / f'cpufreq/policy{cpu}'] = errno.EBUSY

    def take_offline_before_5_19(self, cpu: int) -> None:
        """Take the last CPU offline: its policy is of no CPU."""
        self.write('online', f'0-{cpu - 1}')
        self.write(f'cpufreq/policy{cpu}/affected_cpus', '')
        shutil.rmtree(self.folder / f'cpu{cpu}/cpuidle', ignore_errors=True)
