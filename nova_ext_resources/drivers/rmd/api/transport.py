# SPDX-License-Identifier: Apache-2.0

"""Requests to one RMD: bounded in time and size, errors as types.

Only reading requests are repeated. A request that changes something may
have been carried out although no response came.
"""

from collections.abc import Callable, Mapping
import http.client
import json
import ssl
import time
from typing import Any

import requests
import tenacity
import urllib3.exceptions

from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import response as response_mod
from nova_ext_resources import exception

#: More than the workloads of any host need, little enough to hold.
MAX_RESPONSE_BYTES = 4 * 1024 * 1024

#: Seconds. Nearly always RMD is on this host, where a connection is made at
#: once or not at all.
CONNECT_TIMEOUT = 3.0

#: Seconds between two attempts, doubled each time.
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0

#: How OpenSSL names a first message that is not of TLS; since 3.2 the second.
_NOT_TLS = frozenset({'WRONG_VERSION_NUMBER', 'RECORD_LAYER_FAILURE'})


class Transport:
    """Sends requests to the RMD at ``url``.

    :param timeout: seconds that one request may take
    :param retries: how often a GET is repeated, within ``timeout``
    :ivar on_gone: called when nothing listens at the URL
    """

    def __init__(
        self,
        url: str,
        session: requests.Session,
        *,
        timeout: float = 10.0,
        retries: int = 3,
    ) -> None:
        self.url = url.rstrip('/')
        self.timeout = timeout
        self.session = session
        self.on_gone: Callable[[], object] = bool
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(exception.Retriable),
            stop=tenacity.stop_after_attempt(retries + 1)
            | tenacity.stop_after_delay(timeout),
            wait=tenacity.wait_exponential(
                multiplier=FIRST_PAUSE, max=LONGEST_PAUSE
            ),
            reraise=True,
        )

    def get(self, path: str) -> response_mod.RmdResponse:
        """Read ``path``; repeated while RMD does not respond.

        :raises RmdError: RMD does not respond, or with an error
        """
        return self._retrying(self.send, 'GET', path)

    def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
    ) -> response_mod.RmdResponse:
        """Send one request, once.

        :raises RmdError: RMD does not respond, or with an error
        """
        facts: dict[str, Any] = {'url': self.url, 'action': f'{method} {path}'}
        try:
            response = self._exchange(method, path, body, facts)
        # The second is raised while the body is read.
        except (
            requests.RequestException,
            urllib3.exceptions.HTTPError,
        ) as err:
            root = _find_root(err)
            if isinstance(root.__cause__ or root, ConnectionRefusedError):
                self.on_gone()
            raise _translate(err, facts) from err
        response.raise_for_error()
        return response

    def _exchange(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        facts: Mapping[str, Any],
    ) -> response_mod.RmdResponse:
        deadline = time.monotonic() + self.timeout
        has_body = body is not None
        with self.session.request(
            method,
            self.url + path,
            data=json.dumps(body).encode() if has_body else None,
            # RMD answers 415 to a POST without it.
            headers={'Content-Type': 'application/json'} if has_body else None,
            timeout=(min(CONNECT_TIMEOUT, self.timeout), self.timeout),
            # RMD never redirects, and credentials go nowhere else.
            allow_redirects=False,
            stream=True,
        ) as response:
            return response_mod.RmdResponse(
                status=response.status_code,
                text=_read(response, deadline, facts),
                **facts,
            )


def _read(
    response: requests.Response, deadline: float, facts: Mapping[str, Any]
) -> str:
    """Read the body; a peer that dribbles or never ends is cut off."""
    body = b''
    # read1() returns what is there; read() would wait for all that it is
    # asked for, each byte of which may take the whole timeout.
    while chunk := response.raw.read1(65536):
        body += chunk
        if len(body) > MAX_RESPONSE_BYTES:
            raise errors.MalformedResponse(
                status=response.status_code,
                reason=f'the response is longer than {MAX_RESPONSE_BYTES} '
                'bytes',
                **facts,
            )
        if time.monotonic() > deadline:
            raise errors.RmdTimeout(
                reason='the response does not end', was_sent=True, **facts
            )
    return body.decode('utf-8', errors='replace')


def _translate(err: Exception, facts: Mapping[str, Any]) -> errors.RmdError:
    """Return our error for one of the HTTP libraries."""
    root = _find_root(err)
    if isinstance(err, requests.ConnectTimeout):
        return errors.RmdTimeout(reason='no connection in time', **facts)
    if isinstance(err, requests.Timeout | urllib3.exceptions.TimeoutError):
        return errors.RmdTimeout(
            reason='no complete response in time', was_sent=True, **facts
        )
    if isinstance(root, ssl.SSLCertVerificationError):
        return errors.NotTrusted(reason=root.verify_message, **facts)
    if getattr(root, 'reason', '') in _NOT_TLS:
        return errors.WrongScheme(reason='RMD does not answer in TLS', **facts)
    if isinstance(err, requests.exceptions.SSLError):
        return errors.AuthFailed(reason=f'TLS: {root}', **facts)
    if isinstance(err, urllib3.exceptions.HTTPError):
        return errors.ConnectionDropped(
            reason=f'the response broke off: {root}', **facts
        )
    if isinstance(err, requests.ConnectionError):
        return _translate_connection(err, root, facts)
    return errors.MalformedResponse(reason=str(err), **facts)


def _translate_connection(
    err: requests.ConnectionError,
    root: BaseException,
    facts: Mapping[str, Any],
) -> errors.RmdError:
    """Return our error for a connection that failed or ended early."""
    inner = err.args[0] if err.args else None
    if not isinstance(inner, urllib3.exceptions.ProtocolError) or isinstance(
        root, ConnectionRefusedError
    ):
        return errors.RmdUnavailable(reason=str(root), **facts)
    if isinstance(root, http.client.HTTPException) and not isinstance(
        root, http.client.RemoteDisconnected
    ):
        return errors.MalformedResponse(
            reason=f'the response is not HTTP: {root!r:.200}', **facts
        )
    return errors.ConnectionDropped(reason=str(root), **facts)


def _find_root(err: BaseException) -> BaseException:
    """Return the innermost exception that the libraries wrapped."""
    while True:
        causes = (getattr(err, 'reason', None), *err.args)
        inner = next((c for c in causes if isinstance(c, BaseException)), None)
        if inner is None or inner is err:
            return err
        err = inner
