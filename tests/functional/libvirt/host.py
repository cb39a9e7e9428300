# SPDX-License-Identifier: Apache-2.0

"""A compute host with libvirt, QEMU and resctrl that sees no other one.

It has mounts, a host name and processes of its own: libvirtd, its QEMUs,
nova-compute and the model of resctrl.
"""

from collections.abc import Iterator, Mapping
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

from dev.cloud import child
from dev.cloud import folder as folders
from dev.cloud import ledger as ledger_mod
from dev.cloud.machines import resctrl
from dev.cloud import options
from dev.cloud import settings as cloud_settings
from tests.functional.libvirt import compute
from tests.functional.libvirt import daemon

#: Nova finds out with it whether hosts share a folder, which they do.
_SSH = """#!/bin/sh
# ssh -o BatchMode=yes HOST COMMAND
shift 3
exec "$@"
"""

_ROOT = pathlib.Path(__file__).resolve().parents[3]
_SECONDS = 120.0


def wait(find: Any, what: str) -> Any:
    """Return what is found as soon as it is there."""
    deadline = time.monotonic() + _SECONDS
    while not (found := find()):
        if time.monotonic() > deadline:
            raise AssertionError(f'waited in vain for {what}')
        time.sleep(0.05)
    return found


class _Machine(resctrl.Machine):
    """A model of resctrl that is mounted on one of the hosts only."""

    def __init__(self, host: 'Host', folder: folders.Folder) -> None:
        self._host = host
        super().__init__(host.name, folder)
        self._inside = self.path
        self.path = pathlib.Path(f'/proc/{host.init}/root{self._inside}')

    def _make_child(self) -> child.Child:
        arguments = [
            f'--shape={self._home / "shape.json"}',
            f'--mount={self._home / "resctrl"}',
            f'--sysfs={self._home}',
            '--tasks=proc',
        ]
        return self._host.make_child(
            f'resctrl-{self.host}',
            'nova_ext_resources.testing.resctrl',
            arguments,
        )

    def stop(self) -> None:
        """End it; its mount ends with the libvirtd of its host."""
        self._child.kill()

    def options(self) -> cloud_settings.Options:
        (found,) = super().options().values()
        return {'ext_resources_resctrl': {**found, 'path': str(self._inside)}}


class Host:
    """One host: its libvirtd, its resctrl and its nova-compute.

    :param address: also the name of its folder: Nova makes the way to the
        libvirtd of another host out of it
    :ivar cpu: the CPU of this machine that servers are pinned to
    :ivar connection: a ``libvirt.virConnect``
    """

    def __init__(
        self, name: str, address: str, cpu: int, folder: folders.Folder
    ) -> None:
        self.name, self.cpu = name, cpu
        self.address = address
        self._folder = folder
        self.state = folder.lib / name
        self._programs = self.state / 'bin'
        self.log = folder.log / f'{name}.log'
        self.libvirtd = daemon.Libvirtd(
            folder.root / self.address, name, address=self.address
        )

    def start(self, stack: contextlib.ExitStack) -> None:
        """Start it without its nova-compute."""
        stack.enter_context(self.libvirtd)
        self.init = self.libvirtd.find_init()
        self.connection = self.libvirtd.connect()
        stack.callback(self.connection.close)
        self.machine = _Machine(self, self._folder)
        stack.callback(self.machine.stop)
        self.machine.start()
        self.machine.wait()
        self.state.mkdir()
        self._make_ssh()

    def _make_ssh(self) -> None:
        self._programs.mkdir()
        path = self._programs / 'ssh'
        path.write_text(_SSH)
        path.chmod(0o755)

    def make_child(
        self, name: str, module: str, arguments: list[str]
    ) -> child.Child:
        """Describe a process in the namespaces of the host."""
        nsenter, *enter = self._enter()
        command = [sys.executable, '-m', module, *arguments]
        path = os.pathsep.join(
            [str(_ROOT), *filter(None, [os.environ.get('PYTHONPATH')])]
        )
        return child.Child(
            name,
            nsenter,
            [*enter, *command],
            folder=self._folder,
            environ={
                'PYTHONPATH': path,
                'PATH': f'{self._programs}{os.pathsep}{os.environ["PATH"]}',
            },
            log=self.log,
        )

    def _enter(self) -> list[str]:
        """Return how a command on this host begins."""
        nsenter = shutil.which('nsenter')
        assert nsenter is not None
        namespaces = ['--mount', '--uts', '--pid']
        return [nsenter, f'--target={self.init}', *namespaces, '--']

    @contextlib.contextmanager
    def frozen(self, uuid: str) -> Iterator[None]:
        """Have the process of a guest do nothing for a while."""
        self._send('STOP', uuid)
        try:
            yield
        finally:
            self._send('CONT', uuid)

    def _send(self, name: str, uuid: str) -> None:
        pid = str(min(self.list_threads(uuid)))
        subprocess.run([*self._enter(), 'kill', f'-{name}', pid], check=True)

    # -- nova-compute --------------------------------------------------

    def start_compute(self) -> None:
        """Start it; does not wait."""
        conf = self._folder.hosts / f'{self.name}-nova.conf'
        conf.write_text(options.render(self._list_options()))
        self._compute = self.make_child(
            f'compute-{self.name}',
            'tests.functional.libvirt.compute',
            [str(conf), compute.find_bus(self._folder.etc)],
        )
        self._compute.start()

    @property
    def has_started(self) -> bool:
        """Whether its nova-compute has.

        :raises ChildFailed: that has ended
        """
        self._compute.check()
        return compute.STARTED in self._compute.output.read_text()

    def kill_compute(self) -> None:
        """End it at once, and wait until it has ended."""
        pid = self._compute.pid
        assert pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        # Its guard takes the end of its input for that of the test.
        wait(lambda: not self._is_alive(pid), 'the end of nova-compute')
        self._compute.kill()

    def _is_alive(self, pid: int) -> bool:
        if self._compute.is_running:
            return True
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _list_options(self) -> cloud_settings.Options:
        return options.merge(
            _read_options(self._folder.etc / 'nova.conf'),
            {
                'DEFAULT': {
                    'host': self.name,
                    'my_ip': self.address,
                    'state_path': str(self.state),
                    # Hosts share it: this release of QEMU cannot copy disks.
                    'instances_path': str(self._folder.lib / 'instances'),
                    'log_file': str(self.log),
                },
                'compute': {
                    'cpu_dedicated_set': str(self.cpu),
                    'cpu_shared_set': ','.join(
                        str(one)
                        for one in sorted(os.sched_getaffinity(0))
                        if one != self.cpu
                    ),
                },
                'libvirt': {
                    'live_migration_inbound_addr': self.address,
                    'live_migration_uri': 'qemu+unix:///system?socket='
                    f'{self._folder.root}/%s/run/libvirt/libvirt-sock',
                },
                'oslo_concurrency': {'lock_path': str(self.state / 'locks')},
            },
            self.machine.options(),
        )

    # -- what is -------------------------------------------------------

    def find_domain(self, uuid: str) -> Any:
        """Return its ``virDomain``, or None."""
        import libvirt

        with contextlib.suppress(libvirt.libvirtError):
            return self.connection.lookupByUUIDString(uuid)
        return None

    def list_threads(self, uuid: str) -> set[int]:
        """Return the threads of a guest's process, as this host sees them."""
        proc = pathlib.Path('/proc', str(self.init), 'root', 'proc')
        for path in proc.glob('[0-9]*/cmdline'):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b'\0')
                if b'-uuid' in words and uuid.encode() in words:
                    return set(map(int, os.listdir(path.parent / 'task')))
        return set()

    def lose_threads(self, uuid: str) -> None:
        """Take a guest's threads out of its group."""
        for thread in self.list_threads(uuid):
            self.machine.write('tasks', f'{thread}\n')

    def find_group(self, uuid: str) -> Mapping[str, Any]:
        """Return what a server's group has; empty without one."""
        name = f'nova-{uuid}'
        if name not in self.machine.list_groups():
            return {}
        schemata = self.machine.read(f'{name}/schemata')
        return {
            'cpus': self.machine.read(f'{name}/cpus_list').strip(),
            'ways': resctrl.read_ways(schemata),
            'threads': set(self.machine.list_threads(name)),
        }

    def list_held(self, uuid: str) -> dict[str, ledger_mod.Assigned]:
        """Return what the ledger says: resource class -> units."""
        path = self.state / 'ext_resources' / f'{self.name}.sqlite'
        return {
            one.resource_class: one
            for one in ledger_mod.read(path)
            if one.consumer_uuid == uuid
        }


def _read_options(path: pathlib.Path) -> cloud_settings.Options:
    """Return what the services have, without their databases."""
    sections: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines():
        if line.startswith('['):
            values = sections.setdefault(line.strip('[]'), {})
        elif line:
            name, _, value = line.partition(' = ')
            values[name] = (*values.get(name, ()), value)
    for name in ('database', 'api_database'):
        sections.pop(name, None)
    return sections
