# SPDX-License-Identifier: Apache-2.0

"""Returns all that is wrong, and what is wrong a second time."""

from collections.abc import Iterable, Iterator
import dataclasses

from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.inspection.audit import moves
from nova_ext_resources.inspection.audit import pools
from nova_ext_resources.inspection.audit import providers
from nova_ext_resources.inspection.audit import servers
from nova_ext_resources.inspection.audit import strangers


def compare(cloud: cloud_mod.AuditedCloud) -> tuple[finding.Finding, ...]:
    """Return all that is wrong in one reading.

    Parts of it may be in progress: see :func:`confirm`.
    """
    found = [*_list_of_consumers(cloud), *_list_of_providers(cloud)]
    return tuple(sorted(found, key=lambda one: _order(cloud, one)))


def confirm(
    before: Iterable[finding.Finding], after: Iterable[finding.Finding]
) -> tuple[finding.Finding, ...]:
    """Return what is still wrong after all that is concerned was read again.

    :param after: of that second reading; what is new in it is passed over,
        because it was read once only
    """
    known = {one.subject: one for one in before}
    return tuple(
        _settle(known[one.subject], one)
        for one in after
        if one.subject in known
    )


def _settle(former: finding.Finding, one: finding.Finding) -> finding.Finding:
    if former.amount == one.amount or one.remedy is finding.Remedy.WAIT:
        return one
    changed = finding.wait('the amount has changed while it was read')
    return dataclasses.replace(one, remedy=changed.remedy, text=changed.text)


def _list_of_consumers(
    cloud: cloud_mod.AuditedCloud,
) -> Iterator[finding.Finding]:
    for server in cloud.servers.values():
        yield from servers.list_findings(cloud, server)
    for consumer in cloud.allocations:
        if consumer in cloud.moves:
            yield from moves.list_findings(cloud, cloud.moves[consumer])
        elif consumer not in cloud.servers:
            yield from strangers.list_findings(cloud, consumer)


def _list_of_providers(
    cloud: cloud_mod.AuditedCloud,
) -> Iterator[finding.Finding]:
    for owned in cloud.owned.values():
        yield from providers.list_findings(cloud, owned)
        yield from pools.list_findings(cloud, owned)


def _order(
    cloud: cloud_mod.AuditedCloud, one: finding.Finding
) -> tuple[str | int, ...]:
    """Sort by kind; a provider before its parent, as they are deleted."""
    kinds = [*finding.FindingKind]
    depth = cloud.find_depth(one.rp_uuid)
    place = one.provider, one.resource_class, one.consumer
    return kinds.index(one.kind), one.host, -depth, *place
