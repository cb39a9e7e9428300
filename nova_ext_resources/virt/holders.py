# SPDX-License-Identifier: Apache-2.0

"""What Nova says of consumers to which placement has allocated something."""

from collections.abc import Collection, Container, Iterable
from typing import Any

from nova.compute import vm_states
from nova import context as nova_context
from nova import objects

from nova_ext_resources.virt import migrations
from nova_ext_resources.virt import servers


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
    if is_busy or instance.vm_state == vm_states.BUILDING:
        return ''
    if instance.host == host:
        return ''
    words = f'this is a server {_locate(instance)}'
    if servers.was_evacuated(host, uuid):
        return (
            f'{words}, and that was evacuated from this host. Nova deletes '
            'this allocation when nova-compute of this host starts again'
        )
    if not instance.host:
        return words
    return f'{words}, and may need what it has there'


def _explain_migration(
    host: str, migration: Any, holding: Container[str]
) -> str:
    instance = servers.find(migration.instance_uuid)
    kind = f'this is a {migration.migration_type} with status'
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
    is_held = instance.host != host and instance.uuid in holding
    if is_held or not migrations.is_being_confirmed(host, migration, instance):
        return ''
    return (
        f'{words} {_locate(instance)}, and Nova has not ended its '
        'confirmation, of which this host has released what it kept'
    )


def _is_open(migration: Any, instance: Any) -> bool:
    """Return whether Nova, or a guest on its way, may still go on."""
    is_on_its_way = migrations.is_on_its_way(migration, instance)
    return is_on_its_way or migrations.is_open(migration, instance)


def _locate(instance: Any) -> str:
    if instance.host:
        return f'that Nova has on host {instance.host}'
    return 'that Nova has on no host'
