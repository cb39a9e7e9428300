# SPDX-License-Identifier: Apache-2.0

"""Whether a server is certainly gone from a host, asked of Nova at once.

Before anything is released for good, one server is looked at from all sides:
among deleted ones, in its migrations, and in the API's list of all cells. Only
a record of it proves anything: a database that was restored has none of what
came after its backup.
"""

from collections.abc import Container
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exc
from nova import objects
from nova.objects import fields

from nova_ext_resources.facts import deletion_evidence
from nova_ext_resources.objects import assignment
from nova_ext_resources.virt.facts import migrations
from nova_ext_resources.virt.facts import servers

Evidence = deletion_evidence.Evidence


def find(
    host: str, entry: assignment.Entry, guests: Container[str]
) -> Evidence:
    """Return what proves that nothing of an entry's server is on a host.

    Raises whatever Nova's conductor does; then nothing is proven.

    :param guests: uuids of the servers that the hypervisor has there, running
        or not
    """
    if entry.server_uuid in guests or entry.consumer_uuid in guests:
        return _doubt('the hypervisor has a guest of the server')
    # Before the migrations: of one that begins in between, these know.
    instance = servers.find_any(entry.server_uuid)
    if instance is None:
        return _examine_unknown(entry.server_uuid)
    words = '' if instance.deleted else _find_doubt(host, instance)
    if words:
        return _doubt(words)
    for one in migrations.list_open(host, entry.server_uuid):
        return _doubt(
            f'the {one.migration_type} {one.uuid} of the server from host '
            f'{one.source_compute} to {one.dest_compute} has not ended in '
            f'Nova; its status is "{one.status}"'
        )
    return Evidence(words=_describe(instance), is_proof=True)


def _doubt(words: str) -> Evidence:
    return Evidence(words=words, is_proof=False)


def _find_doubt(host: str, instance: Any) -> str:
    """Return why a server may be here, or come; '' where it does not."""
    if instance.host == host:
        return 'Nova has the server on this host'
    if instance.task_state is not None:
        return f'the server has the task "{instance.task_state}" in Nova'
    if instance.vm_state == fields.InstanceState.BUILDING:
        return 'Nova builds the server'
    if not instance.host and not servers.is_nowhere(instance):
        return f'Nova has the server "{instance.vm_state}" on no host'
    return ''


def _describe(instance: Any) -> str:
    if instance.deleted:
        return 'Nova has deleted the server'
    if instance.host:
        return f'Nova has the server on host {instance.host}'
    return f'Nova has the server "{instance.vm_state}" on no host'


def _examine_unknown(uuid: str) -> Evidence:
    """Ask Nova's API, which knows the servers of all cells.

    The conductor of a cell may have no access to its database; then this
    raises. Nova calls it an upcall (admin guide, "Cells (v2)").
    """
    try:
        found = objects.InstanceMapping.get_by_instance_uuid(
            nova_context.get_admin_context(), uuid
        )
    except nova_exc.InstanceMappingNotFound:
        return _doubt(
            'neither the database of this cell nor the API database has the '
            'server, not even as a deleted server. Its record may have been '
            'purged, or a database was restored'
        )
    cell = found.cell_mapping
    where = f'cell {cell.name or cell.uuid}' if cell else 'no cell yet'
    return Evidence(
        words=f"Nova's API has the server in {where}, but the database that "
        'answers here does not have it. Check which database answers',
        is_proof=False,
        # With another cell's database, a start would release all.
        is_restart_safe=False,
    )
