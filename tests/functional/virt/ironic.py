# SPDX-License-Identifier: Apache-2.0

"""A double of the bare-metal API, as far as Nova's ironic driver asks it.

It answers over HTTP, with the states, refusals and bodies of ironic. A node is
deployed at once; it is cleaned until a test ends that.
"""

from collections.abc import Callable, Iterable, Mapping
import json
import re
import socketserver
import threading
from typing import Any, TypeAlias
import urllib.parse
from wsgiref import simple_server

import fixtures

#: Of 2025.2, and the oldest that Nova 34 accepts.
_NEWEST, _OLDEST = '1.104', '1.1'

_Answer: TypeAlias = tuple[int, Any]

_NOTHING: _Answer = 204, None


class _Refused(Exception):
    """Ironic answers with an error."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


class _Handler(simple_server.WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Leave standard error to the tests."""


class Ironic(fixtures.Fixture):
    """Serves nodes, which tests change as ironic and operators do.

    :ivar url: of the endpoint
    :ivar nodes: by uuid, with the fields of the API
    :ivar is_away: whether each request is answered with 503
    """

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, dict[str, Any]] = {}
        self.is_away = False
        self._lock = threading.RLock()
        self._routes: tuple[tuple[str, str, Callable[..., _Answer]], ...] = (
            ('GET', r'/v1/nodes', self._list_nodes),
            ('GET', r'/v1/nodes/([^/]+)', self._show_node),
            ('PATCH', r'/v1/nodes/([^/]+)', self._patch_node),
            ('GET', r'/v1/nodes/([^/]+)/validate', self._validate),
            ('PUT', r'/v1/nodes/([^/]+)/states/provision', self._provision),
            ('PUT', r'/v1/nodes/([^/]+)/states/power', self._power),
            ('GET', r'/v1/volume/targets', self._list_targets),
        )

    def _setUp(self) -> None:
        made = simple_server.make_server(
            '127.0.0.1',
            0,
            self._serve,
            server_class=_Server,
            handler_class=_Handler,
        )
        self.url = f'http://127.0.0.1:{made.server_port}'
        self.addCleanup(made.server_close)
        threading.Thread(target=made.serve_forever, daemon=True).start()
        self.addCleanup(made.shutdown)

    # -- what operators and ironic itself do ----------------------------

    def enroll(
        self, uuid: str, resource_class: str, traits: Iterable[str] = ()
    ) -> str:
        """Add a node that can be deployed."""
        self.nodes[uuid] = {
            'uuid': uuid,
            'name': None,
            'resource_class': resource_class,
            'traits': sorted(traits),
            'properties': {'cpu_arch': 'x86_64', 'local_gb': 100},
            'provision_state': 'available',
            'target_provision_state': None,
            'power_state': 'power off',
            'target_power_state': None,
            'maintenance': False,
            'last_error': None,
            'instance_uuid': None,
            'instance_info': {},
        }
        return uuid

    def finish_cleaning(self, uuid: str) -> None:
        assert self.nodes[uuid]['provision_state'] == 'cleaning'
        self.nodes[uuid]['provision_state'] = 'available'

    # -- HTTP -----------------------------------------------------------

    def _serve(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> list[bytes]:
        length = int(environ.get('CONTENT_LENGTH') or 0)
        body = json.loads(environ['wsgi.input'].read(length) or 'null')
        query = dict(urllib.parse.parse_qsl(environ['QUERY_STRING']))
        with self._lock:
            status, content = self._answer(
                environ['REQUEST_METHOD'], environ['PATH_INFO'], query, body
            )
        data = b'' if content is None else json.dumps(content).encode()
        start_response(
            f'{status} -',
            [
                ('Content-Type', 'application/json'),
                ('Content-Length', str(len(data))),
                ('X-OpenStack-Ironic-API-Minimum-Version', _OLDEST),
                ('X-OpenStack-Ironic-API-Maximum-Version', _NEWEST),
            ],
        )
        return [data]

    def _answer(
        self, method: str, path: str, query: Mapping[str, str], body: Any
    ) -> _Answer:
        if self.is_away:
            return _refuse(503, 'The Bare Metal service is away')
        path = path.rstrip('/')
        if path in ('', '/v1'):
            return 200, self._describe(path)
        for wanted, pattern, act in self._routes:
            found = re.fullmatch(pattern, path)
            if found and method == wanted:
                try:
                    return act(*found.groups(), query=query, body=body)
                except _Refused as err:
                    return _refuse(err.status, str(err))
        return _refuse(404, f'{method} {path} is not known')

    def _describe(self, path: str) -> dict[str, Any]:
        version = {
            'id': 'v1',
            'links': [{'href': f'{self.url}/v1/', 'rel': 'self'}],
            'status': 'CURRENT',
            'min_version': _OLDEST,
            'version': _NEWEST,
        }
        if path:
            return {'id': 'v1', 'version': version, 'links': version['links']}
        return {
            'name': 'OpenStack Ironic API',
            'default_version': version,
            'versions': [version],
        }

    # -- one function for each request ----------------------------------

    def _find(self, uuid: str) -> dict[str, Any]:
        if uuid not in self.nodes:
            raise _Refused(404, f'Node {uuid} could not be found.')
        return self.nodes[uuid]

    def _list_nodes(self, *, query: Mapping[str, str], body: Any) -> _Answer:
        wanted = query.get('instance_uuid')
        return 200, {
            'nodes': [
                _narrow(one, query)
                for one in self.nodes.values()
                if wanted is None or one['instance_uuid'] == wanted
            ]
        }

    def _show_node(
        self, uuid: str, *, query: Mapping[str, str], body: Any
    ) -> _Answer:
        return 200, _narrow(self._find(uuid), query)

    def _patch_node(
        self, uuid: str, *, query: Mapping[str, str], body: Any
    ) -> _Answer:
        node = self._find(uuid)
        for one in body:
            field, _, key = one['path'].lstrip('/').partition('/')
            value = one.get('value')
            if field == 'instance_uuid' and value and node[field]:
                raise _Refused(
                    409, f'Node {uuid} is associated with {node[field]}.'
                )
            if key:
                node[field][key] = value
            else:
                node[field] = value
        return 200, node

    def _validate(
        self, uuid: str, *, query: Mapping[str, str], body: Any
    ) -> _Answer:
        node = self._find(uuid)
        missing = {*node['instance_info'].get('traits', ())} - {
            *node['traits']
        }
        good = {'result': True, 'reason': None}
        bad = {
            'result': False,
            'reason': 'Cannot specify instance traits that are not also set '
            f'on the node. Missing traits: {", ".join(sorted(missing))}',
        }
        return 200, {
            'deploy': bad if missing else good,
            'power': good,
            'storage': good,
        }

    def _provision(
        self, uuid: str, *, query: Mapping[str, str], body: Any
    ) -> _Answer:
        node, target = self._find(uuid), body['target']
        if target == 'active' and node['provision_state'] == 'available':
            node.update(provision_state='active', power_state='power on')
        elif target == 'deleted' and node['provision_state'] == 'active':
            node.update(
                provision_state='cleaning',
                power_state='power off',
                instance_uuid=None,
                instance_info={},
            )
        else:
            raise _Refused(
                400,
                f'The requested action "{target}" can not be performed on '
                f'node "{uuid}" while it is in state '
                f'"{node["provision_state"]}".',
            )
        return 202, None

    def _power(
        self, uuid: str, *, query: Mapping[str, str], body: Any
    ) -> _Answer:
        is_off = body['target'] == 'power off'
        state = 'power off' if is_off else 'power on'
        self._find(uuid)['power_state'] = state
        return 202, None

    def _list_targets(self, *, query: Mapping[str, str], body: Any) -> _Answer:
        return 200, {'targets': []}


def _narrow(
    node: Mapping[str, Any], query: Mapping[str, str]
) -> dict[str, Any]:
    names = query.get('fields', ','.join(node)).split(',')
    return {name: node[name] for name in names}


def _refuse(status: int, reason: str) -> _Answer:
    fault = {'faultcode': 'Client', 'faultstring': reason, 'debuginfo': None}
    return status, {'error_message': fault}
