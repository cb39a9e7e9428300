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


import json
from typing import Any

from demo.cloud import network
from tests import base


class NetworkTest(base.TestCase):
    def call(self, path: str, method: str = 'GET') -> tuple[str, Any]:
        said: list[str] = []
        body = network.application(
            {
                'PATH_INFO': path,
                'REQUEST_METHOD': method,
                'HTTP_HOST': 'here:1',
            },
            lambda status, headers: said.append(status),
        )
        return said[0], json.loads(b''.join(body))

    def test_every_collection_is_empty(self) -> None:
        self.assertEqual(
            ('200 OK', {'security_groups': []}),
            self.call('/v2.0/security-groups'),
        )

    def test_the_root_names_the_version(self) -> None:
        status, body = self.call('/')

        self.assertEqual('200 OK', status)
        self.assertEqual('v2.0', body['versions'][0]['id'])

    def test_single_things_do_not_exist(self) -> None:
        self.assertEqual('404 Not Found', self.call('/v2.0/ports/1')[0])

    def test_nothing_can_be_made(self) -> None:
        self.assertEqual('404 Not Found', self.call('/v2.0/ports', 'POST')[0])
