# SPDX-License-Identifier: Apache-2.0

"""Reads what the kernel shows of its processes, as proc(5) describes it."""

from collections.abc import Collection, Iterator
import dataclasses
import os
import re
import stat as stat_mod

#: Kernel threads, and the thread that they work for.
_HELPER = re.compile(r'(?:vhost-|kvm-pit/|kvm-nx-lpage-recovery-)(\d+)\n?')

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


class ProcReader:
    """Reads files; one that does not exist is read as empty."""

    def __init__(self, proc: str) -> None:
        self._proc = proc

    def read(self, path: str) -> bytes:
        return read_file(f'{self._proc}/{path}')

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

    def find(self, pid: int) -> Process | None:
        """Return the process of a number; None: there is none."""
        stat = self.read_stat(pid)
        return Process(pid=pid, start=stat.start) if stat else None

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

    def list_cgroups(self, pid: int) -> Iterator[tuple[str, str]]:
        """Return controllers and path of each hierarchy."""
        # A cgroup's name may contain all other ends of lines.
        for line in self.read(f'{pid}/cgroup').split(b'\n'):
            parts = os.fsdecode(line).split(':', 2)
            if len(parts) == 3:
                yield parts[1], parts[2]


def read_file(path: str) -> bytes:
    """Return what a file holds; nothing when it is gone."""
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


def is_owned(seen: os.stat_result, owners: Collection[int]) -> bool:
    """Return whether these users alone can change a file or a folder."""
    writable = stat_mod.S_IWGRP | stat_mod.S_IWOTH
    return seen.st_uid in owners and not seen.st_mode & writable
