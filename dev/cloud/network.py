# SPDX-License-Identifier: Apache-2.0

"""An empty network service: every collection of its API is empty.

Servers boot without a network when they ask for none, but Nova's show and
list answer 500 when nothing answers at the network service's address.
"""

from collections.abc import Iterable
import json
from typing import Any, TypeAlias

_Answer: TypeAlias = tuple[str, dict[str, Any]]


def application(
    environ: dict[str, Any], start_response: Any
) -> Iterable[bytes]:
    """Answer one request of the Networking API v2.0."""
    parts = [p for p in environ.get('PATH_INFO', '').split('/') if p]
    if environ['REQUEST_METHOD'] == 'GET':
        status, body = _get(parts, environ['HTTP_HOST'])
    else:
        status, body = _not_found()
    data = json.dumps(body).encode()
    start_response(
        status,
        [
            ('Content-Type', 'application/json'),
            ('Content-Length', str(len(data))),
        ],
    )
    return [data]


def _get(parts: list[str], host: str) -> _Answer:
    match parts:
        case []:
            link = {'rel': 'self', 'href': f'http://{host}/v2.0/'}
            version = {'id': 'v2.0', 'status': 'CURRENT', 'links': [link]}
            return '200 OK', {'versions': [version]}
        case ['v2.0']:
            return '200 OK', {'resources': []}
        case ['v2.0', collection]:
            key = collection.removesuffix('.json').replace('-', '_')
            return '200 OK', {key: []}
        case _:
            return _not_found()


def _not_found() -> _Answer:
    return '404 Not Found', {
        'NeutronError': {
            'type': 'NotFound',
            'message': 'This network service has nothing and takes nothing.',
            'detail': '',
        }
    }
