# SPDX-License-Identifier: Apache-2.0

"""An API of JSON, asked as one user."""

import dataclasses
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import exceptions
from openstack import connection

from dev.cloud import told

#: Under load Blazar takes its time: each lease costs several tokens.
_SECONDS = 300.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was answered.

    :ivar body: of JSON, or None
    """

    status: int
    body: Any

    @property
    def text(self) -> str:
        """Why it was refused, as Blazar says it."""
        found = self.body if isinstance(self.body, dict) else {}
        return str(found.get('error_message', self.body))


class Rest:
    """Asks with the token of a connection.

    :param url: that the paths begin with
    """

    def __init__(self, sdk: connection.Connection, url: str) -> None:
        self._adapter = adapter.Adapter(
            sdk.session,
            endpoint_override=url,
            raise_exc=False,
            # Without it Blazar answers 500.
            additional_headers={'Accept': 'application/json'},
        )

    def answers(self, path: str) -> bool:
        """Say whether there is something, which the user may see."""
        try:
            return self.ask('GET', path).status == 200
        except exceptions.ClientException:
            return False

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Return the answer to one request, whatever it is.

        :raises ClientException: there is none
        """
        json = {} if body is None else {'json': body}
        answer = self._adapter.request(path, method, timeout=_SECONDS, **json)
        is_json = 'json' in answer.headers.get('Content-Type', '')
        return Answer(
            status=answer.status_code,
            body=answer.json() if is_json and answer.content else None,
        )

    def get(self, path: str) -> Any:
        """Return what is there.

        :raises NotAsTold: nothing
        """
        return self.order('GET', path, status=200)

    def order(
        self, method: str, path: str, body: object = None, *, status: int
    ) -> Any:
        """Return the body of an answer that must have a status.

        :raises NotAsTold: it has another one
        """
        return self._expect(method, path, body, status).body

    def order_in_vain(
        self, method: str, path: str, body: object = None, *, status: int
    ) -> str:
        """Send a request that must be refused; return the reason.

        :raises NotAsTold: it is answered otherwise
        """
        return self._expect(method, path, body, status).text

    def _expect(
        self, method: str, path: str, body: object, status: int
    ) -> Answer:
        answer = self.ask(method, path, body)
        told.expect(
            answer.status == status,
            f'{method} {path} is answered with {status}',
            f'{answer.status}: {answer.text}',
        )
        return answer
