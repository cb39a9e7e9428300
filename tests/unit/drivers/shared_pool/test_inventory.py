# SPDX-License-Identifier: Apache-2.0

"""Tests of the inventory provider ``shared_pool``."""

import os
import pathlib
import time
from typing import Any

import fixtures

from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.shared_pool import inventory
from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import pool
from tests.unit.drivers import contract

#: Seconds for a thread to get its turn on a busy machine.
PATIENCE = 60.0

ENTRY = """
  - name: {name}
    resource_class: CUSTOM_{name}
    source: file
    location: {path}
"""
BAD = """
  - name: ONE
    resource_class: VCPU
"""


class TestSharedPoolInventory(contract.InventoryProviderContract):
    name = 'shared_pool'
    plugin_class = inventory.SharedPoolInventory

    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.make_folder())
        self.path = self.folder / 'pools.yaml'
        self.log = self.useFixture(fixtures.FakeLogger())
        self.useFixture(
            fixtures.MockPatchObject(inventory, 'PATIENCE', PATIENCE)
        )
        self.written = 0
        for name in ('ONE', 'TWO'):
            self.set_pool(name, '{"total": 20}')

    def set_pool(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def make_entry(self, name: str) -> str:
        return ENTRY.format(name=name, path=self.folder / name)

    def write(self, *entries: str) -> None:
        """Write the file, at another time than all before."""
        self.path.write_text(''.join(('pools:\n', *entries)))
        self.written += 1
        os.utime(self.path, (self.written, self.written))

    def make_plugin(
        self, *names: str, **options: Any
    ) -> inventory.SharedPoolInventory:
        self.write(*map(self.make_entry, names or ('ONE', 'TWO')))
        return inventory.SharedPoolInventory(
            self.make_options(pools_file=str(self.path), **options), 'host-1'
        )

    def break_host(self, plugin: base.InventoryProvider) -> None:
        self.path.write_text('pools: [')

    def read_again(self, plugin: inventory.SharedPoolInventory) -> None:
        for reader in plugin._readers.values():
            reader._began_at = float('-inf')
            reader.start()
            reader.wait(time.monotonic() + PATIENCE)
        plugin.discover()

    def test_the_host_is_tied_to_each_pool_and_has_nothing_of_it(
        self,
    ) -> None:
        plugin = self.make_plugin()

        found = plugin.discover()

        self.assertEqual(
            [
                ('POOL_ONE', {one.aggregate_uuid})
                for one in plugin.pools
                if one.name == 'ONE'
            ],
            [(one.key, {*one.aggregates}) for one in found[:1]],
        )
        self.assertEqual([{}, {}], [one.inventories for one in found])
        self.assertEqual((), plugin.definitions())

    def test_pools_have_what_was_read(self) -> None:
        plugin = self.make_plugin()
        self.assertEqual((), plugin.pools)

        plugin.discover()

        self.assertEqual(
            [('ONE', 20), ('TWO', 20)],
            [
                (one.name, one.reading and one.reading.total)
                for one in plugin.pools
            ],
        )

    def test_one_that_cannot_be_read_keeps_its_value(self) -> None:
        plugin = self.make_plugin('ONE')
        plugin.discover()
        self.set_pool('ONE', '{"total": -1}')

        for _ in range(2):
            self.read_again(plugin)

        [problem] = plugin.problems
        self.assertEqual(
            (alarm.POOL_NOT_READ, 'ONE'), (problem.alarm, problem.subject)
        )
        self.assertIn('20 CUSTOM_ONE', problem.text)
        self.assertEqual(1, self.log.output.count('cannot be read'))
        [found] = plugin.pools
        self.assertEqual(20, found.reading and found.reading.total)
        self.assertTrue(found.is_failing)
        self.assertEqual(1, len(plugin.discover()))

        self.set_pool('ONE', '{"total": 30}')
        self.read_again(plugin)
        self.assertEqual((), plugin.problems)
        self.assertFalse(plugin.pools[0].is_failing)

    def test_one_that_others_read_is_no_failure(self) -> None:
        plugin = self.make_plugin()
        entry = '{name: THREE, resource_class: CUSTOM_THREE, source: none}'
        self.write(self.make_entry('ONE'), f'\n  - {entry}\n')

        found = plugin.discover()
        plugin.discover()

        self.assertEqual(
            ['POOL_ONE', 'POOL_THREE'], [one.key for one in found]
        )
        [_one, three] = plugin.pools
        self.assertEqual({three.aggregate_uuid}, found[1].aggregates)
        self.assertEqual((None, False), (three.reading, three.is_failing))
        self.assertEqual((), plugin.problems)

    def test_one_that_hangs_holds_up_no_other(self) -> None:
        fifo = self.folder / 'ONE'
        fifo.unlink()
        os.mkfifo(fifo)
        plugin = self.make_plugin()
        self.useFixture(fixtures.MockPatchObject(inventory, 'PATIENCE', 0.0))

        found = plugin.discover()

        self.assertEqual(2, len(found))
        plugin._readers['TWO'].wait(time.monotonic() + PATIENCE)
        plugin.discover()
        self.assertEqual(
            [None, 20],
            [one.reading and one.reading.total for one in plugin.pools],
        )
        # Ends the thread.
        fifo.write_text('{"total": 1}')
        plugin._readers['ONE'].wait(time.monotonic() + PATIENCE)

    def test_a_changed_file_is_read_and_other_pools_stay(self) -> None:
        plugin = self.make_plugin('ONE')
        plugin.discover()
        reader = plugin._readers['ONE']

        self.write(self.make_entry('ONE'), self.make_entry('TWO'))
        self.assertEqual(2, len(plugin.discover()))
        self.assertIs(reader, plugin._readers['ONE'])

        self.write(self.make_entry('TWO'))
        [found] = plugin.discover()
        self.assertEqual(pool.make_key('TWO'), found.key)

    def test_of_a_bad_entry_the_last_good_one_is_used(self) -> None:
        plugin = self.make_plugin('ONE')
        plugin.discover()

        self.write(BAD, self.make_entry('TWO'))

        self.assertEqual(2, len(plugin.discover()))
        self.assertEqual({'pool ONE'}, plugin.left_out)
        self.assertIn('the entry of pool ONE in', self.log.output)
        self.write(self.make_entry('TWO'))
        self.assertEqual(1, len(plugin.discover()))
        self.assertEqual(frozenset(), plugin.left_out)

    def test_of_a_file_that_cannot_be_read_the_last_good_one_is_used(
        self,
    ) -> None:
        plugin = self.make_plugin('ONE')
        plugin.discover()

        for text in ('pools:\n- !!bool foo', 'pools: []\npools: []'):
            self.path.write_text(text)
            error = self.assertRaises(
                exception.DiscoveryFailed, plugin.discover
            )

            self.assertIn(f'{self.path}: line 2: ', str(error))
            self.assertEqual(['ONE'], [one.name for one in plugin.pools])

    def test_a_file_that_is_missing_at_the_start_is_an_error(self) -> None:
        options = self.make_options(pools_file=str(self.path))

        error = self.assertRaises(
            exception.InvalidConfiguration,
            inventory.SharedPoolInventory,
            options,
            'host-1',
        )

        self.assertIn('pools_file', str(error))

    def test_a_command_that_is_none_is_an_error(self) -> None:
        for command in ('', "ceph 'x"):
            error = self.assertRaises(
                exception.InvalidConfiguration,
                self.make_plugin,
                ceph_command=command,
            )

            self.assertIn('ceph_command', str(error))
