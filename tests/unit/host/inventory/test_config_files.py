# SPDX-License-Identifier: Apache-2.0

import logging
import pathlib
from typing import Any

import fixtures

from nova_ext_resources.host.inventory import config_files
from tests import base

_FILE = """\
meta: {schema_version: '1.0'}
providers:
- identification: {name: host1_STATIC}
  inventories:
    additional:
    - CUSTOM_SEAT_MORE: {total: 1}
    - CUSTOM_SEAT: {total: 1}
- identification: {uuid: 0e7b}
  inventories: {additional: [{CUSTOM_SEAT: {total: 2}}]}
- identification: {name: host1_ELSE}
  traits: {additional: [CUSTOM_HERE]}
"""

_NAMES = ('host1_STATIC', 'host1_ELSE', '0e7b')


class ConfigFilesTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.path = self.folder / 'seats.yaml'

    def list_named(self, *names: str) -> list[Any]:
        return [
            (one.identification, one.resource_class, one.lines)
            for one in config_files.list_named(str(self.folder), names)
        ]

    def test_what_cannot_be_read_is_logged_once(self) -> None:
        log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        self.path.mkdir()
        (self.folder / '.hidden.yaml').write_text(_FILE)

        for _ in range(2):
            self.assertEqual([], self.list_named(*_NAMES))

        [line] = log.output.splitlines()
        self.assertIn(f'{self.path} cannot be read', line)

    def test_a_file_that_is_no_such_yaml_is_logged_with_its_line(self) -> None:
        log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        self.path.write_text(_FILE)
        for name, text in (
            ('bool', 'providers:\n- !!bool foo'),
            ('twice', 'providers: []\nproviders: []'),
            ('deep', '[' * 400),
        ):
            (self.folder / f'{name}.yaml').write_text(text)

        self.assertNotEqual([], self.list_named(*_NAMES))

        deep, odd, twice = sorted(
            log.output.splitlines(), key=lambda line: 'twice.yaml' in line
        )
        self.assertIn('not valid YAML', deep + odd)
        self.assertIn('line 2: ', deep + odd)
        self.assertIn('line 2: providers occurs twice', twice)

    def test_a_folder_that_cannot_be_read(self) -> None:
        log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        self.path.write_text(_FILE)

        self.assertEqual((), config_files.list_named(str(self.path), _NAMES))
        self.assertEqual(
            (), config_files.list_named(f'{self.folder}/none', _NAMES)
        )

        [line] = log.output.splitlines()
        self.assertIn(f'{self.path} cannot be read', line)

    def test_what_is_added_to_these_providers(self) -> None:
        self.path.write_text(_FILE)

        self.assertEqual(
            [
                ('host1_STATIC', 'CUSTOM_SEAT_MORE', (6,)),
                ('host1_STATIC', 'CUSTOM_SEAT', (7, 9)),
                ('0e7b', 'CUSTOM_SEAT', (7, 9)),
            ],
            self.list_named(*_NAMES),
        )
        self.assertEqual([], self.list_named('host1'))

    def test_words(self) -> None:
        self.path.write_text(_FILE)

        [one] = config_files.list_named(str(self.folder), {'0e7b'})

        self.assertIn(f'{self.path}, line 7, 9: provider 0e7b', str(one))

    def test_what_nova_does_not_read(self) -> None:
        for text in (
            '',
            '[',
            '- a',
            'providers: 1',
            'providers: [1, {identification: {name: host1_STATIC}}]',
            _FILE.replace('additional:\n', 'additional: {}\n    other:\n'),
            _FILE.replace('- CUSTOM', '- - CUSTOM'),
        ):
            with self.subTest(text):
                self.path.write_text(text)
                self.assertNotIn('host1_STATIC', str(self.list_named(*_NAMES)))
        self.path.write_bytes(b'\xff\xfe\xff')
        self.assertEqual([], self.list_named(*_NAMES))
        self.path.unlink()
        self.path.mkdir()
        self.assertEqual([], self.list_named(*_NAMES))

    def test_a_file_that_is_gone_has_no_lines(self) -> None:
        self.assertEqual((), config_files.find_lines('/no/such', 'CUSTOM_A'))
        self.assertEqual('/no/such', config_files.locate('/no/such', ()))
