# SPDX-License-Identifier: Apache-2.0

"""Requests that stay on this machine, whatever its environment says."""

import pathlib

import fixtures
import requests

from tests import base
from tests.functional import shared

URL = 'http://127.0.0.1:1/'


class ProxiesTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        shared.install()
        self.session = requests.Session()
        self.addCleanup(self.session.close)

    def set_environment(self, name: str, value: str) -> None:
        self.useFixture(fixtures.EnvironmentVariable(name, value))

    def test_no_proxy_serves_a_request(self) -> None:
        self.set_environment('http_proxy', 'http://127.0.0.1:2/')

        found = self.session.merge_environment_settings(
            URL, {}, None, None, None
        )

        self.assertEqual({}, dict(found['proxies']))

    def test_no_password_is_sent(self) -> None:
        path = pathlib.Path(self.make_folder()) / 'netrc'
        path.write_text('machine 127.0.0.1 login one password other\n')
        self.set_environment('NETRC', str(path))

        made = self.session.prepare_request(requests.Request('GET', URL))

        self.assertNotIn('Authorization', made.headers)
