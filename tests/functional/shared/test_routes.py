# SPDX-License-Identifier: Apache-2.0

"""All versions of Nova's API, which share a router."""

from nova.api.openstack.compute import routes as nova_routes
import requests

from tests.functional.shared import routes
from tests.functional.virt import base


class RoutesTest(base.NovaTestCase):
    def find_status(self, version: str, path: str) -> int:
        url = self.api_fixture.base_url.replace('v2.1', version)
        headers = {
            'X-Auth-User': 'admin',
            'X-Auth-Project-Id': self.admin_api.project_id,
            'X-Roles': 'admin',
        }
        answer = requests.get(f'{url}/{path}', headers=headers, timeout=60)
        return answer.status_code

    def test_each_version_is_served(self) -> None:
        for version in ('v2', 'v2.1'):
            self.assertEqual(200, self.find_status(version, 'servers'))
            self.assertEqual(404, self.find_status(version, 'no-servers'))

    def test_another_test_has_another_router(self) -> None:
        find = nova_routes.APIRouterV21.factory
        self.assertIs(find({}), find({}))

        with routes.OneRouter():
            another = nova_routes.APIRouterV21.factory({})

        self.assertIsNot(find({}), another)
