# SPDX-License-Identifier: Apache-2.0

"""Requests that time out, and that RMD carries out all the same.

Without any clock: the test decides when RMD has carried out a request, and
when the timeout is over.
"""

from typing import Any

import requests
from requests import adapters

from nova_ext_resources.drivers.rmd.api import client as client_mod
from nova_ext_resources.drivers.rmd.api import pending_changes
from nova_ext_resources.testing import fake_clock


class LateRequests(adapters.HTTPAdapter):
    """Lets the next POST requests of a client time out.

    :ivar count: how many
    """

    def __init__(self, client: client_mod.RmdClient, count: int = 0) -> None:
        super().__init__()
        self.count = count
        self._waiting: list[requests.PreparedRequest] = []
        self._now = 0.0
        self._timeout = client._transport.timeout
        client._pending = pending_changes.PendingChanges(
            self._timeout, clock=fake_clock.FakeClock(lambda: self._now)
        )
        client._transport.session.mount('http://', self)

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        if request.method != 'POST' or not self.count:
            return super().send(request, *args, **kwargs)
        self.count -= 1
        self._waiting.append(request)
        raise requests.ReadTimeout('Read timed out.', request=request)

    def arrive(self) -> None:
        """Let the timeout pass, and RMD carry out all that timed out."""
        self.pass_timeout()
        while self._waiting:
            super().send(self._waiting.pop(0)).close()

    def pass_timeout(self) -> None:
        """Let the client's timeout pass."""
        self._now += self._timeout
