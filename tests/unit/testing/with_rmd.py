# SPDX-License-Identifier: Apache-2.0

"""A base for tests of the simulator: raw HTTP, as a client sees it."""

import json
from typing import Any

import requests

from nova_ext_resources.testing import rmd_simulator
from tests import base

UUID = '7f6ed6a1-7ed6-4d4c-9d6d-6a3c0c8f4f55'


class SimulatorTestCase(base.TestCase):
    """Talks to a simulator without the client."""

    #: Fields of the simulator's settings, for all tests of a class.
    SETTINGS: dict[str, Any] = {}  # noqa: RUF012 - read only

    def setUp(self) -> None:
        super().setUp()
        self.session = requests.Session()
        self.addCleanup(self.session.close)
        self.start(**self.SETTINGS)

    def start(self, **settings: Any) -> None:
        """Go on with another simulator."""
        fixture = self.useFixture(
            rmd_simulator.RmdSimulatorFixture(**settings)
        )
        self.url = fixture.url
        self.simulator = fixture.simulator

    def send(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> requests.Response:
        """Send ``body`` as JSON, or as it is when it is text."""
        if body is not None:
            headers.setdefault('Content-Type', 'application/json')
        return self.session.request(
            method,
            self.url + path,
            data=body
            if isinstance(body, str) or body is None
            else json.dumps(body),
            headers=headers,
            timeout=60,
            allow_redirects=False,
        )

    def post(self, **body: Any) -> requests.Response:
        return self.send('POST', '/v1/workloads', body)

    def send_patch(self, record_id: str, body: Any) -> requests.Response:
        return self.send('PATCH', f'/v1/workloads/{record_id}', body)

    def delete(self, record_id: str) -> requests.Response:
        return self.send('DELETE', f'/v1/workloads/{record_id}')

    def post_ways(
        self,
        core: str,
        maximum: int,
        minimum: int,
        mba: Any = None,
        **body: Any,
    ) -> requests.Response:
        rdt: dict[str, Any] = {'cache': {'max': maximum, 'min': minimum}}
        if mba is not None:
            rdt['mba'] = {'percentage': mba}
        return self.post(core_ids=[core], rdt=rdt, **body)

    def pools(self, cache_id: int = 0) -> dict[str, str]:
        answer = self.send('GET', f'/v1/cache/l3/{cache_id}')
        pools: dict[str, str] = answer.json()['available_ways_pool']
        return pools

    def schemata(self, name: str) -> str:
        """Return a group's L3 line as resctrl shows it."""
        for group in self.simulator.list_groups():
            if group['name'] == name:
                masks = group['schemata']['L3']
                return ';'.join(f'{k}={v}' for k, v in masks.items())
        raise KeyError(name)

    def assert_text(
        self, status: int, text: str, answer: requests.Response
    ) -> None:
        """Compare an error, to the last line end."""
        self.assertEqual((status, text), (answer.status_code, answer.text))

    def assert_refused(self, reason: str, answer: requests.Response) -> None:
        self.assert_text(
            400, f'Failed to validate workload. Reason: {reason}', answer
        )

    def assert_dropped(self, method: str, path: str, body: Any) -> None:
        """The daemon panics: no answer at all."""
        self.assertRaises(
            requests.ConnectionError, self.send, method, path, body
        )
