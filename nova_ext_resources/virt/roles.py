# SPDX-License-Identifier: Apache-2.0

"""What each consumer is to a host, from Nova's servers and migrations.

Doubt never means that something has left: only a migration that has ended and
the host that Nova has the server on prove it, and where that is this host,
what placement has allocated.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, TypeAlias

from nova.compute import vm_states
from nova import context as nova_context
from nova import exception as nova_exc
from nova import objects
from oslo_utils import timeutils

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import role

Role = role.Role

#: Of a migration that is no longer in progress (Nova's
#: ``migration_get_in_progress_by_host_and_node``).
_ENDED = frozenset(
    {
        'cancelled',
        'completed',
        'confirmed',
        'done',
        'error',
        'failed',
        'reverted',
    }
)

#: Types of migrations of a server whose guest is off meanwhile, and whose
#: former host keeps what it had.
_COLD = ('migration', 'resize')

_LIVE = 'live-migration'

#: Types of migrations whose source has what the server had until they end.
_MOVES = (*_COLD, _LIVE)

#: Statuses in which cold ones wait for the user, or carry out what was said.
_WAITING = ('finished', 'confirming', 'reverting')

#: Statuses in which Nova has given the server a task.
_WITH_TASK = frozenset(
    {
        'pre-migrating',
        'migrating',
        'post-migrating',
        # Of a live migration only.
        'accepted',
        'queued',
        'preparing',
        'running',
        'running (post-copy)',
    }
)

#: What an entry is to its server, which Nova has on this host, once the move
#: that has kept it goes on no more. Gets the ``nova.objects.Instance``.
FindKeptRole: TypeAlias = Callable[[Any, assignment.Entry], Role]


def list_roles(
    host: str,
    nodename: str,
    guests: Iterable[str],
    entries: Mapping[str, assignment.Entry],
    find_kept_role: FindKeptRole,
    running: Container[str],
    patience: float,
) -> dict[str, Role]:
    """Return the role of each consumer that is known, by its uuid.

    :param guests: uuids of the servers that the hypervisor has
    :param entries: what consumers hold
    :param find_kept_role: see :data:`FindKeptRole`
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
        migration = _find_migration(host, entry)
        # What the hypervisor has may be a guest, but where a move has
        # powered it off: the source keeps that until a confirmation.
        if migration is not None and (
            uuid not in has_guest or _is_cold_from(host, migration)
        ):
            roles[uuid] = _find_role(host, entry, migration, find_kept_role)
    return {**dict.fromkeys(has_guest, Role.SERVER), **roles}


def _list_servers(host: str) -> dict[str, Role]:
    found = objects.InstanceList.get_by_host(
        nova_context.get_admin_context(), host
    )
    return dict.fromkeys([one.uuid for one in found], Role.SERVER)


def _list_moving(
    host: str, nodename: str, entries: Container[str], patience: float
) -> dict[str, Role]:
    """Return the roles of consumers whose move is in progress."""
    moves = objects.MigrationList.get_in_progress_by_host_and_node(
        nova_context.get_admin_context(), host, nodename
    )
    roles: dict[str, Role] = {}
    for one in moves:
        if _is_abandoned(one):
            continue
        if one.source_compute == host:
            is_stuck = one.uuid in entries and _is_stuck(one, patience)
            roles.setdefault(
                one.uuid, Role.IN_DOUBT if is_stuck else Role.SOURCE
            )
            # Of a live migration, or what could not be kept when the guest
            # was powered off.
            if one.migration_type in _MOVES:
                roles.setdefault(one.instance_uuid, Role.SOURCE)
        if one.dest_compute == host:
            roles.setdefault(one.instance_uuid, Role.DESTINATION)
    return roles


def list_abandoned(host: str, nodename: str) -> dict[str, str]:
    """Return migration -> server of moves from here that Nova has given up.

    They are in progress for Nova. Each migration still has the allocations
    that the server had here.
    """
    moves = objects.MigrationList.get_in_progress_by_host_and_node(
        nova_context.get_admin_context(), host, nodename
    )
    return {
        one.uuid: one.instance_uuid
        for one in moves
        if one.source_compute == host and _is_abandoned(one)
    }


def _is_cold_from(host: str, migration: Any) -> bool:
    return (
        migration.migration_type in _COLD
        and migration.source_compute == host != migration.dest_compute
    )


def _has_arrived(host: str, entry: assignment.Entry) -> bool:
    """Return whether a live migration to here has ended, and went well.

    :param entry: of a server that Nova has on this host
    """
    if entry.purpose is not assignment.Purpose.INCOMING:
        return False
    migration = _find_migration(host, entry)
    if migration is None or (
        (migration.migration_type, migration.dest_compute) != (_LIVE, host)
    ):
        return False
    instance = _find_instance(entry.server_uuid)
    return (
        instance is not None
        and instance.host == host
        and not _is_open(migration, instance)
    )


def _find_role(
    host: str,
    entry: assignment.Entry,
    migration: Any,
    find_kept_role: FindKeptRole,
) -> Role:
    """Return what an entry is in its move, which may have ended."""
    is_own = entry.consumer_uuid == entry.server_uuid
    is_source = not is_own or _is_cold_from(host, migration)
    instance = _find_instance(entry.server_uuid)
    if instance is None:
        return Role.LEFT
    is_here = instance.host == host
    if _is_open(migration, instance):
        return Role.SOURCE if is_source else Role.DESTINATION
    if is_own:
        return Role.SERVER if is_here else Role.LEFT
    # Nova never goes back to what it had before a confirmed one.
    if not is_here or migration.status == 'confirmed':
        return Role.LEFT
    return find_kept_role(instance, entry)


def _find_migration(host: str, entry: assignment.Entry) -> Any | None:
    """Return the move for which an entry was made; None: there is none."""
    # Nova deletes the migrations of a server with the server.
    context = nova_context.get_admin_context(read_deleted='yes')
    if entry.consumer_uuid != entry.server_uuid:
        try:
            return objects.Migration.get_by_uuid(context, entry.consumer_uuid)
        except nova_exc.MigrationNotFound:
            return None
    found = objects.MigrationList.get_by_filters(
        context, {'instance_uuid': entry.server_uuid}
    )
    # A live migration also leaves an entry on a host that was asked before
    # the one that it goes to in the end, which Nova does not record.
    last = max(
        (
            one
            for one in found
            if one.migration_type == _LIVE
            or host in (one.source_compute, one.dest_compute)
        ),
        key=lambda one: one.id,
        default=None,
    )
    if last is None or last.dest_compute == host:
        return last
    # Of an evacuation, the guest may still run here.
    return last if last.migration_type in _MOVES else None


def _find_instance(uuid: str) -> Any | None:
    """Return a server; None: it is deleted."""
    try:
        return objects.Instance.get_by_uuid(
            nova_context.get_admin_context(),
            uuid,
            expected_attrs=['flavor', 'numa_topology'],
        )
    except nova_exc.InstanceNotFound:
        return None


def _is_open(migration: Any, instance: Any) -> bool:
    """Return whether Nova may still go on with a move.

    A revert has the status ``reverted`` before the source has its server
    back. Until then, the server has a task.
    """
    has_ended = migration.status in _ENDED or _is_abandoned(migration)
    return not has_ended or instance.task_state is not None


def _is_stuck(migration: Any, patience: float) -> bool:
    """Return whether Nova knows no way on.

    The state of the server was set by hand; or a process of Nova was killed
    in a confirmation or a revert. A confirmation gives the server no task, so
    that only its time tells whether it goes on.
    """
    if migration.migration_type not in _COLD or (
        migration.status not in _WAITING
    ):
        return False
    if migration.status == 'confirming' and not timeutils.is_older_than(
        migration.updated_at, patience
    ):
        return False
    instance = _find_instance(migration.instance_uuid)
    return (
        instance is not None
        and instance.task_state is None
        and (migration.status, instance.vm_state)
        != ('finished', vm_states.RESIZED)
    )


def _is_abandoned(migration: Any) -> bool:
    """Return whether Nova does nothing more for a move, and has not ended it.

    A process of Nova was killed on the way. Nova gives a server its task
    before it makes the migration, and takes it away when the migration has
    its last status.
    """
    if migration.migration_type not in _MOVES or (
        migration.status not in _WITH_TASK
    ):
        return False
    instance = _find_instance(migration.instance_uuid)
    if instance is None or instance.task_state is not None:
        return False
    # It may have ended between the two questions.
    again = objects.Migration.get_by_uuid(
        nova_context.get_admin_context(read_deleted='yes'), migration.uuid
    )
    return again.status in _WITH_TASK
