# SPDX-License-Identifier: Apache-2.0

"""The hosts of a cloud, as placement has them.

A host is a tree of providers with the sharing providers that belong to it by
an aggregate. Of each class it offers the capacity of the inventory (ratio and
reserve counted in, as placement does) less what consumers hold now, which they
are taken to hold for good. What a server holds of the slot that it has taken
is left out: that is promised, and counted as such. Placement knows amounts
only. Which units they are, such as the ways of a cache that are free side by
side, is taken from what the host has published; see :mod:`..published`.
"""

from collections.abc import Iterable, Mapping, Set
import dataclasses
import functools
from typing import TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import retry
from nova_ext_resources.placement import cloud_snapshot
from nova_ext_resources.reservation import host
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation import published as published_mod

#: Nova gives it to the provider of a compute service that is disabled.
DISABLED_TRAIT = 'COMPUTE_STATUS_DISABLED'

Taken: TypeAlias = published_mod.Taken

#: uuid of an aggregate -> the availability zone that it is.
Zones: TypeAlias = Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What hosts have published, and what reads it.

    :ivar trackers: all that are installed, by name
    """

    publications: publication.Publications
    trackers: Mapping[str, base.Tracker]


#: Nothing is known but amounts.
NOTHING = Published(publications={}, trackers={})


def list_hosts(
    client: placement_client.Client,
    zones: Zones,
    default_zone: str = '',
    taken: Taken | None = None,
    down: Set[str] = frozenset(),
    published: Published = NOTHING,
) -> list[host.Host]:
    """Return all hosts that are enabled and up, by name.

    :param default_zone: of hosts that are in no zone
    :param taken: of slots that are not over yet
    :param down: names of hosts whose compute does not report
    :raises PlacementError: placement cannot be read
    """
    taken = taken or {}
    trees = cloud_snapshot.list_hosts(client, None)
    slots = {place[0] for slot in taken.values() for place in slot}
    held = cloud_snapshot.list_holders(
        client,
        {
            one.rp_uuid
            for tree in trees
            for one in tree.offering
            if any(amount.used for amount in one.amounts.values())
            and (one.rp_uuid in slots or tree.name in published.publications)
        },
    )
    uses = {
        (rp_uuid, name): holders
        for rp_uuid, own in held.items()
        for name, holders in own.items()
    }
    read_inventories = functools.partial(
        cloud_snapshot.read_each, client.list_inventories
    )
    named = _list_zones(client, zones)
    hosts = [
        _make_host(
            tree,
            min(named.get(tree.root.rp_uuid, [default_zone])),
            uses,
            taken,
            published,
            read_inventories,
        )
        for tree in trees
        if DISABLED_TRAIT not in tree.root.traits and tree.name not in down
    ]
    return sorted(hosts, key=lambda one: one.name)


def _list_zones(
    client: placement_client.Client, zones: Zones
) -> dict[str, list[str]]:
    """Return uuid of a provider -> the zones that it is in."""
    members = cloud_snapshot.run_all(
        lambda one: retry.call(client.list_providers, member_of=one), [*zones]
    )
    found: dict[str, list[str]] = {}
    for zone, listed in zip(zones.values(), members, strict=True):
        for one in listed:
            found.setdefault(one.rp_uuid, []).append(zone)
    return found


def list_enabled(client: placement_client.Client) -> dict[str, bool]:
    """Return name of each host -> whether its compute is enabled.

    By three requests, whatever the number of hosts is. Sharing providers are
    no hosts.

    :raises PlacementError: placement cannot be read
    """
    disabled = {
        one.rp_uuid
        for one in retry.call(client.list_providers, required=DISABLED_TRAIT)
    }
    sharing = {
        one.rp_uuid
        for one in retry.call(
            client.list_providers, required=host_provider.SHARING_TRAIT
        )
    }
    return {
        one.name: one.rp_uuid not in disabled
        for one in retry.call(client.list_providers)
        if not one.parent_uuid and one.rp_uuid not in sharing
    }


def read_uses(
    client: placement_client.Client, rp_uuids: Iterable[str]
) -> dict[host_view.Place, lending.Use]:
    """Return what there is of providers, and who holds it.

    Those that are gone are left out.

    :raises PlacementError: placement cannot be read
    """
    providers = cloud_snapshot.read_each(client.get_provider, [*rp_uuids])
    held = cloud_snapshot.read_each(client.list_holders, [*providers])
    return {
        (rp_uuid, name): lending.Use(
            capacity=inventory.capacity,
            is_shared=host_provider.SHARING_TRAIT in providers[rp_uuid].traits,
            holders=holders.get(name, {}),
        )
        for rp_uuid, holders in held.items()
        for name, inventory in providers[rp_uuid].inventories.items()
    }


def _count_beyond(
    slot: Mapping[host_view.Place, int], place: host_view.Place, amount: int
) -> int:
    """Return what a server holds beyond its slot."""
    return max(amount - slot.get(place, 0), 0)


def _make_host(
    tree: host_tree.HostTree,
    zone: str,
    uses: published_mod.Uses,
    taken: Taken,
    published: Published,
    read_inventories: host.InventoryReader,
) -> host.Host:
    """Make a host of its tree.

    :param uses: of the places where it matters who holds what
    """
    tracked = {}
    for one in tree.offering:
        for name, amount in one.amounts.items():
            place, used = (one.rp_uuid, name), amount.used
            if place in uses:
                used = sum(
                    _count_beyond(taken.get(consumer, {}), place, own)
                    for consumer, own in uses[place].items()
                )
            tracked[place] = host_view.Tracked(
                tracker='count',
                state=count.CountState(amount.capacity, used),
                inventory=amount.inventory,
            )
    counted = host.Host(
        name=tree.name,
        providers=tuple(
            host_provider.Provider(
                rp_uuid=one.rp_uuid, name=one.name, traits=one.traits
            )
            for one in tree.offering
        ),
        view=host_view.HostView(
            tracked=tracked,
            keys={one.rp_uuid: one.name for one in tree.offering},
        ),
        zone=zone,
        read_inventories=read_inventories,
    )
    known = published.publications.get(tree.name)
    if known is None:
        return counted
    return published_mod.apply(counted, known, uses, taken, published.trackers)
