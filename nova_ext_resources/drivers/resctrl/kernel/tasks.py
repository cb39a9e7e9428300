# SPDX-License-Identifier: Apache-2.0

"""The threads in the groups of servers: moved, read, compared.

A thread starts in the group of the one that clones it, so whatever a server
starts later is where it should be as soon as all that can clone are. A
clone that is under way while its maker is moved may come up outside; the next
reading finds it.
"""

from collections.abc import Callable, Iterable, Mapping
import dataclasses

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import group_files
from nova_ext_resources.drivers.resctrl.kernel import groups as groups_mod
from nova_ext_resources.drivers.resctrl.kernel import processes

#: How often the threads of a server are listed and moved. Each time only
#: those are left that threads outside have cloned since the time before.
ROUNDS = 8

#: How often is looked before a thread counts as outside: between listing and
#: reading some are born, and some end.
LOOKS = 2

#: Threads that an error names.
_NAMED = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What was seen of one group.

    :ivar inside: threads in the group
    :ivar wanted: threads of its server; empty where CPUs say who is in it
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
        """Say what is wrong; '' when nothing is."""
        if self.outside:
            return (
                f'{len(self.outside)} of {len(self.wanted)} threads run '
                f'outside its group: {_format(self.outside)}'
            )
        if self.foreign:
            return (
                f'{len(self.foreign)} threads are in its group that are '
                f'not its own: {_format(self.foreign)}'
            )
        return ''


def settle(
    files: group_files.GroupFiles,
    name: str,
    server: processes.Server,
    *,
    is_new: bool = False,
) -> None:
    """Have all threads of a server, and no others, in its group.

    All others go to the default group. It ends when all that was listed is
    seen in the group.

    :param is_new: nothing was ever put into the group
    :raises NotApplied: the threads do not stay where they were put
    """
    for number in range(ROUNDS):
        wanted = server.list_threads()
        if is_new and not number:
            if not wanted:
                return
            inside = frozenset[int]()
        else:
            inside = files.read_tasks(name)
        missing = wanted - inside
        if missing and inside:
            # Those that ended between the two readings are not outside.
            missing &= server.list_threads()
        foreign = server.list_foreign(inside - wanted)
        if not missing and not foreign:
            return
        if foreign:
            files.write_tasks(groups_mod.DEFAULT, foreign)
        if missing:
            files.write_tasks(name, missing)
    raise errors.NotApplied(
        action=f'have the threads of the server in {name}',
        reason=f'after {ROUNDS} times {_format(missing)} stayed outside and '
        f'{_format(foreign)} of others inside; another program moves them, '
        'or they are started faster than they can be moved',
    )


def read(
    servers: Mapping[str, processes.Server],
    read_tasks: Callable[[Iterable[str]], Mapping[str, frozenset[int]]],
) -> dict[str, Membership]:
    """See who is in the groups of servers.

    :param servers: server -> its processes
    :param read_tasks: returns server -> threads in its group, without those
        whose groups are gone
    """
    found: dict[str, Membership] = {}
    left = set(servers)
    for _ in range(LOOKS):
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


def _format(tids: frozenset[int]) -> str:
    named = ', '.join(map(str, sorted(tids)[:_NAMED]))
    return f'{named or "none"}{", ..." if len(tids) > _NAMED else ""}'
