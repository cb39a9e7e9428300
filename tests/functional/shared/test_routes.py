# SPDX-License-Identifier: Apache-2.0

"""All versions of Nova's API, which share a router."""

from typing import Any

from nova.api.openstack.compute import routes as nova_routes
from nova.compute import api as compute_api
import requests

from tests.functional.shared import routes
from tests.functional.virt import base


def find_apis(router: nova_routes.APIRouterV21) -> set[Any]:
    """Return what the controllers of its routes ask the computes by."""
    routed = router.map.matchlist
    resources = (one.defaults.get('controller') for one in routed)
    controllers = (getattr(one, 'controller', None) for one in resources)
    found = {getattr(one, 'compute_api', None) for one in controllers}
    return found - {None}


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

    def test_all_controllers_have_one_api_of_the_computes(self) -> None:
        kind = compute_api.API

        made = [find_apis(routes.make_router()) for _ in range(2)]

        for one in made:
            self.assertEqual(1, len(one))
            self.assertIsInstance(*one, kind)
        self.assertTrue(made[0].isdisjoint(made[1]))
        self.assertIs(kind, compute_api.API)
