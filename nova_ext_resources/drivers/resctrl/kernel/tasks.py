# SPDX-License-Identifier: Apache-2.0

"""The threads in the groups of servers, read and compared."""

from collections.abc import Callable, Iterable, Mapping
import dataclasses

from nova_ext_resources.drivers.resctrl.guest import threads

#: How often threads are read before one counts as outside: between listing
#: and reading some are born, and some end.
READS = 2

#: Threads that an error names.
_NAMED = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What was seen of one group.

    :ivar inside: threads in the group
    :ivar wanted: threads of its server; empty where its CPUs are in the group
    :ivar foreign: threads in the group that belong elsewhere
    """

    inside: frozenset[int] = frozenset()
    wanted: frozenset[int] = frozenset()
    foreign: frozenset[int] = frozenset()

    @property
    def outside(self) -> frozenset[int]:
        return self.wanted - self.inside

    @property
    def fault(self) -> str:
        """Explain what is wrong; '' when nothing is."""
        if self.outside:
            return (
                f'{len(self.outside)} of {len(self.wanted)} threads of the '
                f'server run outside its group: {format_threads(self.outside)}'
            )
        if self.foreign:
            return (
                f'{len(self.foreign)} threads of other processes are in the '
                f'group of the server: {format_threads(self.foreign)}'
            )
        return ''


def read(
    servers: Mapping[str, threads.Server],
    read_tasks: Callable[[Iterable[str]], Mapping[str, frozenset[int]]],
) -> dict[str, Membership]:
    """Read which threads are in the groups of servers.

    :param servers: server -> its processes
    :param read_tasks: returns server -> threads in its group, without those
        whose groups are gone
    """
    found: dict[str, Membership] = {}
    left = set(servers)
    for _ in range(READS):
        wanted = {uuid: servers[uuid].list_threads() for uuid in left}
        inside = read_tasks(sorted(left))
        for uuid in left & set(inside):
            found[uuid] = Membership(
                inside=inside[uuid],
                wanted=wanted[uuid],
                foreign=servers[uuid].list_foreign(
                    inside[uuid] - wanted[uuid]
                ),
            )
        left = {uuid for uuid in left & set(found) if found[uuid].fault}
        if not left:
            break
    return found


def find_astray(
    servers: Mapping[str, threads.Server],
    elsewhere: Mapping[str, frozenset[int]],
) -> dict[str, str]:
    """Return server -> which of its threads are in another group, in words.

    :param servers: those whose threads belong into the default group, because
        their CPUs are in a group
    :param elsewhere: group of other software -> the threads in it
    """
    found = {}
    for uuid, server in servers.items():
        own = server.list_threads()
        for name, tids in elsewhere.items():
            if inside := own & tids:
                found[uuid] = (
                    f'{len(inside)} of {len(own)} threads of the server are '
                    f'in the control group {name} and get the ways and the '
                    f'bandwidth of this group: {format_threads(inside)}'
                )
    return found


def format_threads(tids: frozenset[int]) -> str:
    """Return the first of these threads, for an error."""
    named = ', '.join(map(str, sorted(tids)[:_NAMED]))
    return f'{named or "none"}{", ..." if len(tids) > _NAMED else ""}'
