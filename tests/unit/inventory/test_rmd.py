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

from concurrent import futures
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.inventory import rmd
from nova_ext_resources.objects import provider
from nova_ext_resources.plugins import base as plugins_base
from nova_ext_resources import rdt
from nova_ext_resources.testing import rmd_simulator
from nova_ext_resources.testing.rmd_simulator import faults
from tests.unit.inventory import contract

WAYS = rdt.WAYS
CLOS = rdt.CLOS


class RmdInventoryTest(contract.InventoryProviderContract):
    name = 'rmd'
    plugin_class = rmd.RmdInventory

    def setUp(self) -> None:
        super().setUp()
        self.fixture = self.useFixture(rmd_simulator.RmdSimulatorFixture())
        self.simulator = self.fixture.simulator

    def make_plugin(self, **options: Any) -> rmd.RmdInventory:
        given = {'url': self.fixture.url, 'timeout': 5.0, 'retries': 0}
        plugin = rmd.RmdInventory(
            self.make_options(**{**given, **options}), 'host1'
        )
        self.addCleanup(plugin._client.close)
        return plugin

    def break_host(self, plugin: plugins_base.InventoryProvider) -> None:
        self.simulator.refuse_connections()

    def find(self, **options: Any) -> dict[str, provider.HostProvider]:
        plugin = self.make_plugin(**options)
        return {one.key: one for one in plugin.discover()}

    def free(self, key: str = 'L3_0') -> str:
        return str(self.find()[key].units[WAYS]['free'])

    def test_each_cache_is_found_with_its_cpus(self) -> None:
        found = self.find()

        self.assertEqual(['RDT', 'L3_0', 'L3_1'], list(found))
        self.assertEqual(
            ['0-11,24-35', '12-23,36-47'],
            [found['L3_0'].cpus, found['L3_1'].cpus],
        )
        self.assertEqual(11, found['L3_0'].inventories[WAYS].total)
        self.assertIn('CUSTOM_RDT_L3_CAT', found['L3_0'].traits)

    def test_only_guaranteed_ways_are_sold(self) -> None:
        found = self.find()

        # One way is the operating system's, on the cache of its CPU.
        self.assertEqual('7e', found['L3_0'].units[WAYS]['free'])
        self.assertEqual('3f', found['L3_1'].units[WAYS]['free'])

    def test_ways_of_others_are_not_free(self) -> None:
        self.simulator.add_foreign_group('db', {0: 0b110})

        self.assertEqual('78', self.free())

    def test_it_does_not_look_while_something_is_changed(self) -> None:
        plugin = self.make_plugin()
        with futures.ThreadPoolExecutor(1) as pool:
            with plugin._client.writing():
                look = pool.submit(plugin.discover)
                self.assertRaises(
                    futures.TimeoutError, look.result, timeout=0.1
                )
                self.assertEqual([], self.simulator.requests)

            self.assertEqual(3, len(look.result(timeout=10)))

    def test_two_classes_of_service_are_kept(self) -> None:
        for num_closids, free in ((8, 6), (4, 2), (3, 1)):
            rdt = self.find(num_closids=num_closids)['RDT']

            self.assertEqual(num_closids, rdt.inventories[CLOS].total)
            self.assertEqual(2, rdt.inventories[CLOS].reserved)
            self.assertEqual(free, rdt.units[CLOS]['free'])

    def test_each_workload_takes_a_class(self) -> None:
        self.simulator.add_workload({'core_ids': ['1'], 'policy': 'gold'})
        self.simulator.add_workload({'core_ids': ['3'], 'policy': 'silver'})

        self.assertEqual(4, self.find()['RDT'].units[CLOS]['free'])

    def test_shared_workloads_take_one_class_together(self) -> None:
        for core in ('1', '2'):
            self.simulator.add_workload(
                {'core_ids': [core], 'policy': 'bronze'}
            )

        self.assertEqual(5, self.find()['RDT'].units[CLOS]['free'])

    def test_garbage_and_refusals_fail_with_the_address(self) -> None:
        for path in ('/v1/cache', '/v1/workloads'):
            for fault in (
                faults.Fault(kind='garbage', body='html', path=path),
                faults.Fault(kind='status', status=500, path=path),
                faults.Fault(kind='drop', path=path),
            ):
                with self.subTest(fault=fault):
                    self.simulator.faults.add(fault)

                    err = self.assertRaises(
                        exception.DiscoveryFailed, self.find
                    )

                    self.assertIn(self.fixture.url, str(err))
                    self.assertIn('stays in force', str(err))
                    self.simulator.faults.clear()

    def test_a_hung_rmd_fails_in_time(self) -> None:
        self.simulator.faults.add(faults.Fault(kind='hang'))

        self.assertRaises(exception.DiscoveryFailed, self.find, timeout=0.2)

    def test_an_infra_group_hides_all_ways_and_is_refused(self) -> None:
        fixture = self.useFixture(
            rmd_simulator.RmdSimulatorFixture(
                pools={'os': 1, 'guarantee': 6, 'infra': 10},
                infra_cpus='1-3',
            )
        )

        err = self.assertRaises(
            exception.DiscoveryFailed, self.find, url=fixture.url
        )

        self.assertIn('[InfraGroup]', str(err))
        self.assertIn('rmd.toml', str(err))
