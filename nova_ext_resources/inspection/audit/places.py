# SPDX-License-Identifier: Apache-2.0

"""The providers of which a server may have what it lacks."""

from collections.abc import Collection

from nova_ext_resources import exception
from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import demands
from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.objects import requirement as requirement_obj
from nova_ext_resources.reservation import demand as demand_mod
from nova_ext_resources.reservation import nova_server

#: How keys of a flavor begin that choose a provider otherwise than by traits.
_OTHER_CHOICES = ('member_of', 'in_tree', 'same_subtree')


def find_place(
    cloud: cloud_mod.Cloud,
    server: nova_server.NovaServer,
    name: str,
    held: Collection[str],
) -> str:
    """Return the provider of whose units a server has a wrong amount.

    :param held: the providers of which it has some of the class
    :returns: its uuid, '' where it may be any of several, or none
    """
    places = [*held] or _list_places(cloud, server, name)
    return places[0] if len(places) == 1 else ''


def _list_places(
    cloud: cloud_mod.Cloud, server: nova_server.NovaServer, name: str
) -> list[str]:
    """Return the providers that have a class, and that a server may use."""
    demand = demands.find_demand(server)
    if demand is None or any(
        key.startswith(_OTHER_CHOICES) for key in server.extra_specs
    ):
        return []
    try:
        traits = demand_mod.read_traits(server.extra_specs)
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
                one, each, traits.get(each.suffix, demand_mod.Traits()), known
            )
            for each in groups
        )
    ]


def _may_serve(
    provider: provider_obj.Provider,
    group: requirement_obj.RequestGroup,
    traits: demand_mod.Traits,
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
