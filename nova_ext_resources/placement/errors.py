# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""What a failure of placement means: an answer or none -> our exception."""

from collections.abc import Iterator
import contextlib
from typing import Any

from keystoneauth1 import exceptions as ks_exc
import requests

from nova_ext_resources import exception

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

#: What to do about it, for what has one usual cause.
_ADVICE: dict[int | str, str] = {
    'placement.duplicate_name': 'when it is left over from a compute node '
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
    """Raise what an answer means; return when it is a success.

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
    """Give code, detail and request id, '' where there is none."""
    request_id = response.headers.get('x-openstack-request-id', '')
    try:
        error: Any = response.json()['errors'][0]
        # Placement indents its texts over several lines.
        detail = ' '.join(str(error['detail']).split())
        return str(error.get('code', '')), detail, request_id
    except (ValueError, LookupError, TypeError, AttributeError):
        return '', ' '.join(response.text[:200].split()), request_id


@contextlib.contextmanager
def translated(action: str) -> Iterator[None]:
    """Let no exception of keystoneauth or requests out.

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
    except (ValueError, LookupError, TypeError, AttributeError) as err:
        raise exception.PlacementUnavailable(
            action=action,
            status=response.status_code,
            detail=f'the answer is not what placement says: '
            f'{" ".join(response.text[:200].split())!r}; {_CHECK_ENDPOINT}',
        ) from err
