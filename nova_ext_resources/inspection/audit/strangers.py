# SPDX-License-Identifier: Apache-2.0

"""Consumers that Nova knows nothing of."""

from collections.abc import Iterator

from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.placement.api import responses

#: Types of Nova's consumers; it gives them none.
_OF_NOVA = frozenset(
    {responses.UNKNOWN_CONSUMER_TYPE, 'INSTANCE', 'MIGRATION'}
)


def list_findings(
    cloud: cloud_mod.AuditedCloud, consumer: str
) -> Iterator[finding.Finding]:
    """Return what a consumer holds that is neither server nor migration.

    But for what holds room for reserved servers to come.
    """
    fresh = cloud.fresh.get(consumer)
    kind = fresh.consumer_type if fresh else responses.UNKNOWN_CONSUMER_TYPE
    if kind == planned_hold.CONSUMER_TYPE:
        return
    yield from finding.list_allocations(
        cloud,
        finding.FindingKind.NO_CONSUMER,
        consumer,
        _judge(cloud, consumer, kind),
    )


def _judge(
    cloud: cloud_mod.AuditedCloud, consumer: str, kind: str
) -> finding.AllocationVerdict:
    if kind not in _OF_NOVA:
        return finding.ask(
            f'other software has this allocation (consumer type {kind}): ask '
            'the operator of that software'
        )
    if consumer not in cloud.absent:
        return finding.wait('Nova may be creating this consumer')
    if not all(map(cloud.is_known, cloud.allocations[consumer])):
        return finding.ask(
            'this consumer has resources of a host that this Nova does not '
            'have, and may be a server of another Nova. If not, delete its '
            'allocations: openstack resource provider allocation delete '
            f'{consumer}'
        )
    return _find_mover(cloud, consumer) or finding.REPAIR


def _find_mover(
    cloud: cloud_mod.AuditedCloud, consumer: str
) -> finding.AllocationVerdict | None:
    """Return that it may be a migration that Nova did not list.

    Nova leaves out those of a cell that does not answer in time. What a
    migration holds is of the project of its server.
    """
    fresh = cloud.fresh.get(consumer)
    for server in cloud.servers.values():
        if fresh is None or server.project != fresh.project_id:
            continue
        task = finding.find_task(cloud, server)
        if task or server.status == finding.ERROR:
            is_left = task and task.remedy is finding.Remedy.OPERATOR
            return (finding.ask if is_left else finding.wait)(
                f'this consumer may be a migration of server {server.uuid}, '
                f'which is in the same project and in status {server.status}'
            )
    return None
