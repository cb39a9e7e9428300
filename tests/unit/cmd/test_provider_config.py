# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import pathlib
import textwrap

from oslo_config import cfg
import yaml

from nova_ext_resources.cmd import provider_config
from tests import base

_CONF = """
[DEFAULT]
host = cpu1
[ext_resources]
inventory_providers = {plugins}
[ext_resources_static]
definitions_file = {folder}/definitions.yaml
"""

_SEATS = """
resources:
  - name: CUSTOM_SEAT
    units: seats
    description: Seats.
    inventory: {total: 6, reserved: 2}
"""

_SEAT = {
    'total': 6,
    'reserved': 2,
    'min_unit': 1,
    'max_unit': 6,
    'step_size': 1,
    'allocation_ratio': 1.0,
}


PAGE = pathlib.Path(__file__).parents[3] / 'doc/source/admin'


class ProviderConfigTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(cfg.CONF.reset)
        self.folder = pathlib.Path(self.make_folder())
        self.definitions = self.folder / 'definitions.yaml'
        self.definitions.write_text(_SEATS)

    def run_command(
        self, *words: str, plugins: str = 'static'
    ) -> tuple[int, str, str]:
        """Return its status, and what it prints to output and error."""
        path = self.folder / 'nova.conf'
        path.write_text(_CONF.format(folder=self.folder, plugins=plugins))
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            status = provider_config.main([f'--config-file={path}', *words])
        return status, out.getvalue(), err.getvalue()

    def test_what_the_host_has(self) -> None:
        status, out, err = self.run_command()

        self.assertEqual((0, ''), (status, err))
        self.assertIn('# Found on host cpu1 by static.', out)
        [found] = yaml.safe_load(out)['providers']
        self.assertEqual(
            [{'CUSTOM_SEAT': _SEAT}], found['inventories']['additional']
        )

    def test_the_page_shows_what_is_printed(self) -> None:
        _status, out, _err = self.run_command()

        shown = (PAGE / 'provider_config.rst').read_text()
        self.assertIn(out.splitlines()[0], shown)
        document = out[out.index('meta:') :]
        self.assertIn(textwrap.indent(document, '   '), shown)

    def test_a_file_is_written_as_a_whole_or_not_at_all(self) -> None:
        path = self.folder / 'found.yaml'
        words = f'--output={path}'
        self.assertEqual((0, '', ''), self.run_command(words))
        written = path.read_text()
        self.assertIn('CUSTOM_SEAT', written)
        self.definitions.unlink()

        status, out, _err = self.run_command(words)

        self.assertEqual((1, ''), (status, out))
        self.assertEqual(written, path.read_text())

    def test_a_folder_that_is_not_there(self) -> None:
        status, _out, err = self.run_command('--output=/no/such/found.yaml')

        self.assertEqual(1, status)
        self.assertIn('/no/such/found.yaml cannot be written', err)

    def test_a_host_without_anything(self) -> None:
        self.definitions.write_text('resources: []\n')

        self.assert_refused('no plugin has found')

    def assert_refused(self, *words: str, **given: str) -> None:
        status, out, err = self.run_command(**given)

        self.assertEqual((1, ''), (status, out))
        for one in words:
            self.assertIn(one, err)

    def test_no_plugin(self) -> None:
        self.assert_refused('inventory_providers', 'is empty', plugins='')

    def test_a_plugin_that_is_not_installed(self) -> None:
        self.assert_refused('statik', plugins='statik')

    def test_half_of_a_file_is_not_written(self) -> None:
        self.definitions.write_text(
            _SEATS + '  - name: CUSTOM_PLACE\n    inventory: {total: -1}\n'
        )

        self.assert_refused('CUSTOM_PLACE', 'cannot be reported')

    def test_a_file_that_is_gone(self) -> None:
        self.definitions.unlink()

        self.assert_refused('definitions.yaml')
