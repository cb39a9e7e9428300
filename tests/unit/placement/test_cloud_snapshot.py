# SPDX-License-Identifier: Apache-2.0

"""Tests of hosts that go while they are read; the rest is functional."""

import re

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources import exception
from nova_ext_resources.placement import cloud_snapshot
from tests.unit.placement.api import test_placement_client

LIST = f'{test_placement_client.URL}/resource_providers'


class CloudSnapshotTest(test_placement_client.MockTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.mock = self.make_mock()
        self.client = test_placement_client.make_client()

    def test_a_host_whose_root_goes_meanwhile(self) -> None:
        root = {
            'uuid': uuids.root,
            'name': 'node1',
            'generation': 1,
            'parent_provider_uuid': None,
        }
        for query, listed in (('name', [root]), ('in_tree', [])):
            self.mock.get(
                re.compile(re.escape(f'{LIST}?{query}=')),
                json={'resource_providers': listed},
            )

        error = self.assertRaises(
            exception.NotFound, cloud_snapshot.get_host, self.client, 'node1'
        )

        self.assertIn('did not show host node1', str(error))
