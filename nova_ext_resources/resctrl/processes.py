# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Which threads work for a server. Only reads, and needs no privileges.

A server's processes are those whose command line says ``-uuid <server>``, as
libvirt starts QEMU (there are two while a server migrates within its host).
With them go all their threads; kernel threads that name one of these as the
one they work for (``vhost-<tid>``; ``kvm-pit/<pid>`` and
``kvm-nx-lpage-recovery-<pid>``); and all that runs in the cgroup that libvirt
has made for this machine alone, helpers such as swtpm and virtiofsd among
them. Sources: proc(5), the kernel's "Control Group v2", and "Control Groups
Resource Management" of libvirt.

Processes come and go while this looks: what is gone is no error. A process
is known by its number and its start time, for numbers are used again.
"""

from collections.abc import Iterable, Iterator, Mapping
import dataclasses
import os
import re

from nova_ext_resources.resctrl import errors

PROC = '/proc'

CGROUP = '/sys/fs/cgroup'

#: Both ways in which QEMU takes its option.
_OPTIONS = (b'-uuid', b'--uuid')

#: Kernel threads, and the thread that they work for.
_HELPER = re.compile(r'(?:vhost-|kvm-pit/|kvm-nx-lpage-recovery-)(\d+)\n?')

#: The cgroup of one machine, with systemd and without it. libvirt never puts
#: two machines, or anything else, into one.
_MACHINE = re.compile(r'machine-qemu.+\.scope|.+\.libvirt-qemu')

_CHUNK = 1 << 16

#: Of proc(5), "stat": exiting, in the field of flags.
_EXITING = 0x4

#: More parents than any process has between it and a server.
_MAX_PARENTS = 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One that lives, or has lived.

    :ivar start: when it started, in clock ticks after the boot
    """

    pid: int
    start: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Stat:
    parent: int
    start: int
    is_ending: bool


class Server:
    """The processes of a server, or of several, as they were found.

    :ivar processes: without those that were found since
    """

    def __init__(
        self,
        reader: '_Reader',
        processes: tuple[Process, ...],
        others: frozenset[int],
        helpers: Mapping[int, Iterable[int]],
    ) -> None:
        self._reader = reader
        self.processes = processes
        self._others = others
        self._helpers = helpers

    def list_threads(self) -> frozenset[int]:
        """Give all threads that work for it now."""
        threads: set[int] = set()
        for one in self._list_alive():
            threads |= self._reader.list_threads(one.pid)
            # The number may have got another meaning meanwhile.
            if not self._reader.is_alive(one):
                return self.list_threads()
            threads |= self._list_cgroup(one.pid)
        return frozenset(threads | self._list_helpers(threads))

    def _list_alive(self) -> list[Process]:
        return [one for one in self.processes if self._reader.is_alive(one)]

    def _list_cgroup(self, pid: int) -> set[int]:
        threads = self._reader.list_cgroup(pid)
        # Whatever it is called, it is not for one machine alone.
        return set() if threads & self._others else threads

    def _list_helpers(self, threads: set[int]) -> set[int]:
        return {
            helper
            for tid in threads
            for helper in self._helpers.get(tid, ())
            if self._reader.find_owner(helper) == tid
        }

    def list_strangers(self, tids: Iterable[int]) -> frozenset[int]:
        """Give those that neither belong to the server nor are ending.

        What its processes have started belongs to it, such as the script
        that brings up a network interface.
        """
        pids = {one.pid for one in self._list_alive()}
        return frozenset(
            tid for tid in tids if not self._is_harmless(tid, pids)
        )

    def _is_harmless(self, tid: int, pids: set[int]) -> bool:
        if any(self._reader.has_thread(pid, tid) for pid in pids):
            return True
        number = tid
        for _ in range(_MAX_PARENTS):
            stat = self._reader.read_stat(number)
            if stat is None or (number == tid and stat.is_ending):
                return True
            if stat.parent in pids:
                return True
            number = stat.parent
            if number <= 1:
                break
        return False


class Nobody(Server):
    """A server that has no business with threads: all are strangers."""

    def __init__(self) -> None:
        super().__init__(_Reader(PROC, CGROUP), (), frozenset(), {})

    def list_threads(self) -> frozenset[int]:
        return frozenset()

    def list_strangers(self, tids: Iterable[int]) -> frozenset[int]:
        return frozenset(tids)


class Processes:
    """Finds the processes of all servers.

    :param proc: where the kernel shows its processes
    :param cgroup: where control groups are mounted, of either version
    """

    def __init__(self, proc: str = PROC, cgroup: str = CGROUP) -> None:
        self._proc = proc
        self._reader = _Reader(proc, cgroup)

    def scan(self) -> 'Scan':
        """Look at every process once.

        :raises ResctrlError: those of others are hidden
        """
        if self._reader.read_stat(1) is None:
            raise errors.ResctrlFailed(
                action='find the processes of servers',
                reason=f'{self._proc} does not show those of other users; is '
                'it mounted with hidepid, or is this a container without the '
                "host's processes?",
            )
        servers: dict[str, list[Process]] = {}
        helpers: dict[int, list[int]] = {}
        for pid in self._reader.list_numbers(''):
            line = self._reader.read(f'{pid}/cmdline')
            if not line:
                owner = self._reader.find_owner(pid)
                if owner is not None:
                    helpers.setdefault(owner, []).append(pid)
            elif (uuid := _find_uuid(line)) and (one := self._identify(pid)):
                servers.setdefault(uuid, []).append(one)
        return Scan(self._reader, servers, helpers)

    def _identify(self, pid: int) -> Process | None:
        stat = self._reader.read_stat(pid)
        return Process(pid=pid, start=stat.start) if stat else None


class Scan:
    """What was found.

    :ivar servers: server -> its processes
    """

    def __init__(
        self,
        reader: '_Reader',
        servers: Mapping[str, list[Process]],
        helpers: Mapping[int, Iterable[int]],
    ) -> None:
        self._reader = reader
        self.servers = servers
        self._helpers = helpers

    def get(self, *consumers: str) -> Server:
        """Give a server, or several that share a group, as one.

        It is without any process when it is off.
        """
        others = frozenset(
            one.pid
            for uuid, found in self.servers.items()
            if uuid not in consumers
            for one in found
        )
        own = tuple(
            one for uuid in consumers for one in self.servers.get(uuid, ())
        )
        return Server(self._reader, own, others, self._helpers)


class _Reader:
    """Reads; what is not there (any more) is empty."""

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

    def read_stat(self, tid: int) -> _Stat | None:
        # The name, in parentheses, may hold anything.
        fields = self.read(f'{tid}/stat').rpartition(b')')[2].split()
        if len(fields) < 20:
            return None
        return _Stat(
            parent=int(fields[1]),
            start=int(fields[19]),
            is_ending=fields[0] in b'ZX' or bool(int(fields[6]) & _EXITING),
        )

    def find_owner(self, pid: int) -> int | None:
        """Give the thread that a kernel thread works for."""
        name = self.read(f'{pid}/comm').decode('utf-8', 'replace')
        match = _HELPER.fullmatch(name)
        return int(match[1]) if match else None

    def list_cgroup(self, pid: int) -> set[int]:
        """Give all threads in the cgroup of a machine, and below it."""
        for path in self._list_machine_paths(pid):
            threads = set(_walk(path))
            if threads:
                return threads
        return set()

    def _list_machine_paths(self, pid: int) -> Iterator[str]:
        """Give where it can be, in each hierarchy (cgroups(7))."""
        for line in self.read(f'{pid}/cgroup').decode().splitlines():
            _number, controllers, path = line.split(':', 2)
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


def _walk(folder: str) -> Iterator[int]:
    text = _read(f'{folder}/cgroup.threads') or _read(f'{folder}/tasks')
    yield from map(int, text.split())
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


def _find_uuid(line: bytes) -> str:
    """Give the server of a command line, '' when it is of none."""
    words = line.split(b'\0')
    for option in _OPTIONS:
        if option in words[1:-1]:
            value = words[words.index(option, 1) + 1]
            return value.decode('ascii', 'replace').lower()
    return ''
