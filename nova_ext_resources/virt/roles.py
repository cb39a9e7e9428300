# SPDX-License-Identifier: Apache-2.0

"""What each consumer is to a host, from Nova's servers and migrations.

Doubt never means that something has left: only a migration that has ended and
the host that Nova has the server on prove it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exc
from nova import objects

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

#: Statuses of these in which Nova has given the server a task.
_WITH_TASK = ('pre-migrating', 'migrating', 'post-migrating')


def list_roles(
    host: str,
    nodename: str,
    guests: Iterable[str],
    entries: Mapping[str, assignment.Entry],
) -> dict[str, Role]:
    """Return the role of each consumer that is known, by its uuid.

    :param guests: uuids of the servers that the hypervisor has
    :param entries: what consumers hold
    """
    context = nova_context.get_admin_context()
    # Before the migrations: a server may arrive in between.
    servers = objects.InstanceList.get_by_host(context, host)
    roles = dict.fromkeys([*guests, *(s.uuid for s in servers)], Role.SERVER)
    moves = objects.MigrationList.get_in_progress_by_host_and_node(
        context, host, nodename
    )
    for one in moves:
        if _is_abandoned(one):
            continue
        if one.source_compute == host:
            roles.setdefault(one.uuid, Role.SOURCE)
            # What could not be kept when the guest was powered off.
            if one.migration_type in _COLD:
                roles.setdefault(one.instance_uuid, Role.SOURCE)
        if one.dest_compute == host:
            roles.setdefault(one.instance_uuid, Role.DESTINATION)
    for uuid, entry in entries.items():
        if uuid not in roles and (found := _find_role(host, entry)):
            roles[uuid] = found
    return roles


def _find_role(host: str, entry: assignment.Entry) -> Role | None:
    """Return the role in a move that has ended; None: there was none."""
    is_source = entry.consumer_uuid != entry.server_uuid
    migration = _find_migration(host, entry)
    if migration is None:
        return None
    instance = _find_instance(entry.server_uuid)
    if instance is None:
        return Role.LEFT
    is_here = instance.host == host
    if _is_open(migration, instance, is_here):
        return Role.SOURCE if is_source else Role.DESTINATION
    if not is_source:
        return Role.SERVER if is_here else Role.LEFT
    if is_here and _is_back(migration, instance, entry):
        return Role.RETURNED
    return Role.LEFT


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
        context, {'instance_uuid': entry.server_uuid, 'host': host}
    )
    here = [one for one in found if one.dest_compute == host]
    return max(here, key=lambda one: one.id, default=None)


def _find_instance(uuid: str) -> Any | None:
    """Return a server; None: it is deleted."""
    try:
        return objects.Instance.get_by_uuid(
            nova_context.get_admin_context(), uuid, expected_attrs=['flavor']
        )
    except nova_exc.InstanceNotFound:
        return None


def _is_open(migration: Any, instance: Any, is_here: bool) -> bool:
    """Return whether Nova may still go on with a move.

    A revert has the status ``reverted`` before the source has its server
    back, and keeps it when the source was not told.
    """
    has_ended = migration.status in _ENDED or _is_abandoned(migration)
    return (
        not has_ended
        or instance.task_state is not None
        or (migration.status == 'reverted' and not is_here)
    )


def _is_abandoned(migration: Any) -> bool:
    """Return whether Nova does nothing more for a move, and has not ended it.

    A process of Nova was killed on the way. Nova gives a server its task
    before it makes the migration, and takes it away when the migration has
    its last status.
    """
    if migration.migration_type not in _COLD or (
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


def _is_back(migration: Any, instance: Any, entry: assignment.Entry) -> bool:
    """Return whether what a move has kept is its server's again.

    :param instance: is on this host
    """
    if migration.dest_compute != migration.source_compute:
        return True
    is_kept = entry.purpose is assignment.Purpose.KEPT
    # Nova sets it once the source has done its part, and virt/moves deletes
    # that of a former move.
    return is_kept and instance.old_flavor is None
