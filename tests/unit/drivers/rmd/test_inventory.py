# SPDX-License-Identifier: Apache-2.0

from concurrent import futures
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rmd.api import losses
from nova_ext_resources.drivers.rmd import inventory
from nova_ext_resources.drivers.rmd import shared_pool
from nova_ext_resources import exception
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import reserved_units
from nova_ext_resources.testing import rmd_simulator
from nova_ext_resources.testing.rmd_simulator import faults
from tests.unit import builders
from tests.unit.drivers.rmd import with_inventory

WAYS = classes.WAYS
CLOS = classes.CLOS
Reserved = reserved_units.Reserved


class EverythingTest(with_inventory.RmdInventoryContract):
    POOLS = {'burst_ways': 3, 'shared_servers': 4}  # noqa: RUF012


class RmdInventoryTest(with_inventory.RmdInventoryContract):
    def find(self, **options: Any) -> dict[str, host_provider.HostProvider]:
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

    def test_what_has_the_ways_that_are_not_free(self) -> None:
        found = self.find()

        # In no pool is the highest way of a cache without a CPU of the host.
        self.assertEqual(
            [Reserved(host=0x001, pools=0x780), Reserved(pools=0x3C0)],
            [found[key].reserved[WAYS] for key in ('L3_0', 'L3_1')],
        )
        self.simulator.add_foreign_group('db', {0: 0b110, 1: 0b1})
        self.simulator.add_workload({'core_ids': ['1'], 'policy': 'bronze'})
        found = self.find()
        self.assertEqual(
            [Reserved(host=0x001, pools=0x380), Reserved(pools=0x1C0)],
            [found[key].reserved[WAYS] for key in ('L3_0', 'L3_1')],
        )

    def test_ways_of_burst_servers_are_the_pools(self) -> None:
        self.simulator.add_workload({'core_ids': ['1'], 'policy': 'silver'})
        entry = builders.make_entry(
            uuidsentinel.server,
            resource_class=classes.BURST,
            amount=1,
            units={'mask': '380'},
        )
        plugin = self.make_plugin(
            entries=lambda: {uuidsentinel.server: entry}, burst_ways=3
        )

        [found, *_more] = plugin.discover()[1:]

        self.assertEqual(0x780, found.reserved[WAYS].pools)

    def test_what_has_the_classes_that_are_not_free(self) -> None:
        self.assertEqual(Reserved(host=2), self.find()['RDT'].reserved[CLOS])
        for core, policy in (('1', 'bronze'), ('2', 'bronze'), ('3', 'gold')):
            self.simulator.add_workload({'core_ids': [core], 'policy': policy})

        self.assertEqual(
            Reserved(host=2, pools=1), self.find()['RDT'].reserved[CLOS]
        )

    def test_it_does_not_look_while_something_is_changed(self) -> None:
        plugin = self.make_plugin()
        with futures.ThreadPoolExecutor(1) as pool:
            with plugin._client.writing():
                look = pool.submit(plugin.discover)
                self.assertRaises(
                    futures.TimeoutError, look.result, timeout=0.1
                )
                self.assertEqual([], self.simulator.requests)

            self.assertEqual(3, len(look.result(timeout=60)))

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
                    self.assertIn('stays valid', str(err))
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

    def test_burst_ways_are_sold_where_the_option_says(self) -> None:
        self.simulator.add_workload({'core_ids': ['1'], 'policy': 'silver'})

        for options, free in (({}, None), ({'burst_ways': 3}, (0, 3))):
            found = self.find(**options)

            for key, number in zip(('L3_0', 'L3_1'), free or (), strict=False):
                self.assertEqual(
                    number, found[key].units[classes.BURST]['free']
                )
                self.assertEqual(
                    3, found[key].inventories[classes.BURST].total
                )
                self.assertEqual(CLOS, found[key].implied[classes.BURST])
            self.assertEqual(
                bool(free), classes.BURST in found['L3_0'].inventories
            )

    def test_what_a_burst_server_took_beyond_its_minimum_is_reserved(
        self,
    ) -> None:
        self.simulator.add_workload({'core_ids': ['1'], 'policy': 'silver'})
        found = self.find(burst_ways=3)['L3_0']
        mine = builders.make_assignment(
            resource_class=classes.BURST, amount=1, units={'mask': '380'}
        )

        observed = self.trackers['burst_ways'].observe(
            found.inventories[classes.BURST],
            found.units[classes.BURST],
            [mine],
        )

        self.assertEqual(2, observed.reserved)

    def test_options_that_rmd_toml_contradicts_are_told(self) -> None:
        fixture = self.useFixture(
            rmd_simulator.RmdSimulatorFixture(pools={'os': 1, 'guarantee': 6})
        )
        for url, options, word in (
            (fixture.url, {'burst_ways': 3}, 'no ways in its pool besteffort'),
            (
                fixture.url,
                {'burst_ways': 0, 'shared_servers': 3},
                'no ways in its pool shared',
            ),
            (
                self.fixture.url,
                {'shared_servers': 0, 'burst_ways': 2},
                '3 free ways',
            ),
        ):
            err = self.assertRaises(
                exception.DiscoveryFailed, self.find, url=url, **options
            )

            self.assertIn(word, str(err))
            self.assertIn('[CachePool]', str(err))

    def test_places_are_sold_where_the_option_says(self) -> None:
        found = self.find(shared_servers=4)['L3_0']

        self.assertEqual(4, found.inventories[classes.SHARED].total)
        self.assertNotIn(classes.SHARED, found.implied)
        self.assertNotIn(
            classes.SHARED, self.find(shared_servers=0)['L3_0'].units
        )

    def test_beside_a_shared_workload_of_others_no_place_is_free(
        self,
    ) -> None:
        self.simulator.add_workload({'core_ids': ['1'], 'policy': 'bronze'})

        found = self.find(shared_servers=4)['L3_1']

        self.assertEqual(0, found.units[classes.SHARED]['free'])

    def take_classes(self, count: int, first: int = 12) -> None:
        for core in range(first, first + count):
            self.simulator.add_workload(
                {
                    'core_ids': [str(core)],
                    'rdt': {'cache': {'max': 1, 'min': 1}},
                }
            )

    def test_without_a_class_for_the_pool_no_place_is_free(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        self.take_classes(5)
        plugin = self.make_plugin(shared_servers=4)
        found = plugin.discover()[1]
        self.assertEqual({}, found.units.get(classes.SHARED, {}))

        self.take_classes(1, first=17)
        for _ in range(2):
            found = plugin.discover()[1]

        self.assertEqual(0, found.units[classes.SHARED]['free'])
        self.assertEqual(
            1, log.output.count('no class of service left for the pool')
        )

    def test_a_lost_class_is_none_for_the_pool(self) -> None:
        self.take_classes(5)
        plugin = self.make_plugin(shared_servers=4)
        plugin._client.losses.add(losses.Loss(text='x'))

        found = plugin.discover()[1]

        self.assertEqual(0, found.units[classes.SHARED]['free'])

    def test_the_pool_that_has_its_class_has_places(self) -> None:
        plugin = self.make_plugin(shared_servers=4)
        pool = shared_pool.RmdSharedPool(plugin._client)
        server = uuidsentinel.server
        pool.join(server, {server: frozenset({1})})
        self.take_classes(5)

        found = plugin.discover()[1]

        self.assertEqual({}, found.units.get(classes.SHARED, {}))

    def test_bandwidth_is_sold_in_the_steps_of_the_hardware(self) -> None:
        found = self.find()['L3_1']

        sold = found.inventories[classes.PERCENT]
        self.assertEqual(
            (100, 10, 10), (sold.total, sold.min_unit, sold.step_size)
        )
        self.assertEqual(10, found.units[classes.PERCENT]['step'])
        self.assertEqual(CLOS, found.implied[classes.PERCENT])

    def test_bandwidth_in_megabytes_needs_a_total(self) -> None:
        for total in (0, 100000):
            found = self.find(mba_mode='mbps', memory_bandwidth=total)

            sold = found['L3_0'].inventories.get(classes.MBPS)
            self.assertEqual(total, sold.total if sold else 0)
            self.assertNotIn(classes.PERCENT, found['L3_0'].inventories)

    def test_no_bandwidth_is_sold_where_there_is_none(self) -> None:
        found = self.find(mba_mode='none')
        self.assertEqual({WAYS}, set(found['L3_0'].inventories))
        self.simulator.faults.add(
            faults.Fault(
                kind='status', status=200, body='{"mba":false}', path='/v1/mba'
            )
        )

        found = self.find(mba_mode='percentage')

        self.assertEqual({WAYS}, set(found['L3_0'].inventories))

    def test_who_may_not_ask_for_bandwidth_sells_none_and_is_warned_once(
        self,
    ) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        self.simulator.faults.add(
            faults.Fault(
                kind='status',
                status=403,
                path='/v1/mba',
                body='User "nova" is not authorized to access this resource',
            )
        )
        plugin = self.make_plugin()

        for _ in range(2):
            found = plugin.discover()

        self.assertNotIn(classes.PERCENT, found[1].inventories)
        self.assertEqual(
            1, log.output.count('no memory bandwidth is published')
        )

    def test_the_p_state_plugin_shows_as_a_trait(self) -> None:
        fixture = self.useFixture(
            rmd_simulator.RmdSimulatorFixture(plugins=('pstate',))
        )
        for url, has_it in ((self.fixture.url, False), (fixture.url, True)):
            for one in self.find(url=url).values():
                self.assertEqual(has_it, inventory.PSTATE_TRAIT in one.traits)

    def test_a_hidden_page_of_the_plugin_is_no_failure(self) -> None:
        for status, has_it in ((403, False), (500, None), (404, False)):
            self.simulator.faults.add(
                faults.Fault(
                    kind='status',
                    status=status,
                    path='/v1/pstate',
                    body='?',
                )
            )
            if has_it is None:
                self.assertRaises(exception.DiscoveryFailed, self.find)
            else:
                self.assertNotIn(
                    inventory.PSTATE_TRAIT, self.find()['RDT'].traits
                )
            self.simulator.faults.clear()
