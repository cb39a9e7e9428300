# SPDX-License-Identifier: Apache-2.0

"""What servers hold elsewhere, and too much or too little of."""

from collections.abc import Iterator, Mapping

from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import demands
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.inspection.audit import missing
from nova_ext_resources.inspection.audit import places
from nova_ext_resources.reservation import nova_server

Kind = finding.Kind


def list_findings(
    cloud: cloud_mod.Cloud, server: nova_server.NovaServer
) -> Iterator[finding.Finding]:
    """Return what is wrong with what a server holds."""
    yield from _list_elsewhere(cloud, server)
    for name, more, amounts in demands.list_differences(cloud, server):
        yield _make_difference(cloud, server, name, more, amounts)


def _list_elsewhere(
    cloud: cloud_mod.Cloud, server: nova_server.NovaServer
) -> Iterator[finding.Finding]:
    home = cloud.find_home(server)
    if server.host and not home:
        # Nova does not have the host: its providers are reported.
        return
    for rp_uuid, resources in cloud.held.get(server.uuid, {}).items():
        owned = cloud.owned.get(rp_uuid)
        if owned is None or cloud.is_at(home, rp_uuid):
            continue
        kind = (
            Kind.POOL_NOT_REACHED if owned.is_pool else Kind.SERVER_ELSEWHERE
        )
        for name, amount in sorted(resources.items()):
            yield finding.make(
                cloud,
                kind,
                rp_uuid,
                _judge_elsewhere(cloud, server),
                resource_class=name,
                consumer=server.uuid,
                server=server.uuid,
                amount=amount,
            )


def _judge_elsewhere(
    cloud: cloud_mod.Cloud, server: nova_server.NovaServer
) -> finding.Verdict:
    task = finding.find_task(cloud, server)
    if task is not None:
        return task
    if server.status == finding.ERROR:
        return finding.ask(
            'the server is in ERROR and may need it: mend or delete the '
            'server, and audit again'
        )
    if demands.has_own(cloud, server):
        return finding.REPAIR
    where = f'on {server.host}' if server.host else 'on no host'
    return finding.ask(
        f'Nova has the server {where}, where it does not have just what it '
        f'requests ({finding.show(server.uuid)}): find out where its guest '
        'is, and see "nova-compute was killed" on the page of troubleshooting'
    )


def _make_difference(
    cloud: cloud_mod.Cloud,
    server: nova_server.NovaServer,
    name: str,
    more: int,
    amounts: Mapping[str, int],
) -> finding.Finding:
    """Report another amount than requested; none is taken from a server."""
    kind = Kind.TOO_MUCH if more > 0 else Kind.NOT_ALLOCATED
    place = places.find_place(cloud, server, name, amounts)
    verdict = finding.find_task(cloud, server) or missing.judge(
        cloud, server, name, place if kind is Kind.NOT_ALLOCATED else ''
    )
    host, provider = cloud.name_provider(place) if place else ('', '')
    return finding.Finding(
        kind=kind,
        remedy=verdict.remedy,
        text=verdict.text,
        host=host or server.host,
        provider=provider,
        rp_uuid=place,
        resource_class=name,
        consumer=server.uuid,
        server=server.uuid,
        amount=abs(more),
    )
