# SPDX-License-Identifier: Apache-2.0

"""One request to placement and its answer, in terms of this package."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
import urllib.parse

from keystoneauth1 import adapter as ks_adapter
import requests

from nova_ext_resources.conf import placement as placement_conf
from nova_ext_resources import exception
from nova_ext_resources.placement import errors

#: The newest feature used: consumer types (1.38), any-traits (1.39).
MICROVERSION = '1.39'

_T = TypeVar('_T')


class Endpoint:
    """Sends requests, bounded in time; raises only errors of ours."""

    def __init__(self, adapter: ks_adapter.Adapter) -> None:
        self._adapter = adapter

    def ask(
        self,
        method: str,
        url: str,
        action: str,
        parse: Callable[[Any], _T],
        **kwargs: Any,
    ) -> _T:
        response = self.request(method, url, action, **kwargs)
        with errors.understood(action, response):
            return parse(response.json())

    def request(
        self,
        method: str,
        url: str,
        action: str,
        *,
        json: Mapping[str, Any] | None = None,
        params: Any = None,
        version: str = MICROVERSION,
        rejected: type[exception.PlacementError] = (
            exception.ConcurrentUpdate
        ),
    ) -> requests.Response:
        with errors.translated(action):
            response = self._adapter.request(
                url,
                method,
                json=json,
                params=params,
                headers={'OpenStack-API-Version': f'placement {version}'},
                raise_exc=False,
                **bound_wait(self._adapter),
            )
        errors.raise_for_response(response, action=action, rejected=rejected)
        return response


def bound_wait(adapter: ks_adapter.Adapter) -> dict[str, float]:
    """Return what bounds a wait even if the session has no timeout."""
    if adapter.session.timeout is not None:
        return {}
    return {'timeout': placement_conf.DEFAULT_TIMEOUT}


def path(*parts: str) -> str:
    """Build a path, in which each part stays one part.

    :raises InvalidResource: a part is empty or would climb in the path
    """
    for part in parts:
        if part in ('', '.', '..'):
            raise exception.InvalidResource(
                name=repr(part), reason='is neither a uuid nor a name'
            )
    return ''.join('/' + urllib.parse.quote(part, safe='') for part in parts)
