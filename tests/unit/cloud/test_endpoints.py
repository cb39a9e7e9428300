# SPDX-License-Identifier: Apache-2.0


import urllib.parse

from dev.cloud import endpoints
from tests import base


class EndpointsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.bound = endpoints.Endpoints.bind()
        self.addCleanup(self.bound.close)

    def test_every_service_has_a_port_of_its_own_on_loopback(self) -> None:
        urls = self.bound.urls()

        parsed = [
            urllib.parse.urlsplit(url)
            for url in (urls.identity, *urls.catalog.values())
        ]
        self.assertEqual({'127.0.0.1'}, {one.hostname for one in parsed})
        self.assertEqual(5, len({one.port for one in parsed}))
