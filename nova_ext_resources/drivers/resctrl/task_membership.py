# SPDX-License-Identifier: Apache-2.0

"""Which threads are in which group, as the audit has seen it."""

from collections.abc import Mapping, Set

from oslo_log import log as logging

from nova_ext_resources import debounce
from nova_ext_resources.drivers.resctrl.guest import processes as procs
from nova_ext_resources.drivers.resctrl.guest import threads
from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import tasks
from nova_ext_resources.drivers.resctrl.policy import choice
from nova_ext_resources.drivers.resctrl.policy import shared_pool
from nova_ext_resources.drivers.resctrl.policy import write_order
from nova_ext_resources.drivers.resctrl import writer
from nova_ext_resources.facts import guest
from nova_ext_resources.objects import assignment

LOG = logging.getLogger(__name__)


class TaskMembership:
    """What runs in the groups of servers, and which servers run elsewhere.

    Processes are read only where CPUs do not say what runs in a group: those
    of servers that float, and of all where threads are in a group of other
    software. A thread that is in any group but the default one uses that
    one's ways and bandwidth, whatever CPU it runs on ("User Interface for
    Resource Control feature", resource allocation rules).
    """

    def __init__(
        self, processes: procs.Processes, groups_writer: writer.Writer
    ) -> None:
        self._processes = processes
        self._writer = groups_writer
        self._found: Mapping[str, tasks.Membership] = {}
        self._astray: Mapping[str, str] = {}
        # Servers whose threads could not be taken back since: why.
        self._foreign_threads: dict[str, str] = {}
        # Servers of which two readings in a row found no process: why.
        self._debounce = debounce.Debounce[str, guest.Guest | None](
            confirmations=2
        )
        self._absent: Mapping[str, str] = {}

    def read(
        self, tree: groups.Tree, entries: Mapping[str, assignment.Entry]
    ) -> None:
        """Read which threads are in each group.

        :raises ResctrlError: they could not be read
        """
        in_pool = shared_pool.list_floating(shared_pool.list_servers(entries))
        floating = self._list_floating(tree, entries)
        elsewhere = self._writer.read_tasks_of(
            one.name for one in tree.foreign if not one.is_locking
        )
        pinned = [uuid for uuid, one in entries.items() if one.cpus]
        strays = frozenset[int]().union(*elsewhere.values())
        servers: dict[str, threads.Server] = {
            uuid: threads.NoServer() for uuid in tree.ours
        }
        if tree.shared:
            servers[groups.SHARED] = threads.NoServer()
        self._astray, self._foreign_threads, self._absent = {}, {}, {}
        if floating or in_pool or (pinned and strays):
            scan = self._processes.scan()
            self._record_absence(scan, {*floating, *in_pool})
            servers.update((uuid, scan.get(uuid)) for uuid in floating)
            if tree.shared and in_pool:
                servers[groups.SHARED] = scan.get(*in_pool)
            if strays:
                self._astray = tasks.find_astray(
                    {uuid: scan.get(uuid) for uuid in pinned}, elsewhere
                )
        else:
            self._debounce.observe({})
        self._found = tasks.read(servers, self._writer.read_tasks)

    def _list_floating(
        self, tree: groups.Tree, entries: Mapping[str, assignment.Entry]
    ) -> set[str]:
        """Return servers whose groups have no CPUs, though these are on."""
        online = self._writer.machine.online
        switched_off = {
            uuid
            for uuid, one in entries.items()
            if one.cpus and not one.cpus & online
        }
        without = {uuid for uuid, one in tree.ours.items() if not one.cpus}
        return without - switched_off

    def _record_absence(self, scan: procs.Scan, consumers: Set[str]) -> None:
        """Note who runs unseen; a guest that starts has no process yet."""
        found = self._processes.explain_absence(scan, consumers)
        lasting = self._debounce.observe(
            {uuid: scan.guests.get(uuid) for uuid in found}
        )
        self._absent = {uuid: found[uuid] for uuid in lasting}

    @property
    def in_pool(self) -> frozenset[int]:
        """The threads in the group of the shared pool."""
        return self._found.get(groups.SHARED, tasks.Membership()).inside

    def find_problem(self, entry: assignment.Entry) -> str:
        """Explain which threads are in a wrong group, or ''."""
        if problem := self._astray.get(entry.consumer_uuid):
            return problem
        if choice.is_shared(entry):
            pool = self._found.get(groups.SHARED, tasks.Membership())
            return pool.fault
        seen = self._found.get(entry.consumer_uuid, tasks.Membership())
        if entry.cpus:
            # Its CPUs are, and no thread is in it wherever that runs.
            seen = tasks.Membership(inside=seen.inside, foreign=seen.inside)
        return seen.fault

    def find_absence(self, consumer_uuid: str) -> str:
        """Explain why a server that runs was not found, or ''.

        To apply it again would find no more than the next reading, which
        searches for all servers at once.
        """
        return self._absent.get(consumer_uuid, '')

    def take_back(self, consumer_uuid: str) -> None:
        """Take a server's threads out of the groups of other software.

        If they were seen there. A failure is not raised: everything else of
        the server is to be restored all the same, and where other software
        keeps its threads, a reboot gives it others. See
        :meth:`find_foreign_threads`.
        """
        if consumer_uuid not in self._astray:
            return
        try:
            self._take_back(consumer_uuid)
            self._foreign_threads.pop(consumer_uuid, None)
        except errors.ResctrlError as err:
            self._foreign_threads[consumer_uuid] = str(err)
            LOG.warning(
                'Server %(uuid)s: %(err)s', {'uuid': consumer_uuid, 'err': err}
            )

    def _take_back(self, consumer_uuid: str) -> None:
        """:raises ResctrlError: they are not taken out of all groups"""
        server = self._processes.scan().get(consumer_uuid)
        with self._writer.changing(is_quick=True) as tree:
            self._writer.run(
                [
                    write_order.TakeBack(name=one.name, server=consumer_uuid)
                    for one in tree.foreign
                    # The others have no threads, and may not be read.
                    if not one.is_locking
                ],
                find_server=lambda *_servers: server,
            )

    def find_foreign_threads(self, consumer_uuid: str) -> str:
        """Explain why its threads could not be taken back, or ''."""
        return self._foreign_threads.get(consumer_uuid, '')
