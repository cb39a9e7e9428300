# SPDX-License-Identifier: Apache-2.0

"""Old inventory of a host whose ways the RMD daemon applies."""

from typing import Any

import fixtures

from nova_ext_resources.objects import assignment
from nova_ext_resources.testing import rmd_simulator
from tests.functional.virt import base
from tests.functional.virt import old_inventory


class RmdTest(old_inventory.OneHostTestCase):
    plugins = 'rmd'
    enforcers = 'rmd'

    def setUp(self) -> None:
        super().setUp()
        rmd = self.useFixture(rmd_simulator.RmdSimulatorFixture())
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.drivers.rmd.api.client.RESCTRL', '/nowhere'
            )
        )
        self.rmds['host1'] = rmd
        self.host_options = base.HOST_CONF.format(url=rmd.url)

    def test_running_servers_get_what_they_hold(self) -> None:
        servers = self.start_with_servers(4, 3)
        self.path.unlink()
        # Nothing has applied it so far.
        self.assertEqual([], self.list_workloads('host1'))

        self.start_ours('host1')

        self.wait_until(lambda: all(map(self._is_applied, servers)))
        self.host = self.get_ext().host
        for server, ways in zip(servers, (4, 3), strict=True):
            self.assert_in_force(server, ways)
            self.assert_allocated_as_held(server)
        self.wait_until(lambda: 'host1' not in self.read_offers())
        self.assertEqual({}, self.list_alarms())

        # They can go, and others come.
        self._delete_server(servers[0])
        self.assertEqual(1, len(self.list_workloads('host1')))
        self.assert_in_force(self.boot(self.make_ways_flavor(4)), 4)

    def test_what_its_pool_has_no_room_for(self) -> None:
        self.start_with_servers(7, 7, 6)
        self.path.unlink()

        self.start_ours('host1')

        [(name, text)] = self.list_alarms().items()
        self.assertIn('no provider has room', text, name)
        self.assertEqual([], self.list_workloads('host1'))

    def _is_applied(self, server: Any) -> bool:
        entry = self.get_ext().host.find_entry(server['id'])
        return entry is not None and entry.state is assignment.State.APPLIED
