# SPDX-License-Identifier: Apache-2.0

"""Migrations of servers from and to a host, and whether Nova goes on."""

from typing import Any

from nova import context as nova_context
from nova import exception as nova_exc
from nova import objects
from nova.objects import fields
from oslo_utils import timeutils

from nova_ext_resources.facts import consumer_role
from nova_ext_resources.objects import assignment
from nova_ext_resources.virt.facts import servers

_Phase = consumer_role.MigrationPhase
COLD = consumer_role.COLD
LIVE = consumer_role.LIVE

#: Live migrations whose guest may be on its way while Nova has the server on
#: its former host, whatever its task: an operator may have set its state.
_TRANSFERRING = ('running', 'running (post-copy)')

#: Types of migrations whose source has what the server had until they end.
MOVES = (*COLD, LIVE)


def list_in_progress(host: str, nodename: str) -> Any:
    """Return Nova's ``MigrationList`` of what goes from or to a host."""
    return objects.MigrationList.get_in_progress_by_host_and_node(
        nova_context.get_admin_context(), host, nodename
    )


def list_left(host: str, server_uuid: str) -> list[str]:
    """Return moves of a server from its host with which Nova does not go on.

    Each may still have the allocations that the server had there. A live one
    that has failed has them when nova-compute was killed in it.
    """
    instance = servers.find(server_uuid)
    if instance is None:
        return []
    found = objects.MigrationList.get_by_filters(
        nova_context.get_admin_context(),
        {'instance_uuid': server_uuid, 'source_compute': host},
    )
    return [
        one.uuid
        for one in found
        if is_abandoned(one)
        or (
            one.migration_type == LIVE
            and one.status in ('cancelled', 'error', 'failed')
            and not is_open(one, instance)
        )
    ]


def list_open(host: str, server_uuid: str) -> list[Any]:
    """Return moves of a server that may still bring it to a host.

    Of all types: while a server is evacuated, Nova has it on the next host
    before it has ended that. Nova does not record each host that a live
    migration asks.
    """
    found = objects.MigrationList.get_by_filters(
        nova_context.get_admin_context(), {'instance_uuid': server_uuid}
    )
    return [
        one
        for one in found
        if not _has_ended(one)
        and (
            one.migration_type == LIVE
            or host in (one.source_compute, one.dest_compute)
        )
        # Its guest may be on its way without Nova.
        and (one.status in _TRANSFERRING or not is_abandoned(one))
    ]


def find_any(uuid: str) -> Any | None:
    """Return a migration, also a deleted one; None: there is none."""
    # Nova deletes the migrations of a server with the server.
    context = nova_context.get_admin_context(read_deleted='yes')
    try:
        return objects.Migration.get_by_uuid(context, uuid)
    except nova_exc.MigrationNotFound:
        return None


def find(host: str, entry: assignment.Entry) -> Any | None:
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
            if one.migration_type == LIVE
            or host in (one.source_compute, one.dest_compute)
        ),
        key=_find_age,
        default=None,
    )
    if last is None or last.dest_compute == host:
        return last
    # Of an evacuation, the guest may still run here.
    return last if last.migration_type in MOVES else None


def _find_age(migration: Any) -> tuple[Any, ...]:
    """Return what to sort the migrations of a server by, the last one last.

    Nova copies them to the next cell of the server with new ids, in another
    order (TargetDBSetupTask ``_copy_migrations``).
    """
    return migration.created_at, not _has_ended(migration), migration.id


def is_open(migration: Any, instance: Any) -> bool:
    """Return whether Nova may still go on with a move.

    A revert has the status ``reverted`` before the source has its server
    back. Until then, the server has a task.
    """
    has_ended = _has_ended(migration) or is_abandoned(migration)
    return not has_ended or instance.task_state is not None


def is_guest_moving(migration: Any, instance: Any) -> bool:
    """Return whether a guest may be, whatever task the server has."""
    return (
        migration.status in _TRANSFERRING
        and instance.host == migration.source_compute
    )


def is_any_going_on(host: str, instance: Any) -> bool:
    """Return whether a move of a server from or to a host may go on.

    Of any type: while a server is evacuated, Nova has it on the next host
    before the former one has destroyed its guest.
    """
    found = objects.MigrationList.get_by_filters(
        nova_context.get_admin_context(), {'instance_uuid': instance.uuid}
    )
    return any(
        is_guest_moving(one, instance)
        or not (_has_ended(one) or is_abandoned(one))
        for one in found
        if host in (one.source_compute, one.dest_compute)
    )


def has_failed(migration: Any) -> bool:
    """Return whether Nova has given a cold one up.

    The server stays on the host that Nova has it on by then: Nova changes that
    before it asks the next host to go on.
    """
    return migration.migration_type in COLD and migration.status == 'error'


def is_stuck(migration: Any, patience: float) -> bool:
    """Return whether Nova knows no way on.

    The state of the server was set by hand; or a process of Nova was killed
    in a confirmation or a revert. A confirmation gives the server no task, so
    that only its time tells whether it goes on.
    """
    if migration.migration_type not in COLD or (
        _find_phase(migration) is not _Phase.STUCK
    ):
        return False
    instance = servers.find(migration.instance_uuid)
    return instance is not None and _Phase.STUCK is _find_phase(
        migration,
        has_task=instance.task_state is not None,
        is_resized=instance.vm_state == fields.InstanceState.RESIZED,
        is_old=migration.status == 'confirming'
        and timeutils.is_older_than(migration.updated_at, patience),
    )


def is_being_confirmed(host: str, migration: Any, instance: Any) -> bool:
    """Return whether Nova confirms a cold one from a host, or never ends it.

    Nova confirms the move of a server that it deletes, and leaves it
    ``finished`` meanwhile; of another, it is ``confirming``. It is
    ``confirmed`` before Nova deletes its allocations. None of them shows
    whether nova-compute was killed in it, nor does the task of the server.
    While only the user decides, this is false.
    """
    return (
        migration.migration_type in COLD
        and migration.source_compute == host
        and migration.status in ('finished', 'confirming', 'confirmed')
        and (migration.status, instance.vm_state, instance.task_state)
        != ('finished', fields.InstanceState.RESIZED, None)
    )


def is_in_next_cell(host: str, migration: Any, instance: Any) -> bool:
    """Return whether a server has left a host for another cell, or will.

    The record in its former cell does not tell whether that was confirmed: it
    is the same until Nova deletes it.
    """
    return bool(
        migration.source_compute == host == instance.host
        and migration.dest_compute != host
        and migration.status == 'post-migrating'
        and instance.task_state == fields.InstanceTaskState.RESIZE_MIGRATED
    )


def is_abandoned(migration: Any) -> bool:
    """Return whether Nova does nothing more for a move, and has not ended it.

    A process of Nova was killed on the way, or the state of the server was
    set by hand. Nova gives a server its task before it makes the migration,
    and takes it away when the migration has its last status, or shortly before
    that of a live one.
    """
    if migration.migration_type not in MOVES or (
        _find_phase(migration) is not _Phase.ABANDONED
    ):
        return False
    instance = servers.find(migration.instance_uuid)
    if instance is None or instance.task_state is not None:
        return False
    # It may have ended between the two questions.
    again = objects.Migration.get_by_uuid(
        nova_context.get_admin_context(read_deleted='yes'), migration.uuid
    )
    return _find_phase(again) is _Phase.ABANDONED


def _has_ended(migration: Any) -> bool:
    return _find_phase(migration) in (_Phase.ENDED, _Phase.EVACUATED)


def _find_phase(migration: Any, **facts: bool) -> _Phase:
    kind = migration.migration_type or ''
    return consumer_role.find_phase(kind, migration.status, **facts)


def is_cold_from(host: str, migration: Any) -> bool:
    return (
        migration.migration_type in COLD
        and migration.source_compute == host != migration.dest_compute
    )
