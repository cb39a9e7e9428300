# SPDX-License-Identifier: Apache-2.0

"""Hosts that placement knows, and Nova cannot use."""

from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.tests import fixtures as nova_fixtures
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.cmd.osc.resource import simulate
from nova_ext_resources.placement.api import responses
from tests.functional.cmd.osc import explaining


class ServicesTest(explaining.ExplainTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.name = self.api.get_flavor(self.flavor)['name']

    def read(self) -> tuple[Mapping[str, Any], str]:
        """Return what ``explain`` says of host2, and print all."""
        found, text = self.explain('--flavor', self.name)
        [host] = [one for one in found['hosts'] if one['host'] == 'host2']
        return host, ' '.join(text.split())

    def check(self, wanted: str) -> None:
        """``explain`` and ``simulate`` leave host2 out."""
        host, text = self.read()
        self.assertEqual((False, 'service'), (host['fits'], host['step']))
        self.assertIn(wanted, host['shortfalls'][0]['reason'])
        self.assertIn('2 known to placement 1 enabled, and up', text)
        found, _text = self.explain(
            '--flavor', self.name, kind=simulate.Simulate
        )
        self.assertEqual(['host1'], [one['host'] for one in found['hosts']])

    def test_all_hosts_are_up(self) -> None:
        host, text = self.read()

        self.assertTrue(host['fits'])
        self.assertIn('2 known to placement 2 enabled, and up', text)

    def test_a_host_that_was_not_discovered(self) -> None:
        context = nova_context.get_admin_context()
        objects.HostMapping.get_by_host(context, 'host2').destroy()

        self.check('discover_hosts')

    def test_a_compute_service_that_was_deleted(self) -> None:
        """What no server of Nova holds keeps its root provider."""
        self.make_command('admin').placement.put_allocations(
            responses.Allocations(
                consumer_uuid=uuids.gone,
                resources={
                    self._get_provider_uuid_by_host('host2'): {'VCPU': 1}
                },
                project_id='project',
                user_id='user',
            )
        )
        self.stop_compute(self.services['host2'])
        [service] = self.admin_api.get_services(
            binary='nova-compute', host='host2'
        )
        self.admin_api.put_service_force_down(service['id'], True)
        self.admin_api.api_delete(f'/os-services/{service["id"]}')

        self.check('Nova has no hypervisor of this name')

    def test_a_cell_that_does_not_answer(self) -> None:
        context = nova_context.get_admin_context()
        cells = [
            one
            for one in objects.CellMappingList.get_all(context)
            if not one.is_cell0()
        ]
        with nova_fixtures.DownCellFixture(cells):
            found, text = self.explain('--flavor', self.name)
        self.assertEqual(
            {'service'}, {one['step'] for one in found['hosts']}, text
        )
        self.assertIn('its cell does not answer', text)
