# SPDX-License-Identifier: Apache-2.0

"""What Nova has recorded of a server that did not start or move."""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
from typing import Any

from osc_lib.cli import format_columns

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources.cmd.osc.resource import request_arguments
from nova_ext_resources import exception
from nova_ext_resources.inspection import flavor_request
from nova_ext_resources.inspection import history
from nova_ext_resources import plugins
from nova_ext_resources.reservation.site import compute

#: Failed actions of which the events are read, a request each.
_MAX_ACTIONS = 10

_FORBIDDEN = 403

_HIDDEN_REASONS = (
    'the reasons of failed events, which Nova shows to administrators alone: '
    'give your operator the uuid of the server and the request id'
)
_HIDDEN_ENDS = (
    f'the rest of reasons that end with "{history.CUT}": Nova keeps only 255 '
    'bytes; the log of the service has the whole reasons'
)
_HIDDEN_MIGRATIONS = (
    'migrations that failed, which Nova shows to administrators alone'
)
_HIDDEN_SPECS = (
    'the resources that the flavor of the server requests: Nova does not show '
    'the extra specs of the flavor to this user'
)

_OTHER_FLAVOR = (
    'The last move is a resize. The resize also requested the new flavor, '
    'whose name Nova does not keep: explain the new flavor with --flavor.'
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerRecord:
    """As far as Nova shows it to the caller.

    :ivar server: as the Compute API shows it
    :ivar actions: those that have failed, the last one first
    :ivar move: the last action for which the server needed room
    :ivar migrations: those that have failed
    :ivar hidden: what the caller may not see, in words
    """

    server: Mapping[str, Any]
    actions: list[dict[str, Any]]
    move: Mapping[str, Any]
    migrations: list[dict[str, Any]]
    hidden: Sequence[str]

    @property
    def is_refused(self) -> bool:
        """Whether no host took the server when it last needed one."""
        return bool(self.move) and history.is_refused(self.move)

    @property
    def flavor(self) -> str:
        """The name that the flavor of the server had."""
        return str(self.server['flavor']['original_name'])

    @property
    def zone(self) -> str:
        """The availability zone that was requested; '' for any.

        Of a server on a host, Nova shows the zone of the host instead.
        """
        pinned = self.server.get('pinned_availability_zone')
        if pinned or self.server.get('hostId'):
            return str(pinned or '')
        return str(self.server.get('OS-EXT-AZ:availability_zone') or '')

    def read_request(self) -> flavor_request.FlavorRequest | None:
        """Return what the server requests: its flavor as it was then.

        None where Nova does not show it.
        """
        flavor, image = self.server['flavor'], self.server['image']
        if 'extra_specs' not in flavor:
            return None
        request = flavor_request.read(
            compute.parse_own_flavor(flavor, image),
            # Of a server from a volume, Nova shows no image.
            image.get('properties', {}) if image else {},
            plugins.load_grammar(),
        )
        if self.move['action'] != 'resize':
            return request
        return dataclasses.replace(
            request, notes=(*request.notes, _OTHER_FLAVOR)
        )


def read(command: cloud.CloudCommand, name: str) -> ServerRecord:
    """Read what Nova has recorded.

    :raises CommandError: there is no such server
    :raises ComputeUnavailable: Nova does not answer
    """
    uuid = command.find_uuid(name)
    server = command.nova.show_server(uuid)
    if not server:
        raise cloud.make_no_server(name)
    listed = command.nova.list_actions(uuid)
    failed = [one for one in listed if history.has_failed(one)]
    shown = {
        one['request_id']: command.nova.show_action(uuid, one['request_id'])
        for one in failed[:_MAX_ACTIONS]
    }
    actions = [history.read_action(one) for one in shown.values()]
    migrations, unseen = _read_migrations(command, uuid)
    last = history.find_move(listed) or {}
    return ServerRecord(
        server=server,
        actions=actions,
        move=shown.get(last.get('request_id', ''), {}),
        migrations=migrations,
        hidden=[
            *_list_hidden(server, [*shown.values()], actions),
            *_list_older(uuid, len(failed) - len(shown)),
            *unseen,
        ],
    )


def _list_hidden(
    server: Mapping[str, Any],
    shown: Sequence[Mapping[str, Any]],
    actions: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    reasons = [one['reason'] for each in actions for one in each['events']]
    if any(map(history.hides_reasons, shown)):
        yield _HIDDEN_REASONS
    if any(
        one.endswith(history.CUT)
        for one in (history.read_fault(server), *reasons)
    ):
        yield _HIDDEN_ENDS
    if 'extra_specs' not in server['flavor']:
        yield _HIDDEN_SPECS


def _list_older(uuid: str, count: int) -> Iterator[str]:
    if count:
        yield (
            f'{count} older actions that failed: "openstack server event list '
            f'{uuid}" shows all actions'
        )


def _read_migrations(
    command: cloud.CloudCommand, uuid: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return migrations that failed, and what the caller may not see."""
    try:
        found = command.nova.list_failed_moves(uuid)
    except exception.ComputeUnavailable as err:
        if err.status != _FORBIDDEN:
            raise
        return [], [_HIDDEN_MIGRATIONS]
    keys = 'uuid', 'migration_type', 'status', 'created_at'
    return [
        {
            **{key: one[key] for key in keys},
            'source': one['source_compute'] or '',
            'destination': one['dest_compute'] or '',
        }
        for one in found
    ], []


def list_group_notes(
    command: cloud.CloudCommand, record: ServerRecord
) -> Iterator[str]:
    """Return sentences: which server group narrows the choice of hosts.

    None of a group that Nova does not show to the caller.

    :raises ComputeUnavailable: Nova does not answer
    """
    for uuid in record.server.get('server_groups', ()):
        try:
            group = command.nova.show_server_group(uuid)
        except exception.ComputeUnavailable as err:
            if err.status != _FORBIDDEN:
                raise
            continue
        if group:
            yield (
                f'The server is in server group {group["name"]} ({uuid}) with '
                f'policy {group["policy"]}. The hosts of its '
                f'{len(group["members"])} members were not considered.'
            )


def make_data(record: ServerRecord, *hidden: str) -> dict[str, Any]:
    """Return what is shown of a server.

    :param hidden: what else the caller may not see
    """
    server = record.server
    return {
        'server': server['id'],
        'name': server['name'],
        'status': server['status'],
        'fault': history.read_fault(server),
        'actions': format_columns.ListDictColumn(record.actions),
        'migrations': format_columns.ListDictColumn(record.migrations),
        'hidden': format_columns.ListColumn([*record.hidden, *hidden]),
    }


def draw(values: Mapping[str, Any]) -> Iterator[str]:
    """Return the lines for a server."""
    yield f'Server {values["name"]} ({values["server"]}): {values["status"]}'
    if values['fault']:
        yield from request_arguments.wrap(f'fault: {values["fault"]}', '  ')
    if not values['actions']:
        yield 'No action of the server has failed.'
    for one in values['actions']:
        yield (
            f'Failed: {one["action"]}, {one["started_at"]}, request '
            f'{one["request_id"]}'
        )
        for event in one['events']:
            yield from request_arguments.wrap(_describe_event(event), '  ')
    for one in values['migrations']:
        to = one['destination'] or 'no host yet'
        yield from request_arguments.wrap(
            f'Failed: {one["migration_type"]} from {one["source"]} to {to}, '
            f'{one["created_at"]}, status {one["status"]}'
        )
    for one in values['hidden']:
        yield from request_arguments.wrap(f'Not shown: {one}.')


def _describe_event(event: Mapping[str, Any]) -> str:
    """Return an event; with the host's name, its id is of no use."""
    name, host = event['event'], event['host']
    if host:
        name = f'{name.partition(":")[0]} on {host}'
    return f'{name}: {event["reason"]}' if event['reason'] else str(name)
