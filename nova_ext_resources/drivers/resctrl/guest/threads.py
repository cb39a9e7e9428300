# SPDX-License-Identifier: Apache-2.0

"""Which threads work for a server. Only reads, and needs no privileges.

With a server's processes go all their threads; kernel threads that name one
of these as the one they work for (``vhost-<tid>``; ``kvm-pit/<pid>`` and
``kvm-nx-lpage-recovery-<pid>``); and all that runs in the cgroup that libvirt
has made for this machine alone, helpers such as swtpm and virtiofsd among
them. Kernel threads are marked by the kernel itself.

Processes come and go while they are read: what is gone is no error. A process
is known by its number and its start time, for numbers are used again.
"""

from collections.abc import Iterable, Mapping
import dataclasses

from nova_ext_resources.drivers.resctrl.guest import cgroups as cgroups_mod
from nova_ext_resources.drivers.resctrl.guest import procfs

#: More parents than any process has between it and a server.
_MAX_PARENTS = 16


@dataclasses.dataclass(kw_only=True)
class Server:
    """The processes of a server, or of several, as they were found.

    :ivar processes: without those that were found since
    :ivar others: processes of other servers
    :ivar helpers: thread -> kernel threads that work for it
    :ivar has_unseen: whether it runs, or may run, and not all of its
        processes were found: then no thread is certainly foreign
    """

    reader: procfs.ProcReader
    cgroups: cgroups_mod.Cgroups
    processes: tuple[procfs.Process, ...]
    others: frozenset[int]
    helpers: Mapping[int, Iterable[int]]
    has_unseen: bool = False

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
        threads = self.cgroups.list_threads(pid)
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
        if self.has_unseen:
            return frozenset()
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
