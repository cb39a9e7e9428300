# SPDX-License-Identifier: Apache-2.0

"""One request to placement and its answer, in terms of this package.

A failed request becomes an error of ours, ``Retriable`` or not.
"""

from collections.abc import Callable, Iterator, Mapping
import contextlib
from typing import Any, TypeVar
import urllib.parse

from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import exceptions as ks_exc
import requests

from nova_ext_resources.conf import placement
from nova_ext_resources import exception
from nova_ext_resources.objects.documents import foreign_data

#: (status, code) -> exception. Texts change between releases, these do not;
#: placement gives codes since microversion 1.23.
_BY_STATUS_AND_CODE: dict[tuple[int, str], type[exception.PlacementError]] = {
    (409, 'placement.concurrent_update'): exception.ConcurrentUpdate,
    (409, 'placement.inventory.inuse'): exception.InventoryInUse,
    (409, 'placement.resource_provider.inuse'): exception.ProviderInUse,
    (
        409,
        'placement.resource_provider.cannot_delete_parent',
    ): exception.ProviderInUse,
    (409, 'placement.duplicate_name'): exception.DuplicateName,
    # Without a code the answer is that of a proxy or of another service: to
    # take it for "gone" would make a wrong endpoint look like success.
    (404, ''): exception.PlacementUnavailable,
}

_BY_STATUS: dict[int, type[exception.PlacementError]] = {
    401: exception.PlacementUnavailable,
    404: exception.NotFound,
    408: exception.PlacementUnavailable,
    429: exception.PlacementUnavailable,
}

_CHECK_CREDENTIALS = (
    'check the credentials in [ext_resources_placement] or [placement]'
)
_CHECK_ENDPOINT = (
    'check that placement and Keystone run, and endpoint_override, '
    'region_name, valid_interfaces and auth_url in '
    '[ext_resources_placement] or [placement]'
)

#: Advice for errors that have one usual cause.
_ADVICE: dict[int | str, str] = {
    'placement.duplicate_name': (
        'if the compute node of that provider no longer exists, delete the '
        'provider: "openstack resource provider list --name NAME", then '
        '"openstack resource provider delete UUID"'
    ),
    401: _CHECK_CREDENTIALS,
    403: 'give the user of [ext_resources_placement] or [placement] the '
    '"service" or the "admin" role',
    406: 'nova-ext-resources needs placement 7.0.0 (Yoga) or newer',
}


def raise_for_response(
    response: requests.Response,
    *,
    action: str,
    rejected: type[exception.PlacementError] = exception.ConcurrentUpdate,
) -> None:
    """Raise the error that an answer stands for; return on success.

    :param action: what was asked, in words that follow "did not"
    :param rejected: what a 409 without a known code means. On providers
        placement answers so when it lost a race in its own database, on
        allocations when they exceed a capacity or break a unit rule.
    :raises PlacementError: one of its kinds, for any status of 400 or more
    """
    status = response.status_code
    if status < 400:
        return
    code, detail, request_id = _read_error(response)
    kind = _BY_STATUS_AND_CODE.get((status, code)) or _BY_STATUS.get(status)
    if kind is None and status == 409:
        kind = rejected
    if kind is None and status >= 500:
        kind = exception.PlacementUnavailable
    advice = (
        _ADVICE.get(code)
        or _ADVICE.get(status)
        or ('' if code else _CHECK_ENDPOINT)
    )
    raise (kind or exception.PlacementRefused)(
        action=action,
        status=status,
        code=code,
        detail='; '.join(filter(None, (detail, advice))),
        request_id=request_id,
    )


def _read_error(response: requests.Response) -> tuple[str, str, str]:
    """Return code, detail and request id, '' where there is none."""
    request_id = response.headers.get('x-openstack-request-id', '')
    try:
        error: Any = response.json()['errors'][0]
        # Placement indents its texts over several lines.
        detail = ' '.join(str(error['detail']).split())
        return str(error.get('code', '')), detail, request_id
    except foreign_data.UNREADABLE:
        return '', ' '.join(response.text[:200].split()), request_id


@contextlib.contextmanager
def translated(action: str) -> Iterator[None]:
    """Translate the exceptions of keystoneauth and requests.

    :raises PlacementUnavailable: there was no answer of placement
    """
    try:
        yield
    except (
        ks_exc.Unauthorized,
        ks_exc.Forbidden,
        ks_exc.AuthorizationFailure,
        ks_exc.AuthPluginException,
    ) as err:
        raise _make_unavailable(action, err, _CHECK_CREDENTIALS) from err
    # OSError: requests raises it for a missing file of certificates.
    except (
        ks_exc.ClientException,
        requests.RequestException,
        OSError,
    ) as err:
        raise _make_unavailable(action, err, _CHECK_ENDPOINT) from err


def _make_unavailable(
    action: str, err: Exception, advice: str
) -> exception.PlacementUnavailable:
    return exception.PlacementUnavailable(
        action=action, detail=f'{type(err).__name__}: {err}; {advice}'
    )


@contextlib.contextmanager
def understood(action: str, response: requests.Response) -> Iterator[None]:
    """Read a successful answer; its content may still be anything.

    :raises PlacementUnavailable: it is not what placement answers
    """
    try:
        yield
    except foreign_data.UNREADABLE as err:
        raise exception.PlacementUnavailable(
            action=action,
            status=response.status_code,
            detail='this response is not from placement: '
            f'{" ".join(response.text[:200].split())!r}; {_CHECK_ENDPOINT}',
        ) from err


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
        with understood(action, response):
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
        with translated(action):
            response = self._adapter.request(
                url,
                method,
                json=json,
                params=params,
                headers={'OpenStack-API-Version': f'placement {version}'},
                raise_exc=False,
                **bound_wait(self._adapter),
            )
        raise_for_response(response, action=action, rejected=rejected)
        return response


def bound_wait(adapter: ks_adapter.Adapter) -> dict[str, float]:
    """Return what bounds a wait even if the session has no timeout."""
    if adapter.session.timeout is not None:
        return {}
    return {'timeout': placement.DEFAULT_TIMEOUT}


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
