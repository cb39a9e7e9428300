# SPDX-License-Identifier: Apache-2.0

"""``openstack extended reservation limit set, list, delete``."""

import argparse
from typing import TYPE_CHECKING

from osc_lib.command import command

from nova_ext_resources.cmd.osc.reservation import store
from nova_ext_resources.cmd.osc.reservation import window_arguments
from nova_ext_resources.reservation import limits

if TYPE_CHECKING:
    from nova_ext_resources.reservation import api
    from nova_ext_resources.reservation.store import limits as own_limits

_COLUMNS = ('Project', 'Max Ahead', 'Max Duration')


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'project',
        metavar='<project>',
        type=window_arguments.text,
        help='id of the project',
    )


def _seconds(text: str) -> int:
    """Read a duration or ``none``, for argparse."""
    try:
        return limits.parse_seconds(text)
    except ValueError as err:
        raise argparse.ArgumentTypeError(str(err)) from err


def _make_row(
    reservations: 'api.Reservations', own: 'own_limits.OwnLimits'
) -> tuple[str, str, str]:
    """Return what holds for a project, with what holds for all."""
    found = own.fill(reservations.limits.others)
    return (
        own.project,
        limits.format_seconds(found.ahead),
        limits.format_seconds(found.duration),
    )


class SetLimit(store.StoreCommand, command.ShowOne):
    """Limit how far ahead and for how long one project may reserve.

    A limit that is not given is that of the configuration, max_ahead or
    max_duration. Existing reservations stay.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_project(parser)
        for name, what in (
            ('--max-ahead', 'how far from now its reservations may start'),
            ('--max-duration', 'how long its reservations may last'),
        ):
            parser.add_argument(
                name,
                metavar='<duration>',
                type=_seconds,
                help=f'{what}: {window_arguments.DURATIONS}, or '
                f'{limits.NONE} for no limit (default: as for all projects)',
            )

    def take_action(self, parsed_args: argparse.Namespace) -> store.Fields:
        reservations = self.open(parsed_args)
        reservations.check_project(parsed_args.project)
        made = reservations.limits.set_limits(
            parsed_args.project,
            ahead=parsed_args.max_ahead,
            duration=parsed_args.max_duration,
        )
        return store.name_fields(_COLUMNS), _make_row(reservations, made)


class ListLimits(store.StoreCommand, command.Lister):
    """List projects that have limits of their own, and these limits."""

    def take_action(self, parsed_args: argparse.Namespace) -> store.Rows:
        reservations = self.open(parsed_args)
        return _COLUMNS, (
            _make_row(reservations, one)
            for one in reservations.limits.list_limits()
        )


class DeleteLimit(store.StoreCommand):
    """Remove the limits of a project: the limits of all projects apply."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_project(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.open(parsed_args).limits.delete_limits(parsed_args.project)
