# SPDX-License-Identifier: Apache-2.0

"""A libvirtd of the test's own, which sees the machine in its own way.

It has its own mounts, host name and processes: the libvirt of the machine,
if there is one, is not touched, and every QEMU ends with the test, however
that ends.
"""

import contextlib
import os
import pathlib
import platform
import shutil
import subprocess
import time
from typing import Any, Self
import uuid

_PROGRAMS = {
    'libvirtd': 'libvirt-daemon and libvirt-daemon-driver-qemu',
    'qemu-system-x86_64': 'qemu-system-x86',
    'qemu-img': 'qemu-utils',
    'unshare': 'util-linux',
    # Nova's driver tells the scheduler what it says.
    'uptime': 'procps',
}

#: Namespaces: mounts, host name, processes. All end with their first one.
UNSHARE = (
    'unshare',
    '--mount',
    '--uts',
    '--pid',
    '--fork',
    '--kill-child',
    '--mount-proc',
    '--propagation=private',
)

_LIBVIRTD_CONF = """
auth_unix_rw = "none"
auth_unix_ro = "none"
unix_sock_group = "root"
unix_sock_rw_perms = "0700"
host_uuid = "{uuid}"
"""

_QEMU_CONF = """
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
migration_address = "{address}"
"""

# The shell stays as the first process: it takes in the QEMUs, which leave
# libvirtd, when they end. Its input ends with the test.
_INIT = """
cd "$1"
hostname {hostname}
mount --bind passwd /etc/passwd
mount --bind group /etc/group
# Not every package of libvirt brings it, and a mount needs a place.
mkdir --parents /etc/libvirt
mount --bind etc /etc/libvirt
if [ -e qemu-wrapped ]; then
    # QEMU looks for its firmware beside its program.
    mount --bind {emulator} {other}
    mount --bind qemu-wrapped {emulator}
fi
for folder in run var/lib var/log var/cache; do
    mount --bind "$folder" "/$folder"
done
libvirtd --pid-file libvirtd.pid </dev/null &
read -r _
"""

#: Starts QEMU without what its command line says of the server.
WRAPPER = """#!/bin/bash
words=()
while [ $# -gt 0 ]; do
    case $1 in
        -uuid | -name) shift ;;
        *) words+=("$1") ;;
    esac
    shift
done
exec {emulator} "${{words[@]}}"
"""

EMULATOR = '/usr/bin/qemu-system-x86_64'

#: Of the same package; stands for it where it is wrapped.
_OTHER = '/usr/bin/qemu-system-i386'

_FOLDERS = (
    'etc',
    'run/libvirt',
    'var/lib/libvirt',
    'var/log/libvirt',
    'var/cache/libvirt',
)

_SECONDS = 60.0


def find_obstacle() -> str:
    """Explain why there cannot be a libvirtd here; empty when there can."""
    if os.geteuid() != 0:
        return 'needs root, for a libvirtd with mounts of its own'
    if platform.machine() != 'x86_64':
        return f'its guest is for x86_64, this is {platform.machine()}'
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            return f'{program} is missing: install {package}'
    try:
        import libvirt  # noqa: F401
    except ImportError:
        return 'libvirt-python is missing here: run "tox -e libvirt"'
    if len(os.sched_getaffinity(0)) < 2:
        return 'needs two CPUs, one of them to pin a server to'
    tried = subprocess.run([*UNSHARE, 'true'], capture_output=True)
    if tried.returncode:
        reason = tried.stderr.decode(errors='replace').strip()
        return f'this machine allows no namespaces of its own: {reason}'
    return ''


class Libvirtd:
    """A libvirtd on an empty host; a context manager.

    :param is_silent: whether no command line of QEMU names its guest
    :param address: where guests come in that are migrated live to here
    :ivar uri: where it answers
    """

    def __init__(
        self,
        folder: pathlib.Path,
        hostname: str,
        *,
        is_silent: bool = False,
        address: str = '0.0.0.0',
    ) -> None:
        self._is_silent = is_silent
        self._address = address
        self._folder = folder
        self._hostname = hostname
        self._output = folder / 'libvirtd.out'
        self._process: subprocess.Popen[bytes] | None = None
        socket = folder / 'run' / 'libvirt' / 'libvirt-sock'
        self.uri = f'qemu+unix:///system?socket={socket}'

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until it answers.

        :raises RuntimeError: it does not; with what it said
        """
        self._write()
        script = _INIT.format(
            hostname=self._hostname, emulator=EMULATOR, other=_OTHER
        )
        with self._output.open('wb') as output:
            self._process = subprocess.Popen(
                [*UNSHARE, 'bash', '-ec', script, 'init', self._folder],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + _SECONDS
        while not self._answers():
            if self._process.poll() is not None or (
                time.monotonic() > deadline
            ):
                said = self._output.read_text(errors='replace')
                raise RuntimeError(f'libvirtd does not answer:\n{said}')
            time.sleep(0.05)

    def stop(self) -> None:
        """End it and every QEMU; twice is once."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def connect(self) -> Any:
        """Return a ``libvirt.virConnect``."""
        import libvirt

        return libvirt.open(self.uri)

    def find_init(self) -> int:
        """Return the first process of its namespaces."""
        assert self._process is not None
        pid = self._process.pid
        children = pathlib.Path(f'/proc/{pid}/task/{pid}/children')
        return int(children.read_text().split()[0])

    def _answers(self) -> bool:
        import libvirt

        with contextlib.suppress(libvirt.libvirtError):
            connection = libvirt.open(self.uri)
            # It looks at what QEMU can do when it is asked first, which
            # takes seconds.
            connection.getCapabilities()
            connection.close()
            return True
        return False

    def _write(self) -> None:
        for name in _FOLDERS:
            (self._folder / name).mkdir(parents=True)
        if self._is_silent:
            wrapper = self._folder / 'qemu-wrapped'
            wrapper.write_text(WRAPPER.format(emulator=_OTHER))
            wrapper.chmod(0o755)
        etc = self._folder / 'etc'
        (etc / 'libvirtd.conf').write_text(
            _LIBVIRTD_CONF.format(uuid=uuid.uuid4())
        )
        (etc / 'qemu.conf').write_text(
            _QEMU_CONF.format(address=self._address)
        )
        # libvirtd insists on this user even when told to run QEMU as root.
        for name, line in (
            ('passwd', 'libvirt-qemu:x:64055:64055::/:/bin/false\n'),
            ('group', 'libvirt-qemu:x:64055:\n'),
        ):
            text = pathlib.Path('/etc', name).read_text()
            if 'libvirt-qemu:' not in text:
                text += line
            (self._folder / name).write_text(text)
