# SPDX-License-Identifier: Apache-2.0

"""What every inventory provider must do, whatever it finds.

The test class of an inventory provider inherits
``InventoryProviderContract`` and says how one is made and made to fail.
"""

import abc
import json
import re
from typing import Any

from oslo_config import cfg
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers import base as plugin_base
from nova_ext_resources import exception
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import resource
from nova_ext_resources import plugins
from tests import base
from tests.unit import builders

NODE = host_provider.Node(uuid=uuidsentinel.node, hypervisor_hostname='host-1')


class InventoryProviderContract(base.TestCase):
    """Inherit, and give ``name``, ``plugin_class`` and the two methods."""

    #: Name of the entry point.
    name: str

    plugin_class: type[plugin_base.InventoryProvider]

    trackers = builders.make_trackers()

    @abc.abstractmethod
    def make_plugin(self) -> plugin_base.InventoryProvider:
        """Make one that finds something."""

    @abc.abstractmethod
    def break_host(self, plugin: plugin_base.InventoryProvider) -> None:
        """Let its next look at the host fail."""

    def make_options(self, **values: Any) -> cfg.ConfigOpts.GroupAttr:
        """Return the plugin's own option group, with these values set."""
        options = plugins.register_opts(
            self.conf, self.name, self.plugin_class.OPTIONS
        )
        for name, value in values.items():
            self.conf.set_override(name, value, f'ext_resources_{self.name}')
        return options

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        found = self.make_plugin().discover()
        self.assertNotEqual((), found)
        return found

    def test_everything_it_finds_is_defined(self) -> None:
        plugin = self.make_plugin()

        found = {c for one in plugin.discover() for c in one.inventories}

        self.assertLessEqual(found, {d.name for d in plugin.definitions()})

    def test_each_definition_is_there_once_and_complete(self) -> None:
        definitions = self.make_plugin().definitions()

        self.assertEqual(
            len(definitions), len({one.name for one in definitions})
        )
        for one in definitions:
            with self.subTest(name=one.name):
                self.assertTrue(resource.is_resource_class(one.name))
                self.assertNotEqual('', one.units.strip())
                self.assertRegex(one.description, r'\.$')

    def test_the_trackers_are_installed_and_the_defined_ones(self) -> None:
        plugin = self.make_plugin()
        types = {one.name: one.type for one in plugin.definitions()}

        for one in plugin.discover():
            for resource_class in one.inventories:
                named = one.trackers.get(resource_class, 'count')
                self.assertIn(named, self.trackers)
                self.assertEqual(types[resource_class], named)

    def test_the_trackers_understand_the_facts(self) -> None:
        for one in self.discover():
            for resource_class, given in one.inventories.items():
                tracker = self.trackers[
                    one.trackers.get(resource_class, 'count')
                ]
                units = one.units.get(resource_class, {})

                observed = tracker.observe(given, units, ())
                state = tracker.initial(observed, units)

                self.assertEqual(0, state.used)
                self.assertEqual(observed.capacity, state.free)

    def test_the_facts_are_json(self) -> None:
        for one in self.discover():
            units = {name: dict(facts) for name, facts in one.units.items()}
            self.assertEqual(units, json.loads(json.dumps(units)))

    def test_nothing_is_said_of_a_class_without_inventory(self) -> None:
        for one in self.discover():
            said = {*one.trackers, *one.units, *one.implied}
            self.assertLessEqual(said, set(one.inventories))

    def test_each_inventory_is_one(self) -> None:
        for one in self.discover():
            for given in one.inventories.values():
                self.assertIsInstance(given, class_inventory.Inventory)

    def test_parents_come_before_children(self) -> None:
        seen: set[str | None] = {None}
        for one in self.discover():
            self.assertIn(one.parent_key, seen)
            seen.add(one.key)

    def test_each_key_is_there_once_and_fit_for_a_name(self) -> None:
        keys = [one.key for one in self.discover()]

        self.assertEqual(len(keys), len(set(keys)))
        for key in keys:
            self.assertRegex(key, r'\A[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z')

    def test_an_implied_class_is_one_of_the_parent(self) -> None:
        found = self.discover()
        classes = {one.key: set(one.inventories) for one in found}

        for one in found:
            for implied in one.implied.values():
                self.assertIn(implied, classes[str(one.parent_key)])

    def test_the_cpus_can_be_read(self) -> None:
        for one in self.discover():
            cpus = bitmask.parse_list(one.cpus)
            self.assertEqual(one.cpus, bitmask.format_list(cpus))

    def test_what_serves_some_cpus_only_says_which(self) -> None:
        for one in self.discover():
            if any(
                self.trackers[t].IS_CPU_LOCAL for t in one.trackers.values()
            ):
                self.assertNotEqual('', one.cpus)

    def test_traits_are_placements_and_not_the_owners(self) -> None:
        for one in self.discover():
            self.assertNotIn(host_provider.OWNER_TRAIT, one.traits)
            for trait in one.traits:
                self.assertTrue(re.fullmatch('[A-Z0-9_]{1,255}', trait))

    def test_a_restart_finds_the_same(self) -> None:
        plugin = self.make_plugin()
        again = self.plugin_class(plugin.options, plugin.host)

        self.assertEqual(plugin.discover(), again.discover())
        self.assertEqual(plugin.definitions(), again.definitions())

    def test_a_second_look_finds_the_same(self) -> None:
        plugin = self.make_plugin()

        self.assertEqual(plugin.discover(), plugin.discover())

    def test_a_host_that_cannot_be_looked_at_is_told(self) -> None:
        plugin = self.make_plugin()
        plugin.discover()
        self.break_host(plugin)

        error = self.assertRaises(exception.DiscoveryFailed, plugin.discover)

        self.assertEqual(
            self.name,
            error.plugin,  # type: ignore[attr-defined]
        )
        self.assertNotEqual(
            '',
            error.reason,  # type: ignore[attr-defined]
        )

    def test_it_can_be_described_while_the_host_fails(self) -> None:
        plugin = self.make_plugin()
        before = plugin.definitions()
        self.break_host(plugin)

        self.assertEqual(before, plugin.definitions())

    def test_it_is_installed_under_its_name(self) -> None:
        classes = plugins.load_classes(
            plugins.INVENTORY_PROVIDERS, [self.name]
        )

        self.assertIs(self.plugin_class, classes[self.name])

    def test_each_option_has_a_name_and_a_help(self) -> None:
        for option in self.plugin_class.OPTIONS:
            with self.subTest(option=option.name):
                self.assertRegex(option.name, '^[a-z][a-z0-9_]*$')
                self.assertTrue((option.help or '').strip())
