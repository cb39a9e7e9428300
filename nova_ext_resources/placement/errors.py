# SPDX-License-Identifier: Apache-2.0

"""From a failed request to an error of ours."""

from collections.abc import Iterator
import contextlib
from typing import Any

from keystoneauth1 import exceptions as ks_exc
import requests

from nova_ext_resources import exception
from nova_ext_resources.objects import foreign_data

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
    'placement.duplicate_name': 'if it is left over from a compute node '
    'that no longer exists, delete it: "openstack resource provider list '
    '--name NAME", then "openstack resource provider delete UUID"',
    401: _CHECK_CREDENTIALS,
    403: 'give the user of [ext_resources_placement] or [placement] the '
    '"service" or the "admin" role',
    406: 'this needs placement 7.0.0 (Yoga) or newer',
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
