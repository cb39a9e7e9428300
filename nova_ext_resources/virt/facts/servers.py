# SPDX-License-Identifier: Apache-2.0

"""What Nova's database says of servers: on which host, and what they are."""

from typing import Any

from nova import context as nova_context
from nova import exception as nova_exc
from nova import objects
from nova.objects import fields

from nova_ext_resources.facts import server


#: States of a server that has no host, and gets one only by a new claim.
_HOSTLESS = (
    fields.InstanceState.ERROR,
    fields.InstanceState.SHELVED_OFFLOADED,
)


def is_nowhere(instance: Any) -> bool:
    """Return whether Nova has a server on no host, and does nothing to it.

    It is shelved, or was never built.
    """
    return (
        not instance.host
        and instance.task_state is None
        and instance.vm_state in _HOSTLESS
    )


def is_evacuated(context: Any, host: str, uuid: str) -> bool:
    """Return whether an evacuation of a server from a host is in progress."""
    return bool(
        objects.MigrationList.get_by_filters(
            context.elevated(),
            {
                'source_compute': host,
                'instance_uuid': uuid,
                'migration_type': 'evacuation',
                # Nova also asks for ``done`` when the host comes back
                # (ComputeManager ``_destroy_evacuated_instances``). By then
                # the server has its new host, which was compared before; and
                # of one that is back here, that would be a former evacuation.
                'status': ['accepted', 'pre-migrating'],
            },
        )
    )


def was_evacuated(host: str, uuid: str) -> bool:
    """Return whether a server was evacuated from a host, and not cleaned up.

    Nova deletes what is left when nova-compute of that host starts
    (ComputeManager ``_destroy_evacuated_instances``).
    """
    return bool(
        objects.MigrationList.get_by_filters(
            nova_context.get_admin_context(),
            {
                'source_compute': host,
                'instance_uuid': uuid,
                'migration_type': 'evacuation',
                'status': ['done'],
            },
        )
    )


def find(uuid: str) -> Any | None:
    """Return a server; None: it is deleted."""
    try:
        return objects.Instance.get_by_uuid(
            nova_context.get_admin_context(),
            uuid,
            expected_attrs=['flavor', 'numa_topology'],
        )
    except nova_exc.InstanceNotFound:
        return None


def find_any(uuid: str) -> Any | None:
    """Return a server, also a deleted one; None: this cell has no record."""
    try:
        return objects.Instance.get_by_uuid(
            nova_context.get_admin_context(read_deleted='yes'), uuid
        )
    except nova_exc.InstanceNotFound:
        return None


def list_instances(host: str, *attributes: str) -> Any:
    """Return Nova's servers on a host, with flavors and these attributes."""
    return objects.InstanceList.get_by_host(
        nova_context.get_admin_context(),
        host,
        expected_attrs=['flavor', *attributes],
    )


def find_hosts(uuids: frozenset[str]) -> dict[str, str]:
    """Return the hosts of servers in Nova, '' of those that have none."""
    found = dict.fromkeys(uuids, '')
    if uuids:
        instances = objects.InstanceList.get_by_filters(
            nova_context.get_admin_context(),
            # One that can be restored still has its settings.
            {'uuid': sorted(uuids), 'deleted': False, 'soft_deleted': True},
        )
        found.update((one.uuid, one.host or '') for one in instances)
    return found


def find_building(host: str, uuids: frozenset[str]) -> set[str]:
    """Return those of these servers that Nova builds on a host, or may."""
    instances = objects.InstanceList.get_by_filters(
        nova_context.get_admin_context(),
        {
            'uuid': sorted(uuids),
            'vm_state': fields.InstanceState.BUILDING,
            'deleted': False,
        },
    )
    return {
        one.uuid
        for one in instances
        # Nova deletes allocations in two steps, and leaves them where they
        # change in between.
        if one.task_state != fields.InstanceTaskState.DELETING
        and _is_built(one, host)
    }


def _is_built(instance: Any, host: str) -> bool:
    """Return whether a build goes on here, or is yet to begin.

    Nova's conductor notes an availability zone before any build, and the claim
    of a host notes the host, twice. A build that fails gives the claim up,
    and with it the first note of the host (ResourceTracker
    ``abort_instance_claim``); the other note and the zone go before the
    allocations are deleted (ComputeManager
    ``_nil_out_instance_obj_host_and_node``).
    """
    if instance.host is not None:
        return bool(instance.host == host)
    return (
        instance.launched_on is None and instance.availability_zone is not None
    )


def describe(host: str) -> dict[str, server.NovaServer]:
    """Return what Nova knows of its servers on this host, by uuid."""
    return {
        one.uuid: server.NovaServer(
            name=one.display_name or '',
            flavor=one.flavor.name,
            project_id=one.project_id or '',
        )
        for one in list_instances(host)
    }
