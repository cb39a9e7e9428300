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


import urllib.parse

from demo.cloud import endpoints
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
            for url in (urls.placement, urls.compute, urls.network, urls.image)
        ]
        self.assertEqual({'127.0.0.1'}, {one.hostname for one in parsed})
        self.assertEqual(4, len({one.port for one in parsed}))
