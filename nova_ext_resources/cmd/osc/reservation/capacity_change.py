# SPDX-License-Identifier: Apache-2.0

"""``openstack extended reservation capacity change ...``."""

import argparse
import getpass
import os
from typing import TYPE_CHECKING, Any

from osc_lib.cli import format_columns
from osc_lib.command import command

from nova_ext_resources.cmd.osc.reservation import columns
from nova_ext_resources.cmd.osc.reservation import store
from nova_ext_resources.cmd.osc.reservation import window_arguments
from nova_ext_resources.reservation import capacity_change

if TYPE_CHECKING:
    from nova_ext_resources.reservation.store import capacity

_COLUMNS = ('Name', 'Host', 'Provider', 'What', 'Starts At', 'Ends At')
_LONG = (*_COLUMNS, 'Reason', 'Created By', 'Created At')


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'name',
        metavar='<name>',
        type=window_arguments.text,
        help='name of the change',
    )


def _add_force(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        '--force',
        action='store_true',
        help=f'go on even if reservations {what}: a reservation that has not '
        'started is moved, or degraded if it fits nowhere; one that has '
        'started is degraded',
    )


def _add_what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--host',
        metavar='<host>',
        type=window_arguments.text,
        help='host of the capacity',
    )
    parser.add_argument(
        '--provider',
        metavar='<provider>',
        type=window_arguments.text,
        help='uuid or name of a resource provider: needed if several '
        'providers of the host have the class, or if hosts share the provider',
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        '--maintenance',
        action='store_true',
        help='the whole host, or the provider, has no capacity',
    )
    for option, amount, word in (
        ('--increase', 'increase', 'more'),
        ('--decrease', 'decrease', 'less'),
    ):
        what.add_argument(
            option,
            metavar='<class>=<amount>',
            dest=amount,
            action=window_arguments.AmountAction,
            help=f'units of capacity {word}, such as VCPU=16, with the '
            'allocation ratio counted in; repeat for each class',
        )


def _add_times(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--start',
        dest='starts_at',
        metavar='<time>',
        help=f'first second: {window_arguments.TIMES} (default: now)',
    )
    end = parser.add_mutually_exclusive_group()
    end.add_argument(
        '--end',
        dest='ends_at',
        metavar='<time>',
        help='first second after the change (default: no end)',
    )
    end.add_argument(
        '--duration', metavar='<duration>', help=window_arguments.DURATIONS
    )


def _make_row(one: capacity_change.CapacityChange) -> tuple[Any, ...]:
    return (
        one.key,
        one.host,
        one.provider,
        one.what,
        columns.format_time(one.during.start),
        columns.format_time(one.during.end),
    )


def _make_long(one: capacity_change.CapacityChange) -> tuple[Any, ...]:
    created_at = columns.format_time(one.created_at)
    return (*_make_row(one), one.reason, one.created_by, created_at)


def _show(outcome: 'capacity.Outcome') -> store.Fields:
    """Return the fields of a change, and what became of reservations."""
    names = (*store.name_fields(_LONG), 'moved', 'degraded')
    return names, (
        *_make_long(outcome.change),
        format_columns.ListColumn(sorted(outcome.way.moved)),
        format_columns.ListColumn([*outcome.way.degraded]),
    )


class CreateCapacityChange(store.StoreCommand, command.ShowOne):
    """Plan a maintenance, an upgrade or a cut of capacity.

    New reservations respect the change from now on. If the change would take
    capacity that is promised, the command plans nothing, and names the
    reservations.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_name(parser)
        _add_what(parser)
        _add_times(parser)
        parser.add_argument(
            '--reason',
            metavar='<sentence>',
            required=True,
            help='reason; it is stored and shown with the change',
        )
        _add_force(parser, 'hold capacity that the change takes')

    def take_action(self, parsed_args: argparse.Namespace) -> store.Fields:
        outcome = self.open(parsed_args).capacity_changes.create(
            _read_plan(parsed_args),
            reason=parsed_args.reason,
            created_by=_find_user(),
            is_forced=parsed_args.force,
        )
        return _show(outcome)


def _read_plan(arguments: argparse.Namespace) -> dict[str, Any]:
    names = ('host', 'provider', 'starts_at', 'ends_at', 'duration')
    found = {name: getattr(arguments, name) for name in names}
    plan = {name: one for name, one in found.items() if one is not None}
    plan['name'] = arguments.name
    if arguments.maintenance:
        plan['maintenance'] = True
    else:
        more, less = arguments.increase or {}, arguments.decrease or {}
        plan['amounts'] = more or {name: -one for name, one in less.items()}
    return plan


def _find_user() -> str:
    """Return who calls, as far as that is known.

    The account of OpenStack that the caller has set, or else of this machine:
    before ``sudo``, for the commands may be run by that of a service.
    """
    for name in ('OS_USERNAME', 'SUDO_USER'):
        if found := os.environ.get(name, ''):
            return found
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ''


class ListCapacityChanges(store.StoreCommand, command.Lister):
    """List planned maintenance, upgrades and cuts of capacity."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            '--all',
            dest='has_ended',
            action='store_true',
            help='also changes that are over but still stored',
        )
        parser.add_argument(
            '--long',
            action='store_true',
            help='also the reason, the author and the time of planning',
        )

    def take_action(self, parsed_args: argparse.Namespace) -> store.Rows:
        found = self.open(parsed_args).capacity_changes.list_changes(
            has_ended=parsed_args.has_ended
        )
        if parsed_args.long:
            return _LONG, map(_make_long, found)
        return _COLUMNS, map(_make_row, found)


class ShowCapacityChange(store.StoreCommand, command.ShowOne):
    """Show a planned change of capacity."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_name(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> store.Fields:
        found = self.open(parsed_args).capacity_changes.get(parsed_args.name)
        return store.name_fields(_LONG), _make_long(found)


class DeleteCapacityChange(store.StoreCommand, command.ShowOne):
    """Withdraw a planned change of capacity."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_name(parser)
        _add_force(parser, 'count on capacity that the change adds')

    def take_action(self, parsed_args: argparse.Namespace) -> store.Fields:
        outcome = self.open(parsed_args).capacity_changes.delete(
            parsed_args.name,
            deleted_by=_find_user(),
            is_forced=parsed_args.force,
        )
        return _show(outcome)
