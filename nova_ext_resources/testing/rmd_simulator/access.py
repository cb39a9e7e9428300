# SPDX-License-Identifier: Apache-2.0

"""Who may do what, in RMD's normal mode with ``clientauth = no``.

The rules are those of the policy file that RMD ships. They allow nobody
to POST /hospitality or GET /mba.
"""

import base64
import binascii
from collections.abc import Mapping
import fnmatch

from nova_ext_resources.testing.rmd_simulator import messages

_READERS = (
    ('GET', '/cache*'),
    ('GET', '/policy'),
    ('GET', '/workloads*'),
    ('GET', '/hospitality'),
)
_WRITERS = (
    *_READERS,
    ('POST', '/workloads'),
    ('PATCH', '/workloads/*'),
    ('DELETE', '/workloads/*'),
)
_RULES = {'user': _READERS, 'root': _WRITERS, 'admin': _WRITERS}


def refuse(
    users: Mapping[str, str], request: messages.Request
) -> messages.Response | None:
    """Return the answer to somebody who may not; None to who may.

    :param users: name -> password
    """
    credentials = _read(request.headers.get('authorization', ''))
    if credentials is None:
        return _error(400, 'Malformed credentials\n')
    name, password = credentials
    if users.get(name) != password:
        return _error(
            401,
            'Authentication failure\n',
            ('WWW-Authenticate', 'Basic realm=RMD'),
        )
    path = request.path.removeprefix('/v1').rstrip('/')
    if any(
        request.method == method and fnmatch.fnmatchcase(path, pattern)
        for method, pattern in _RULES.get(name, ())
    ):
        return None
    return _error(
        403,
        f'User "{name}" is not authorized to access this resource\n',
    )


def _read(header: str) -> tuple[str, str] | None:
    scheme, _, encoded = header.partition(' ')
    if scheme.lower() != 'basic':
        return None
    try:
        decoded = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    name, colon, password = decoded.partition(':')
    return (name, password) if colon else None


def _error(
    status: int, body: str, *headers: tuple[str, str]
) -> messages.Response:
    return messages.Response(
        status=status,
        body=body,
        content_type=messages.SNIFFED,
        headers=(messages.NO_SNIFF, *headers),
    )
