# SPDX-License-Identifier: Apache-2.0

"""What the Compute API says of servers to the user of the client."""

from collections.abc import Collection, Iterator, Mapping
import re
from typing import Any

from oslo_utils import timeutils
from oslo_utils import uuidutils

from nova_ext_resources import exception
from nova_ext_resources.facts import consumer_role
from nova_ext_resources.inspection import aggregates
from nova_ext_resources.inspection.audit import cloud
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.reservation.site import compute

#: Statuses of migrations that have failed.
_FAILED = ('error', 'failed')

#: A server with the properties of its image (Nova 29); the flavor as it was
#: at the boot or the resize came before.
_SERVER_MICROVERSION = '2.98'

#: Events with their details (Nova 22), also of servers on no host.
_EVENTS_MICROVERSION = '2.84'

_FORBIDDEN = 403

#: Nova has given up what has no task and has not changed for so many seconds:
#: a confirmation, which never has one, takes ``long_rpc_timeout`` (1800).
_OLD_SECONDS = 3600

#: Shows hosts of cells that do not answer.
_CELLS_MICROVERSION = '2.69'


class Nova(compute.Compute):
    """Asks the Compute API for names, beside what reservations need."""

    def list_servers_of_all(self, node: str = '') -> dict[str, str]:
        """Return uuid -> name of the servers of all projects.

        :param node: only of this hypervisor; '' for all
        :raises ComputeUnavailable: there is no sensible answer, or Nova
            shows that to administrators alone
        """
        query = {'node': node} if node else {}
        return {
            str(one['id']): str(one['name'])
            for one in self._page(
                'list servers of all projects',
                '/servers',
                'servers',
                'id',
                all_tenants='1',
                **query,
            )
        }

    def find_uuids(self, name: str) -> list[str]:
        """Return the servers that have a uuid, or else a name.

        Whoever may not see those of all projects sees those of the own one.

        :raises ComputeUnavailable: as above
        """
        if uuidutils.is_uuid_like(name):
            return [name] if self.show_server(name) else []
        try:
            return self._list_named(name, all_tenants='1')
        except exception.ComputeUnavailable as err:
            if err.status != _FORBIDDEN:
                raise
        return self._list_named(name)

    def _list_named(self, name: str, **query: str) -> list[str]:
        return [
            str(one['id'])
            for one in self._page(
                f'find server {name}',
                '/servers',
                'servers',
                'id',
                # Nova looks for a regular expression.
                name=f'^{re.escape(name)}$',
                **query,
            )
            if one['name'] == name
        ]

    def list_requesting(self, resource_class: str) -> list[str]:
        """Return the names of the flavors that request a resource class.

        :raises ComputeUnavailable: there is no sensible answer
        """
        return sorted(
            str(body['name'])
            for body in self._list_flavors('list flavors')
            if any(
                key.startswith('resources')
                and key.rpartition(':')[2] == resource_class
                and value != '0'
                for key, value in body.get('extra_specs', {}).items()
            )
        )

    def show_server(self, uuid: str) -> dict[str, Any]:
        """Return a server as the API shows it, nothing if there is none.

        :raises ComputeUnavailable: there is no sensible answer
        """
        return self._show(
            f'show server {uuid}',
            f'/servers/{uuid}',
            'server',
            _SERVER_MICROVERSION,
        )

    def list_actions(self, server: str) -> list[dict[str, Any]]:
        """Return the latest actions of a server, the last one first.

        :raises ComputeUnavailable: as above
        """
        return self._ask(
            f'list actions of server {server}',
            f'/servers/{server}/os-instance-actions',
            'instanceActions',
        )

    def show_action(self, server: str, request_id: str) -> dict[str, Any]:
        """Return an action with its events, nothing if there is none.

        :raises ComputeUnavailable: as above
        """
        return self._show(
            f'show action {request_id} of server {server}',
            f'/servers/{server}/os-instance-actions/{request_id}',
            'instanceAction',
            _EVENTS_MICROVERSION,
        )

    def _show(
        self, action: str, url: str, noun: str, microversion: str
    ) -> dict[str, Any]:
        response = self._send(action, 'GET', url, microversion=microversion)
        if compute.is_not_found(response):
            return {}
        return self._understand(
            action, lambda one: dict(one.json()[noun]), response
        )

    def list_failed_moves(self, server: str) -> list[dict[str, Any]]:
        """Return the migrations of a server that have failed, the last first.

        :raises ComputeUnavailable: as above
        """
        return [
            one
            for one in self._list_migrations(server)
            if one['status'] in _FAILED
        ]

    def list_moves(self, server: str) -> list[str]:
        """Return the migrations that may hold something for a server.

        :raises ComputeUnavailable: as above
        """
        return [
            str(one['uuid'])
            for one in self._list_migrations(server)
            if one['status'] in consumer_role.OPEN_STATUSES
        ]

    def _list_migrations(self, server: str) -> Iterator[dict[str, Any]]:
        return self._page(
            f'list migrations of server {server}',
            '/os-migrations',
            'migrations',
            'uuid',
            instance_uuid=server,
        )

    def find_moves(self, consumers: Collection[str]) -> dict[str, str]:
        """Return uuid of a migration -> that of its server.

        :param consumers: of placement, of which Nova has no servers
        :raises ComputeUnavailable: as above
        """
        wanted = {
            one for one in consumers if not planned_hold.may_be_hold(one)
        }
        found: dict[str, str] = {}
        for status in consumer_role.OPEN_STATUSES:
            if wanted <= found.keys():
                break
            for one in self._page(
                f'list migrations with status {status}',
                '/os-migrations',
                'migrations',
                'uuid',
                status=status,
            ):
                if one['uuid'] in wanted:
                    found[str(one['uuid'])] = str(one['instance_uuid'])
        return found

    def list_nodes(self) -> Iterator[cloud.Hypervisor]:
        """Return the hypervisors, those that are down, too.

        :raises ComputeUnavailable: as above
        """
        action = 'list hypervisors'
        for one in self._page(
            action,
            '/os-hypervisors/detail',
            'hypervisors',
            'id',
            limit='1000',
        ):
            yield self._understand(action, _parse_node, one)

    def list_compute_services(self) -> dict[str, str | None]:
        """Return host -> state of its nova-compute; None of a cell away.

        :raises ComputeUnavailable: as above
        """
        return {
            host: None if one['status'] == 'UNKNOWN' else str(one['state'])
            for host, one in self.read_compute_services().items()
        }

    def read_compute_services(self) -> dict[str, dict[str, Any]]:
        """Return host -> its nova-compute, as the API shows it.

        Of a cell away, only its status, UNKNOWN, is there.

        :raises ComputeUnavailable: as above
        """
        action = 'list services'
        response = self._send(
            action,
            'GET',
            '/os-services?binary=nova-compute',
            microversion=_CELLS_MICROVERSION,
        )
        return self._understand(
            action,
            lambda one: {
                str(each['host']): {'state': None, **each}
                for each in one.json()['services']
            },
            response,
        )

    def list_aggregates(self) -> list[aggregates.Aggregate]:
        """Return the host aggregates.

        :raises ComputeUnavailable: as above
        """
        action = 'list host aggregates'
        return [
            self._understand(action, _parse_aggregate, one)
            for one in self._ask(action, '/os-aggregates', 'aggregates')
        ]

    def show_server_group(self, uuid: str) -> dict[str, Any]:
        """Return a server group, nothing if there is none.

        :raises ComputeUnavailable: as above
        """
        return self._show(
            f'show server group {uuid}',
            f'/os-server-groups/{uuid}',
            'server_group',
            _SERVER_MICROVERSION,
        )

    def list_open_migrations(self) -> Iterator[cloud.NovaMigration]:
        """Return all with which Nova may go on.

        :raises ComputeUnavailable: as above
        """
        # One that goes on meanwhile is found at a later status. The last is an
        # evacuation whose former host has not started again.
        for status in (*consumer_role.OPEN_STATUSES, 'done'):
            yield from self.list_migrations(status=status)

    def list_migrations(self, **query: str) -> Iterator[cloud.NovaMigration]:
        """Return migrations of any status, the newest first.

        But not those of deleted servers.

        :raises ComputeUnavailable: as above
        """
        action = 'list migrations'
        for one in self._page(
            action, '/os-migrations', 'migrations', 'uuid', **query
        ):
            yield self._understand(action, _parse_move, one)


def _parse_node(body: Mapping[str, Any]) -> cloud.Hypervisor:
    return cloud.Hypervisor(
        name=body['hypervisor_hostname'],
        uuid=body['id'],
        host=body['service']['host'],
        is_up=body['state'] != 'down',
    )


def _parse_aggregate(body: Mapping[str, Any]) -> aggregates.Aggregate:
    return aggregates.Aggregate(
        name=body['name'],
        uuid=body['uuid'],
        zone=body['availability_zone'] or '',
        hosts=frozenset(body['hosts']),
        metadata=dict(body['metadata']),
    )


def _parse_move(body: Mapping[str, Any]) -> cloud.NovaMigration:
    return cloud.NovaMigration(
        uuid=body['uuid'],
        server_uuid=body['instance_uuid'],
        status=body['status'],
        kind=body['migration_type'] or '',
        source=body['source_node'] or '',
        is_old=timeutils.is_older_than(
            body['updated_at'] or body['created_at'], _OLD_SECONDS
        ),
    )
