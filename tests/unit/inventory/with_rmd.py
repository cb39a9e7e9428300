# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""A base for tests of the inventory provider of RMD, with a simulator."""

from typing import Any

from nova_ext_resources.inventory import rmd
from nova_ext_resources.plugins import base as plugins_base
from nova_ext_resources.testing import rmd_simulator
from tests.unit.inventory import contract


class RmdInventoryContract(contract.InventoryProviderContract):
    name = 'rmd'
    plugin_class = rmd.RmdInventory

    #: Options that sell more of RMD's pools.
    POOLS: dict[str, Any] = {}  # noqa: RUF012 - read only

    def setUp(self) -> None:
        super().setUp()
        self.fixture = self.useFixture(rmd_simulator.RmdSimulatorFixture())
        self.simulator = self.fixture.simulator

    def make_plugin(self, **options: Any) -> rmd.RmdInventory:
        given = {
            'url': self.fixture.url,
            'timeout': 5.0,
            'retries': 0,
            **self.POOLS,
        }
        plugin = rmd.RmdInventory(
            self.make_options(**{**given, **options}), 'host1'
        )
        self.addCleanup(plugin._client.close)
        return plugin

    def break_host(self, plugin: plugins_base.InventoryProvider) -> None:
        self.simulator.refuse_connections()
