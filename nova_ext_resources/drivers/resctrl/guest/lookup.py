# SPDX-License-Identifier: Apache-2.0

"""Finds servers for a change, and asks the hypervisor before it begins.

Others wait while the lock of the mount is held, and a hypervisor may take
seconds to answer: so it is asked first. Processes are read while the lock is
held where servers share a group, or the threads of one that has just come in
would be thrown out.
"""

from collections.abc import Callable, Collection
import dataclasses

from nova_ext_resources.drivers.resctrl.guest import processes as procs
from nova_ext_resources.drivers.resctrl.guest import threads
from nova_ext_resources.drivers.resctrl.policy import shared_pool
from nova_ext_resources.objects import assignment


@dataclasses.dataclass(kw_only=True)
class Search:
    """Finds servers once the lock is held.

    :ivar scan: what was last found; None: nothing was searched
    """

    read: Callable[[], procs.Scan]
    scan: procs.Scan | None = None

    def find(self, *consumers: str) -> threads.Server:
        """Return some servers, as one."""
        self.scan = self.read()
        return self.scan.get(*consumers)


class Searches:
    """Begins searches; safe to share by threads."""

    def __init__(self, processes: procs.Processes) -> None:
        self._processes = processes
        self._joined = 0

    def note_joined(self) -> None:
        """Note, while the lock is held, that a server is in the pool now."""
        self._joined += 1

    def begin(self, entry: assignment.Entry) -> Search:
        """Search for a server with a group of its own."""
        if entry.cpus:
            return Search(read=self._processes.scan)
        scan = self._processes.scan()
        return Search(read=lambda: scan, scan=scan)

    def begin_shared(self, servers: Collection[assignment.Entry]) -> Search:
        """Search for servers in the pool, and those that come in meanwhile.

        :param servers: those that are to be in it
        """
        joined, guests = self._joined, None
        if shared_pool.list_floating(servers):
            guests = self._processes.read_guests()

        def scan() -> procs.Scan:
            # The guest of one that has come in since may be none of these.
            return self._processes.scan_for(
                guests, is_complete=joined == self._joined
            )

        return Search(read=scan)
