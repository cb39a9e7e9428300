# SPDX-License-Identifier: Apache-2.0

"""A machine whose kernel has resctrl: a model of it, mounted with FUSE.

The model answers as a kernel does, in a process of its own, and knows the
threads of this machine. See ``nova_ext_resources.testing.resctrl``.
"""

from collections.abc import Mapping
import dataclasses
import json
import os

from oslo_config import cfg

from dev.cloud import child
from dev.cloud import errors
from dev.cloud import folder as folders
from dev.cloud.machines import base
from dev.cloud import settings as cloud_settings
from nova_ext_resources.conf.drivers import resctrl as conf_resctrl
from nova_ext_resources.drivers.resctrl import enforcer
from nova_ext_resources.drivers.resctrl.guest import processes as processes_mod
from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources import plugins
from nova_ext_resources.testing.resctrl import fuse
from nova_ext_resources.testing.resctrl import shape as shape_mod
from nova_ext_resources.testing.resctrl import shapes
from nova_ext_resources.testing import unmount

#: Of the groups that belong to servers.
PREFIX = 'nova-'

#: Of each cache, beside the guaranteed ones.
_BURST_WAYS = 3

#: Ways that I/O devices fill too, which nobody can have alone.
_SHAREABLE = 0x600


class Machine(base.Machine):
    """One mount; its groups are gone when it is taken away.

    :ivar path: where it is mounted
    """

    backend = 'resctrl'
    manager = 'resctrl'
    loss = 'resctrl is unmounted'

    def __init__(
        self,
        host: str,
        folder: folders.Folder,
        hardware: base.Hardware = base.HARDWARE,
    ) -> None:
        self._home = folder.lib / f'resctrl-{host}'
        self.path = self._home / 'resctrl'
        super().__init__(host, folder, hardware)

    def start(self) -> None:
        """Mount it, empty.

        :raises CloudError: this machine has no FUSE
        """
        try:
            fuse.load()
        except fuse.Unavailable as err:
            raise errors.CloudError(
                f'The backend resctrl needs FUSE on this machine: {err}'
            ) from err
        self.path.mkdir(parents=True, exist_ok=True)
        shape = json.dumps(_make_shape(self._hardware).to_dict())
        (self._home / 'shape.json').write_text(shape)
        super().start()

    def _is_ready(self) -> bool:
        return (self.path / 'schemata').is_file()

    def kill(self) -> None:
        """End the model, and take away what is left of the mount."""
        super().kill()
        unmount.unmount(str(self.path))

    def stop(self) -> None:
        """Ask it to unmount itself, and see to it."""
        super().stop()
        unmount.unmount(str(self.path))

    def options(self) -> cloud_settings.Options:
        """Return what the configuration of its host says of it."""
        return {
            'ext_resources_resctrl': {
                'path': str(self.path),
                'cpu_path': str(self._home / 'cpu'),
                'burst_ways': str(_BURST_WAYS),
            }
        }

    def describe(self) -> str:
        """Return a command that shows what is applied."""
        return f'grep -r --include=schemata . {self.path}'

    def list_in_force(self) -> dict[str, base.InForce]:
        """Return server -> the control group that is named after it."""
        rest = read_ways((self.path / 'schemata').read_text())
        found = {}
        for folder in sorted(self.path.glob(f'{PREFIX}*-*')):
            schemata = (folder / 'schemata').read_text()
            own = {
                domain: mask
                for domain, mask in read_ways(schemata).items()
                if not mask & rest[domain]
            }
            found[folder.name.removeprefix(PREFIX)] = base.InForce(
                name=folder.name,
                ways=sum(mask.bit_count() for mask in own.values()),
                schemata=list_lines(schemata, 'L3')[0],
            )
        return found

    def read(self, name: str) -> str:
        """Return what a file has in it, such as ``schemata``."""
        return (self.path / name).read_text()

    def list_groups(self) -> tuple[str, ...]:
        """Return the names of all groups but the default one."""
        return tuple(
            sorted(one.parent.name for one in self.path.glob('*/mode'))
        )

    def list_threads(self, name: str) -> tuple[int, ...]:
        """Return the threads that are in a group by themselves."""
        return tuple(map(int, self.read(f'{name}/tasks').split()))

    def wait_for_look(self) -> None:
        """Do nothing: a look leaves no trace in a kernel."""

    def take_free_ways(self, name: str) -> None:
        """Let other software make a group with what the default one has."""
        (self.path / name).mkdir()
        rest = read_ways(self.read('schemata'))
        free = {domain: mask & ~_SHAREABLE for domain, mask in rest.items()}
        self.write(f'{name}/schemata', _format_ways(free))

    def give_ways_back(self, name: str) -> None:
        """Let other software remove its group."""
        (self.path / name).rmdir()

    def write(self, name: str, text: str) -> None:
        """Write a file as somebody at a shell of the host would."""
        # One write is one command to the kernel.
        handle = os.open(self.path / name, os.O_WRONLY)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)

    def _make_child(self) -> child.Child:
        return child.Child(
            f'resctrl-{self.host}',
            'nova_ext_resources.testing.resctrl',
            [
                f'--shape={self._home / "shape.json"}',
                f'--mount={self.path}',
                f'--sysfs={self._home}',
                '--tasks=proc',
            ],
            folder=self._folder,
        )


def make_enforcer(
    own: cloud_settings.Options,
    host: str,
    *,
    files: file_system.FileSystem | None = None,
    processes: processes_mod.Processes | None = None,
) -> enforcer.ResctrlEnforcer:
    """Return an enforcer that has options of its own, without Nova.

    :param files: of resctrl, where it is not mounted
    :param processes: of the host, where they are not those of this machine
    """
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[], default_config_dirs=[])
    group = plugins.register_opts(conf, 'resctrl', conf_resctrl.OPTS)
    for section, values in own.items():
        for name, value in values.items():
            conf.set_override(name, value, section)
    return enforcer.ResctrlEnforcer(
        group, host, files=files, processes=processes
    )


def _make_shape(hardware: base.Hardware) -> shape_mod.Shape:
    """Make a usual machine with as many classes as are wanted."""
    shape = shapes.SHAPES['skylake2']
    return dataclasses.replace(
        shape,
        bandwidths=tuple(
            dataclasses.replace(one, num_closids=hardware.closids)
            for one in shape.bandwidths
        ),
    )


def list_lines(schemata: str, control: str) -> list[str]:
    """Return the lines of one control, such as ``L3``."""
    lines = (line.strip() for line in schemata.splitlines())
    return [line for line in lines if line.startswith(f'{control}:')]


def read_ways(schemata: str) -> dict[str, int]:
    """Return cache id -> mask."""
    [line] = list_lines(schemata, 'L3')
    pairs = (one.split('=') for one in line.partition(':')[2].split(';'))
    return {domain: int(mask, 16) for domain, mask in pairs}


def _format_ways(ways: Mapping[str, int]) -> str:
    pairs = (f'{domain}={mask:x}' for domain, mask in ways.items())
    return f'L3:{";".join(pairs)}\n'
