# SPDX-License-Identifier: Apache-2.0

"""Sharing providers, and what ties hosts to them.

Each pool is in an aggregate of its own, and so is a provider in the tree of
each host that reaches it.
"""

from collections.abc import Iterator

from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool as pool_obj

Kind = finding.FindingKind

_TIE = pool_obj.make_key('')


def list_findings(
    cloud: cloud_mod.AuditedCloud, owned: cloud_mod.Owned
) -> Iterator[finding.Finding]:
    """Return what is wrong with a pool, or with what ties a host to one."""
    provider = owned.provider
    if owned.is_pool:
        yield from _list_of_pool(cloud, owned)
    elif cloud.name_provider(provider.rp_uuid)[1].startswith(_TIE):
        yield from _list_of_tie(cloud, provider)


def _list_of_pool(
    cloud: cloud_mod.AuditedCloud, owned: cloud_mod.Owned
) -> Iterator[finding.Finding]:
    rp_uuid = owned.provider.rp_uuid
    aggregate = pool_obj.make_aggregate_uuid(rp_uuid)
    lacks = [
        *({aggregate} - owned.provider.aggregates),
        *({host_provider.SHARING_TRAIT} - owned.provider.traits),
    ]
    if lacks:
        yield finding.make(
            cloud,
            Kind.POOL_UNTIED,
            rp_uuid,
            finding.ask(
                f'the pool lacks {" and ".join(lacks)}, so no server gets '
                'units of the pool: each host that reaches the pool adds the '
                'missing parts when it publishes; find the reason on one of '
                'these hosts'
            ),
        )
    elif not cloud.reached.get(rp_uuid, frozenset()) & cloud.roots:
        yield finding.make(
            cloud, Kind.POOL_UNREACHED, rp_uuid, _advise_unreached(rp_uuid)
        )


def _advise_unreached(rp_uuid: str) -> finding.AllocationVerdict:
    return finding.ask(
        'no host reads this pool any more; when no units of the pool are '
        'allocated, delete the pool: openstack resource provider delete '
        f'{rp_uuid}'
    )


def _list_of_tie(
    cloud: cloud_mod.AuditedCloud, tie: host_provider.Provider
) -> Iterator[finding.Finding]:
    key = cloud.name_provider(tie.rp_uuid)[1]
    pool = pool_obj.make_rp_uuid(key.removeprefix(_TIE))
    if pool not in cloud.listed:
        yield finding.make(
            cloud,
            Kind.POOL_GONE,
            tie.rp_uuid,
            finding.ask(
                f'placement has no provider {key}. A host that reads the pool '
                'makes the provider when it publishes. If this host no longer '
                'reaches the pool, it deletes this provider. Find the reason '
                'on these hosts'
            ),
        )
    elif pool_obj.make_aggregate_uuid(pool) not in tie.aggregates:
        yield finding.make(
            cloud,
            Kind.TIE_LOST,
            tie.rp_uuid,
            finding.ask(
                f'the provider lacks the aggregate of {key}, so no server of '
                'the host gets units of the pool: the host adds the aggregate '
                'when it publishes; find the reason on the host'
            ),
        )
