# SPDX-License-Identifier: Apache-2.0

"""What servers hold elsewhere, and too much or too little of.

Also of which providers a server may have what it lacks.
"""

from collections.abc import Collection, Iterator, Mapping

from nova_ext_resources import exception
from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import demands
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import requirements
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation import server_demand

#: How keys of a flavor begin that choose a provider otherwise than by traits.
_OTHER_CHOICES = ('member_of', 'in_tree', 'same_subtree')


def find_place(
    cloud: cloud_mod.AuditedCloud,
    server: nova_server.NovaServer,
    name: str,
    allocated: Collection[str],
) -> str:
    """Return the provider of whose units a server has a wrong amount.

    :param allocated: the providers of which it has some of the class
    :returns: its uuid, '' where it may be any of several, or none
    """
    places = [*allocated] or _list_places(cloud, server, name)
    return places[0] if len(places) == 1 else ''


def _list_places(
    cloud: cloud_mod.AuditedCloud, server: nova_server.NovaServer, name: str
) -> list[str]:
    """Return the providers that have a class, and that a server may use."""
    demand = demands.find_demand(server)
    if demand is None or any(
        key.startswith(_OTHER_CHOICES) for key in server.extra_specs
    ):
        return []
    try:
        traits = server_demand.read_traits(server.extra_specs)
    except exception.InvalidExtraSpec:
        return []
    home = cloud.find_home(server)
    here = {
        rp_uuid: one.provider
        for rp_uuid, one in cloud.owned.items()
        if cloud.is_at(home, rp_uuid)
    }
    known = frozenset().union(*(one.traits for one in here.values()))
    groups = [one for one in demand.groups if name in one.resources]
    return [
        rp_uuid
        for rp_uuid, one in here.items()
        if name in one.inventories
        and all(
            _may_serve(
                one,
                each,
                traits.get(each.suffix, server_demand.Traits()),
                known,
            )
            for each in groups
        )
    ]


def _may_serve(
    provider: host_provider.Provider,
    group: requirements.RequestGroup,
    traits: server_demand.Traits,
    known: frozenset[str],
) -> bool:
    """Return whether placement could take a group from a provider.

    The group without a suffix may be of several: a trait that none of this
    package has is of the compute node.

    :param known: the traits of those of this package
    """
    required = traits.required
    if group.suffix:
        is_whole = group.resources.keys() <= provider.inventories.keys()
    else:
        is_whole, required = True, required & known
    return (
        is_whole
        and required <= provider.traits
        and not traits.forbidden & provider.traits
    )


#: Statuses from which Nova moves a server to another host.
_MOVABLE = ('ACTIVE', 'SHUTOFF')


def judge(
    cloud: cloud_mod.AuditedCloud,
    server: nova_server.NovaServer,
    name: str,
    place: str,
) -> finding.AllocationVerdict:
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
    cloud: cloud_mod.AuditedCloud, server: nova_server.NovaServer
) -> bool:
    """Return whether Nova's own resources show a server where Nova has it.

    And nothing is allocated to it elsewhere: the guest may be there. Which
    providers of others it has some of is known once that was read for itself.
    """
    home = cloud.find_home(server)
    allocated = cloud.allocations.get(server.uuid, {})
    is_settled = server.status not in (finding.ERROR, nova_server.OFFLOADED)
    return (
        is_settled
        and home in allocated
        and all(cloud.is_at(home, rp_uuid) for rp_uuid in allocated)
    )


def _advise(
    server: nova_server.NovaServer, keeper: str
) -> finding.AllocationVerdict:
    if keeper:
        return finding.ask(
            f'migration {keeper} of the server has allocations: if the server '
            f'lacks them ({finding.show(keeper, server.uuid)}), allocate them '
            'to the server, see "nova-compute was killed" on the page of '
            'troubleshooting'
        )
    if server.status not in _MOVABLE:
        return finding.ask(
            f'the server is in {server.status}: start or stop it first, and '
            'audit again'
        )
    return finding.ask(
        'let Nova allocate the resources of the flavor again: openstack '
        f'server migrate --wait {server.uuid}; openstack server migration '
        f'confirm {server.uuid}. Or shelve, offload and unshelve it, which '
        'loses ephemeral and swap disks'
    )


def _find_keeper(
    cloud: cloud_mod.AuditedCloud, server: nova_server.NovaServer, name: str
) -> str:
    """Return a migration that has units of a class; '' where none has."""
    return next(
        (
            move.uuid
            for move in cloud.moves_of.get(server.uuid, ())
            for resources in cloud.allocations.get(move.uuid, {}).values()
            if name in resources
        ),
        '',
    )


Kind = finding.FindingKind


def list_findings(
    cloud: cloud_mod.AuditedCloud, server: nova_server.NovaServer
) -> Iterator[finding.Finding]:
    """Return what is wrong with what a server holds."""
    yield from _list_elsewhere(cloud, server)
    for name, more, amounts in demands.list_differences(cloud, server):
        yield _make_difference(cloud, server, name, more, amounts)


def _list_elsewhere(
    cloud: cloud_mod.AuditedCloud, server: nova_server.NovaServer
) -> Iterator[finding.Finding]:
    home = cloud.find_home(server)
    if server.host and not home:
        # Nova does not have the host: its providers are reported.
        return
    for rp_uuid, resources in cloud.allocations.get(server.uuid, {}).items():
        owned = cloud.owned.get(rp_uuid)
        if owned is None or cloud.is_at(home, rp_uuid):
            continue
        kind = (
            Kind.POOL_NOT_REACHED
            if owned.is_pool
            else Kind.ALLOCATION_HERE_SERVER_ELSEWHERE
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
    cloud: cloud_mod.AuditedCloud, server: nova_server.NovaServer
) -> finding.AllocationVerdict:
    task = finding.find_task(cloud, server)
    if task is not None:
        return task
    if server.status == finding.ERROR:
        return finding.ask(
            'the server is in ERROR and may need this allocation: repair or '
            'delete the server, and audit again'
        )
    if demands.has_own(cloud, server):
        return finding.REPAIR
    where = f'on {server.host}' if server.host else 'on no host'
    return finding.ask(
        f'Nova has the server {where}, but its allocations there differ from '
        f'its request ({finding.show(server.uuid)}): find out where its guest '
        'is, and see "nova-compute was killed" on the page of troubleshooting'
    )


def _make_difference(
    cloud: cloud_mod.AuditedCloud,
    server: nova_server.NovaServer,
    name: str,
    more: int,
    amounts: Mapping[str, int],
) -> finding.Finding:
    """Report another amount than requested; none is taken from a server."""
    kind = Kind.TOO_MUCH if more > 0 else Kind.NOT_ALLOCATED
    place = find_place(cloud, server, name, amounts)
    verdict = finding.find_task(cloud, server) or judge(
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
