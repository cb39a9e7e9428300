# SPDX-License-Identifier: Apache-2.0

"""Delete, wait for and look at servers through Nova's public API."""

import dataclasses
import functools
from typing import Any

from openstack.compute.v2 import server as sdk_server
from openstack import connection
from openstack import exceptions

from dev.cloud import told
from dev.cloud import waiting

#: For a machine that is busy: a boot took more than 30 s at a load of 60.
SECONDS = 120.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One host that was asked to build a server.

    :ivar result: Nova's word: Success, Error, or None while it goes on
    """

    host: str
    result: str | None


def find_decided(
    sdk: connection.Connection, server_id: str
) -> sdk_server.Server | None:
    """Return a server that is ACTIVE or ERROR; None while it is built."""
    server: sdk_server.Server = sdk.compute.get_server(server_id)
    return server if server.status in ('ACTIVE', 'ERROR') else None


def check_active(server: sdk_server.Server) -> None:
    """Hold a server to being up.

    :raises NotAsTold: with Nova's reason
    """
    told.expect(
        server.status == 'ACTIVE',
        f'server {server.name} becomes ACTIVE',
        f'{server.status}: {fault(server)}',
    )


def delete(
    sdk: connection.Connection,
    server_id: str,
    *,
    seconds: float = SECONDS,
) -> None:
    """Delete a server and wait until it is gone.

    :raises NotAsTold: it was still there after a long time
    """
    sdk.compute.delete_server(server_id)
    wait_until_gone(sdk, server_id, seconds=seconds)


def wait_until_gone(
    sdk: connection.Connection, server_id: str, *, seconds: float = SECONDS
) -> None:
    """Wait until Nova no longer has a server.

    :raises NotAsTold: it still has it after a long time
    """
    waiting.until(
        functools.partial(_is_gone, sdk, server_id),
        f'server {server_id} is gone',
        seconds=seconds,
    )


def wait_for(
    sdk: connection.Connection,
    server_id: str,
    status: str,
    *,
    seconds: float = SECONDS,
) -> None:
    """Wait until a server has a status and no task.

    One that is offloaded must have no host either: Nova takes that away when
    the rest can be seen already, and else takes the new host of a server that
    is unshelved meanwhile.

    :raises NotAsTold: it is in ERROR, or takes too long
    """
    waiting.until(
        functools.partial(_has_status, sdk, server_id, status),
        f'server {server_id} is {status}',
        seconds=seconds,
        poll_seconds=0.5,
    )


def fault(server: sdk_server.Server) -> str:
    """Return Nova's message about a server in ERROR."""
    found = server.fault or {}
    return str(found.get('message', 'Nova gives no reason'))


def list_attempts(
    sdk: connection.Connection, server_id: str
) -> tuple[Attempt, ...]:
    """Return the hosts that were asked to build a server, in their order."""
    path = f'/servers/{server_id}/os-instance-actions'
    actions = _get(sdk, path)['instanceActions']
    request_id = next(
        one['request_id'] for one in actions if one['action'] == 'create'
    )
    action = _get(sdk, f'{path}/{request_id}')['instanceAction']
    events = [
        one
        for one in action['events']
        if one['event'] == 'compute__do_build_and_run_instance'
    ]
    return tuple(
        Attempt(host=one['host'], result=one['result'])
        for one in sorted(events, key=lambda one: str(one['start_time']))
    )


def list_pinned_cpus(
    sdk: connection.Connection, server_id: str
) -> tuple[int, ...]:
    """Return the host CPUs that a server is pinned to."""
    nodes = _get(sdk, f'/servers/{server_id}/topology')['nodes']
    pinned = [cpu for node in nodes for cpu in node['cpu_pinning'].values()]
    return tuple(sorted(pinned))


def _get(sdk: connection.Connection, path: str) -> Any:
    answer = sdk.compute.get(path)
    exceptions.raise_from_response(answer)
    return answer.json()


def _has_status(
    sdk: connection.Connection, server_id: str, status: str
) -> bool:
    server = sdk.compute.get_server(server_id)
    told.expect(
        server.status != 'ERROR',
        f'server {server_id} becomes {status}',
        f'ERROR: {fault(server)}',
    )
    has_left = status != 'SHELVED_OFFLOADED' or not server.compute_host
    return bool(server.status == status and not server.task_state and has_left)


def _is_gone(sdk: connection.Connection, server_id: str) -> bool:
    try:
        sdk.compute.get_server(server_id)
    except exceptions.NotFoundException:
        return True
    return False
