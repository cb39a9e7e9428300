# SPDX-License-Identifier: Apache-2.0


import io
import json
from typing import Any

from keystoneauth1 import access

from dev.cloud.lite import identity
from tests import base

CATALOG = {'compute': 'http://here:2/v2.1', 'placement': 'http://here:3'}


class IdentityTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.application = identity.make_application(CATALOG)
        self.status = ''
        self.headers: dict[str, str] = {}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        def start_response(status: str, headers: Any) -> None:
            self.status, self.headers = status, dict(headers)

        data = json.dumps(body).encode()
        answer = self.application(
            {
                'REQUEST_METHOD': method,
                'PATH_INFO': path,
                'HTTP_HOST': 'here:1',
                'CONTENT_LENGTH': str(len(data)),
                'wsgi.input': io.BytesIO(data),
            },
            start_response,
        )
        return json.loads(b''.join(answer))

    def ask_token(self, user: str) -> Any:
        return self.call(
            'POST',
            '/v3/auth/tokens',
            {'auth': {'identity': {'password': {'user': {'name': user}}}}},
        )

    def test_a_token_leads_to_every_service(self) -> None:
        body = self.ask_token('admin')

        found = access.create(body=body)
        urls = {
            kind: found.service_catalog.url_for(
                service_type=kind, interface='internal'
            )
            for kind in CATALOG
        }
        self.assertEqual(CATALOG, urls)
        self.assertFalse(found.will_expire_soon(3600 * 12))

    def test_the_token_is_the_user(self) -> None:
        self.ask_token('eve')

        self.assertEqual('201 Created', self.status)
        self.assertEqual('eve', self.headers['X-Subject-Token'])

    def test_the_version_says_where_it_is(self) -> None:
        version = self.call('GET', '/v3')['version']

        self.assertEqual('http://here:1/v3', version['links'][0]['href'])

    def test_it_has_nothing_else(self) -> None:
        self.call('GET', '/v3/users')

        self.assertEqual('404 Not Found', self.status)
