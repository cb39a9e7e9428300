# SPDX-License-Identifier: Apache-2.0


import json
from typing import Any

from dev.cloud import network
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
