# SPDX-License-Identifier: Apache-2.0

"""Consumers that Nova knows nothing of."""

from collections.abc import Iterator

from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.objects import hold
from nova_ext_resources.placement import responses

#: Types of Nova's consumers; it gives them none.
_OF_NOVA = frozenset(
    {responses.UNKNOWN_CONSUMER_TYPE, 'INSTANCE', 'MIGRATION'}
)


def list_findings(
    cloud: cloud_mod.Cloud, consumer: str
) -> Iterator[finding.Finding]:
    """Return what a consumer holds that is neither server nor migration.

    But for what holds room for reserved servers to come.
    """
    fresh = cloud.fresh.get(consumer)
    kind = fresh.consumer_type if fresh else responses.UNKNOWN_CONSUMER_TYPE
    if kind == hold.CONSUMER_TYPE:
        return
    verdict = _judge(cloud, consumer, kind)
    for rp_uuid, resources in cloud.held[consumer].items():
        if rp_uuid not in cloud.owned:
            continue
        for name, amount in sorted(resources.items()):
            yield finding.make(
                cloud,
                finding.Kind.NO_CONSUMER,
                rp_uuid,
                verdict,
                resource_class=name,
                consumer=consumer,
                amount=amount,
            )


def _judge(
    cloud: cloud_mod.Cloud, consumer: str, kind: str
) -> finding.Verdict:
    if kind not in _OF_NOVA:
        return finding.ask(
            f'other software has it, as a consumer of type {kind}: ask its '
            'operator'
        )
    if consumer not in cloud.absent:
        return finding.wait('Nova may be creating it')
    return finding.REPAIR
