# SPDX-License-Identifier: Apache-2.0

"""``openstack extended reservation create, list, show, update, cancel``."""

import argparse
from typing import TYPE_CHECKING, Any

from osc_lib.command import command
from osc_lib import exceptions

from nova_ext_resources.cmd.osc.reservation import columns
from nova_ext_resources.cmd.osc.reservation import store
from nova_ext_resources.cmd.osc.reservation import window_arguments
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import order
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation import times

if TYPE_CHECKING:
    from nova_ext_resources.reservation import api
    from nova_ext_resources.reservation.store import records

#: Arguments that are keys of an order as they are.
_TIMES = ('starts_at', 'ends_at', 'duration', 'delay', 'expires_after')
_OTHERS = ('servers', 'at_most', 'priority', 'affinity', 'at_end')


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'name',
        metavar='<name>',
        type=_name,
        help='name of the reservation',
    )


def _name(text: str) -> str:
    """Read a name, for argparse."""
    if not text.strip():
        raise argparse.ArgumentTypeError(
            'the name is empty; write the name of a reservation'
        )
    return window_arguments.text(text)


def _add_reason(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--reason',
        metavar='<sentence>',
        help='reason; it is stored and shown with the reservation',
    )


def _add_changeable(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the arguments of what can also be changed later.

    :param default: says what holds without them
    """
    add = parser.add_argument
    add(
        '--start',
        dest='starts_at',
        metavar='<time>',
        help=f'first second: {window_arguments.TIMES}{default % "now"}',
    )
    end = parser.add_mutually_exclusive_group()
    end.add_argument(
        '--end',
        dest='ends_at',
        metavar='<time>',
        help=f'first second after it{default % "it has no end"}',
    )
    end.add_argument(
        '--duration',
        metavar='<duration>',
        help=f'{window_arguments.DURATIONS}',
    )
    add(
        '--delay',
        metavar='<duration>',
        help='how much later the reservation may start, if it does not fit '
        'earlier',
    )
    add(
        '--servers',
        metavar='<number>',
        type=window_arguments.number,
        help=f'how many servers at least{default % "1"}',
    )
    add(
        '--at-most',
        metavar='<number>',
        type=window_arguments.number,
        help='how many servers at most, if there is room for more',
    )
    add(
        '--priority',
        metavar='<number>',
        type=int,
        help='a reservation that has not started may be moved to other hosts '
        f'for another one of the same or a higher priority{default % "0"}',
    )
    add(
        '--expires-after',
        metavar='<duration>',
        help='release unused slots this long after the start'
        f'{default % "not before its end"}',
    )
    add(
        '--zone',
        metavar='<zone>',
        help=f'availability zone{default % "any"}',
    )
    add(
        '--affinity',
        choices=sorted(order.AFFINITIES),
        help=f'hosts on which the servers may be{default % "any"}',
    )
    add(
        '--at-end',
        choices=[str(one) for one in plan_request.AtEnd],
        help=f'what happens to its servers at the end{default % "keep"}',
    )


def _read(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the arguments that were given."""
    found = {name: getattr(arguments, name) for name in names}
    return {name: one for name, one in found.items() if one is not None}


class _ShowRecord(store.StoreCommand, command.ShowOne):
    """Shows one reservation in the end."""

    def show(
        self, reservations: 'api.Reservations', record: 'records.Record'
    ) -> store.Fields:
        changes = reservations.list_changes(record.request.key)
        return columns.make_fields(record, changes)

    def find_reason(self, arguments: argparse.Namespace) -> dict[str, Any]:
        return _read(arguments, 'reason')


class CreateReservation(_ShowRecord):
    """Reserve capacity for servers of one flavor: for all, or for none."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_name(parser)
        window_arguments.add_servers(parser, is_required=True)
        _add_changeable(parser, ' (default: %s)')
        parser.add_argument(
            '--project',
            metavar='<id>',
            help="project id (default: the operators')",
        )
        _add_reason(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> store.Fields:
        document = {
            **_read(parsed_args, 'name', *_TIMES, *_OTHERS),
            **_read(parsed_args, 'zone', 'project'),
            **window_arguments.read_servers(parsed_args),
        }
        # Before anything is opened: it may be wrong all by itself.
        order.check(document)
        reservations = self.open(parsed_args)
        record = reservations.create(document, **self.find_reason(parsed_args))
        return self.show(reservations, record)


class UpdateReservation(_ShowRecord):
    """Change a reservation: all requested changes, or none.

    A reservation that has started keeps its start and its hosts: the command
    can only change its end, and release servers. An empty zone means any zone.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_name(parser)
        window_arguments.add_servers(parser, is_required=False)
        _add_changeable(parser, '%.0s')
        _add_reason(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> store.Fields:
        changes = {
            **_read(parsed_args, *_TIMES, *_OTHERS),
            **window_arguments.read_servers(parsed_args),
        }
        if parsed_args.zone is not None:
            changes['zone'] = parsed_args.zone or None
        if not changes:
            raise exceptions.CommandError(
                'There is nothing to change; name a change, such as --end or '
                '--servers.'
            )
        reservations = self.open(parsed_args)
        key = reservations.find_key(parsed_args.name)
        record = reservations.update(
            key, changes, **self.find_reason(parsed_args)
        )
        return self.show(reservations, record)


class ShowReservation(_ShowRecord):
    """Show a reservation and its history."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_name(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> store.Fields:
        reservations = self.open(parsed_args)
        key = reservations.find_key(parsed_args.name)
        return self.show(reservations, reservations.get(key))


class CancelReservation(_ShowRecord):
    """Cancel a reservation: its capacity is free at once."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_name(parser)
        _add_reason(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> store.Fields:
        reservations = self.open(parsed_args)
        key = reservations.find_key(parsed_args.name)
        record = reservations.cancel(key, **self.find_reason(parsed_args))
        return self.show(reservations, record)


class ListReservations(store.StoreCommand, command.Lister):
    """List reservations by their start."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_argument
        add(
            '--from',
            dest='begin',
            metavar='<time>',
            help=f'only reservations that end later: {window_arguments.TIMES}',
        )
        add(
            '--until',
            metavar='<time>',
            help='only reservations that start earlier',
        )
        states = parser.add_mutually_exclusive_group()
        states.add_argument(
            '--state',
            dest='states',
            action='append',
            choices=[str(one) for one in state.State],
            help='only reservations in this state; may be repeated (default: '
            'all that are not over)',
        )
        states.add_argument(
            '--all',
            action='store_true',
            help='also reservations that are over',
        )
        add(
            '--project',
            metavar='<id>',
            type=window_arguments.text,
            help="only reservations of this project; '' for reservations "
            'without a project',
        )
        add(
            '--zone',
            metavar='<zone>',
            type=window_arguments.text,
            help='only reservations that asked for this availability zone, '
            'or have servers in it; reads the hosts',
        )
        add('--long', action='store_true', help='with more columns')

    def take_action(self, parsed_args: argparse.Namespace) -> store.Rows:
        reservations = self.open(parsed_args)
        found = reservations.list_reservations(
            during=_read_bounds(parsed_args, reservations.now()),
            project=parsed_args.project,
            wanted=_read_states(parsed_args),
            zone=parsed_args.zone,
        )
        is_long = parsed_args.long
        return (
            columns.LONG if is_long else columns.LIST,
            (columns.make_row(one, is_long=is_long) for one in found),
        )


def _read_states(arguments: argparse.Namespace) -> list[state.State]:
    if arguments.all:
        return []
    return [*map(state.State, arguments.states or state.CURRENT)]


def _read_bounds(
    arguments: argparse.Namespace, now: int
) -> interval.Interval | None:
    """Return the time that the arguments name, None for all.

    :raises CommandError: they make no sense
    """
    if arguments.begin is None and arguments.until is None:
        return None
    start, end = interval.ALWAYS, interval.FOREVER
    try:
        if arguments.begin is not None:
            start = times.parse_time(arguments.begin, now)
        if arguments.until is not None:
            end = times.parse_time(arguments.until, now)
        return interval.Interval(start, end)
    except ValueError as err:
        raise exceptions.CommandError(f'--from, --until: {err}') from err
