# SPDX-License-Identifier: Apache-2.0

"""``openstack extended resource host list, show``."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from osc_lib.cli import format_columns
from osc_lib.command import command

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources.cmd.osc.render import host_text
from nova_ext_resources.inspection import names as names_mod
from nova_ext_resources.inspection import rows as rows_mod
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.placement import cloud_snapshot
from nova_ext_resources import plugins

_COLUMNS = (
    'Host',
    'Provider',
    'Resource Class',
    'Total',
    'Reserved',
    'Used',
    'Free',
)
_SUMMARY = ('Host', 'Resource Class', 'Capacity', 'Used', 'Free')

_Table: TypeAlias = tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]


class ListHosts(cloud.CloudCommand, command.Lister):
    """List hosts with their extended resources, and how much is free."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            '--summary',
            action='store_true',
            help='show a row for each resource class of a host, with the '
            'capacity instead of total and reserved; sends a few requests in '
            'all, instead of a request for each provider',
        )
        parser.add_argument(
            '--all',
            action='store_true',
            help='also show resources that this package does not publish, '
            'such as VCPU',
        )
        cloud.add_units(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> _Table:
        columns, rows = self._list_rows(parsed_args)
        published = cloud.read_published(parsed_args)
        if published is None:
            return columns, rows
        refused = {name: one.refused for name, one in published.items()}
        place = columns.index('Resource Class')
        return (*columns, 'Takes None Now'), (
            (*row, refused.get(row[0], {}).get(row[place], '')) for row in rows
        )

    def _list_rows(self, parsed_args: argparse.Namespace) -> _Table:
        is_all = parsed_args.all

        def is_shown(one: host_tree.TreeProvider) -> bool:
            return is_all or one.is_ours

        with cloud.asking():
            hosts = cloud_snapshot.list_hosts(self.placement)
            if parsed_args.summary:
                return _SUMMARY, _sum_up(hosts, is_shown)
            hosts = cloud_snapshot.add_inventories(
                self.placement, hosts, is_shown
            )
        return _COLUMNS, (
            row
            for host in hosts
            for one in host.providers
            if is_shown(one)
            for row in _list_amounts(host, one)
        )


def _list_amounts(
    host: host_tree.HostTree, one: host_tree.TreeProvider
) -> Iterator[tuple[Any, ...]]:
    for name, amount in sorted(one.amounts.items()):
        inventory = amount.inventory
        yield (
            host.name,
            host.make_key(one),
            name,
            inventory.total if inventory else None,
            inventory.reserved if inventory else None,
            amount.used,
            amount.free,
        )


def _sum_up(
    hosts: Iterable[host_tree.HostTree],
    is_shown: Any,
) -> Iterator[tuple[Any, ...]]:
    for host in hosts:
        found: dict[str, list[host_tree.Amount]] = {}
        for one in filter(is_shown, host.providers):
            for name, amount in one.amounts.items():
                found.setdefault(name, []).append(amount)
        for name, amounts in sorted(found.items()):
            yield (
                host.name,
                name,
                sum(one.capacity for one in amounts),
                sum(one.used for one in amounts),
                sum(one.free for one in amounts),
            )


class ShowHost(cloud.DrawnCommand):
    """Show the resources of a host, and the servers that hold them."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            'host',
            metavar='<host>',
            help='name of the host, as "openstack hypervisor list" shows it',
        )
        cloud.add_units(parser)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Any]]:
        published = cloud.read_published(parsed_args) or {}
        with cloud.asking():
            tree = cloud_snapshot.get_host(self.placement, parsed_args.host)
        self._tree = tree
        self._rows = tuple(
            rows_mod.list_rows(
                tree, published.get(tree.name), plugins.load_trackers()
            )
        )
        consumers = {
            part.consumer for row in self._rows for part in row.parts
        } - {''}
        self._names = self.read_names(consumers, tree.name)
        return ('host', 'providers'), (
            tree.name,
            format_columns.ListDictColumn(
                [*_list_providers(tree, self._rows, self._names)]
            ),
        )

    def draw(self, data: Mapping[str, Any]) -> Iterator[str]:
        return host_text.draw(self._tree, self._rows, self._names)


def _list_providers(
    tree: host_tree.HostTree,
    rows: Sequence[rows_mod.ResourceRow],
    names: names_mod.Names,
) -> Iterator[dict[str, Any]]:
    for one in tree.providers:
        yield {
            'uuid': one.rp_uuid,
            'name': one.name,
            'parent_uuid': one.parent_uuid,
            'traits': sorted(one.traits),
            'resources': [
                _make_resource(row, names)
                for row in rows
                if row.rp_uuid == one.rp_uuid
            ],
        }


def _make_resource(
    row: rows_mod.ResourceRow, names: names_mod.Names
) -> dict[str, Any]:
    inventory = row.amount.inventory
    return {
        'resource_class': row.resource_class,
        **(inventory.to_dict() if inventory else {}),
        'used': row.amount.used,
        'free': row.amount.free,
        'takes_none_now': row.refused,
        'source': row.source.value,
        'parts': [
            {
                'kind': one.kind.value,
                'amount': one.amount,
                **(
                    {
                        'consumer': one.consumer,
                        'name': names.describe(one.consumer),
                    }
                    if one.consumer
                    else {}
                ),
                'units': dict(one.units),
            }
            for one in row.parts
        ],
    }
