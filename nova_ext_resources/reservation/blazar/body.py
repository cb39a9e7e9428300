# SPDX-License-Identifier: Apache-2.0

"""What a request must be before Blazar reads it.

Blazar reads a body, and looks which answer the caller accepts, where nothing
catches a failure; the latter when all is done.
"""

from typing import Any

from blazar.api.v1 import utils as api_utils
import flask

from nova_ext_resources.objects.documents import foreign_data

_WITH_BODY = ('POST', 'PUT')


def check() -> Any:
    """Return what to answer to a request that cannot be served, or None.

    Reads its body for Blazar. Every answer is JSON: Blazar makes that of any
    type that the caller names, and none of no type.
    """
    request = flask.request
    request.environ['HTTP_ACCEPT'] = 'application/json'
    return _read() if request.method in _WITH_BODY else None


def _read() -> Any:
    request = flask.request
    if request.mimetype not in ('', 'application/json'):
        return _refuse(415, 'the body must be application/json')
    try:
        data = foreign_data.load_json(request.get_data() or '{}')
    except ValueError as err:
        return _refuse(400, f'the body is not JSON: {err}')
    if not isinstance(data, dict):
        return _refuse(400, 'the body is not a JSON object')
    # Where Blazar keeps it.
    request.parsed_data = data
    return None


def _refuse(status: int, words: str) -> Any:
    return api_utils.render_error_message(status, words, status)
