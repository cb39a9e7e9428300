# SPDX-License-Identifier: Apache-2.0

"""What reservations need of Nova's API: flavors, zones and servers."""

from collections.abc import Callable, Iterator, Mapping
import datetime
from typing import Any, TypeVar
import urllib.parse

from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import exceptions as ks_exc
import requests

from nova_ext_resources import exception
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.placement.api import endpoint
from nova_ext_resources.reservation import flavor
from nova_ext_resources.reservation import nova_server

_T = TypeVar('_T')

#: Flavors with their extra specs (2.61); uuids of aggregates came before, and
#: the flavor within a server.
MICROVERSION = '2.61'

#: Unshelve to a host (Nova 26).
_UNSHELVE_MICROVERSION = '2.91'

#: A server with the scheduler hints that it was created with (Nova 31).
_HINTS_MICROVERSION = '2.100'

_NOT_ACCEPTABLE = 406

#: Servers in one answer; Nova may give fewer.
_PAGE = 1000

#: Of a server; Nova shows it to administrators alone.
_HOST = 'OS-EXT-SRV-ATTR:hypervisor_hostname'

#: With these Nova, or a proxy before it, refuses all that is asked.
_AWAY = frozenset({401, 502, 503, 504})

_ADVICE = (
    'check that the Compute API runs, and the credentials in '
    '[ext_resources_placement] or [placement]; without the Compute API, name '
    'amounts in place of a flavor, and no zone'
)


class Compute:
    """Asks the Compute API.

    :param adapter: for the service type ``compute``
    """

    def __init__(self, adapter: ks_adapter.Adapter) -> None:
        self._adapter = adapter
        #: Whether Nova is too old to show scheduler hints.
        self._is_old = False

    def find_flavor(self, name: str) -> flavor.Flavor | None:
        """Return the flavor of a name or an id, None if there is none.

        :raises ComputeUnavailable: there is no sensible answer
        """
        action = f'show flavor {name}'
        for body in self._list_flavors(action):
            if name in (body.get('id'), body.get('name')):
                return self._understand(action, _parse_flavor, body)
        return None

    def _list_flavors(self, action: str) -> Iterator[dict[str, Any]]:
        """Return all flavors, the public ones and those of projects."""
        return self._page(
            action, '/flavors/detail', 'flavors', is_public='None'
        )

    def list_zones(self) -> dict[str, str]:
        """Return the uuid of each aggregate that is an availability zone.

        Nova keeps the members of its host aggregates in placement, under the
        same uuid.

        :returns: uuid -> name of the zone
        :raises ComputeUnavailable: there is no sensible answer
        """
        action = 'list host aggregates'
        body = self._ask(action, '/os-aggregates', 'aggregates')
        return self._understand(
            action,
            lambda _: {
                str(one['uuid']): str(one['availability_zone'])
                for one in body
                if one.get('availability_zone')
            },
            None,
        )

    def list_down(self) -> frozenset[str]:
        """Return the hypervisors whose nova-compute does not report, by name.

        Or was forced down. Nova says so of its service; placement has no trait
        for it.

        :raises ComputeUnavailable: there is no sensible answer
        """
        action = 'list hypervisors'
        found = self._page(
            action, '/os-hypervisors', 'hypervisors', limit=_PAGE
        )
        return self._understand(
            action,
            lambda _: frozenset(
                str(one['hypervisor_hostname'])
                for one in found
                if one['state'] == 'down'
            ),
            None,
        )

    def find_server(self, uuid: str) -> nova_server.NovaServer | None:
        """Return a server of any project, None if there is none.

        :raises ComputeUnavailable: there is no sensible answer
        """
        action = f'show server {uuid}'
        response = self._send_for_hints(action, f'/servers/{uuid}')
        if is_not_found(response):
            return None
        body = self._understand(
            action, lambda one: one.json()['server'], response
        )
        return self._understand(action, _parse_server, body)

    def _send_for_hints(self, action: str, url: str) -> requests.Response:
        """Ask for what has scheduler hints, where Nova can show them.

        A Nova that cannot has no scheduler of ours that reads them.
        """
        if not self._is_old:
            try:
                return self._send(
                    action, 'GET', url, microversion=_HINTS_MICROVERSION
                )
            except exception.ComputeUnavailable as err:
                if err.status != _NOT_ACCEPTABLE:
                    raise
            self._is_old = True
        return self._send(action, 'GET', url)

    def list_servers(
        self, project: str | None = None
    ) -> list[nova_server.NovaServer]:
        """Return servers, without their scheduler hints.

        Nova does not search for metadata.

        :param project: that has them; None for all projects
        :raises ComputeUnavailable: there is no sensible answer
        """
        action = 'list servers of all projects'
        query: dict[str, Any] = {'all_tenants': 1, 'limit': _PAGE}
        if project is not None:
            action = f'list servers of project {project}'
            query['project_id'] = project
        return [
            self._understand(action, _parse_server, one)
            for one in self._page(
                action, '/servers/detail', 'servers', **query
            )
        ]

    def unshelve(self, uuid: str, node: str) -> None:
        """Ask for a server to be unshelved on a host.

        A server that is gone needs nothing.

        :param node: the hypervisor's hostname, as placement names the host
        :raises ComputeUnavailable: Nova does not do so now, or is older than
            release 26, which cannot be told the host
        """
        host = self._find_service_host(node)
        self._send(
            f'unshelve server {uuid} on host {host}',
            'POST',
            f'/servers/{uuid}/action',
            json={'unshelve': {'host': host}},
            microversion=_UNSHELVE_MICROVERSION,
        )

    def _find_service_host(self, node: str) -> str:
        """Return the name of the compute service of a hypervisor."""
        action = f'show hypervisor {node}'
        pattern = urllib.parse.quote(node, safe='')
        found = self._ask(
            action,
            f'/os-hypervisors/detail?hypervisor_hostname_pattern={pattern}',
            'hypervisors',
        )
        return self._understand(
            action,
            lambda _: {
                one['hypervisor_hostname']: str(one['service']['host'])
                for one in found
            }[node],
            None,
        )

    def find_missing_right(self) -> str:
        """Return why Nova does not show all servers, in words; '' if it does.

        :raises ComputeUnavailable: there is no sensible answer
        """
        action = 'list servers of all projects'
        try:
            found = self._ask(
                action, '/servers/detail?all_tenants=1&limit=1', 'servers'
            )
        except exception.ComputeUnavailable as err:
            if err.status == 403:
                return str(err)
            raise
        if found and _HOST not in found[0]:
            return f'Nova does not show {_HOST}'
        return ''

    def act(self, uuid: str, action: nova_server.Action) -> None:
        """Ask for something to be done with a server.

        A server that is gone needs nothing.

        :raises ComputeUnavailable: Nova does not do so now
        """
        words = f'{action.value} server {uuid}'
        if action is nova_server.Action.DELETE:
            self._send(words, 'DELETE', f'/servers/{uuid}')
            return
        self._send(
            words,
            'POST',
            f'/servers/{uuid}/action',
            json={action.value: None},
        )

    def set_metadata(self, uuid: str, metadata: Mapping[str, str]) -> None:
        """Add metadata to a server. One that is gone needs none.

        :raises ComputeUnavailable: Nova does not do so now
        """
        self._send(
            f'set metadata of server {uuid}',
            'POST',
            f'/servers/{uuid}/metadata',
            json={'metadata': dict(metadata)},
        )

    def _page(
        self, action: str, path: str, noun: str, key: str = 'id', **query: Any
    ) -> Iterator[dict[str, Any]]:
        """Return all items of all pages.

        :param key: of an item, what names it as a marker
        """
        last = ''
        while True:
            marker = {'marker': last} if last else {}
            url = f'{path}?{urllib.parse.urlencode({**query, **marker})}'
            page = self._ask(action, url, noun)
            if not page:
                return
            end = self._understand(action, lambda one: str(one[-1][key]), page)
            if end == last:
                return  # It knows no pages.
            yield from page
            last = end

    def _ask(self, action: str, url: str, noun: str) -> list[dict[str, Any]]:
        response = self._send(action, 'GET', url)
        if is_not_found(response):
            raise _refuse(action, response)
        return self._understand(
            action,
            lambda one: [dict(each) for each in one.json()[noun]],
            response,
        )

    def _send(
        self, action: str, method: str, url: str, **fields: Any
    ) -> requests.Response:
        """Return an answer that is no error, or with which Nova says 404.

        :raises ComputeUnavailable: there is none
        """
        try:
            response = self._adapter.request(
                url,
                method,
                raise_exc=False,
                **{'microversion': MICROVERSION, **fields},
                **endpoint.bound_wait(self._adapter),
            )
        except (
            ks_exc.ClientException,
            requests.RequestException,
            OSError,
        ) as err:
            reason = f'{type(err).__name__}: {err}; {_ADVICE}'
            raise exception.ComputeUnavailable(
                action=action, reason=reason, is_away=True
            ) from err
        if response.status_code >= 400 and not is_not_found(response):
            raise _refuse(action, response)
        return response

    def _understand(
        self, action: str, parse: Callable[[Any], _T], answer: Any
    ) -> _T:
        try:
            return parse(answer)
        except foreign_data.UNREADABLE as err:
            raise exception.ComputeUnavailable(
                action=action,
                reason=f'its response cannot be read ({err!r}); {_ADVICE}',
            ) from err


def is_not_found(response: requests.Response) -> bool:
    """Return whether Nova says that there is no such thing.

    A wrong path, or a proxy, answers 404 in other words.
    """
    if response.status_code != 404:
        return False
    try:
        return 'itemNotFound' in response.json()
    except foreign_data.UNREADABLE:
        return False


def _refuse(
    action: str, response: requests.Response
) -> exception.ComputeUnavailable:
    text = ' '.join(response.text[:200].split())
    return exception.ComputeUnavailable(
        action=action,
        reason=f'{response.status_code} {text}; {_ADVICE}',
        is_away=response.status_code in _AWAY,
        status=response.status_code,
    )


def _parse_server(body: Mapping[str, Any]) -> nova_server.NovaServer:
    return nova_server.NovaServer(
        uuid=body['id'],
        name=body['name'],
        status=body['status'],
        task_state=body['OS-EXT-STS:task_state'] or '',
        is_locked=bool(body['locked']),
        host=body[_HOST] or '',
        created_at=int(
            datetime.datetime.fromisoformat(body['created']).timestamp()
        ),
        project=body['tenant_id'],
        flavor=parse_own_flavor(body['flavor'], body['image']),
        extra_specs=dict(body['flavor']['extra_specs']),
        metadata=dict(body['metadata']),
        hints=dict(body.get('scheduler_hints') or {}),
    )


def parse_own_flavor(body: Mapping[str, Any], image: object) -> flavor.Flavor:
    """Return the flavor of a server; the root disk of a volume is elsewhere.

    :param image: nothing where the server was booted from a volume
    """
    disk_gb = int(body['ephemeral']) + -(-int(body['swap'] or 0) // 1024)
    return flavor.Flavor(
        name=body['original_name'],
        vcpus=int(body['vcpus']),
        memory_mb=int(body['ram']),
        disk_gb=disk_gb + (int(body['disk']) if image else 0),
        extra_specs=dict(body['extra_specs']),
    )


def _parse_flavor(body: Mapping[str, Any]) -> flavor.Flavor:
    # Nova shows no swap as an empty text.
    swap_mb = int(body['swap'] or 0)
    return flavor.Flavor(
        name=body['name'],
        vcpus=int(body['vcpus']),
        memory_mb=int(body['ram']),
        disk_gb=int(body['disk'])
        + int(body['OS-FLV-EXT-DATA:ephemeral'])
        + -(-swap_mb // 1024),
        extra_specs=dict(body['extra_specs']),
    )
