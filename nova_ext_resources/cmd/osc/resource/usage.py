# SPDX-License-Identifier: Apache-2.0

"""``openstack extended resource usage show``."""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from osc_lib.cli import format_columns
from osc_lib.command import command

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects.documents import holders as holders_obj
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import retry
from nova_ext_resources.reservation import publication

_COLUMNS = (
    'Host',
    'Provider',
    'Resource Class',
    'Amount',
    'Units',
    'Held By',
)

_SERVER = 'server'
_IMPLIED = 'server, without an allocation'

_Row: TypeAlias = tuple[Any, ...]


class ShowUsage(cloud.CloudCommand, command.Lister):
    """Show the resources that a server holds, by provider."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            'server', metavar='<server>', help='uuid or name of the server'
        )
        cloud.add_units(parser)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[_Row]]:
        published = cloud.read_published(parsed_args) or {}
        uuid = self.find_uuid(parsed_args.server)
        # What a move keeps on the host that the server leaves is held by the
        # migration.
        consumers = {
            uuid: _SERVER,
            **{one: f'migration {one}' for one in self._list_moves(uuid)},
        }
        with cloud.asking():
            return _COLUMNS, [
                row
                for consumer, what in consumers.items()
                for row in self._list_rows(consumer, what, published)
            ]

    def _list_moves(self, uuid: str) -> list[str]:
        """Return the migrations of a server, as far as the caller may see."""
        try:
            return self.nova.list_moves(uuid)
        except exception.ComputeUnavailable as err:
            self.log.warning(
                "The server's migrations are unknown; their resources are "
                'left out: %s',
                err,
            )
            return []

    def _list_rows(
        self,
        consumer: str,
        what: str,
        published: publication.Publications,
    ) -> Iterator[_Row]:
        allocated = retry.call(
            self.placement.get_allocations, consumer
        ).resources
        trees: dict[str, dict[str, host_provider.Provider]] = {}
        for rp_uuid in allocated:
            if not any(rp_uuid in tree for tree in trees.values()):
                tree = {
                    one.rp_uuid: one
                    for one in retry.call(
                        self.placement.list_providers, in_tree=rp_uuid
                    )
                }
                trees[_name_root(tree)] = tree
        for host, tree in sorted(trees.items()):
            own = _list_assignments(published.get(host), consumer)
            yield from _list_allocated(host, tree, allocated, own, what)


def _name_root(tree: Mapping[str, host_provider.Provider]) -> str:
    return next((one.name for one in tree.values() if not one.parent_uuid), '')


def _list_assignments(
    published: publication.Publication | None, consumer: str
) -> Mapping[tuple[str, str], assignment.Assignment]:
    """Return what a host says that a consumer has, by provider and class."""
    holders = holders_obj.decode(published.holders) if published else None
    holder = (holders or {}).get(consumer, holders_obj.Holder())
    return {
        (one.rp_uuid, one.resource_class): one for one in holder.assignments
    }


def _list_allocated(
    host: str,
    tree: Mapping[str, host_provider.Provider],
    allocated: Mapping[str, Mapping[str, int]],
    own: Mapping[tuple[str, str], assignment.Assignment],
    what: str,
) -> Iterator[_Row]:
    """Return the rows of one host, those without an allocation, too."""
    amounts = {
        (rp_uuid, name): amount
        for rp_uuid, resources in allocated.items()
        if rp_uuid in tree
        for name, amount in resources.items()
    }
    implied = {
        place: one.amount
        for place, one in own.items()
        if not one.is_allocated and place not in amounts and place[0] in tree
    }
    for place, amount in sorted(
        {**amounts, **implied}.items(),
        key=lambda one: (tree[one[0][0]].name, one[0][1]),
    ):
        said = own.get(place)
        units = said.units if said and said.amount == amount else {}
        yield (
            host,
            tree[place[0]].name.removeprefix(f'{host}_'),
            place[1],
            amount,
            format_columns.DictColumn(dict(units)),
            _IMPLIED if place in implied else what,
        )
