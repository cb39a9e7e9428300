# SPDX-License-Identifier: Apache-2.0

"""What all requests of the API extension have in common.

They are mounted at one place, and ask the plugin in blazar-manager, which
knows the hosts.
"""

from collections.abc import Mapping
import functools
from typing import Any

from blazar.api.v1 import utils as api_utils
from blazar import exceptions
from blazar import manager
from blazar.utils import service

from nova_ext_resources.reservation.blazar import body
from nova_ext_resources.reservation.blazar import flag
from nova_ext_resources.reservation.blazar import options
from nova_ext_resources.reservation.blazar import words

#: What Blazar mounts; modules with requests add theirs.
rest = api_utils.Rest('extended', __name__, url_prefix='/v1/extended')
rest.before_request(body.check)
rest.before_request(words.check)


@functools.cache
def _make_client() -> Any:
    return service.RPCClient(manager.get_target())


def ask(method: str, **arguments: Any) -> Any:
    """Return the answer of the plugin."""
    return _make_client().call(
        f'{options.RESOURCE_TYPE}:{method}', **arguments
    )


def read_flag(found: Mapping[str, Any], name: str) -> bool:
    """Return whether a word of a query, or of a document, is set.

    :raises InvalidInput: it cannot be told
    """
    try:
        return flag.read(found, name)
    except ValueError as err:
        raise exceptions.InvalidInput(str(err)) from err
