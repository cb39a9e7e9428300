# SPDX-License-Identifier: Apache-2.0

"""``extended reservation subscription create, list, show, delete``."""

import argparse
from typing import TYPE_CHECKING, Any

from osc_lib.cli import format_columns
from osc_lib.command import command

from nova_ext_resources.cmd.osc.reservation import columns
from nova_ext_resources.cmd.osc.reservation import store
from nova_ext_resources.cmd.osc.reservation import window_arguments
from nova_ext_resources.reservation import times
from nova_ext_resources.reservation.webhook import rules

if TYPE_CHECKING:
    from nova_ext_resources.reservation.store import followers

_COLUMNS = ('Id', 'Project', 'State', 'Url', 'Events', 'Sent', 'Failure')

#: Arguments that are keys of a document as they are.
_KEYS = (
    'url',
    'events',
    'reservation',
    'remaining',
    'zone',
    'resource_class',
    'threshold',
    'secret',
)


def _add_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'subscription',
        metavar='<subscription>',
        type=window_arguments.text,
        help='id of the subscription',
    )


def _make_fields(follower: 'followers.Follower') -> dict[str, Any]:
    """Return what may be shown: not the secret, and no token in the URL."""
    one, watched = follower.subscription, follower.subscription.watched
    suspended_at, failure = follower.suspended_at, follower.failure
    return {
        'id': one.uuid,
        'project': one.project,
        'state': follower.state,
        'url': rules.hide_path(one.url),
        'events': format_columns.ListColumn(sorted(map(str, one.kinds))),
        'reservation': one.reservation or '',
        'remaining': format_columns.ListColumn(
            [*map(times.format_seconds, one.remaining)]
        ),
        'zone': '' if watched is None else watched.zone,
        'resource_class': '' if watched is None else watched.resource_class,
        'threshold': '' if watched is None else watched.threshold,
        'created_at': columns.format_time(one.created_at),
        'sent': follower.sent,
        'failures': follower.failures,
        'failure': failure or '',
        'suspended_at': (
            '' if suspended_at is None else columns.format_time(suspended_at)
        ),
    }


def _show(fields: dict[str, Any]) -> store.Fields:
    return tuple(fields), tuple(fields.values())


class CreateSubscription(store.StoreCommand, command.ShowOne):
    """Send notifications of reservations, or of capacity, to a URL.

    The command shows the secret that signs the notifications only once.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_argument
        add(
            'url',
            metavar='<url>',
            type=window_arguments.text,
            help='https URL of the receiver',
        )
        add(
            '--project',
            metavar='<id>',
            type=window_arguments.text,
            default='',
            help='only events of reservations of this project, and only '
            'details that its members may know (default: all events, with '
            'reasons and hosts)',
        )
        add(
            '--event',
            dest='events',
            metavar='<kind>',
            action='append',
            help='a kind such as reservation.degraded, or a group: '
            'reservation, allocation, capacity; may be repeated (default: '
            'all kinds)',
        )
        add(
            '--reservation',
            metavar='<name>',
            type=window_arguments.text,
            help='only events of this reservation',
        )
        add(
            '--remaining',
            metavar='<duration>',
            action='append',
            help='how long before the end of a reservation to notify, '
            f'{window_arguments.DURATIONS}; may be repeated (default: 1h)',
        )
        add(
            '--zone',
            metavar='<zone>',
            type=window_arguments.text,
            help='with --class and --threshold: events of the capacity '
            'available in this zone, in place of reservations',
        )
        add(
            '--class',
            dest='resource_class',
            metavar='<resource-class>',
            type=window_arguments.text,
            help='resource class, such as VCPU',
        )
        add(
            '--threshold',
            metavar='<number>',
            type=window_arguments.number,
            help='notify if less than this amount is available',
        )
        add(
            '--secret',
            metavar='<secret>',
            type=window_arguments.text,
            help='whsec_ and 24 to 64 bytes in base64; other users of this '
            'machine can see it (default: a new one)',
        )

    def take_action(self, parsed_args: argparse.Namespace) -> store.Fields:
        document = {
            name: getattr(parsed_args, name)
            for name in _KEYS
            if getattr(parsed_args, name) is not None
        }
        reservations = self.open(parsed_args)
        if parsed_args.reservation is not None:
            key = reservations.find_key(parsed_args.reservation)
            document['reservation'] = key
        made = reservations.subscriptions.create(
            document, project=parsed_args.project
        )
        return _show(
            {
                **_make_fields(made),
                'url': made.subscription.url,
                'secret': made.subscription.secret,
            }
        )


class ListSubscriptions(store.StoreCommand, command.Lister):
    """List subscriptions, without parts of a URL that may be a token."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        window_arguments.add_project(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> store.Rows:
        found = self.open(parsed_args).subscriptions.list_subscriptions(
            project=parsed_args.project
        )
        names = [one.lower() for one in _COLUMNS]
        rows = map(_make_fields, found)
        return _COLUMNS, (tuple(one[name] for name in names) for one in rows)


class ShowSubscription(store.StoreCommand, command.ShowOne):
    """Show a subscription: its events, and whether they are delivered."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_id(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> store.Fields:
        found = self.open(parsed_args).subscriptions.get(
            parsed_args.subscription
        )
        return _show(_make_fields(found))


class DeleteSubscription(store.StoreCommand):
    """Delete a subscription. No further notifications are sent."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_id(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.open(parsed_args).subscriptions.delete(parsed_args.subscription)
