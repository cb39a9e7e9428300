# SPDX-License-Identifier: Apache-2.0

"""Reads what the kernel shows of its processes and their cgroups.

Sources: proc(5), cgroups(7), the kernel's "Control Group v2", and "Control
Groups Resource Management" of libvirt.
"""

from collections.abc import Iterator
import dataclasses
import os
import re

#: Kernel threads, and the thread that they work for.
_HELPER = re.compile(r'(?:vhost-|kvm-pit/|kvm-nx-lpage-recovery-)(\d+)\n?')

#: The cgroup of one machine, with systemd and without it. libvirt never puts
#: two machines, or anything else, into one.
_MACHINE = re.compile(r'machine-qemu.+\.scope|.+\.libvirt-qemu')

#: The same as a whole path that only root can make: users get cgroups of
#: their own below a unit that is no slice (``user@1000.service``,
#: ``docker-<id>.scope``), and no partition.
_TRUSTED = re.compile(
    r'/(?:[^/]+\.slice/)+machine-qemu[^/]+\.scope(?:/.*)?'
    r'|/machine/[^/]+\.libvirt-qemu(?:/.*)?'
    r'|/(?:[^/]+\.partition/)+[^/]+\.libvirt-qemu(?:/.*)?'
)

_CHUNK = 1 << 16

#: Of proc(5), "stat": exiting, in the field of flags.
_EXITING = 0x4

#: The same: a thread of the kernel (PF_KTHREAD of include/linux/sched.h).
_OF_KERNEL = 0x200000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One that lives, or has lived.

    :ivar start: when it started, in clock ticks after the boot
    """

    pid: int
    start: int


@dataclasses.dataclass(frozen=True, slots=True)
class Stat:
    parent: int
    start: int
    is_ending: bool
    is_of_kernel: bool


class Reader:
    """Reads files; one that does not exist is read as empty."""

    def __init__(self, proc: str, cgroup: str) -> None:
        self._proc = proc
        self._cgroup = cgroup

    def read(self, path: str) -> bytes:
        return _read(f'{self._proc}/{path}')

    def list_numbers(self, path: str) -> list[int]:
        try:
            names = os.listdir(f'{self._proc}/{path}')
        except OSError:
            return []
        return [int(name) for name in names if name.isdigit()]

    def list_threads(self, pid: int) -> set[int]:
        return set(self.list_numbers(f'{pid}/task'))

    def has_thread(self, pid: int, tid: int) -> bool:
        return os.path.exists(f'{self._proc}/{pid}/task/{tid}')

    def is_alive(self, process: Process) -> bool:
        stat = self.read_stat(process.pid)
        return stat is not None and stat.start == process.start

    def read_stat(self, tid: int) -> Stat | None:
        # The name, in parentheses, may hold anything.
        fields = self.read(f'{tid}/stat').rpartition(b')')[2].split()
        if len(fields) < 20:
            return None
        flags = int(fields[6])
        return Stat(
            parent=int(fields[1]),
            start=int(fields[19]),
            is_ending=fields[0] in b'ZX' or bool(flags & _EXITING),
            is_of_kernel=bool(flags & _OF_KERNEL),
        )

    def read_uid(self, pid: int) -> int | None:
        """Return the real user of a process.

        Not the owner of its folder, which is root as soon as it says that it
        wants no core dump.
        """
        for line in self.read(f'{pid}/status').splitlines():
            if line.startswith(b'Uid:'):
                return int(line.split()[1])
        return None

    def find_owner(self, pid: int) -> int | None:
        """Return the thread that a kernel thread works for."""
        name = self.read(f'{pid}/comm').decode('utf-8', 'replace')
        match = _HELPER.fullmatch(name)
        if match is None:
            return None
        # Any process can have such a name, and an empty command line.
        stat = self.read_stat(pid)
        return int(match[1]) if stat and stat.is_of_kernel else None

    def is_machine(self, pid: int) -> bool:
        """Return whether root has put it into the cgroup of a machine."""
        return any(
            _TRUSTED.fullmatch(path) and '..' not in path.split('/')
            for _controllers, path in self._list_cgroups(pid)
        )

    def list_cgroup(self, pid: int) -> set[int]:
        """Return all threads in the cgroup of a machine, and below it."""
        for path in self._list_machine_paths(pid):
            threads = set(_walk(path))
            if threads:
                return threads
        return set()

    def _list_machine_paths(self, pid: int) -> Iterator[str]:
        """Return where it can be, in each hierarchy (cgroups(7))."""
        for controllers, path in self._list_cgroups(pid):
            parts = path.strip('/').split('/')
            places = [n for n, p in enumerate(parts) if _MACHINE.fullmatch(p)]
            if not places or '..' in parts:
                continue
            inner = '/'.join(parts[: places[0] + 1])
            names = (
                [controllers.removeprefix('name=')]
                if controllers
                else ['', 'unified']
            )
            for name in names:
                yield os.path.join(self._cgroup, name, inner)

    def _list_cgroups(self, pid: int) -> Iterator[tuple[str, str]]:
        """Return controllers and path of each hierarchy."""
        for line in os.fsdecode(self.read(f'{pid}/cgroup')).splitlines():
            _number, controllers, path = line.split(':', 2)
            yield controllers, path


def _walk(folder: str) -> Iterator[int]:
    text = _read(f'{folder}/cgroup.threads') or _read(f'{folder}/tasks')
    # Those that this process cannot see (another PID namespace) are 0, which
    # to the kernel is whoever writes it.
    yield from (tid for tid in map(int, text.split()) if tid)
    try:
        # Two links are those of a folder without any other in it, which
        # saves reading the names of some hundred files.
        if os.stat(folder).st_nlink == 2:
            return
        with os.scandir(folder) as entries:
            below = [one.path for one in entries if one.is_dir()]
    except OSError:
        return
    for one in below:
        yield from _walk(one)


def _read(path: str) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b''
    try:
        return b''.join(iter(lambda: os.read(handle, _CHUNK), b''))
    except OSError:
        # It has ended between the two calls.
        return b''
    finally:
        os.close(handle)
