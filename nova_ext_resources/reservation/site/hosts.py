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

from collections.abc import Iterable, Mapping, Sequence, Set
from concurrent import futures
import dataclasses
from typing import TypeAlias

from nova_ext_resources.claims import base
from nova_ext_resources.claims.trackers import count
from nova_ext_resources import exception
from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.placement import client as placement_client
from nova_ext_resources.placement import retry
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation import publication as publication_mod
from nova_ext_resources.reservation import published as published_mod

#: Nova gives it to the provider of a compute service that is disabled.
DISABLED_TRAIT = 'COMPUTE_STATUS_DISABLED'

#: Requests at the same time; below the ten connections that a session of
#: requests keeps alive.
WORKERS = 8

Taken: TypeAlias = published_mod.Taken

#: uuid of an aggregate -> the availability zone that it is.
Zones: TypeAlias = Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A provider, and who uses it.

    :ivar held: resource class -> consumer -> amount
    :ivar used: resource class -> amount, without what is of a slot
    """

    provider: provider_obj.Provider
    held: Mapping[str, Mapping[str, int]]
    used: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What hosts have published, and what reads it.

    :ivar trackers: all that are installed, by name
    """

    publications: publication_mod.Publications
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
) -> list[host_mod.Host]:
    """Return all hosts that are enabled and up, by name.

    :param default_zone: of hosts that are in no zone
    :param taken: of slots that are not over yet
    :param down: names of hosts whose compute does not report
    :raises PlacementError: placement cannot be read
    """
    taken = taken or {}
    listed = retry.call(client.list_providers)
    with futures.ThreadPoolExecutor(max_workers=WORKERS) as pool:
        found = pool.map(lambda one: _read(client, one, taken), listed)
    providers = [one for one in found if one is not None]
    sharing = [one for one in providers if _is_sharing(one)]
    trees = _group(one for one in providers if not _is_sharing(one))
    hosts = [
        _make_host(
            [*tree, *_find_shared(tree, sharing)],
            zones,
            default_zone,
            taken,
            published,
        )
        for tree in trees
        if DISABLED_TRAIT not in tree[0].provider.traits
        and tree[0].provider.name not in down
    ]
    return sorted(hosts, key=lambda one: one.name)


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
            client.list_providers, required=provider_obj.SHARING_TRAIT
        )
    }
    return {
        one.name: one.rp_uuid not in disabled
        for one in retry.call(client.list_providers)
        if not one.parent_uuid and one.rp_uuid not in sharing
    }


def read_uses(
    client: placement_client.Client, rp_uuids: Iterable[str]
) -> dict[view_obj.Place, lending.Use]:
    """Return what there is of providers, and who holds it.

    Those that are gone are left out.

    :raises PlacementError: placement cannot be read
    """
    found: dict[view_obj.Place, lending.Use] = {}
    for rp_uuid in rp_uuids:
        try:
            provider = retry.call(client.get_provider, rp_uuid)
            held = retry.call(client.list_holders, rp_uuid)
        except exception.NotFound:
            continue
        for name, inventory in provider.inventories.items():
            found[rp_uuid, name] = lending.Use(
                capacity=inventory.capacity,
                is_shared=provider_obj.SHARING_TRAIT in provider.traits,
                holders=held.get(name, {}),
            )
    return found


def _read(
    client: placement_client.Client,
    listed: provider_obj.Provider,
    taken: Taken,
) -> _Found | None:
    """Return a provider, None if it has gone meanwhile."""
    try:
        provider = retry.call(client.read_provider, listed)
        held = retry.call(client.list_holders, listed.rp_uuid)
    except exception.NotFound:
        return None
    used = {
        name: sum(
            _count_beyond(taken.get(consumer, {}), (listed.rp_uuid, name), own)
            for consumer, own in one.items()
        )
        for name, one in held.items()
    }
    return _Found(provider=provider, held=held, used=used)


def _count_beyond(
    slot: Mapping[view_obj.Place, int], place: view_obj.Place, amount: int
) -> int:
    """Return what a server holds beyond its slot."""
    return max(amount - slot.get(place, 0), 0)


def _is_sharing(one: _Found) -> bool:
    return provider_obj.SHARING_TRAIT in one.provider.traits


def _group(providers: Iterable[_Found]) -> list[list[_Found]]:
    """Return the trees, each with its root first."""
    by_uuid = {one.provider.rp_uuid: one for one in providers}

    def find_root(one: _Found) -> str:
        while one.provider.parent_uuid in by_uuid:
            one = by_uuid[one.provider.parent_uuid]
        return one.provider.rp_uuid

    trees: dict[str, list[_Found]] = {}
    for one in by_uuid.values():
        trees.setdefault(find_root(one), []).append(one)
    for tree in trees.values():
        tree.sort(key=lambda one: one.provider.rp_uuid not in trees)
    # A child whose parent was deleted while all were read is no host.
    return [one for one in trees.values() if not one[0].provider.parent_uuid]


def _find_shared(
    tree: Sequence[_Found], sharing: Iterable[_Found]
) -> list[_Found]:
    joined = frozenset[str]().union(*(one.provider.aggregates for one in tree))
    return [one for one in sharing if one.provider.aggregates & joined]


def _make_host(
    found: Sequence[_Found],
    zones: Zones,
    default_zone: str,
    taken: Taken,
    published: Published,
) -> host_mod.Host:
    """Make a host of its providers, the root of its tree first."""
    root = found[0].provider
    named = sorted(zones[one] for one in root.aggregates if one in zones)
    counted = host_mod.make_host(
        root.name,
        [one.provider for one in found],
        _count(found),
        zone=named[0] if named else default_zone,
    )
    known = published.publications.get(root.name)
    if known is None:
        return counted
    uses = {
        (one.provider.rp_uuid, name): held
        for one in found
        for name, held in one.held.items()
    }
    return published_mod.apply(counted, known, uses, taken, published.trackers)


def _count(found: Iterable[_Found]) -> view_obj.HostView:
    """Return the view of a host of which amounts are known."""
    return view_obj.HostView(
        tracked={
            (one.provider.rp_uuid, name): view_obj.Tracked(
                tracker='count',
                state=count.CountState(
                    inventory.capacity, one.used.get(name, 0)
                ),
                inventory=inventory,
            )
            for one in found
            for name, inventory in one.provider.inventories.items()
        },
        keys={one.provider.rp_uuid: one.provider.name for one in found},
    )
