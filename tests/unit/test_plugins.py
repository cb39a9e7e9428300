# SPDX-License-Identifier: Apache-2.0

"""Tests of strict loading, with packages that are really there."""

import os
import subprocess
import sys
import textwrap
from typing import Any

import fixtures
from oslo_config import cfg

from nova_ext_resources.claims.trackers import count
from nova_ext_resources import exception
from nova_ext_resources import plugins
from tests import base
from tests.unit import builders
from tests.unit import installed

NAMESPACE = plugins.INVENTORY_PROVIDERS

GOOD = """
    from oslo_config import cfg

    from nova_ext_resources.drivers import base


    class Good(base.InventoryProvider):
        OPTIONS = (cfg.StrOpt('colour', default='red'),)

        def definitions(self):
            return ()

        def discover(self):
            return ()


    class Other(Good):
        pass


    class ReadsNova(Good):
        NOVA_OPTIONS = {
            'pci': (cfg.MultiStrOpt('device_spec', default=[]),),
        }

        def __init__(self, options, host, entries, *, nova):
            super().__init__(options, host, entries)
            self.nova = nova


    class RaisesInConstructor(Good):
        def __init__(self, options, host, entries):
            super().__init__(options, host, entries)
            raise RuntimeError('no such device')


    class RefusesItsOptions(Good):
        def __init__(self, options, host, entries):
            raise exception.InvalidConfiguration(
                option='[x] y', value='z', reason='no'
            )


    class ReadsNothing(Good):
        def __init__(self, options, host):
            super().__init__(options, host)


    class Abstract(base.InventoryProvider):
        pass
"""

POINTS = {
    'good': 'acme.good:Good',
    'other': 'acme.good:Other',
    'reads_nova': 'acme.good:ReadsNova',
    'raises_in_constructor': 'acme.good:RaisesInConstructor',
    'refuses_its_options': 'acme.good:RefusesItsOptions',
    'reads_nothing': 'acme.good:ReadsNothing',
    'abstract': 'acme.good:Abstract',
    'raises_at_import': 'acme.raises:Plugin',
    'exits_at_import': 'acme.exits:Plugin',
    'broken_syntax': 'acme.syntax:Plugin',
    'no_module': 'acme.nowhere:Plugin',
    'no_class': 'acme.good:Nothing',
}

MODULES = {
    '__init__': '',
    'good': f'from nova_ext_resources import exception\n{GOOD}',
    'raises': "raise RuntimeError('built for another kernel')",
    'exits': 'import acme_is_not_installed',
    'syntax': 'def',
}


class LoaderTestCase(base.TestCase):
    NAMESPACE = plugins.INVENTORY_PROVIDERS

    def setUp(self) -> None:
        super().setUp()
        folder = self.make_folder()
        self.install(folder, 'acme', POINTS)
        os.makedirs(os.path.join(folder, 'acme'))
        for name, text in MODULES.items():
            path = os.path.join(folder, 'acme', f'{name}.py')
            with open(path, 'w', encoding='utf-8') as file:
                file.write(_dedent(text))

    def install(
        self, folder: str, package: str, points: dict[str, str]
    ) -> None:
        installed.write_entry_points(folder, package, self.NAMESPACE, points)
        self.useFixture(installed.InstalledPackage(folder))

    def load(self, *names: str) -> list[str]:
        """Load and make plugins; give their names in the order made."""
        made = plugins.load_with_options(NAMESPACE, names, self.conf, 'host-1')
        return [f'{name}:{type(one).__name__}' for name, one in made.items()]

    def assert_load_fails(self, name: str, *words: str) -> None:
        error = self.assertRaises(
            exception.PluginLoadFailed, self.load, 'good', name
        )
        for word in (repr(name), NAMESPACE, *words):
            self.assertIn(word, str(error))


def _dedent(text: str) -> str:
    head, newline, rest = text.partition('\n')
    return f'{head}{newline}{textwrap.dedent(rest)}'


class TestLoading(LoaderTestCase):
    def test_plugins_are_made_in_the_order_of_the_option(self) -> None:
        self.assertEqual(
            ['other:Other', 'good:Good'], self.load('other', 'good')
        )
        self.assertEqual(
            ['good:Good', 'other:Other'], self.load('good', 'other')
        )

    def test_only_what_is_named_is_imported(self) -> None:
        # The namespace holds packages that cannot be imported.
        self.assertEqual(['good:Good'], self.load('good'))

    def test_nothing_named_is_nothing_loaded(self) -> None:
        self.assertEqual([], self.load())

    def test_a_name_that_is_not_installed_is_told_with_the_others(
        self,
    ) -> None:
        error = self.assertRaises(
            exception.PluginNotFound, self.load, 'good', 'god'
        )

        for word in ("'god'", NAMESPACE, 'abstract, ', 'good, ', 'static'):
            self.assertIn(word, str(error))

    def test_a_namespace_without_plugins_is_told(self) -> None:
        error = self.assertRaises(
            exception.PluginNotFound,
            plugins.load_classes,
            'nova_ext_resources.nothing',
            ['good'],
        )

        self.assertIn('installed plugins: none', str(error))

    def test_one_that_raises_at_import_stops_the_start(self) -> None:
        self.assert_load_fails(
            'raises_at_import', 'RuntimeError: built for another kernel'
        )

    def test_one_whose_library_is_missing_stops_the_start(self) -> None:
        self.assert_load_fails('exits_at_import', 'acme_is_not_installed')

    def test_one_that_is_no_python_stops_the_start(self) -> None:
        self.assert_load_fails('broken_syntax', 'SyntaxError')

    def test_one_without_module_or_class_stops_the_start(self) -> None:
        self.assert_load_fails('no_module', 'acme.nowhere')
        self.assert_load_fails('no_class', 'Nothing')

    def test_one_that_raises_in_its_constructor_stops_the_start(self) -> None:
        self.assert_load_fails(
            'raises_in_constructor', 'RuntimeError: no such device'
        )

    def test_one_that_takes_no_reader_of_entries_stops_the_start(
        self,
    ) -> None:
        self.assert_load_fails('reads_nothing', 'TypeError', 'arguments')

    def test_one_that_is_half_written_stops_the_start(self) -> None:
        self.assert_load_fails('abstract', 'TypeError', 'abstract')

    def test_one_that_refuses_its_options_says_so_itself(self) -> None:
        self.assertRaises(
            exception.InvalidConfiguration, self.load, 'refuses_its_options'
        )

    def test_a_name_that_is_given_twice_stops_the_start(self) -> None:
        error = self.assertRaises(
            exception.PluginLoadFailed, self.load, 'good', 'other', 'good'
        )

        self.assertIn('named twice in the option', str(error))

    def test_a_name_that_two_packages_bring_stops_the_start(self) -> None:
        self.install(self.make_folder(), 'rival', {'good': 'acme.good:Other'})

        error = self.assertRaises(
            exception.PluginLoadFailed, self.load, 'good'
        )

        self.assertIn("'good'", str(error))
        self.assertIn('two packages', str(error))

    def test_a_package_that_is_installed_twice_is_one(self) -> None:
        # Such as a develop install beside the folder of the sources.
        self.install(self.make_folder(), 'acme', POINTS)

        self.assertEqual(['good:Good'], self.load('good'))


class TestOptions(LoaderTestCase):
    def test_each_plugin_has_the_options_of_its_own_group(self) -> None:
        plugins.register_opts(
            self.conf, 'other', [cfg.StrOpt('colour', default='red')]
        )
        self.conf.set_override('colour', 'blue', 'ext_resources_other')

        made = plugins.load_with_options(
            NAMESPACE, ['good', 'other'], self.conf, 'host-1'
        )

        self.assertEqual(
            {'good': 'red', 'other': 'blue'},
            {name: one.options.colour for name, one in made.items()},
        )

    def test_each_plugin_knows_its_host(self) -> None:
        made = plugins.load_with_options(
            NAMESPACE, ['good'], self.conf, 'host-1'
        )

        self.assertEqual('host-1', made['good'].host)

    def test_each_plugin_reads_what_servers_hold(self) -> None:
        entries = {'server': 'entry'}

        made = plugins.load_with_options(
            NAMESPACE, ['good'], self.conf, 'host-1', lambda: entries
        )

        self.assertEqual(entries, made['good'].list_entries())

    def test_one_that_reads_options_of_nova_has_them(self) -> None:
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, 'x.conf')
        with open(path, 'w', encoding='utf-8') as file:
            file.write('[pci]\ndevice_spec = {}\ndevice_spec = {"a": 1}\n')
        self.conf(['--config-file', path])

        made = plugins.load_with_options(
            NAMESPACE, ['reads_nova', 'good'], self.conf, 'host-1'
        )

        self.assertEqual(['reads_nova', 'good'], [*made])
        self.assertEqual(
            ['{}', '{"a": 1}'], made['reads_nova'].nova['pci'].device_spec
        )

    def test_a_value_that_an_option_does_not_take_is_refused(self) -> None:
        path = os.path.join(self.make_folder(), 'nova.conf')
        with open(path, 'w', encoding='utf-8') as file:
            file.write('[ext_resources_twin]\nhow_many = x\n')
        self.conf(['--config-file', path], default_config_files=[])

        err = self.assertRaises(
            exception.InvalidConfiguration,
            plugins.register_opts,
            self.conf,
            'twin',
            [cfg.IntOpt('how-many')],
        )

        self.assertIn('[ext_resources_twin] how-many = x ', str(err))

    def test_plugins_of_two_kinds_share_the_group_of_their_name(self) -> None:
        options = [cfg.StrOpt('url', default='u')]

        for _kind in range(2):
            registered = plugins.register_opts(self.conf, 'twin', options)
            self.assertEqual('u', registered.url)


class TestGrammar(LoaderTestCase):
    NAMESPACE = plugins.ENFORCERS

    def test_a_broken_plugin_that_nobody_named_is_left_out(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())

        grammar = plugins.load_grammar()

        self.assertIn('policy', grammar.enforcers['rmd'])
        self.assertIn('guaranteed', grammar.attributes['pool'])
        self.assertNotIn('raises_at_import', grammar.enforcers)
        for words in (
            "Plugin 'raises_at_import' of nova_ext_resources.enforcers",
            'built for another kernel',
            'The extra specs of this plugin are unknown here',
            # It is no enforcer: it has no extra specs.
            "Plugin 'good' of nova_ext_resources.enforcers",
        ):
            self.assertIn(words, log.output)
        self.assertEqual(1, log.output.count("'raises_at_import'"))

    def test_it_is_the_same_every_time(self) -> None:
        script = (
            'from nova_ext_resources import plugins\n'
            'print(plugins.load_grammar())'
        )

        # Sets and their order differ with the seed.
        said = {
            subprocess.run(
                [sys.executable, '-c', script],
                env={**os.environ, 'PYTHONHASHSEED': seed},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            for seed in ('1', '2', '3')
        }

        self.assertEqual(1, len(said))

    def test_it_still_stops_the_start_where_it_is_named(self) -> None:
        self.assertRaises(
            exception.PluginLoadFailed,
            plugins.load_classes,
            plugins.ENFORCERS,
            ['raises_at_import'],
        )


class TestInTheBox(base.TestCase):
    def test_all_trackers_are_made(self) -> None:
        trackers = plugins.load_trackers()

        self.assertLessEqual({'cache_ways', 'count'}, set(trackers))
        self.assertIsInstance(trackers['count'], count.CountTracker)

    def test_claim_tests_know_the_trackers_and_keep_their_order(self) -> None:
        trackers = builders.make_trackers()

        tests = plugins.load_claim_tests(trackers, ['granularity', 'capacity'])

        self.assertEqual(
            [('granularity', 'GranularityTest'), ('capacity', 'CapacityTest')],
            [(name, type(one).__name__) for name, one in tests.items()],
        )
        self.assertIs(trackers, tests['granularity'].trackers)

    def test_the_grammar_knows_what_every_plugin_understands(self) -> None:
        grammar = plugins.load_grammar()

        self.assertIn('guaranteed', grammar.attributes['pool'])
        self.assertIn('policy', grammar.enforcers['rmd'])
        self.assertIn('noop', grammar.enforcers)


class TestCompatible(base.TestCase):
    """Plugins that would undo what the other one does."""

    def load(self, namespace: str, *names: str) -> dict[str, Any]:
        return plugins.load_classes(namespace, names)

    def test_rmd_and_resctrl_together_are_refused(self) -> None:
        both = ('rmd', 'resctrl')
        for inventories, enforcers in (
            (both, both),
            (both, ('rmd',)),
            (both, ('resctrl',)),
            (('rmd',), both),
            (('resctrl',), both),
            (('rmd',), ('resctrl',)),
            (('resctrl',), ('rmd',)),
            (('rmd', 'static'), ('noop', 'resctrl')),
        ):
            with self.subTest(inventories=inventories, enforcers=enforcers):
                err = self.assertRaises(
                    exception.InvalidConfiguration,
                    plugins.check_compatible,
                    self.load(plugins.INVENTORY_PROVIDERS, *inventories),
                    self.load(plugins.ENFORCERS, *enforcers),
                )

                self.assertIn('resctrl and rmd manage the same', str(err))
                self.assertIn('enable only one of them', str(err))

    def test_either_of_them_by_itself_is_fine(self) -> None:
        for name in ('rmd', 'resctrl'):
            plugins.check_compatible(
                self.load(plugins.INVENTORY_PROVIDERS, name, 'static'),
                self.load(plugins.ENFORCERS, name, 'noop'),
            )
