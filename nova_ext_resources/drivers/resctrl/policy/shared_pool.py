# SPDX-License-Identifier: Apache-2.0

"""The servers in the group of the shared pool. Pure.

All servers of the pool are in one control group, so which they are follows
from the host's entries, and not from the group's name.
"""

from collections.abc import Collection, Mapping

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.policy import choice
from nova_ext_resources.drivers.resctrl.policy import layout
from nova_ext_resources.objects import assignment

_INSIDE = (assignment.State.CLAIMED, assignment.State.APPLIED)


def list_servers(
    entries: Mapping[str, assignment.Entry], *, without: str = ''
) -> list[assignment.Entry]:
    """Return the servers with a place in the pool, but for one.

    Those that are being released no longer have one: when all of them are,
    each would leave the group to the others, and it would stay for ever. Of
    those that a move keeps, no guest is here.
    """
    return [
        entry
        for uuid, entry in entries.items()
        if uuid != without
        and choice.is_shared(entry)
        and entry.state in _INSIDE
    ]


def list_floating(servers: Collection[assignment.Entry]) -> tuple[str, ...]:
    return tuple(one.consumer_uuid for one in servers if not one.cpus)


def make_members(
    tree: groups.Tree,
    servers: Collection[assignment.Entry],
    cpus: frozenset[int] = frozenset(),
) -> layout.GroupMembers:
    """Return what is to run in the group.

    :param cpus: those that come in. CPUs of a server that is about to come
        in are not there yet
    """
    own = frozenset[int]().union(*(one.cpus or () for one in servers))
    kept = tree.shared.cpus & own if tree.shared else frozenset[int]()
    return layout.GroupMembers(
        cpus=cpus | kept, floating=list_floating(servers)
    )


def list_applied(
    tree: groups.Tree, entries: Mapping[str, assignment.Entry]
) -> frozenset[str]:
    """Return the servers that may be in the group; the audit checks each.

    The name of the group where the ledger knows no server that could be in
    it: it is left over.
    """
    if tree.shared is None:
        return frozenset()
    if not any(map(choice.is_shared, entries.values())):
        return frozenset({groups.SHARED})
    return frozenset(
        uuid
        for uuid, entry in entries.items()
        if choice.is_shared(entry) and entry.state is assignment.State.APPLIED
    )


def list_unknown_cpus(
    tree: groups.Tree, entry: assignment.Entry
) -> frozenset[int]:
    """Return the CPUs in the group beside those of its last known server.

    They may be of servers that a lost ledger knew.
    """
    if tree.shared is None or entry.consumer_uuid == groups.SHARED:
        return frozenset()
    return tree.shared.cpus - (entry.cpus or frozenset())


def check_left(
    tree: groups.Tree, entry: assignment.Entry, threads: Collection[int]
) -> None:
    """Make sure that a group that is left over is used by no server.

    :param entry: to be released; matters when it stands for the group
    :param threads: those that were seen in the group
    :raises ResctrlRefused: servers of a lost ledger may be in it
    """
    if entry.consumer_uuid != groups.SHARED or tree.shared is None:
        return
    if tree.shared.cpus or threads:
        raise errors.ResctrlRefused(
            action=f'remove {groups.SHARED}',
            reason='the group has CPUs or threads, but the ledger has no '
            'server in this group; remove the group by hand (rmdir) when no '
            'server of this host has a place in the shared pool',
        )
