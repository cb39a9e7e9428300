# SPDX-License-Identifier: Apache-2.0

"""What Nova is to report of its compute node, and to remove again."""

from typing import Any

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.objects import host_provider
from nova_ext_resources import plugins
from nova_ext_resources.testing import cpu
from tests.unit.host import with_host

TURBO = 'CUSTOM_CPU_TURBO'
P_STATES = 'CUSTOM_CPU_P_STATES'
DRIVER = 'CUSTOM_CPU_SCALING_DRIVER_ACPI_CPUFREQ'
GOVERNOR = 'CUSTOM_CPU_GOVERNOR_PERFORMANCE'


class NodeTraitsTest(with_host.HostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.tree = cpu.Sysfs(self.useFixture(fixtures.TempDir()).path)
        self.tree.add_policies(
            'acpi-cpufreq', governor='performance', preference=''
        )
        self.tree.write('cpufreq/boost', 1)
        self.host = self.start()

    def start(self, *, is_enabled: bool = True) -> manager.HostManager:
        found: dict[str, Any] = {}
        if is_enabled:
            found = self.load(
                plugins.INVENTORY_PROVIDERS, 'cpu', path=str(self.tree.path)
            )
        return with_host.make_host(found, {}, self.open_ledger())

    def restart(self, *, is_enabled: bool = True) -> None:
        self.host.close()
        self.host = self.start(is_enabled=is_enabled)

    def publish(self) -> None:
        self.host.refresh()
        self.assertEqual((), self.host.providers())

    def assert_reported(self, added: set[str], removed: set[str]) -> None:
        self.assertEqual(
            host_provider.NodeTraits(
                added=frozenset(added), removed=frozenset(removed)
            ),
            self.host.node_traits,
        )

    def test_what_is_found_is_added(self) -> None:
        self.assert_reported(set(), set())

        self.publish()

        self.assert_reported({TURBO, P_STATES, DRIVER, GOVERNOR}, set())

    def test_what_is_not_remembered_is_not_added(self) -> None:
        self.host.refresh()
        self.assert_reported(set(), set())

        # As on a full disk.
        self.host._ledger._db.execute('PRAGMA query_only = 1')

        self.assertRaises(exception.LedgerError, self.host.providers)
        self.assert_reported(set(), set())

    def test_what_is_gone_is_removed_also_after_a_restart(self) -> None:
        self.publish()
        self.tree.write('cpufreq/boost', 0)
        self.publish()
        self.assert_reported({P_STATES, DRIVER, GOVERNOR}, {TURBO})

        self.restart()
        # Not before the host has been read.
        self.assert_reported(set(), set())
        self.publish()
        self.assert_reported({P_STATES, DRIVER, GOVERNOR}, {TURBO})

        # It comes back.
        self.tree.write('cpufreq/boost', 1)
        self.publish()
        self.assert_reported({TURBO, P_STATES, DRIVER, GOVERNOR}, set())

    def test_all_is_removed_when_the_plugin_is_no_longer_enabled(self) -> None:
        self.publish()

        self.restart(is_enabled=False)
        self.publish()

        self.assert_reported(set(), {TURBO, P_STATES, DRIVER, GOVERNOR})

    def test_nothing_is_removed_while_the_host_cannot_be_read(self) -> None:
        self.publish()
        self.tree.write('online', 'x')

        # As it was.
        self.publish()
        self.assert_reported({TURBO, P_STATES, DRIVER, GOVERNOR}, set())

        self.restart()
        self.publish()
        self.assert_reported(set(), set())

    def test_the_compute_node_itself_is_no_provider_of_ours(self) -> None:
        # A claim of what is allocated of it would be refused otherwise.
        self.publish()

        self.assertNotIn(
            with_host.NODE.uuid, self.host._ledger.list_published()
        )
