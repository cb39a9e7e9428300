# SPDX-License-Identifier: Apache-2.0

"""An identity service in the place of keystone: tokens, and a catalog.

Clients that need more than one service find them in the catalog of a token. It
believes whoever asks, as :mod:`.fakeauth` does, and must never listen anywhere
but on loopback.
"""

from collections.abc import Callable, Iterable, Mapping
import datetime
import http
import json
from typing import Any, TypeAlias

from keystoneauth1 import fixture

from dev.cloud import options

#: Longer than any cloud of this kind lives.
_LIFE = datetime.timedelta(days=1)

_Application: TypeAlias = Callable[[dict[str, Any], Any], Iterable[bytes]]


def make_application(catalog: Mapping[str, str]) -> _Application:
    """Return a WSGI application of the Identity API v3.

    :param catalog: service type -> URL
    """

    def application(
        environ: dict[str, Any], start_response: Any
    ) -> Iterable[bytes]:
        user, headers = '', []
        path = environ.get('PATH_INFO', '').rstrip('/')
        match environ['REQUEST_METHOD'], path:
            case 'POST', '/v3/auth/tokens':
                user = _read_user(environ)
                status = http.HTTPStatus.CREATED
                body: Any = make_token(user, catalog)
                headers = [('X-Subject-Token', user)]
            case 'GET', '' | '/v3':
                status = http.HTTPStatus.OK
                version = fixture.V3Discovery(
                    f'http://{environ["HTTP_HOST"]}/v3'
                )
                body = {'version': version}
            case _:
                status, body = http.HTTPStatus.NOT_FOUND, {}
        data = json.dumps(body).encode()
        start_response(
            f'{status.value} {status.phrase}',
            [
                ('Content-Type', 'application/json'),
                ('Content-Length', str(len(data))),
                *headers,
            ],
        )
        return [data]

    return application


def make_token(user: str, catalog: Mapping[str, str]) -> fixture.V3Token:
    """Return what keystone says of a token.

    The token itself is the name of the user, see :mod:`.fakeauth`.
    """
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    made = fixture.V3Token(
        issued=now,
        expires=now + _LIFE,
        user_id=user,
        user_name=user,
        user_domain_id='default',
        project_id=user,
        project_name=user,
        project_domain_id='default',
    )
    for kind, url in catalog.items():
        made.add_service(kind, kind).add_standard_endpoints(
            public=url, admin=url, internal=url, region=options.REGION
        )
    return made


def _read_user(environ: Mapping[str, Any]) -> str:
    """Return the name in a request for a token by password."""
    length = int(environ.get('CONTENT_LENGTH') or 0)
    asked = json.loads(environ['wsgi.input'].read(length))
    return str(asked['auth']['identity']['password']['user']['name'])
