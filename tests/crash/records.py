# SPDX-License-Identifier: Apache-2.0

"""What Nova's database says of servers and their moves."""

from typing import Any

#: Types of migrations of a server whose guest is off meanwhile.
COLD = ('migration', 'resize')

LIVE = 'live-migration'

_WAYS = 'resources:CUSTOM_LLC_WAYS'

#: Statuses of one that Nova has not ended.
_LIVE_ON_ITS_WAY = ('accepted', 'queued', 'preparing', 'running')


def list_servers() -> dict[str, Any]:
    """Return servers by uuid, with those that can be restored."""
    from nova import objects

    found = objects.InstanceList.get_by_filters(
        _make_context(),
        {'deleted': False, 'soft_deleted': True},
        expected_attrs=['flavor', 'numa_topology', 'migration_context'],
    )
    return {one.uuid: one for one in found}


def list_all_servers() -> Any:
    """Return servers, with those that are deleted."""
    from nova import objects

    return objects.InstanceList.get_all(_make_context())


def list_moves(server_uuid: str) -> Any:
    """Return the migrations of a server, with those that are deleted.

    The last one comes last.
    """
    from nova import objects

    found = objects.MigrationList.get_by_filters(
        _make_context(), {'instance_uuid': server_uuid}
    )
    return sorted(found, key=lambda one: one.id)


def find_last_move(server_uuid: str, host: str) -> Any | None:
    """Return the last migration from or to a host, or live; None: none."""
    found = [
        one
        for one in list_moves(server_uuid)
        if one.migration_type == LIVE
        or host in (one.source_compute, one.dest_compute)
    ]
    return found[-1] if found else None


def count_ways(move: Any) -> int:
    """Return the ways that a server is to get by a migration."""
    from nova import objects

    flavor = objects.Flavor.get_by_id(
        _make_context(), move.new_instance_type_id
    )
    return int(flavor.extra_specs.get(_WAYS, 0))


def is_coming_live(server_uuid: str, host: str) -> bool:
    """Return whether Nova has a server on its way to a host, live."""
    return any(
        one.dest_compute == host
        for one in list_moves(server_uuid)
        if one.migration_type == LIVE and one.status in _LIVE_ON_ITS_WAY
    )


def find_move(uuid: str) -> Any | None:
    """Return a migration; None: there is none of this uuid."""
    from nova import exception
    from nova import objects

    try:
        return objects.Migration.get_by_uuid(_make_context(), uuid)
    except exception.MigrationNotFound:
        return None


def list_actions(server_uuid: str) -> Any:
    """Return what was done with a server, the last first."""
    from nova import objects

    return objects.InstanceActionList.get_by_instance_uuid(
        _make_context(), server_uuid
    )


def find_request(server_uuid: str) -> Any:
    """Return what Nova allocates for when it builds a server again."""
    from nova import objects

    return objects.RequestSpec.get_by_instance_uuid(
        _make_context(), server_uuid
    )


def _make_context() -> Any:
    from nova import context

    # Nova deletes the migrations of a server with the server.
    return context.get_admin_context(read_deleted='yes')
