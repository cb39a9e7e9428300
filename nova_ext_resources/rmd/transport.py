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

"""Requests to one RMD: bounded in time and size, errors as types.

Only what reads is repeated. A request that changes something may have been
done although no answer came.
"""

from collections.abc import Callable, Mapping
import http.client
import json
import time
from typing import Any

import requests
import tenacity
import urllib3.exceptions

from nova_ext_resources import exception
from nova_ext_resources.rmd import answers
from nova_ext_resources.rmd import errors

#: More than the workloads of any host need, little enough to hold.
MAX_ANSWER_BYTES = 4 * 1024 * 1024

#: Seconds. Nearly always RMD is on this host, where a connection is made at
#: once or not at all.
CONNECT_TIMEOUT = 3.0

#: Seconds between two tries, doubled each time.
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0


class Transport:
    """Sends requests to the RMD at ``url``.

    :param timeout: seconds that one request may take
    :param retries: how often a GET is repeated, within ``timeout``
    :param sleep: how to wait between tries
    """

    def __init__(
        self,
        url: str,
        session: requests.Session,
        *,
        timeout: float = 10.0,
        retries: int = 3,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip('/')
        self._session = session
        self.timeout = timeout
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(exception.Retriable),
            stop=tenacity.stop_after_attempt(retries + 1)
            | tenacity.stop_after_delay(timeout),
            wait=tenacity.wait_exponential(
                multiplier=FIRST_PAUSE, max=LONGEST_PAUSE
            ),
            sleep=sleep,
            reraise=True,
        )

    def get(self, path: str) -> answers.Answer:
        """Read ``path``; repeated while RMD does not answer.

        :raises RmdError: RMD does not answer, or with an error
        """
        return self._retrying(self.send, 'GET', path)

    def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
    ) -> answers.Answer:
        """Send one request, once.

        :raises RmdError: RMD does not answer, or with an error
        """
        facts: dict[str, Any] = {'url': self.url, 'action': f'{method} {path}'}
        try:
            answer = self._exchange(method, path, body, facts)
        except requests.RequestException as err:
            raise _translate(err, facts) from err
        except urllib3.exceptions.HTTPError as err:
            raise _translate_body(err, facts) from err
        answers.raise_for_answer(answer)
        return answer

    def _exchange(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        facts: dict[str, Any],
    ) -> answers.Answer:
        deadline = time.monotonic() + self.timeout
        with self._session.request(
            method,
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            # RMD answers 415 to a POST without it.
            headers=None
            if body is None
            else {'Content-Type': 'application/json'},
            timeout=(min(CONNECT_TIMEOUT, self.timeout), self.timeout),
            # RMD never redirects, and credentials go nowhere else.
            allow_redirects=False,
            stream=True,
        ) as response:
            return answers.Answer(
                status=response.status_code,
                text=_read(response, deadline, facts),
                **facts,
            )

    def close(self) -> None:
        """Let go of the connections."""
        self._session.close()


def _read(
    response: requests.Response, deadline: float, facts: dict[str, Any]
) -> str:
    """Read the body; a peer that dribbles or never ends is cut off."""
    chunks: list[bytes] = []
    size = 0
    # read1() gives what is there; read() would wait for all that is asked
    # for, each byte of which may take the whole timeout.
    while chunk := response.raw.read1(65536):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise errors.MalformedAnswer(
                status=response.status_code,
                reason=f'it is longer than {MAX_ANSWER_BYTES} bytes',
                **facts,
            )
        if time.monotonic() > deadline:
            raise errors.RmdTimeout(
                reason='the answer does not end', was_sent=True, **facts
            )
    return b''.join(chunks).decode('utf-8', errors='replace')


def _translate(
    err: requests.RequestException, facts: dict[str, Any]
) -> errors.RmdError:
    """Give our error for one of ``requests``."""
    if isinstance(err, requests.ConnectTimeout):
        return errors.RmdTimeout(reason='no connection in time', **facts)
    if isinstance(err, requests.Timeout):
        return errors.RmdTimeout(
            reason='no answer in time', was_sent=True, **facts
        )
    if isinstance(err, requests.exceptions.SSLError):
        return errors.AuthFailed(reason=f'TLS: {_root(err)}', **facts)
    if isinstance(err, requests.ConnectionError):
        return _translate_connection(err, facts)
    return errors.MalformedAnswer(reason=str(err), **facts)


def _translate_connection(
    err: requests.ConnectionError, facts: dict[str, Any]
) -> errors.RmdError:
    inner = err.args[0] if err.args else None
    root = _root(err)
    if not isinstance(inner, urllib3.exceptions.ProtocolError) or isinstance(
        root, ConnectionRefusedError
    ):
        return errors.RmdUnavailable(reason=str(root), **facts)
    if isinstance(root, http.client.HTTPException) and not isinstance(
        root, http.client.RemoteDisconnected
    ):
        return errors.MalformedAnswer(
            reason=f'it is no HTTP: {root!r:.200}', **facts
        )
    return errors.ConnectionDropped(reason=str(root), was_sent=True, **facts)


def _translate_body(
    err: urllib3.exceptions.HTTPError, facts: dict[str, Any]
) -> errors.RmdError:
    """Give our error for one that came while the body was read."""
    if isinstance(err, urllib3.exceptions.TimeoutError):
        return errors.RmdTimeout(
            reason='the answer stopped half-way', was_sent=True, **facts
        )
    return errors.ConnectionDropped(
        reason=f'the answer broke off: {_root(err)}', was_sent=True, **facts
    )


def _root(err: BaseException) -> BaseException:
    """Find the innermost exception that the libraries wrapped."""
    seen = err
    while True:
        inner = getattr(seen, 'reason', None)
        if not isinstance(inner, BaseException):
            inner = next(
                (arg for arg in seen.args if isinstance(arg, BaseException)),
                None,
            )
        if inner is None or inner is seen:
            return seen
        seen = inner
