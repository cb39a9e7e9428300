# SPDX-License-Identifier: Apache-2.0

"""Makes clouds as placement and Nova show them, and changes them."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import compare
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool as pool_obj
from nova_ext_resources.placement.api import responses
from nova_ext_resources.reservation import nova_server

WAYS = 'CUSTOM_LLC_WAYS'
GB = 'CUSTOM_RACK1_GB'

POOL = pool_obj.SharedPool(name='rack1', resource_class=GB)
OTHER_POOL = pool_obj.SharedPool(name='rack2', resource_class=GB)

HOSTS = ('node1', 'node2', 'node3')
ROOTS: Mapping[str, str] = {name: getattr(uuids, name) for name in HOSTS}

#: What a server of the flavor of :func:`make_server` requests.
WANTED = {WAYS: 4, GB: 10}

OWN = frozenset({host_provider.OWNER_TRAIT})


def make_rp_uuid(host: str, key: str) -> str:
    return host_provider.make_rp_uuid(ROOTS[host], key)


def make_provider(
    host: str, key: str, parent: str = '', **fields: Any
) -> host_provider.Provider:
    return host_provider.Provider(
        rp_uuid=make_rp_uuid(host, key),
        name=f'{host}_{key}',
        parent_uuid=make_rp_uuid(host, parent) if parent else ROOTS[host],
        traits=OWN,
        **fields,
    )


def make_pool(pool: pool_obj.SharedPool) -> host_provider.Provider:
    return host_provider.Provider(
        rp_uuid=pool.rp_uuid,
        name=pool.rp_name,
        traits=pool.all_traits,
        aggregates=frozenset({pool.aggregate_uuid}),
        inventories={GB: class_inventory.Inventory(total=1000)},
    )


def make_host(
    host: str, pool: pool_obj.SharedPool
) -> list[host_provider.Provider]:
    """Make a host of two caches that reaches a pool."""
    ways = {WAYS: class_inventory.Inventory(total=40, reserved=2)}
    return [
        make_provider(host, 'RDT'),
        make_provider(host, 'L3_0', 'RDT', inventories=ways),
        make_provider(host, 'L3_1', 'RDT', inventories=ways),
        make_provider(
            host,
            pool.rp_name,
            aggregates=frozenset({pool.aggregate_uuid}),
        ),
    ]


def make_cloud() -> cloud_mod.AuditedCloud:
    """Make three hosts without servers; node3 reaches another pool."""
    pools = dict(zip(HOSTS, (POOL, POOL, OTHER_POOL), strict=True))
    own = [
        *(one for host in HOSTS for one in make_host(host, pools[host])),
        *map(make_pool, (POOL, OTHER_POOL)),
    ]
    roots = [
        host_provider.Provider(rp_uuid=rp_uuid, name=name)
        for name, rp_uuid in ROOTS.items()
    ]
    return cloud_mod.AuditedCloud(
        listed={one.rp_uuid: one for one in (*roots, *own)},
        owned={one.rp_uuid: cloud_mod.Owned(provider=one) for one in own},
        reached={
            pool.rp_uuid: frozenset(
                {pool.rp_uuid}
                | {ROOTS[host] for host in HOSTS if pools[host] is pool}
            )
            for pool in (POOL, OTHER_POOL)
        },
        nodes=ROOTS,
        servers={},
    )


def make_server(
    uuid: str, host: str = 'node1', **fields: Any
) -> nova_server.NovaServer:
    return nova_server.NovaServer(
        **{
            'uuid': uuid,
            'name': 'web',
            'host': host,
            'extra_specs': {
                f'resources:{WAYS}': '4',
                f'resources_POOL:{GB}': '10',
                'resource:CUSTOM_LLC_WAYS:numa_affinity': 'required',
            },
            **fields,
        }
    )


def make_move(uuid: str, server: str, status: str, **fields: Any) -> Any:
    return cloud_mod.NovaMigration(
        uuid=uuid, server_uuid=server, status=status, **fields
    )


def allocate(
    cloud: cloud_mod.AuditedCloud,
    consumer: str,
    rp_uuid: str,
    name: str,
    amount: int,
) -> cloud_mod.AuditedCloud:
    """Set what a consumer has of a provider."""
    owned = cloud.owned[rp_uuid]
    amounts = {**owned.holders.get(name, {}), consumer: amount}
    amounts = {k: v for k, v in amounts.items() if v}
    return dataclasses.replace(
        cloud,
        owned={
            **cloud.owned,
            rp_uuid: dataclasses.replace(
                owned, holders={**owned.holders, name: amounts}
            ),
        },
    )


def allocate_all(
    cloud: cloud_mod.AuditedCloud, consumer: str, host: str = 'node1'
) -> cloud_mod.AuditedCloud:
    """Have a consumer have all that the flavor requests."""
    pool = OTHER_POOL if host == 'node3' else POOL
    cloud = allocate(cloud, consumer, make_rp_uuid(host, 'L3_0'), WAYS, 4)
    return allocate(cloud, consumer, pool.rp_uuid, GB, 10)


def add_server(
    cloud: cloud_mod.AuditedCloud, server: nova_server.NovaServer
) -> cloud_mod.AuditedCloud:
    return dataclasses.replace(
        cloud, servers={**cloud.servers, server.uuid: server}
    )


def add_move(
    cloud: cloud_mod.AuditedCloud, move: cloud_mod.NovaMigration
) -> cloud_mod.AuditedCloud:
    return dataclasses.replace(cloud, moves={**cloud.moves, move.uuid: move})


def replace_provider(
    cloud: cloud_mod.AuditedCloud, rp_uuid: str, **fields: Any
) -> cloud_mod.AuditedCloud:
    """Change a provider of this package."""
    one = dataclasses.replace(cloud.owned[rp_uuid].provider, **fields)
    owned = dataclasses.replace(cloud.owned[rp_uuid], provider=one)
    return dataclasses.replace(
        cloud,
        listed={**cloud.listed, rp_uuid: one},
        owned={**cloud.owned, rp_uuid: owned},
    )


def make_fresh(consumer: str, **fields: Any) -> responses.Allocations:
    return responses.Allocations(
        **{'consumer_uuid': consumer, 'resources': {}, **fields}
    )


def describe(cloud: cloud_mod.AuditedCloud) -> list[tuple[str, ...]]:
    """Return kind, remedy, provider and class of all that is wrong."""
    return [
        (one.kind, one.remedy, one.provider, one.resource_class)
        for one in compare.compare(cloud)
    ]


def replace(
    cloud: cloud_mod.AuditedCloud, **fields: Any
) -> cloud_mod.AuditedCloud:
    return dataclasses.replace(cloud, **fields)
