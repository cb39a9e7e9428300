# SPDX-License-Identifier: Apache-2.0

"""What migrations hold that have ended."""

from collections.abc import Iterator

from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import demands
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.reservation import nova_server

_Verdict = finding.AllocationVerdict

#: Of migrations after which a server has what it was to get.
_MOVED = ('completed', 'confirmed')


def list_findings(
    cloud: cloud_mod.AuditedCloud, move: cloud_mod.NovaMigration
) -> Iterator[finding.Finding]:
    """Return what is wrong with what a migration holds.

    Until it ends, it holds what its server had on the host that it leaves.
    """
    verdict = _judge(cloud, move)
    if verdict is not None:
        yield from finding.list_allocations(
            cloud,
            finding.FindingKind.MIGRATION_ENDED,
            move.uuid,
            verdict,
            server=move.server_uuid,
        )


def _judge(
    cloud: cloud_mod.AuditedCloud, move: cloud_mod.NovaMigration
) -> _Verdict | None:
    """Return what to do about what it holds; None: it holds it rightly."""
    server = cloud.servers.get(move.server_uuid)
    if server is None:
        if move.server_uuid in cloud.absent:
            return finding.REPAIR
        return finding.wait('Nova does not show the server of the migration')
    if cloud.find_phase(move) in finding.GOES_ON:
        return _judge_open(server, move)
    return (
        finding.find_left(cloud, move)
        or finding.find_task(cloud, server)
        or _find_doubt(cloud, server, move)
        or finding.REPAIR
    )


def _judge_open(
    server: nova_server.NovaServer, move: cloud_mod.NovaMigration
) -> _Verdict | None:
    """Return that Nova may not go on; a server would have a task then."""
    if server.task_state or server.status == 'VERIFY_RESIZE':
        return None
    return finding.wait(
        f'the migration is "{move.status}", and the server has no task'
    )


def _is_at_home(
    cloud: cloud_mod.AuditedCloud,
    server: nova_server.NovaServer,
    move: cloud_mod.NovaMigration,
) -> bool:
    """Return whether a migration that failed has units of the server's host.

    After a resize on one host, they may be those that the server uses.
    """
    home = cloud.find_home(server)
    return move.status not in _MOVED and any(
        cloud.find_root(rp_uuid) == home
        for rp_uuid in cloud.allocations[move.uuid]
    )


def _find_doubt(
    cloud: cloud_mod.AuditedCloud,
    server: nova_server.NovaServer,
    move: cloud_mod.NovaMigration,
) -> _Verdict | None:
    """Return why the server may need what its migration has."""
    if server.status == finding.ERROR:
        return finding.ask(
            'the server is in ERROR and may need this allocation: reboot the '
            f'server hard (openstack server reboot --hard {server.uuid}), and '
            'audit again'
        )
    if demands.has_own(cloud, server) and not _is_at_home(cloud, server, move):
        return None
    return finding.ask(
        f'the migration is "{move.status}", but may have allocations that '
        f'server {server.uuid} needs: compare both '
        f'({finding.show(move.uuid, server.uuid)}), and allocate the missing '
        'units to the server, see "nova-compute was killed" on the page of '
        'troubleshooting'
    )
