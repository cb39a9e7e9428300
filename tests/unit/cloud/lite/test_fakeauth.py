# SPDX-License-Identifier: Apache-2.0


from collections.abc import Iterable
from typing import Any

from dev.cloud.lite import fakeauth
from tests import base


def _application(
    environ: dict[str, Any], start_response: Any
) -> Iterable[bytes]:
    start_response('200 OK', [])
    return [environ['HTTP_X_ROLES'].encode()]


class FakeAuthTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.status = ''
        self.filter = fakeauth.filter_factory({})(_application)

    def call(self, environ: dict[str, Any]) -> bytes:
        def start_response(status: str, headers: Any) -> None:
            self.status = status

        return b''.join(self.filter(environ, start_response))

    def test_a_request_without_a_token_is_turned_away(self) -> None:
        self.call({})

        self.assertEqual('401 Unauthorized', self.status)

    def test_the_administrator_has_the_role_admin(self) -> None:
        body = self.call({'HTTP_X_AUTH_TOKEN': 'admin'})

        self.assertIn(b'admin', body.split(b','))

    def test_another_user_does_not(self) -> None:
        body = self.call({'HTTP_X_AUTH_TOKEN': 'eve'})

        self.assertNotIn(b'admin', body.split(b','))

    def test_the_project_may_differ_from_the_user(self) -> None:
        headers = fakeauth.identity('eve:research')

        self.assertEqual('eve', headers['HTTP_X_USER_ID'])
        self.assertEqual('research', headers['HTTP_X_PROJECT_ID'])
