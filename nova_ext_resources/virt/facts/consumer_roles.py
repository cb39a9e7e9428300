# SPDX-License-Identifier: Apache-2.0

"""What each consumer is to a host, from Nova's servers and migrations.

Doubt never means that something has left: only a migration that has ended and
the host that Nova has the server on prove it, and where that is this host,
what placement has allocated. So does placement where the cell has no record.

Of other consumers to which placement has allocated something, Nova is asked.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import Any, TypeAlias

from nova import context as nova_context
from nova import objects
from nova.objects import fields

from nova_ext_resources.facts import consumer_role as role
from nova_ext_resources.objects import assignment
from nova_ext_resources.virt.facts import migrations
from nova_ext_resources.virt.facts import servers

Role = role.Role

#: What an entry is to its server, which Nova has on this host, once the move
#: that has kept it goes on no more. Gets the ``nova.objects.Instance``.
FindSourceRole: TypeAlias = Callable[[Any, assignment.Entry], Role]

#: Whether placement has anything of this host for an entry, or may have.
IsAllocated: TypeAlias = Callable[[assignment.Entry], bool]


def list_roles(
    host: str,
    nodename: str,
    guests: Iterable[str],
    entries: Mapping[str, assignment.Entry],
    find_source_role: FindSourceRole,
    is_allocated: IsAllocated,
    running: Container[str],
    patience: float,
) -> dict[str, Role]:
    """Return the role of each consumer that is known, by its uuid.

    :param guests: uuids of the servers that the hypervisor has
    :param entries: what consumers hold
    :param find_source_role: see :data:`FindSourceRole`
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
            host, entry, uuid in has_guest, find_source_role, is_allocated
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
    if entry.purpose is not assignment.Purpose.MIGRATION_DEST:
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
    find_source_role: FindSourceRole,
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
        return _find_role(host, entry, migration, find_source_role)
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
    find_source_role: FindSourceRole,
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
    is_coming = entry.purpose is assignment.Purpose.MIGRATION_DEST
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
    return find_source_role(instance, entry)


def explain(
    host: str, uuids: Iterable[str], holding: Container[str]
) -> dict[str, str]:
    """Describe consumers without an entry on a host, for an operator.

    :param holding: uuids of the servers for which the host has an entry
    :returns: uuid -> words, of those with which Nova does not go on, or that
        Nova confirms, which takes no longer than a moment; none of servers
        that Nova has on this host, which get their entries again
    """
    found = {uuid: _explain(host, uuid, holding) for uuid in uuids}
    return {uuid: words for uuid, words in found.items() if words}


def find_migrations(
    host: str, server_uuid: str, uuids: Collection[str]
) -> dict[str, bool]:
    """Return which consumers are migrations of a server on a host.

    :returns: uuid of a migration -> whether Nova may still go on with it, or
        does not have the server on this host
    """
    found = objects.MigrationList.get_by_filters(
        # Nova deletes the migrations of a server with the server.
        nova_context.get_admin_context(read_deleted='yes'),
        {'instance_uuid': server_uuid, 'uuid': sorted(uuids)},
    )
    instance = servers.find(server_uuid) if found else None
    return {
        one.uuid: instance is None
        or instance.host != host
        or _is_open(one, instance)
        for one in found
    }


def _explain(host: str, uuid: str, holding: Container[str]) -> str:
    migration = migrations.find_any(uuid)
    if migration is not None:
        return _explain_migration(host, migration, holding)
    instance = servers.find(uuid)
    if instance is None:
        return 'Nova has neither a server nor a migration of this uuid'
    is_busy = instance.task_state is not None
    if is_busy or instance.vm_state == fields.InstanceState.BUILDING:
        return ''
    if instance.host == host:
        return ''
    words = f'the consumer is a server {_locate(instance)}'
    if servers.was_evacuated(host, uuid):
        return (
            f'{words}, after an evacuation from this host. Nova deletes this '
            'allocation when nova-compute of this host starts again'
        )
    if not instance.host:
        return words
    return f'{words}, and may need this allocation'


def _explain_migration(
    host: str, migration: Any, holding: Container[str]
) -> str:
    instance = servers.find(migration.instance_uuid)
    kind = f'the consumer is a {migration.migration_type} with status'
    words = f'{kind} "{migration.status}" of server {migration.instance_uuid}'
    if instance is None:
        return f'{words}, which is deleted'
    if not _is_open(migration, instance):
        return f'{words} {_locate(instance)}'
    if migrations.is_in_next_cell(host, migration, instance):
        return (
            f'{words}, which has moved to another cell. If the move was '
            'confirmed, Nova was killed before it deleted this allocation. '
            'Leave the allocation if the move waits to be confirmed or '
            'reverted'
        )
    # Its former host may not have been able to keep it under this uuid.
    has_entry = instance.host != host and instance.uuid in holding
    if has_entry or not migrations.is_being_confirmed(
        host, migration, instance
    ):
        return ''
    return (
        f'{words} {_locate(instance)}. This host has released the resources '
        'that it kept, but Nova has not ended the confirmation'
    )


def _is_open(migration: Any, instance: Any) -> bool:
    """Return whether Nova, or a guest on its way, may still go on."""
    is_guest_moving = migrations.is_guest_moving(migration, instance)
    return is_guest_moving or migrations.is_open(migration, instance)


def _locate(instance: Any) -> str:
    if instance.host:
        return f'that Nova has on host {instance.host}'
    return 'that Nova has on no host'
