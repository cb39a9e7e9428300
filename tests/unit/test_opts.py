# SPDX-License-Identifier: Apache-2.0

import configparser
import io

from oslo_config import cfg
from oslo_config import generator

from nova_ext_resources import opts
from nova_ext_resources import plugins
from tests import base


def generate_sample() -> str:
    """Run oslo-config-generator on the installed package."""
    conf = cfg.ConfigOpts()
    generator.register_cli_opts(conf)
    conf(['--namespace', 'nova_ext_resources'], default_config_files=[])
    output = io.StringIO()
    generator.generate(conf, output_file=output)
    return output.getvalue()


class ListOptsTest(base.TestCase):
    def test_every_group_is_listed_once(self) -> None:
        names = [group.name for group, _opts in opts.list_opts()]

        self.assertEqual(sorted(set(names)), sorted(names))

    def test_every_option_is_listed_once(self) -> None:
        for group, some in opts.list_opts():
            with self.subTest(group=group.name):
                names = [opt.dest for opt in some]

                self.assertEqual(sorted(set(names)), sorted(names))

    def test_every_group_of_ours_has_our_prefix(self) -> None:
        for group, _opts in opts.list_opts():
            self.assertTrue(group.name.startswith('ext_resources'))

    def test_the_options_of_every_plugin_are_listed(self) -> None:
        listed = {
            (group.name, opt.name)
            for group, some in opts.list_opts()
            for opt in some
        }

        for namespace in (plugins.INVENTORY_PROVIDERS, plugins.ENFORCERS):
            for name, plugin in plugins.load_classes(namespace).items():
                for opt in plugin.OPTIONS:
                    self.assertIn((f'ext_resources_{name}', opt.name), listed)

    def test_an_option_is_declared_in_one_way_only(self) -> None:
        # Otherwise the service stops with DuplicateOptError.
        for group, some in [*opts.list_own(), *opts.list_of_plugins()]:
            self.conf.register_opts(some, group=group.name)

    def test_what_is_given_are_copies(self) -> None:
        first = opts.list_opts()[0][1][0]
        first.default = 'changed'

        again = opts.list_opts()[0][1][0]

        self.assertNotEqual('changed', again.default)

    def test_every_option_of_ours_says_what_it_does(self) -> None:
        for group, some in opts.list_opts():
            for opt in some:
                self.assertTrue(opt.help, f'[{group.name}] {opt.name}')


class SampleTest(base.TestCase):
    def test_the_sample_has_every_group(self) -> None:
        sample = configparser.ConfigParser(
            allow_no_value=True, strict=True, interpolation=None
        )

        sample.read_string(generate_sample())

        groups = {group.name for group, _opts in opts.list_opts()}
        self.assertEqual(groups, set(sample.sections()))

    def test_passwords_are_secret(self) -> None:
        for group, some in opts.list_opts():
            for opt in some:
                if opt.dest in ('password', 'token', 'admin_token'):
                    self.assertTrue(opt.secret, f'[{group.name}] {opt.name}')
