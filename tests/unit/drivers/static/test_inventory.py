# SPDX-License-Identifier: Apache-2.0

"""Tests of the inventory provider ``static``."""

import errno
import os
import pathlib
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.static import inventory
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from tests.unit import builders
from tests.unit.drivers import contract

SEATS = """
  - name: CUSTOM_LICENCE_SEAT
    units: seats
    description: Seats of a licence.
    inventory: {total: 10, reserved: 2}
"""
SLOT = """
  - name: CUSTOM_MASTER_SLOT
    units: servers
    description: Lets one server of this kind run on each host.
    inventory: {total: 1}
"""
BAD = """
  - name: CUSTOM_MASTER_SLOT
    units: servers
    inventory: {total: one}
"""
SAMPLE = os.path.join(
    os.path.dirname(inventory.__file__),
    '../../../etc/nova_ext_resources/definitions.yaml',
)


class TestStaticInventory(contract.InventoryProviderContract):
    name = 'static'
    plugin_class = inventory.StaticInventory

    def setUp(self) -> None:
        super().setUp()
        self.folder = self.make_folder()
        self.path = os.path.join(self.folder, 'definitions.yaml')
        self.log = self.useFixture(fixtures.FakeLogger())
        self.written = 0
        self.entries: dict[str, assignment.Entry] = {}

    def write(self, *entries: str, path: str | None = None) -> None:
        self.write_text(''.join(('resources:\n', *entries)), path)

    def write_text(self, text: str, path: str | None = None) -> None:
        """Write a file, at another time than all before."""
        path = path or self.path
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        self.written += 1
        os.utime(path, (self.written, self.written))

    def make_plugin(self, *entries: str) -> inventory.StaticInventory:
        self.write(*(entries or (SEATS, SLOT)))
        return self.load()

    def load(self, path: str | None = None) -> inventory.StaticInventory:
        options = self.make_options(definitions_file=path or self.path)
        return inventory.StaticInventory(
            options, 'host-1', lambda: self.entries
        )

    def break_host(self, plugin: base.InventoryProvider) -> None:
        os.unlink(self.path)

    def list_found(self, plugin: inventory.StaticInventory) -> set[str]:
        return {c for one in plugin.discover() for c in one.inventories}

    def test_what_the_file_defines_is_found(self) -> None:
        [found] = self.make_plugin().discover()

        self.assertEqual(
            builders.make_host_provider(
                key='STATIC',
                inventories={
                    'CUSTOM_LICENCE_SEAT': builders.make_inventory(
                        10, reserved=2
                    ),
                    'CUSTOM_MASTER_SLOT': builders.make_inventory(1),
                },
                trackers={
                    'CUSTOM_LICENCE_SEAT': 'count',
                    'CUSTOM_MASTER_SLOT': 'count',
                },
            ),
            found,
        )

    def test_one_server_of_a_kind_per_host_can_be_said(self) -> None:
        [found] = self.make_plugin(SLOT).discover()
        tracker = self.trackers['count']

        state = tracker.initial(found.inventories['CUSTOM_MASTER_SLOT'], {})
        state, _units = tracker.allocate(state, 1)

        self.assertFalse(tracker.fits(state, 1))

    def test_entries_of_other_providers_are_kept_apart(self) -> None:
        other = f'{SEATS}    provider: POOL\n    traits: [CUSTOM_FAST]\n'

        found = self.make_plugin(SEATS, other, SLOT).discover()

        self.assertEqual(['STATIC', 'POOL'], [one.key for one in found])
        self.assertEqual(
            [frozenset(), frozenset({'CUSTOM_FAST'})],
            [one.traits for one in found],
        )
        self.assertEqual(2, len(self.load().definitions()))

    def test_all_files_of_a_folder_count(self) -> None:
        self.write(SEATS, path=os.path.join(self.folder, 'a.yaml'))
        self.write(SLOT, path=os.path.join(self.folder, 'b.yml'))
        for name in ('c.txt', '.d.yaml', 'e.yaml~'):
            self.write_text('[', os.path.join(self.folder, name))

        plugin = self.load(self.folder)

        self.assertEqual(
            {'CUSTOM_LICENCE_SEAT', 'CUSTOM_MASTER_SLOT'},
            self.list_found(plugin),
        )

    def test_the_sample_is_good(self) -> None:
        plugin = self.load(SAMPLE)

        self.assertEqual('', self.log.output)
        self.assertEqual(3, len(self.list_found(plugin)))

    # -- bad entries ----------------------------------------------------

    def test_a_bad_entry_does_not_take_the_others_down(self) -> None:
        plugin = self.make_plugin(SEATS, BAD)

        self.assertEqual({'CUSTOM_LICENCE_SEAT'}, self.list_found(plugin))
        self.assertIn(
            f'{self.path}, entry 2 (CUSTOM_MASTER_SLOT): ', self.log.output
        )
        self.assertIn("'description' is a required", self.log.output)
        self.assertIn("'one' is not of type 'integer'", self.log.output)
        self.assertIn('none of its resources is offered', self.log.output)
        # A line for each, not one for both.
        name = 'bad resource definition'
        self.assertEqual(2, self.log.output.count(name))

    def test_a_bad_entry_is_told_once(self) -> None:
        plugin = self.make_plugin(SEATS, BAD)
        before = self.log.output

        plugin.discover()
        plugin.discover()

        self.assertEqual(before, self.log.output)

    def test_an_entry_that_breaks_later_stays_as_it_was(self) -> None:
        plugin = self.make_plugin(SEATS, SLOT)
        before = plugin.discover()
        self.write(SEATS, BAD)

        self.assertEqual(before, plugin.discover())
        self.assertIn('the last good definition is used', self.log.output)

    def test_a_bad_entry_is_named_until_it_is_good(self) -> None:
        plugin = self.make_plugin(SEATS, BAD)
        self.assertEqual({'CUSTOM_MASTER_SLOT'}, plugin.left_out)

        self.write(SEATS, SLOT)
        plugin.discover()
        self.assertEqual(frozenset(), plugin.left_out)

        self.write(SEATS, BAD)
        plugin.discover()
        self.assertEqual({'CUSTOM_MASTER_SLOT'}, plugin.left_out)

    def test_what_servers_hold_of_a_bad_entry_is_known_and_closed(
        self,
    ) -> None:
        plugin = self.make_plugin(SEATS, BAD)
        self.entries = {
            uuid: builders.make_entry(
                uuid,
                rp_key='STATIC',
                resource_class='CUSTOM_MASTER_SLOT',
                amount=amount,
                units={},
            )
            for uuid, amount in (('a', 1), ('b', 2))
        }

        [found] = plugin.discover()

        self.assertEqual(
            builders.make_inventory(3, reserved=3),
            found.inventories['CUSTOM_MASTER_SLOT'],
        )
        self.assertEqual('count', found.trackers['CUSTOM_MASTER_SLOT'])
        self.assertTrue(found.is_unread)
        self.entries.clear()
        self.assertFalse(plugin.discover()[0].is_unread)
        self.assertIn(
            'CUSTOM_MASTER_SLOT', {d.name for d in plugin.definitions()}
        )

    def test_a_name_that_no_resource_can_have_is_never_offered(self) -> None:
        for name in ('slot', ''):
            with self.subTest(name=name):
                plugin = self.make_plugin(
                    SEATS, BAD.replace('CUSTOM_MASTER_SLOT', name)
                )

                self.assertEqual(1, len(plugin.definitions()))

    def test_what_is_closed_has_the_type_of_what_is_good(self) -> None:
        """Otherwise nothing of all files would be used."""
        pool = '    provider: POOL\n    type: '
        self.hold('POOL', 'CUSTOM_LICENCE_SEAT', 3)

        plugin = self.make_plugin(
            f'{SEATS}{pool}bandwidht\n', f'{SEATS}    type: bandwidth\n'
        )

        self.assertEqual(
            [{'CUSTOM_LICENCE_SEAT': 'bandwidth'}] * 2,
            [one.trackers for one in plugin.discover()],
        )
        [defined] = plugin.definitions()
        self.assertEqual('bandwidth', defined.type)

    def test_a_class_of_other_software_is_left_to_that(self) -> None:
        bad = BAD.replace('CUSTOM_MASTER_SLOT', 'VGPU')
        for text, left_out in (
            (f'resources:{SEATS}{bad}', f'{self.path}, entry 2'),
            (f'resources:{SEATS}{bad} bad', self.path),
        ):
            with self.subTest(left_out):
                self.write_text(text)

                plugin = self.load()

                self.assertIn(left_out, plugin.left_out)
                self.assertNotIn('VGPU', plugin.left_out)
                self.assertEqual(
                    ['CUSTOM_LICENCE_SEAT'],
                    [one.name for one in plugin.definitions()],
                )

    def test_one_without_a_name_is_left_out_all_the_same(self) -> None:
        plugin = self.make_plugin(SEATS, '  - 7\n')

        self.assertEqual({f'{self.path}, entry 2'}, plugin.left_out)

    def test_one_that_is_there_twice_is_named(self) -> None:
        plugin = self.make_plugin(SEATS, SEATS)

        self.assertEqual({'CUSTOM_LICENCE_SEAT'}, plugin.left_out)

    def test_an_entry_that_is_there_twice_is_refused(self) -> None:
        other = SEATS.replace('10', '99')

        [found] = self.make_plugin(SEATS, other).discover()

        self.assertEqual(10, found.inventories['CUSTOM_LICENCE_SEAT'].total)
        self.assertIn('the first definition is used', self.log.output)
        self.assertIn(
            'entry 2 (CUSTOM_LICENCE_SEAT): provider STATIC already has this '
            f'class from {self.path}, entry 1',
            self.log.output,
        )

    def test_cache_ways_are_refused_with_a_reason(self) -> None:
        ways = SLOT.replace('units:', 'type: cache_ways\n    units:')

        plugin = self.make_plugin(SEATS, ways)

        self.assertEqual({'CUSTOM_LICENCE_SEAT'}, self.list_found(plugin))
        self.assertIn('type cache_ways is not installed, or', self.log.output)

    # -- bare-metal nodes -----------------------------------------------

    def find_on_nodes(
        self, plugin: inventory.StaticInventory
    ) -> dict[str, dict[str, int]]:
        """Return resource class -> total, by node."""
        plugin.discover()
        return {
            node.uuid: {
                name: inventory.total
                for one in node.providers
                for name, inventory in one.inventories.items()
            }
            for node in plugin.nodes
        }

    def test_what_nodes_have_is_not_of_this_host(self) -> None:
        seats = f'{SEATS}    nodes: [{uuids.a}, {uuids.b}]\n'

        plugin = self.make_plugin(seats, SLOT)

        self.assertEqual({'CUSTOM_MASTER_SLOT'}, self.list_found(plugin))
        self.assertEqual(1, len(plugin.definitions()))
        self.assertEqual(
            {node: {'CUSTOM_LICENCE_SEAT': 10} for node in (uuids.a, uuids.b)},
            self.find_on_nodes(plugin),
        )

    def test_two_entries_for_one_node(self) -> None:
        seats = f'{SEATS}    nodes: [{uuids.a}]\n'
        # Not of the uuids.
        other = seats.replace('total: 10', 'total: 99').replace(
            'nodes: [', f'nodes: [{uuids.b}, '
        )
        slot = f'{SLOT}    nodes: [{uuids.a}]\n'

        plugin = self.make_plugin(seats, other, slot)

        self.assertEqual(
            {
                uuids.a: {'CUSTOM_LICENCE_SEAT': 10, 'CUSTOM_MASTER_SLOT': 1},
                uuids.b: {'CUSTOM_LICENCE_SEAT': 99},
            },
            self.find_on_nodes(plugin),
        )
        self.assertEqual({'CUSTOM_LICENCE_SEAT'}, plugin.left_out)
        self.assertIn('the first definition is used', self.log.output)
        self.assertIn(
            f'STATIC of {uuids.a} already has this class from', self.log.output
        )

    def test_an_entry_for_nodes_that_breaks_later(self) -> None:
        slot = f'{SLOT}    nodes: [{uuids.a}]\n'
        bad = f'{BAD}    nodes: [{uuids.a}, {uuids.b}]\n'
        seats = f'{SEATS}    nodes: [{uuids.b}]\n'
        plugin = self.make_plugin(slot, seats)
        before = self.find_on_nodes(plugin)
        self.write(bad, seats)

        self.assertEqual(before, self.find_on_nodes(plugin))
        self.assertEqual({'CUSTOM_MASTER_SLOT'}, plugin.left_out)
        unread = {
            node.uuid: [one.is_unread for one in node.providers]
            for node in plugin.nodes
        }
        self.assertEqual({uuids.a: [False], uuids.b: [True]}, unread)
        self.assertEqual((), plugin.definitions())

    # -- bad files at the start -----------------------------------------

    def assert_refused(self, *words: str, path: str | None = None) -> None:
        error = self.assertRaises(
            exception.InvalidConfiguration, self.load, path
        )
        for word in (
            '[ext_resources_static] definitions_file',
            path or self.path,
            *words,
        ):
            self.assertIn(word, str(error))

    def test_a_missing_file_stops_the_start(self) -> None:
        self.assert_refused(
            'No such file', 'readable by the user of nova-compute'
        )

    def test_a_folder_without_files_stops_the_start(self) -> None:
        self.assert_refused('has no *.yaml', path=self.folder)

    def assert_starts_without(self, *words: str) -> None:
        plugin = self.load()

        self.assertEqual((), plugin.discover())
        self.assertEqual({self.path}, plugin.left_out)
        for word in (
            'none of its resources is offered, and nothing is deleted',
            self.path,
            *words,
        ):
            self.assertIn(word, self.log.output)

    def test_an_error_of_syntax(self) -> None:
        self.write_text('resources:\n  - names: A\n bad')

        self.assert_starts_without('line 3:', 'correct the file')

    def test_a_file_that_is_no_text(self) -> None:
        with open(self.path, 'wb') as file:
            file.write(b'resources: \xff\xfe')

        self.assert_starts_without("'utf-8' codec")

    def test_an_empty_file(self) -> None:
        self.write_text('')

        self.assert_starts_without('must have the key')

    def test_a_folder_in_place_of_a_file(self) -> None:
        os.mkdir(os.path.join(self.folder, 'a.yaml'))
        self.write(SEATS)

        plugin = self.load(self.folder)

        self.assertEqual({'CUSTOM_LICENCE_SEAT'}, self.list_found(plugin))
        self.assertIn('Is a directory', self.log.output)

    def test_one_bad_file_of_a_folder_does_not_take_the_others_down(
        self,
    ) -> None:
        self.write(SEATS, path=os.path.join(self.folder, 'a.yaml'))
        self.write_text('[', os.path.join(self.folder, 'b.yaml'))
        link = os.path.join(self.folder, 'c.yaml')
        os.symlink(os.path.join(self.folder, 'nowhere'), link)

        plugin = self.load(self.folder)

        self.assertEqual({'CUSTOM_LICENCE_SEAT'}, self.list_found(plugin))
        self.assertEqual(
            {f'{self.folder}/{one}.yaml' for one in 'bc'}, plugin.left_out
        )
        self.assertIn('b.yaml, line 1:', self.log.output)
        self.assertIn('c.yaml, No such file', self.log.output)

    def test_a_value_that_cannot_be_built_breaks_its_file_alone(self) -> None:
        good, bad = (os.path.join(self.folder, one) for one in 'ab')
        for value in ('!!bool foo', "!!int ''", '!!timestamp x', '&a [*a]'):
            self.write(SEATS, path=f'{good}.yaml')
            self.write_text('resources: []', f'{bad}.yaml')
            plugin = self.load(self.folder)

            self.write_text(f'resources:\n- name: {value}', f'{bad}.yaml')

            for one in (plugin, self.load(self.folder)):
                self.assertEqual({'CUSTOM_LICENCE_SEAT'}, self.list_found(one))
                self.assertEqual({f'{bad}.yaml'}, one.left_out)
                self.assertIn('b.yaml, line 2:', self.log.output)

    def hold(self, rp_key: str, name: str, amount: int) -> None:
        self.entries = {
            'a': builders.make_entry(
                'a',
                rp_key=rp_key,
                resource_class=name,
                amount=amount,
                units={},
            )
        }

    def test_what_servers_hold_of_a_bad_file_is_known_and_closed(
        self,
    ) -> None:
        for key, provider in (('STATIC', ''), ('X', '    provider: X\n')):
            with self.subTest(key):
                self.write_text(f'resources:\n{SLOT}{provider} bad')
                self.hold(key, 'CUSTOM_MASTER_SLOT', 3)
                plugin = self.load()

                [found] = plugin.discover()

                self.assertEqual(key, found.key)
                self.assertEqual(
                    {
                        'CUSTOM_MASTER_SLOT': builders.make_inventory(
                            3, reserved=3
                        )
                    },
                    found.inventories,
                )
                self.assertTrue(found.is_unread)
                self.assertEqual(
                    {self.path, 'CUSTOM_MASTER_SLOT'}, plugin.left_out
                )
                self.hold('L3_0', 'CUSTOM_MASTER_SLOT', 3)
                self.assertEqual((), plugin.discover())

                self.write(SEATS, SLOT)
                self.assertEqual(2, len(self.list_found(plugin)))
                self.assertEqual(frozenset(), plugin.left_out)

    def test_what_a_good_file_defines_is_not_closed_by_a_bad_one(self) -> None:
        self.write(SEATS, path=os.path.join(self.folder, 'a.yaml'))
        self.write_text(
            f'resources:\n{SEATS} bad', os.path.join(self.folder, 'b.yaml')
        )
        self.hold('STATIC', 'CUSTOM_LICENCE_SEAT', 3)

        [found] = self.load(self.folder).discover()

        self.assertEqual(10, found.inventories['CUSTOM_LICENCE_SEAT'].total)

    # -- changes at run time --------------------------------------------

    def test_a_change_of_the_file_is_seen(self) -> None:
        plugin = self.make_plugin(SEATS)
        self.write(SEATS, SLOT)

        self.assertEqual(
            {'CUSTOM_LICENCE_SEAT', 'CUSTOM_MASTER_SLOT'},
            self.list_found(plugin),
        )
        self.assertEqual(2, len(plugin.definitions()))

    def test_a_change_that_keeps_the_size_is_seen(self) -> None:
        plugin = self.make_plugin(SEATS)
        self.write(SEATS.replace('10', '99'))

        [found] = plugin.discover()

        self.assertEqual(99, found.inventories['CUSTOM_LICENCE_SEAT'].total)

    def test_an_entry_that_is_taken_out_is_gone(self) -> None:
        plugin = self.make_plugin(SEATS, SLOT)
        self.write(SEATS)

        self.assertEqual({'CUSTOM_LICENCE_SEAT'}, self.list_found(plugin))

    def test_a_file_that_breaks_later_stays_as_it_was(self) -> None:
        plugin = self.make_plugin(SEATS)
        before = plugin.discover()

        for number in range(2):
            self.write_text(f'resources:\n  - name: A{number}\n bad')
            self.assertEqual(before, plugin.discover())
            self.assertEqual({self.path}, plugin.left_out)
        self.assertIn('last good contents are used', self.log.output)
        self.assertIn('line 3:', self.log.output)

        self.write(SLOT)
        self.assertEqual({'CUSTOM_MASTER_SLOT'}, self.list_found(plugin))
        self.assertEqual(frozenset(), plugin.left_out)

    def test_a_file_that_breaks_later_does_not_stop_the_others(self) -> None:
        other = os.path.join(self.folder, 'other.yaml')
        self.write(SEATS)
        self.write(SLOT, path=other)
        plugin = self.load(self.folder)
        self.write_text('[', other)
        self.write(SEATS.replace('10', '99'))

        [found] = plugin.discover()

        self.assertEqual(99, found.inventories['CUSTOM_LICENCE_SEAT'].total)
        self.assertIn('CUSTOM_MASTER_SLOT', found.inventories)

    def test_a_file_that_breaks_keeps_nothing_of_another_that_goes(
        self,
    ) -> None:
        other = os.path.join(self.folder, 'other.yaml')
        for text in (SLOT, BAD):
            with self.subTest(text):
                self.write(SEATS)
                self.write(text, path=other)
                plugin = self.load(self.folder)
                plugin.discover()
                os.unlink(other)
                self.write_text('[')

                self.assertEqual(
                    {'CUSTOM_LICENCE_SEAT'}, self.list_found(plugin)
                )
                self.assertEqual({self.path}, plugin.left_out)

    def test_a_bad_file_that_comes_closes_nothing(self) -> None:
        self.write(SEATS)
        plugin = self.load(self.folder)
        bad = f'resources:{SEATS} bad'
        self.write_text(bad, os.path.join(self.folder, 'a.yaml'))
        self.assertEqual([10], self.count_seats(plugin))

        self.write_text(bad)

        self.assertEqual([10], self.count_seats(plugin))

    def test_what_was_refused_before_its_file_breaks_stays_refused(
        self,
    ) -> None:
        first = self.write_duplicates()
        self.write(SEATS.replace('10', 'ten'), path=first)
        plugin = self.load(self.folder)
        self.assertEqual([], self.count_seats(plugin))

        self.write_text('[')

        self.assertEqual([], self.count_seats(plugin))

    def test_a_file_that_may_be_read_again_is(self) -> None:
        """To allow that changes neither its size nor its time."""
        plugin = self.make_plugin(SEATS)
        self.assertEqual({'CUSTOM_LICENCE_SEAT'}, self.list_found(plugin))
        before = inventory._sign(self.path)
        os.chmod(self.path, 0o600)

        self.assertNotEqual(before, inventory._sign(self.path))

    def fail_to_read(self) -> None:
        """Have the system let no file be read."""

        def fail(*_args: Any, **_options: Any) -> str:
            raise OSError(errno.EMFILE, 'Too many open files')

        self.patch(pathlib.Path, 'read_text', fail)

    def test_a_file_is_read_again_after_the_system_failed(self) -> None:
        plugin = self.make_plugin(SEATS)
        read = pathlib.Path.read_text
        self.write(SLOT)
        self.fail_to_read()
        self.assertEqual({'CUSTOM_LICENCE_SEAT'}, self.list_found(plugin))
        self.assertEqual({self.path}, plugin.left_out)
        self.assertIn(
            'Too many open files; make the file readable for the user of '
            'nova-compute',
            self.log.output,
        )

        before = self.log.output
        plugin.discover()
        self.assertEqual(before, self.log.output)
        self.patch(pathlib.Path, 'read_text', read)

        self.assertEqual({'CUSTOM_MASTER_SLOT'}, self.list_found(plugin))
        self.assertEqual(frozenset(), plugin.left_out)

    def test_a_start_while_no_file_can_be_read(self) -> None:
        self.write(SEATS)
        read = pathlib.Path.read_text
        self.fail_to_read()
        plugin = self.load()
        self.assertEqual((), plugin.discover())
        self.patch(pathlib.Path, 'read_text', read)

        self.assertEqual({'CUSTOM_LICENCE_SEAT'}, self.list_found(plugin))

    def write_duplicates(self) -> str:
        """Write 10 seats, and 99 in a later file; return the former's path."""
        first = os.path.join(self.folder, 'a.yaml')
        self.write(SEATS, path=first)
        self.write(SEATS.replace('10', '99'))
        return first

    def count_seats(self, plugin: inventory.StaticInventory) -> list[int]:
        return [
            one.inventories['CUSTOM_LICENCE_SEAT'].total
            for one in plugin.discover()
        ]

    def test_a_duplicate_is_not_used_in_place_of_a_file_that_breaks(
        self,
    ) -> None:
        first = self.write_duplicates()
        plugin = self.load(self.folder)
        for text in ('[', f'resources:{BAD.replace("MASTER_SLOT", "X")}  bad'):
            self.write_text(text, first)
            self.assertEqual([10], self.count_seats(plugin))

        os.unlink(first)
        self.assertEqual([99], self.count_seats(plugin))

    def test_a_duplicate_is_not_used_in_place_of_an_entry_that_breaks(
        self,
    ) -> None:
        bad = SEATS.replace('10', 'ten')
        first = self.write_duplicates()
        plugin = self.load(self.folder)
        self.write(bad, path=first)
        self.assertEqual([10], self.count_seats(plugin))

        self.write(bad, SEATS.replace('10', '99'), path=first)
        self.assertEqual([10], self.count_seats(plugin))

    def test_a_duplicate_of_what_is_broken_at_the_start(self) -> None:
        first = self.write_duplicates()
        for text in (
            f'resources:\n{SEATS}  bad',
            f'resources:\n{SEATS.replace("10", "ten")}',
        ):
            self.write_text(text, first)
            plugin = self.load(self.folder)

            self.assertEqual([], self.count_seats(plugin))
            self.assertIn('CUSTOM_LICENCE_SEAT', plugin.left_out)
            self.hold('STATIC', 'CUSTOM_LICENCE_SEAT', 3)
            self.assertEqual([3], self.count_seats(plugin))
            self.entries.clear()

        self.write(SEATS, path=first)
        self.assertEqual([10], self.count_seats(plugin))

    def test_what_was_bad_before_the_file_breaks_stays_closed(self) -> None:
        plugin = self.make_plugin(SEATS, BAD)
        self.hold('STATIC', 'CUSTOM_MASTER_SLOT', 3)
        before = plugin.discover(), plugin.definitions()

        for text in ('[', '[[', 'resources: ['):
            self.write_text(text)
            self.assertEqual(before, (plugin.discover(), plugin.definitions()))
            self.assertEqual(
                {self.path, 'CUSTOM_MASTER_SLOT'}, plugin.left_out
            )

        self.write(SEATS)
        plugin.discover()
        self.assertEqual(frozenset(), plugin.left_out)

    def test_words_of_comments_define_nothing(self) -> None:
        self.write_text(
            'resources:\n'
            '# - name: CUSTOM_OLD\n'
            '  - name: CUSTOM_SEAT  # once name: CUSTOM_CHAIR\n'
            '  - {description: "no #1", name: CUSTOM_SLOT}\n bad'
        )

        plugin = self.load()

        self.assertEqual(
            {'CUSTOM_SEAT', 'CUSTOM_SLOT'},
            {one.name for one in plugin.definitions()},
        )

    def test_the_tracker_of_what_a_broken_file_names(self) -> None:
        self.write_text(
            'resources:\n'
            f'  - type: bandwidth # type: count\n{BAD.replace("- ", "  ")}'
            f'{SEATS}'
            '  - name: CUSTOM_WAY\n    type: cache_ways\n bad'
        )

        plugin = self.load()

        self.assertEqual(
            {
                'CUSTOM_MASTER_SLOT': 'bandwidth',
                'CUSTOM_LICENCE_SEAT': 'count',
                'CUSTOM_WAY': 'count',
            },
            {one.name: one.type for one in plugin.definitions()},
        )

    def test_a_file_that_goes_away_fails(self) -> None:
        plugin = self.make_plugin(SEATS)
        os.unlink(self.path)

        error = self.assertRaises(exception.DiscoveryFailed, plugin.discover)

        self.assertIn('No such file', str(error))

    def test_a_folder_that_goes_empty_fails(self) -> None:
        self.write(SEATS)
        plugin = self.load(self.folder)
        os.unlink(self.path)

        self.assertRaises(exception.DiscoveryFailed, plugin.discover)

    def test_a_file_that_stays_is_not_read_again(self) -> None:
        plugin = self.make_plugin(SEATS)
        before = plugin.discover()
        size = os.stat(self.path).st_size
        with open(self.path, 'w', encoding='utf-8') as file:
            file.write('[' * size)
        os.utime(self.path, (self.written, self.written))

        self.assertEqual(before, plugin.discover())
