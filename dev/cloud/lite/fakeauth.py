# SPDX-License-Identifier: Apache-2.0

"""A WSGI filter in the place of keystonemiddleware's ``auth_token``.

The rules are those of placement's ``noauth2``: the token is ``user`` or
``user:project``, and the user ``admin`` has every role. It checks nothing
and must never listen anywhere but on loopback.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

_Environ: TypeAlias = dict[str, Any]
_Application: TypeAlias = Callable[[_Environ, Any], Iterable[bytes]]

_ADMIN_ROLES = 'admin,manager,member,reader,service'
_OTHER_ROLES = 'member,reader'


class FakeAuth:
    """Believe the token and put what it says into the request."""

    def __init__(self, application: _Application) -> None:
        self._application = application

    def __call__(
        self, environ: _Environ, start_response: Any
    ) -> Iterable[bytes]:
        token = environ.get('HTTP_X_AUTH_TOKEN', '')
        if not token:
            start_response(
                '401 Unauthorized',
                [
                    ('Content-Length', '0'),
                    ('WWW-Authenticate', 'Keystone uri="none"'),
                ],
            )
            return [b'']
        environ.update(identity(token))
        return self._application(environ, start_response)


def identity(token: str) -> dict[str, str]:
    """Return the request headers that keystonemiddleware would have set."""
    user, _, project = token.partition(':')
    project = project or user
    return {
        'HTTP_X_IDENTITY_STATUS': 'Confirmed',
        'HTTP_X_USER_ID': user,
        'HTTP_X_USER_NAME': user,
        'HTTP_X_USER_DOMAIN_ID': 'default',
        'HTTP_X_PROJECT_ID': project,
        'HTTP_X_PROJECT_NAME': project,
        'HTTP_X_PROJECT_DOMAIN_ID': 'default',
        'HTTP_X_TENANT_ID': project,
        'HTTP_X_ROLES': _ADMIN_ROLES if user == 'admin' else _OTHER_ROLES,
        'HTTP_X_IS_ADMIN_PROJECT': 'True',
        'HTTP_X_SERVICE_CATALOG': '[]',
    }


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[_Application], FakeAuth]:
    """Give paste the filter."""
    return FakeAuth
