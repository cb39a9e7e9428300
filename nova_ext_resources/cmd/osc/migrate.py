# SPDX-License-Identifier: Apache-2.0

"""``openstack extended resource migrate``."""

import argparse
from collections.abc import Iterable
from typing import Any

from osc_lib.cli import format_columns
from osc_lib.command import command
from osc_lib import exceptions

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources.cmd.osc import migrate_back
from nova_ext_resources.inspection import relocated
from nova_ext_resources.placement import overview

_COLUMNS = (
    'Host',
    'Resource Class',
    'Compute Node',
    'Held There',
    'Below',
    'Held Below',
    'State',
    'What To Do',
)

_LEFT = 1


class Migrate(cloud.CloudCommand, command.Lister):
    """List what compute nodes themselves still offer, and who holds it.

    nova-compute moves it to providers below the compute node when it starts;
    nothing is changed without --revert.
    """

    status = 0

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            '--host', metavar='<host>', help='only this hypervisor'
        )
        parser.add_argument(
            '--resource-class',
            metavar='<class>',
            action='append',
            default=[],
            help='only this class; may be repeated (default: all custom '
            'classes that this package has on any host)',
        )
        acts = parser.add_mutually_exclusive_group()
        acts.add_argument(
            '--dry-run',
            action='store_true',
            help='list only, as without any option',
        )
        acts.add_argument(
            '--check',
            action='store_true',
            help='end with status 1 unless all is moved',
        )
        acts.add_argument(
            '--revert',
            action='store_true',
            help='move classes of one host back to its compute node, while '
            'its nova-compute is down. Needs --host and --resource-class',
        )

    def run(self, parsed_args: argparse.Namespace) -> int:
        return int(super().run(parsed_args) or self.status)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        host, classes = parsed_args.host, parsed_args.resource_class
        if parsed_args.revert:
            if not (host and classes):
                raise exceptions.CommandError(
                    '--revert needs --host and --resource-class: name what is '
                    'to be on the compute node again'
                )
            with cloud.asking():
                migrate_back.revert(self.placement, self.nova, host, classes)
        with cloud.asking():
            rows = self._list_rows(host, classes)
        is_left = any(one.state is not relocated.State.MOVED for one in rows)
        if parsed_args.check and is_left:
            self.status = _LEFT
        names = self.read_names({one for row in rows for one in row.holders})
        return _COLUMNS, [
            (
                row.host,
                row.resource_class,
                row.capacity,
                format_columns.DictColumn(
                    {names.describe(u): n for u, n in row.holders.items()}
                ),
                row.below,
                row.used_below,
                str(row.state),
                relocated.REMEDIES[row.state],
            )
            for row in rows
        ]

    def _list_rows(
        self, host: str | None, wanted: list[str]
    ) -> list[relocated.Row]:
        trees = overview.list_hosts(self.placement, wanted)
        classes = frozenset(wanted) or relocated.list_classes(trees)
        if not classes:
            raise exceptions.CommandError(
                'No provider of this package has a custom class yet. Name '
                'those that it is to have, with --resource-class.'
            )
        trees = tuple(one for one in trees if host in (None, one.name))
        if host and not trees:
            raise exceptions.CommandError(
                f'Placement has no compute node {host}. Hosts are named as '
                'hypervisors are: "openstack hypervisor list"'
            )
        roots = [
            one.root.rp_uuid
            for one in trees
            if not classes.isdisjoint(one.root.amounts)
        ]
        holders = overview.list_holders(self.placement, roots)
        return [*relocated.list_rows(trees, classes, holders)]
