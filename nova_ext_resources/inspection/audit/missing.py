# SPDX-License-Identifier: Apache-2.0

"""What to do about servers that lack something, or have too much."""

from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import demands
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.reservation import nova_server

#: Statuses from which Nova moves a server to another host.
_MOVABLE = ('ACTIVE', 'SHUTOFF')


def judge(
    cloud: cloud_mod.Cloud,
    server: nova_server.NovaServer,
    name: str,
    place: str,
) -> finding.Verdict:
    """Return what to do about a class of which a server has another amount.

    :param place: where to allocate what it lacks; '' where that is not known,
        or where it lacks nothing
    """
    keeper = _find_keeper(cloud, server, name)
    if (
        place in cloud.owned
        and not keeper
        and _is_in_one_group(server, name)
        and _is_at_home(cloud, server)
    ):
        return finding.ALLOCATE
    return _advise(server, keeper)


def _is_in_one_group(server: nova_server.NovaServer, name: str) -> bool:
    """Return whether all that a server has of a class is of one provider."""
    demand = demands.find_demand(server)
    return demand is not None and demand.is_in_one_group(name)


def _is_at_home(
    cloud: cloud_mod.Cloud, server: nova_server.NovaServer
) -> bool:
    """Return whether Nova's own resources show a server where Nova has it.

    And nothing is allocated to it elsewhere: the guest may be there. Which
    providers of others it has some of is known once that was read for itself.
    """
    home = cloud.find_home(server)
    held = cloud.held.get(server.uuid, {})
    is_settled = server.status not in (finding.ERROR, nova_server.OFFLOADED)
    return (
        is_settled
        and home in held
        and all(cloud.is_at(home, rp_uuid) for rp_uuid in held)
    )


def _advise(server: nova_server.NovaServer, keeper: str) -> finding.Verdict:
    if keeper:
        return finding.ask(
            f'migration {keeper} of the server has some: if it is what the '
            f'server lacks ({finding.show(keeper, server.uuid)}), allocate '
            'it to the server, see "nova-compute was killed" on the page of '
            'troubleshooting'
        )
    if server.status not in _MOVABLE:
        return finding.ask(
            f'the server is in {server.status}: have it run or stop first, '
            'and audit again'
        )
    return finding.ask(
        'have Nova allocate anew what the flavor requests: openstack server '
        f'migrate --wait {server.uuid}; openstack server migration confirm '
        f'{server.uuid}. Or shelve, offload and unshelve it, which loses '
        'ephemeral and swap disks'
    )


def _find_keeper(
    cloud: cloud_mod.Cloud, server: nova_server.NovaServer, name: str
) -> str:
    """Return a migration that has units of a class; '' where none has."""
    return next(
        (
            move.uuid
            for move in cloud.moves_of.get(server.uuid, ())
            for resources in cloud.held.get(move.uuid, {}).values()
            if name in resources
        ),
        '',
    )
