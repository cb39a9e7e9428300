# SPDX-License-Identifier: Apache-2.0

"""Which threads work for a server. Only reads, and needs no privileges.

A server's processes are those whose command line says ``-uuid <server>``, as
libvirt starts QEMU (there are two while a server migrates within its host).
With them go all their threads; kernel threads that name one of these as the
one they work for (``vhost-<tid>``; ``kvm-pit/<pid>`` and
``kvm-nx-lpage-recovery-<pid>``); and all that runs in the cgroup that libvirt
has made for this machine alone, helpers such as swtpm and virtiofsd among
them. Sources: proc(5), the kernel's "Control Group v2", and "Control Groups
Resource Management" of libvirt.

Any user may start a program with ``-uuid`` in its command line. So a process
is believed only if it is in the cgroup of a machine, where only root can put
it, or if its real user is one that libvirt runs QEMU as: root, this
process' own, or one of :data:`USERS`. Others are passed over, and logged once
for each user. Kernel threads are marked by the kernel itself.

Processes come and go while they are read: what is gone is no error. A process
is known by its number and its start time, for numbers are used again.
"""

from collections.abc import Iterable, Iterator, Mapping
import contextlib
import dataclasses
import os
import pwd

from oslo_log import log as logging

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import procfs

LOG = logging.getLogger(__name__)

PROC = '/proc'

CGROUP = '/sys/fs/cgroup'

#: Users that libvirt starts QEMU as: in Debian and its kin, and in the others.
USERS = ('libvirt-qemu', 'qemu')

#: Both ways in which QEMU takes its option.
_OPTIONS = (b'-uuid', b'--uuid')

#: More parents than any process has between it and a server.
_MAX_PARENTS = 16


@dataclasses.dataclass(kw_only=True)
class Server:
    """The processes of a server, or of several, as they were found.

    :ivar processes: without those that were found since
    :ivar others: processes of other servers
    :ivar helpers: thread -> kernel threads that work for it
    """

    reader: procfs.Reader
    processes: tuple[procfs.Process, ...]
    others: frozenset[int]
    helpers: Mapping[int, Iterable[int]]

    def list_threads(self) -> frozenset[int]:
        """Return all threads that work for it now."""
        threads: set[int] = set()
        for one in self._list_alive():
            threads |= self.reader.list_threads(one.pid)
            # The number may have got another meaning since.
            if not self.reader.is_alive(one):
                return self.list_threads()
            threads |= self._list_cgroup(one.pid)
        return frozenset(threads | self._list_helpers(threads))

    def _list_alive(self) -> list[procfs.Process]:
        return [one for one in self.processes if self.reader.is_alive(one)]

    def _list_cgroup(self, pid: int) -> set[int]:
        threads = self.reader.list_cgroup(pid)
        # Whatever it is called, it is not for one machine alone.
        return set() if threads & self.others else threads

    def _list_helpers(self, threads: set[int]) -> set[int]:
        return {
            helper
            for tid in threads
            for helper in self.helpers.get(tid, ())
            if self.reader.find_owner(helper) == tid
        }

    def list_foreign(self, tids: Iterable[int]) -> frozenset[int]:
        """Return those that neither belong to the server nor are ending.

        What its processes have started belongs to it, such as the script
        that brings up a network interface.
        """
        pids = {one.pid for one in self._list_alive()}
        return frozenset(
            tid for tid in tids if not self._is_harmless(tid, pids)
        )

    def _is_harmless(self, tid: int, pids: set[int]) -> bool:
        if any(self.reader.has_thread(pid, tid) for pid in pids):
            return True
        number = tid
        for _ in range(_MAX_PARENTS):
            stat = self.reader.read_stat(number)
            if stat is None or (number == tid and stat.is_ending):
                return True
            if stat.parent in pids:
                return True
            number = stat.parent
            if number <= 1:
                break
        return False


class NoServer(Server):
    """Stands where no thread belongs into a group: all of them are foreign."""

    def __init__(self) -> None:
        """Have no processes."""

    def list_threads(self) -> frozenset[int]:
        return frozenset()

    def list_foreign(self, tids: Iterable[int]) -> frozenset[int]:
        return frozenset(tids)


class Processes:
    """Finds the processes of all servers.

    :param proc: where the kernel shows its processes
    :param cgroup: where control groups are mounted, of either version
    """

    def __init__(self, proc: str = PROC, cgroup: str = CGROUP) -> None:
        self._proc = proc
        self._reader = procfs.Reader(proc, cgroup)
        self._users = {0, os.getuid(), *_list_uids(USERS)}
        # Users whose processes were logged as not believed.
        self._logged: set[int] = set()

    def scan(self) -> 'Scan':
        """Read every process once.

        :raises ResctrlError: those of others are hidden
        """
        if self._reader.read_stat(1) is None:
            raise errors.ResctrlFailed(
                action='find the processes of servers',
                reason=f'{self._proc} does not show those of other users; is '
                'it mounted with hidepid, or is this a container without the '
                "host's processes?",
            )
        servers: dict[str, list[procfs.Process]] = {}
        helpers: dict[int, list[int]] = {}
        for pid in self._reader.list_numbers(''):
            line = self._reader.read(f'{pid}/cmdline')
            if not line:
                owner = self._reader.find_owner(pid)
                if owner is not None:
                    helpers.setdefault(owner, []).append(pid)
            elif (uuid := _find_uuid(line)) and (one := self._identify(pid)):
                servers.setdefault(uuid, []).append(one)
        return Scan(reader=self._reader, servers=servers, helpers=helpers)

    def _identify(self, pid: int) -> procfs.Process | None:
        """Return the process of a number; None: not one of a server."""
        stat = self._reader.read_stat(pid)
        if stat is None or not self._is_trusted(pid):
            return None
        # The number may have got another meaning before it was read.
        if not _find_uuid(self._reader.read(f'{pid}/cmdline')):
            return None
        return procfs.Process(pid=pid, start=stat.start)

    def _is_trusted(self, pid: int) -> bool:
        """Return whether a process can be one that libvirt has started."""
        uid = self._reader.read_uid(pid)
        if uid in self._users or self._reader.is_machine(pid):
            return True
        if uid is not None and uid not in self._logged:
            self._logged.add(uid)
            LOG.warning(
                'Process %(pid)s of user %(uid)s has "-uuid" in its command '
                'line, but is neither in the cgroup of a machine nor of a '
                'user that libvirt starts servers as (root, %(users)s): it is '
                'not taken for a server. This is logged once for each user.',
                {'pid': pid, 'uid': uid, 'users': ', '.join(USERS)},
            )
        return False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scan:
    """What was found.

    :ivar servers: server -> its processes
    :ivar helpers: thread -> kernel threads that work for it
    """

    reader: procfs.Reader
    servers: Mapping[str, list[procfs.Process]]
    helpers: Mapping[int, Iterable[int]]

    def get(self, *consumers: str) -> Server:
        """Return a server, or several that share a group, as one.

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
        return Server(
            reader=self.reader,
            processes=own,
            others=others,
            helpers=self.helpers,
        )


def _list_uids(names: Iterable[str]) -> Iterator[int]:
    for name in names:
        with contextlib.suppress(KeyError):
            yield pwd.getpwnam(name).pw_uid


def _find_uuid(line: bytes) -> str:
    """Return the server of a command line, '' when it is of none."""
    words = line.split(b'\0')
    for option in _OPTIONS:
        if option in words[1:-1]:
            value = words[words.index(option, 1) + 1]
            return value.decode('ascii', 'replace').lower()
    return ''
