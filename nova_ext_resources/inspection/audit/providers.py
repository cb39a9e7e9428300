# SPDX-License-Identifier: Apache-2.0

"""Providers without a host, and with too much allocated."""

from collections.abc import Iterator, Mapping

from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider

Kind = finding.FindingKind

#: A pool may have thousands.
_MOST_HOLDERS = 10


def is_made_by_us(
    provider: host_provider.Provider, root: host_provider.Provider
) -> bool:
    """Return whether a provider has the uuid that a host gives its own."""
    key = provider.name.removeprefix(f'{root.name}_')
    return provider.rp_uuid == host_provider.make_rp_uuid(root.rp_uuid, key)


def list_findings(
    cloud: cloud_mod.AuditedCloud, owned: cloud_mod.Owned
) -> Iterator[finding.Finding]:
    """Return what is wrong with a provider of ours."""
    if not owned.is_pool:
        yield from _list_homeless(cloud, owned.provider)
    if host_provider.OWNER_TRAIT not in owned.provider.traits:
        yield finding.make(
            cloud, Kind.NOT_MARKED, owned.provider.rp_uuid, _advise_mark()
        )
    yield from _list_oversold(cloud, owned)


def _list_homeless(
    cloud: cloud_mod.AuditedCloud, provider: host_provider.Provider
) -> Iterator[finding.Finding]:
    rp_uuid = provider.rp_uuid
    root = cloud.find_root(rp_uuid)
    if root in cloud.roots:
        return
    delete = (
        'when nothing is allocated, delete the provider, after the providers '
        f'below it: openstack resource provider delete {rp_uuid}'
    )
    if root == rp_uuid:
        yield finding.make(
            cloud,
            Kind.NO_HOST,
            rp_uuid,
            finding.ask(f'the provider belongs to no host; {delete}'),
        )
        return
    if cloud.unmapped:
        hosts = ', '.join(sorted(cloud.unmapped))
        verdict = finding.wait(
            f'Nova has a nova-compute on {hosts}, but lists no hypervisor of '
            'that host. Map the host to a cell: nova-manage cell_v2 '
            'discover_hosts'
        )
    else:
        verdict = finding.ask(f'{_explain_gone(cloud, root)}; {delete}')
    yield finding.make(cloud, Kind.HOST_GONE, rp_uuid, verdict)


def _explain_gone(cloud: cloud_mod.AuditedCloud, root: str) -> str:
    name = cloud.listed[root].name
    if name in cloud.nodes:
        return (
            f'Nova has a hypervisor {name} with another uuid, '
            f'{cloud.nodes[name]}: correct the name or the compute_id of this '
            'host, or'
        )
    return f'Nova has no hypervisor {name}'


def _advise_mark() -> finding.AllocationVerdict:
    return finding.ask(
        f'the provider lacks the trait {host_provider.OWNER_TRAIT}, which '
        'nova-compute adds when it publishes: find the reason on the host'
    )


def _list_oversold(
    cloud: cloud_mod.AuditedCloud, owned: cloud_mod.Owned
) -> Iterator[finding.Finding]:
    for name, inventory in sorted(owned.provider.inventories.items()):
        amounts = owned.holders.get(name, {})
        more = sum(amounts.values()) - _count_units(inventory)
        if more > 0:
            yield finding.make(
                cloud,
                Kind.OVERSOLD,
                owned.provider.rp_uuid,
                finding.ask(
                    'move or delete servers, or correct the configured '
                    f'amount; held by {_list_holders(cloud, amounts)}'
                ),
                resource_class=name,
                amount=more,
            )


def _count_units(inventory: class_inventory.Inventory) -> int:
    """Return how much may be allocated; what is held stays so when closed."""
    if inventory.reserved >= inventory.total:
        return int(inventory.total * inventory.allocation_ratio)
    return inventory.capacity


def _list_holders(
    cloud: cloud_mod.AuditedCloud, amounts: Mapping[str, int]
) -> str:
    """Return who has some, those with the most first, but not all of many."""
    order = sorted(amounts.items(), key=lambda one: (-one[1], one[0]))
    named = [
        f'{cloud.describe(consumer)} {amount}'
        for consumer, amount in order[:_MOST_HOLDERS]
    ]
    more = len(order) - len(named)
    return ', '.join([*named, *([f'and {more} more'] if more else [])])
