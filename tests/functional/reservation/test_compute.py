# SPDX-License-Identifier: Apache-2.0

"""Flavors and zones of a real Compute API."""

import os
import sys
from typing import Any

import fixtures
from keystoneauth1 import adapter
from keystoneauth1 import noauth
from keystoneauth1 import session
from nova import test
from nova.tests import fixtures as nova_fixtures

from nova_ext_resources.reservation import flavor
from nova_ext_resources.reservation.site import compute


class ComputeTest(test.TestCase):
    def setUp(self) -> None:
        # Nova's test base looks for its paste file in the source tree; a
        # wheel puts it below the prefix.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.conf.paths.state_path_def',
                lambda *parts: os.path.join(sys.prefix, *parts),
            )
        )
        super().setUp()
        api = self.useFixture(nova_fixtures.OSAPIFixture(api_version='v2.1'))
        self.api: Any = api.admin_api
        self.api.microversion = 'latest'
        self.compute = compute.Compute(
            adapter.Adapter(
                session.Session(
                    auth=noauth.NoAuth(endpoint=api.base_url),
                    timeout=30,
                    additional_headers={
                        'X-Auth-User': 'admin',
                        'X-User-Id': 'admin',
                        'X-Auth-Project-Id': self.api.project_id,
                        'X-Roles': 'admin,member,reader',
                    },
                ),
                service_type='compute',
            )
        )

    def make_flavor(self, name: str, **fields: Any) -> str:
        body = {'name': name, 'vcpus': 2, 'ram': 512, 'disk': 3, **fields}
        made = self.api.api_post('/flavors', {'flavor': body}).body['flavor']
        return str(made['id'])

    def test_a_flavor_with_its_extra_specs(self) -> None:
        specs = {'resources:CUSTOM_LLC_WAYS': '2', 'hw:cpu_policy': 'shared'}
        made = self.make_flavor(
            'ways',
            swap=1025,
            **{
                'OS-FLV-EXT-DATA:ephemeral': 4,
                'os-flavor-access:is_public': False,
            },
        )
        self.api.api_post(
            f'/flavors/{made}/os-extra_specs', {'extra_specs': specs}
        )

        for name in ('ways', made):
            self.assertEqual(
                flavor.Flavor(
                    name='ways',
                    vcpus=2,
                    memory_mb=512,
                    disk_gb=9,
                    extra_specs=specs,
                ),
                self.compute.find_flavor(name),
            )

    def test_all_pages_are_read(self) -> None:
        self.flags(max_limit=2, group='api')
        for number in range(5):
            self.make_flavor(f'flavor-{number}')

        found = self.compute.find_flavor('flavor-4')

        self.assertEqual(3, found and found.disk_gb)
        self.assertIsNone(self.compute.find_flavor('flavor-5'))

    def test_aggregates_that_are_zones(self) -> None:
        for name, zone in (('racks', 'north'), ('fast', None)):
            body = {'name': name, 'availability_zone': zone}
            self.api.api_post('/os-aggregates', {'aggregate': body})

        found = self.compute.list_zones()

        self.assertEqual(['north'], [*found.values()])
        (uuid,) = found
        self.assertEqual(36, len(uuid))
