# SPDX-License-Identifier: Apache-2.0

"""Tests of the command that shows what a server holds; see functional."""

import argparse

import fixtures
from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.cmd.osc import nova
from nova_ext_resources.cmd.osc.resource import usage
from tests.unit.placement.api import test_placement_client

URL = 'http://nova/v2.1'


class UsageTest(test_placement_client.MockTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.mock = self.make_mock()
        self.log = self.useFixture(fixtures.FakeLogger())
        auth = token_endpoint.Token(URL, 'reader')
        self.command = usage.ShowUsage(None, None)  # type: ignore[arg-type]
        self.command.placement = test_placement_client.make_client()
        self.command.nova = nova.Nova(
            adapter.Adapter(
                session.Session(auth=auth),
                service_type='compute',
                endpoint_override=URL,
            )
        )

    def test_whoever_may_not_see_migrations_sees_the_server(self) -> None:
        self.mock.get(
            f'{URL}/servers',
            json={'servers': [{'id': uuids.server, 'name': 'web'}]},
        )
        self.mock.get(f'{URL}/os-migrations', status_code=403)
        self.mock.get(
            f'{test_placement_client.URL}/allocations/{uuids.server}',
            json={
                'allocations': {
                    uuids.node: {'generation': 1, 'resources': {'VCPU': 2}}
                },
                'consumer_generation': 1,
                'consumer_type': 'INSTANCE',
                'project_id': uuids.project,
                'user_id': uuids.user,
            },
        )
        self.mock.get(
            f'{test_placement_client.URL}/resource_providers',
            json={
                'resource_providers': [
                    {
                        'uuid': uuids.node,
                        'name': 'node1',
                        'generation': 1,
                        'parent_provider_uuid': None,
                    }
                ]
            },
        )

        _columns, rows = self.command.take_action(
            argparse.Namespace(server='web', config_file=None, config_dir=None)
        )

        self.assertEqual(
            [('node1', 'VCPU', 2)], [(one[0], *one[2:4]) for one in rows]
        )
        self.assertIn("The server's migrations are unknown", self.log.output)
