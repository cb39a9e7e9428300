# SPDX-License-Identifier: Apache-2.0

"""Nova's provider configuration files: written, and in the way."""

import contextlib
import io
import pathlib
import textwrap

from nova_ext_resources.cmd import provider_config as command
from nova_ext_resources import exception
from nova_ext_resources.virt.provider_config import files
from tests.functional.virt import backends

_FILE = """\
meta:
  schema_version: '1.0'
providers:
  - identification: {uuid: $COMPUTE_NODE}
    inventories:
      additional:
        - CUSTOM_OTHER: {total: 1}
        - CUSTOM_SEAT:
            total: 5
    traits: {additional: [CUSTOM_HERE]}
  - identification: {name: host1_STATIC}
    inventories: {additional: [{CUSTOM_SEAT: {total: 2}}]}
  - identification: {name: elsewhere}
    traits: {additional: [CUSTOM_THERE]}
"""

_MERGED = """\
meta: {schema_version: '1.0'}
seats: &seats
  CUSTOM_SEAT: {total: 1}
providers:
  - identification: {uuid: $COMPUTE_NODE}
    inventories: {additional: [{<<: *seats}]}
"""


class ProviderConfigTest(backends.Static):
    """Two hosts with six seats each."""

    def setUp(self) -> None:
        super().setUp()
        self.files = pathlib.Path(self.make_folder())
        self.path = self.files / 'seats.yaml'

    def make_folder(self) -> str:
        folder = self.folder / 'provider_config'
        folder.mkdir()
        return str(folder)

    def test_what_collides_is_named_by_file_and_line(self) -> None:
        self.path.write_text(_FILE)

        found = files.list_collisions(
            str(self.files), {'CUSTOM_SEAT', 'CUSTOM_THERE'}
        )

        self.assertEqual(
            ['$COMPUTE_NODE', 'host1_STATIC'],
            [one.provider for one in found],
        )
        self.assertIn(
            'seats.yaml, line 8, 12: a plugin of this host', str(found[0])
        )

    def test_a_class_by_a_merge_key(self) -> None:
        self.path.write_text(_MERGED)

        [found] = files.list_collisions(str(self.files), {'CUSTOM_SEAT'})

        self.assertEqual((3,), found.lines)

    def test_no_folder(self) -> None:
        self.assertEqual(
            (), files.list_collisions('/no/such', {'CUSTOM_SEAT'})
        )

    def test_nothing_collides(self) -> None:
        self.assertEqual(
            (), files.list_collisions(str(self.files), {'CUSTOM_X'})
        )
        self.path.write_text(_FILE)
        self.assertEqual(
            (), files.list_collisions(str(self.files), {'CUSTOM_X'})
        )

    def test_a_file_that_nova_refuses(self) -> None:
        for text, words in (
            ('- a\n', 'schema version'),
            ('a: [\n', 'line 2'),
            (_FILE.replace('CUSTOM_OTHER', 'VCPU'), 'VCPU'),
            (_FILE.replace('- CUSTOM_OTHER: {total: 1}', '-'), 'not iterable'),
            ('meta:\n', 'schema version'),
            ('', 'schema version'),
        ):
            self.path.write_text(text)
            error = self.assertRaises(
                exception.InvalidConfiguration,
                files.list_collisions,
                str(self.files),
                set(),
            )
            self.assertIn(words, str(error))
            self.assertIn(str(self.files), str(error))
            self.assertNotIn('\n', str(error))

    def write(self) -> None:
        """Write what the static plugin finds, with the command."""
        conf = self.folder / 'command.conf'
        conf.write_text(
            textwrap.dedent(f"""\
                [DEFAULT]
                host = host3
                [ext_resources]
                inventory_providers = static
                [ext_resources_static]
                definitions_file = {self.folder}/definitions.yaml
                """)
        )
        with contextlib.redirect_stdout(io.StringIO()) as text:
            self.assertEqual(0, command.main([f'--config-file={conf}']))
        self.path.write_text(text.getvalue())

    def test_novas_own_driver_reports_what_the_command_writes(self) -> None:
        self.write()
        self.flags(compute_driver='fake.MediumFakeDriver')
        self.flags(provider_config_location=str(self.files), group='compute')

        self._start_compute('host3')

        node = self._get_provider_uuid_by_host('host3')
        self.assertEqual(
            6, self._get_provider_inventory(node)['CUSTOM_SEAT']['total']
        )
        self.boot(self.make_own_flavor(6), host='host3')
        self.boot(self.make_own_flavor(1), 'ERROR', host='host3')
