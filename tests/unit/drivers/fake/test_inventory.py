# SPDX-License-Identifier: Apache-2.0

"""Tests of the inventory provider ``fake``."""

import os
from typing import Any

from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.fake import inventory
from nova_ext_resources import exception
from tests.unit import builders
from tests.unit.drivers import contract


class TestFakeInventory(contract.InventoryProviderContract):
    name = 'fake'
    plugin_class = inventory.FakeInventory

    def setUp(self) -> None:
        super().setUp()
        self.failure_file = os.path.join(self.make_folder(), 'failure')

    def make_plugin(self, **values: Any) -> base.InventoryProvider:
        options = self.make_options(failure_file=self.failure_file, **values)
        return inventory.FakeInventory(options, 'host-1')

    def break_host(self, plugin: base.InventoryProvider) -> None:
        self.fail_with('the daemon is gone\n')

    def fail_with(self, reason: str) -> None:
        with open(self.failure_file, 'w', encoding='utf-8') as file:
            file.write(reason)

    def test_each_cache_has_the_cpus_that_linux_gives_it(self) -> None:
        _rdt, *caches = self.make_plugin().discover()

        self.assertEqual(builders.CPUS, tuple(one.cpus for one in caches))
        self.assertEqual(['L3_0', 'L3_1'], [one.key for one in caches])

    def test_a_host_of_many_small_caches_can_be_had(self) -> None:
        _rdt, *caches = self.make_plugin(
            sockets=32, cpus=256, ways=16
        ).discover()

        self.assertEqual(32, len(caches))
        self.assertEqual('124-127,252-255', caches[-1].cpus)

    def test_ways_of_other_software_are_not_free(self) -> None:
        _rdt, cache, *_more = self.make_plugin(reserved_ways=1).discover()

        self.assertEqual({builders.WAYS: {'free': '7fe'}}, cache.units)
        self.assertEqual(1, cache.reserved[builders.WAYS].host)
        self.assertEqual(11, cache.inventories[builders.WAYS].total)

    def test_two_classes_of_service_are_kept(self) -> None:
        rdt, *_caches = self.make_plugin(num_closids=16).discover()

        self.assertEqual(14, rdt.inventories[builders.CLOS].capacity)
        self.assertEqual({builders.CLOS: {'free': 14}}, rdt.units)

    def test_each_server_with_ways_takes_a_class_of_service(self) -> None:
        for cache in self.make_plugin().discover()[1:]:
            self.assertEqual({builders.WAYS: builders.CLOS}, cache.implied)

    def test_it_fails_for_the_reason_that_it_is_given(self) -> None:
        plugin = self.make_plugin()
        self.fail_with('the daemon is gone\n')

        error = self.assertRaises(exception.DiscoveryFailed, plugin.discover)

        self.assertIn(
            'could not discover the host: the daemon is gone.', str(error)
        )

    def test_it_fails_without_a_reason_too(self) -> None:
        plugin = self.make_plugin()
        self.fail_with('')

        error = self.assertRaises(exception.DiscoveryFailed, plugin.discover)

        self.assertIn('its failure_file exists', str(error))

    def test_it_fails_when_the_file_cannot_be_read(self) -> None:
        plugin = self.make_plugin()
        os.mkdir(self.failure_file)

        self.assertRaises(exception.DiscoveryFailed, plugin.discover)

    def test_it_works_again_without_the_file(self) -> None:
        plugin = self.make_plugin()
        before = plugin.discover()
        self.fail_with('gone')
        os.unlink(self.failure_file)

        self.assertEqual(before, plugin.discover())

    def test_cpus_that_cannot_be_shared_out_are_refused(self) -> None:
        error = self.assertRaises(
            exception.InvalidConfiguration,
            self.make_plugin,
            sockets=3,
            cpus=50,
        )

        self.assertIn('cpus = 50', str(error))

    def test_a_cache_without_any_way_left_is_refused(self) -> None:
        error = self.assertRaises(
            exception.InvalidConfiguration,
            self.make_plugin,
            ways=11,
            reserved_ways=11,
        )

        self.assertIn('reserved_ways = 11', str(error))
