# SPDX-License-Identifier: Apache-2.0

"""``openstack extended reservation capacity``."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from osc_lib.command import command

from nova_ext_resources.cmd.osc.reservation import columns
from nova_ext_resources.cmd.osc.reservation import store
from nova_ext_resources.cmd.osc.reservation import window_arguments
from nova_ext_resources.reservation import amounts
from nova_ext_resources.reservation import interval

if TYPE_CHECKING:
    from nova_ext_resources.reservation import api

_AMOUNTS = (
    'Zone',
    'Resource Class',
    'From',
    'Until',
    'Total',
    'Used',
    'Reserved',
    'Available',
)

_Table: TypeAlias = tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]


class ShowCapacity(store.StoreCommand, command.Lister):
    """Show free capacity over time: amounts, or how many servers fit."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        window_arguments.add_window(parser)
        parser.add_argument(
            '--zone', metavar='<zone>', help='only this availability zone'
        )
        parser.add_argument(
            '--step',
            metavar='<duration>',
            type=window_arguments.seconds,
            help='length of each row, which shows the least amount available '
            'in it (default: a row for each change)',
        )
        window_arguments.add_servers(parser, is_required=False)

    def take_action(self, parsed_args: argparse.Namespace) -> _Table:
        reservations = self.open(parsed_args)
        during = window_arguments.read_window(parsed_args, reservations.now())
        servers = window_arguments.read_servers(parsed_args)
        if servers:
            return _list_fits(parsed_args, reservations, servers, during)
        found = reservations.list_amounts(
            during, zone=parsed_args.zone, step=parsed_args.step
        )
        return _AMOUNTS, map(_make_row, found)


def _make_row(one: amounts.Amounts) -> tuple[Any, ...]:
    return (
        one.zone,
        one.resource_class,
        *_format(one.during),
        one.total,
        one.used,
        one.reserved,
        one.available,
    )


def _list_fits(
    arguments: argparse.Namespace,
    reservations: 'api.Reservations',
    servers: dict[str, Any],
    during: interval.Interval,
) -> _Table:
    found = reservations.list_fits(
        servers, during, zone=arguments.zone, step=arguments.step
    )
    return ('From', 'Until', 'Servers'), (
        (*_format(part), number) for part, number in found
    )


def _format(during: interval.Interval) -> tuple[str, str]:
    return columns.format_time(during.start), columns.format_time(during.end)
