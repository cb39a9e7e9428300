# SPDX-License-Identifier: Apache-2.0

"""Where servers landed and what each of them got, as a table."""

from collections.abc import Sequence

from dev.cloud import servers
from dev.cloud import tree
from dev.demo import holdings
from dev.demo import scene as scenes

_COLUMNS = (
    'server',
    'host',
    'CPUs',
    'provider',
    'ways',
    'mask',
    'group',
    'applied',
)


def show(scene: scenes.Scene, names: Sequence[str]) -> None:
    """Print one row for each of the servers, from four sources.

    Nova says host and CPUs, placement provider and ways, the ledger the
    mask, and the machine the control group and what is applied.
    """
    rps = tree.list_names(scene.cloud.placement)
    rows = [_row(scene, name, rps) for name in names]
    scene.stage.table('Where they landed', _COLUMNS, rows)


def _row(scene: scenes.Scene, name: str, rps: dict[str, str]) -> list[str]:
    server_id = scene.servers[name]
    host = scene.sdk.compute.get_server(server_id).compute_host
    cpus = servers.list_pinned_cpus(scene.sdk, server_id)
    provider, ways = _allocated(scene, server_id, rps)
    return [
        name,
        host,
        ','.join(str(cpu) for cpu in cpus),
        provider,
        ways,
        _mask(scene, host, server_id),
        *_in_force(scene, host, server_id),
    ]


def _allocated(
    scene: scenes.Scene, server_id: str, rps: dict[str, str]
) -> tuple[str, str]:
    allocations = tree.list_allocations(scene.cloud.placement, server_id)
    ways = {
        rps[rp_uuid]: str(resources[tree.WAYS])
        for rp_uuid, resources in sorted(allocations.items())
        if rp_uuid in rps and tree.WAYS in resources
    }
    return '\n'.join(ways), '\n'.join(ways.values())


def _mask(scene: scenes.Scene, host: str, server_id: str) -> str:
    return '\n'.join(
        one.units['mask']
        for one in holdings.list_assigned(scene, host)
        if one.consumer_uuid == server_id and 'mask' in one.units
    )


def _in_force(
    scene: scenes.Scene, host: str, server_id: str
) -> tuple[str, str]:
    found = scene.machines[host].list_in_force().get(server_id)
    if found is None:
        return 'none', 'none'
    # A group that is named after the server says nothing new.
    return found.name.replace(server_id, '...'), found.schemata
