# SPDX-License-Identifier: Apache-2.0

"""A base for tests of the inventory provider of RMD, with a simulator."""

from typing import Any

from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.rmd.api import losses
from nova_ext_resources.drivers.rmd import inventory
from nova_ext_resources.testing import rmd_simulator
from tests.unit.drivers import contract


class RmdInventoryContract(contract.InventoryProviderContract):
    name = 'rmd'
    plugin_class = inventory.RmdInventory

    #: Options that sell more of RMD's pools.
    POOLS: dict[str, Any] = {}  # noqa: RUF012 - read only

    def setUp(self) -> None:
        super().setUp()
        self.fixture = self.useFixture(rmd_simulator.RmdSimulatorFixture())
        self.simulator = self.fixture.simulator
        # Another test may get the same port.
        self.addCleanup(losses.forget_all)

    def make_plugin(
        self, entries: base.EntriesReader = dict, **options: Any
    ) -> inventory.RmdInventory:
        given = {
            'url': self.fixture.url,
            'timeout': 60.0,
            'retries': 0,
            **self.POOLS,
        }
        plugin = inventory.RmdInventory(
            self.make_options(**{**given, **options}), 'host1', entries
        )
        self.addCleanup(plugin._client.close)
        return plugin

    def break_host(self, plugin: base.InventoryProvider) -> None:
        self.simulator.refuse_connections()
