# SPDX-License-Identifier: Apache-2.0

"""What each consumer is to a host, from Nova's servers and migrations.

Doubt never means that something has left: only a migration that has ended and
the host that Nova has the server on prove it, and where that is this host,
what placement has allocated. So does placement where the cell has no record.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, TypeAlias

from nova import context as nova_context
from nova import objects

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import role
from nova_ext_resources.virt import migrations
from nova_ext_resources.virt import servers

Role = role.Role

#: What an entry is to its server, which Nova has on this host, once the move
#: that has kept it goes on no more. Gets the ``nova.objects.Instance``.
FindKeptRole: TypeAlias = Callable[[Any, assignment.Entry], Role]

#: Whether placement has anything of this host for an entry, or may have.
IsAllocated: TypeAlias = Callable[[assignment.Entry], bool]


def list_roles(
    host: str,
    nodename: str,
    guests: Iterable[str],
    entries: Mapping[str, assignment.Entry],
    find_kept_role: FindKeptRole,
    is_allocated: IsAllocated,
    running: Container[str],
    patience: float,
) -> dict[str, Role]:
    """Return the role of each consumer that is known, by its uuid.

    :param guests: uuids of the servers that the hypervisor has
    :param entries: what consumers hold
    :param find_kept_role: see :data:`FindKeptRole`
    :param is_allocated: see :data:`IsAllocated`
    :param running: uuids of the servers whose guests run
    :param patience: seconds for which a confirmation may take
    """
    # Before the migrations: a server may arrive in between.
    roles = _list_servers(host)
    moving = _list_moving(host, nodename, entries, patience)
    for uuid, found in moving.items():
        roles.setdefault(uuid, found)
    has_guest = frozenset(guests)
    for uuid, entry in entries.items():
        if roles.get(uuid) is Role.SERVER and _has_arrived(host, entry):
            roles[uuid] = Role.ARRIVED
        if uuid in roles or uuid in running:
            continue
        role = _find_missing(
            host, entry, uuid in has_guest, find_kept_role, is_allocated
        )
        if role is not None:
            roles[uuid] = role
    for uuid in (has_guest & entries.keys()) - roles.keys():
        if _is_elsewhere(host, uuid):
            roles[uuid] = Role.ELSEWHERE
    return {**dict.fromkeys(has_guest, Role.SERVER), **roles}


def list_known(host: str, nodename: str) -> frozenset[str]:
    """Return the servers that Nova has on a host, or moves from or to it.

    Whatever the hypervisor has there.
    """
    # Before the migrations, as above.
    here = objects.InstanceList.get_uuids_by_host(
        nova_context.get_admin_context(), host
    )
    moving = migrations.list_in_progress(host, nodename)
    return frozenset([*here, *(one.instance_uuid for one in moving)])


def _list_servers(host: str) -> dict[str, Role]:
    found = objects.InstanceList.get_by_host(
        nova_context.get_admin_context(), host
    )
    return dict.fromkeys([one.uuid for one in found], Role.SERVER)


def _list_moving(
    host: str, nodename: str, entries: Container[str], patience: float
) -> dict[str, Role]:
    """Return the roles of consumers whose move is in progress."""
    moves = migrations.list_in_progress(host, nodename)
    roles: dict[str, Role] = {}
    for one in moves:
        if migrations.is_abandoned(one):
            continue
        if one.source_compute == host:
            is_stuck = one.uuid in entries and migrations.is_stuck(
                one, patience
            )
            roles.setdefault(
                one.uuid, Role.IN_DOUBT if is_stuck else Role.SOURCE
            )
            # Of a live migration, or what could not be kept when the guest
            # was powered off.
            if one.migration_type in migrations.MOVES:
                roles.setdefault(one.instance_uuid, Role.SOURCE)
        if one.dest_compute == host:
            roles.setdefault(one.instance_uuid, Role.DESTINATION)
    return roles


def _has_arrived(host: str, entry: assignment.Entry) -> bool:
    """Return whether a live migration to here has ended, and went well.

    :param entry: of a server that Nova has on this host
    """
    if entry.purpose is not assignment.Purpose.INCOMING:
        return False
    migration = migrations.find(host, entry)
    if migration is None or (
        (migration.migration_type, migration.dest_compute)
        != (migrations.LIVE, host)
    ):
        return False
    instance = servers.find(entry.server_uuid)
    return (
        instance is not None
        and instance.host == host
        and not migrations.is_open(migration, instance)
    )


def _is_elsewhere(host: str, server_uuid: str) -> bool:
    """Return whether Nova has a guest's server on another host, or on none.

    For good: of the latter, one that Nova goes on with may be on its way.
    """
    instance = servers.find(server_uuid)
    return (
        instance is not None
        and (
            instance.host not in (None, '', host)
            or servers.is_nowhere(instance)
        )
        and not migrations.is_any_going_on(host, instance)
    )


def _find_missing(
    host: str,
    entry: assignment.Entry,
    has_guest: bool,
    find_kept_role: FindKeptRole,
    is_allocated: IsAllocated,
) -> Role | None:
    """Return the role of what Nova does not have here; None: not known.

    What the hypervisor has may be a guest, but where a move has powered it
    off: the source keeps that until a confirmation.
    """
    migration = migrations.find(host, entry)
    is_off = migration is not None and migrations.is_cold_from(host, migration)
    if has_guest and not is_off:
        return None
    if migration is not None:
        return _find_role(host, entry, migration, find_kept_role)
    # Nova tells a host nothing when it takes it for down and deletes a server
    # of its. To miss a server is no proof, its record is.
    instance = servers.find_any(entry.server_uuid)
    # Of a move from or to another cell, Nova deletes all records in one of
    # them. A wrong or a restored database has none either, of servers that
    # placement has here.
    is_gone = (
        instance.deleted or servers.is_nowhere(instance)
        if instance is not None
        else not is_allocated(entry)
    )
    return Role.LEFT if is_gone else None


def _find_role(
    host: str,
    entry: assignment.Entry,
    migration: Any,
    find_kept_role: FindKeptRole,
) -> Role:
    """Return what an entry is in its move, which may have ended."""
    is_own = entry.consumer_uuid == entry.server_uuid
    is_source = not is_own or migrations.is_cold_from(host, migration)
    instance = servers.find(entry.server_uuid)
    if instance is None:
        return Role.LEFT
    is_here = instance.host == host
    # The server may have a task of its source for ever. On its own host, what
    # a move has claimed is the migration's until the server gets it instead
    # of what it had, when its guest is off or the next time before it starts.
    # Where neither was possible, the server keeps what it had.
    is_coming = entry.purpose is assignment.Purpose.INCOMING
    is_unused = is_coming if not is_own else not is_here
    if is_unused and migrations.has_failed(migration):
        return Role.LEFT
    if migrations.is_open(migration, instance):
        return Role.SOURCE if is_source else Role.DESTINATION
    if is_own:
        return Role.SERVER if is_here else Role.LEFT
    # Nova never goes back to what it had before a confirmed one.
    if not is_here or migration.status == 'confirmed':
        return Role.LEFT
    return find_kept_role(instance, entry)
