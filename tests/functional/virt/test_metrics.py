# SPDX-License-Identifier: Apache-2.0

"""Tests of the metrics of a compute service."""

import urllib.request

from tests.functional.virt import base
from tests import ports


class MetricsTest(base.NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.port = self.useFixture(ports.Port()).number
        self.host_options = f'\n[ext_resources_metrics]\nport = {self.port}\n'
        self.service = self.start_host('host1')

    def test_a_server_shows_with_its_flavor_and_project(self) -> None:
        flavor_id = self.make_pinned_flavor(4)
        server = self.boot(flavor_id)
        self.publish(self.service)
        # It is asked by itself, some seconds later.
        self.service.manager.driver._ext.metrics.servers.run_once()

        lines = [line for line in self.read() if server['id'] in line]

        [ways] = [line for line in lines if 'CUSTOM_LLC_WAYS' in line]
        flavor = self.api.get_flavor(flavor_id)['name']
        self.assertIn(f'flavor="{flavor}"', ways)
        self.assertIn(f'project="{server["tenant_id"]}"', ways)
        self.assertTrue(ways.endswith(' 4.0'), ways)

    def read(self) -> list[str]:
        url = f'http://127.0.0.1:{self.port}/metrics'
        with urllib.request.urlopen(url, timeout=60) as response:
            text: str = response.read().decode()
        return text.splitlines()
