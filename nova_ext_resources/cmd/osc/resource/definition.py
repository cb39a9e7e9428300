# SPDX-License-Identifier: Apache-2.0

"""``openstack extended resource definition list, show``."""

import argparse
from collections.abc import Iterable, Iterator
import dataclasses
from typing import Any

from osc_lib.cli import format_columns
from osc_lib.command import command
from osc_lib import exceptions

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources import exception
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement import cloud_snapshot

_COLUMNS = (
    'Resource Class',
    'Hosts',
    'Providers',
    'Capacity',
    'Used',
    'Free',
    'Largest Free',
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """What one provider has of a resource class.

    :ivar hosts: that offer it, one unless it is a sharing provider
    """

    hosts: tuple[str, ...]
    key: str
    provider: host_tree.TreeProvider
    amount: host_tree.Amount


class ListDefinitions(cloud.CloudCommand, command.Lister):
    """List the resource classes that this package publishes in the cloud."""

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        with cloud.asking():
            hosts = cloud_snapshot.list_hosts(self.placement)
            pools = cloud_snapshot.list_pools(self.placement)
        found: dict[str, list[_Offer]] = {}
        for name, offer in _list_offers(hosts, pools):
            found.setdefault(name, []).append(offer)
        return _COLUMNS, [
            (
                name,
                len({host for one in offers for host in one.hosts}),
                len(offers),
                sum(one.amount.capacity for one in offers),
                sum(one.amount.used for one in offers),
                sum(one.amount.free for one in offers),
                max(one.amount.free for one in offers),
            )
            for name, offers in sorted(found.items())
        ]


class ShowDefinition(cloud.CloudCommand, command.ShowOne):
    """Show which providers have a resource class, and who requests it."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            'resource_class',
            metavar='<resource-class>',
            help='name of the resource class, such as CUSTOM_LLC_WAYS',
        )

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        name: str = parsed_args.resource_class
        with cloud.asking():
            hosts = cloud_snapshot.list_hosts(self.placement)
            hosts = cloud_snapshot.add_inventories(
                self.placement,
                hosts,
                lambda one: one.is_ours and name in one.amounts,
            )
            pools = cloud_snapshot.list_pools(self.placement)
        offers = [
            offer for one, offer in _list_offers(hosts, pools) if one == name
        ]
        if not offers:
            raise exceptions.CommandError(
                f'No host and no pool has {name} from this package; '
                '"openstack extended resource definition list" lists the '
                'available classes.'
            )
        data = {
            'resource_class': name,
            'capacity': sum(one.amount.capacity for one in offers),
            'used': sum(one.amount.used for one in offers),
            'free': sum(one.amount.free for one in offers),
            'flavors': format_columns.ListColumn(self._list_flavors(name)),
            'providers': format_columns.ListDictColumn(
                [_describe(one) for one in offers]
            ),
        }
        return tuple(data), tuple(data.values())

    def _list_flavors(self, resource_class: str) -> list[str]:
        """Return the flavors that request it, as far as the user sees them."""
        try:
            return self.nova.list_requesting(resource_class)
        except exception.ComputeUnavailable as err:
            self.log.warning('Flavors are not known: %s', err)
            return []


def _list_offers(
    hosts: Iterable[host_tree.HostTree],
    pools: Iterable[tuple[host_tree.TreeProvider, tuple[str, ...]]],
) -> Iterator[tuple[str, _Offer]]:
    """Yield resource class and offer of each provider of ours."""
    places: list[tuple[tuple[str, ...], str, host_tree.TreeProvider]] = [
        ((host.name,), host.make_key(one), one)
        for host in hosts
        for one in host.providers
        if host_provider.SHARING_TRAIT not in one.traits
    ]
    places += [(reaching, pool.name, pool) for pool, reaching in pools]
    for names, key, one in places:
        if one.is_ours:
            for name, amount in one.amounts.items():
                yield (
                    name,
                    _Offer(hosts=names, key=key, provider=one, amount=amount),
                )


def _describe(one: _Offer) -> dict[str, Any]:
    inventory = one.amount.inventory
    return {
        'hosts': [*one.hosts],
        'provider': one.key,
        **(inventory.to_dict() if inventory else {}),
        'used': one.amount.used,
        'free': one.amount.free,
        'traits': sorted(one.provider.traits - {host_provider.OWNER_TRAIT}),
    }
