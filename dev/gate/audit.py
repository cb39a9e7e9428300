# SPDX-License-Identifier: Apache-2.0

"""Compares what Nova, ledgers, placement and machines say.

For each host: what the ledger holds is what placement has allocated of the
host's providers, the machine applies it, and each server of Nova has what its
flavor says. What is nobody's is an orphan.
"""

from dev.cloud import ledger
from dev.cloud import told
from dev.cloud import tree
from dev.cloud import waiting
from dev.gate import differences
from dev.gate import site as sites

#: Nova has no host for these, or has given up what they had.
_WITHOUT = frozenset({'SHELVED_OFFLOADED', 'DELETED'})

#: Servers that can be restored: Nova lists them with the deleted ones only.
_RESTORABLE = {'status': 'SOFT_DELETED', 'deleted_only': True}

#: How long repairs and publications may take after the last operation.
_SECONDS = 300.0


def check(site: sites.Site) -> None:
    """Wait until nothing differs.

    :raises NotAsTold: with all differences, if they stay
    """
    last: list[str] = []

    def is_clean() -> bool:
        last[:] = differences.find(list_servers(site), list_hosts(site))
        return not last

    try:
        waiting.until(is_clean, '', seconds=_SECONDS, poll_seconds=1.0)
    except told.NotAsTold as err:
        raise told.NotAsTold(
            'Nova, ledgers, placement and machines agree', '\n  '.join(last)
        ) from err


def check_empty(site: sites.Site) -> None:
    """Expect that nothing is left of servers that are gone.

    :raises NotAsTold: something is
    """
    check(site)
    left = [one.uuid for one in list_servers(site)]
    told.expect(not left, 'no server is left', left)


def list_servers(site: sites.Site) -> list[differences.Server]:
    """Return all servers that must have their resources."""
    compute = site.sdk.compute
    ways = f'resources:{tree.WAYS}'
    return [
        differences.Server(
            uuid=one.id,
            host=one.compute_host or '',
            ways=int((one.flavor.extra_specs or {}).get(ways, 0)),
        )
        for query in ({}, _RESTORABLE)
        for one in compute.servers(all_projects=True, **query)
        if one.status not in _WITHOUT
    ]


def list_hosts(site: sites.Site) -> list[differences.Host]:
    """Return what ledger, placement and machine say of each host."""
    trees = tree.list_hosts(site.cloud.placement)
    own = tree.list_hosts(site.cloud.placement, tree.OURS)
    return [
        differences.Host(
            name=host,
            ledger=_read_ledger(site, host),
            allocated={
                (consumer, rp_uuid, resource_class): amount
                for rp_uuid, root in trees.items()
                if root == host
                for consumer, resources in tree.list_consumers(
                    site.cloud.placement, rp_uuid
                ).items()
                for resource_class, amount in resources.items()
            },
            own=frozenset(one for one, root in own.items() if root == host),
            applied={
                uuid: one.ways
                for uuid, one in site.machines[host].list_in_force().items()
            },
        )
        for host in site.hosts
    ]


def _read_ledger(site: sites.Site, host: str) -> differences.Held:
    return {
        (one.consumer_uuid, one.rp_uuid, one.resource_class): one.amount
        for one in ledger.read(site.cloud.folder.get_ledger(host))
        if one.is_allocated
    }
