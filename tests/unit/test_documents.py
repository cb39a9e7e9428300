# SPDX-License-Identifier: Apache-2.0

"""What pages say of tests, versions and modules is so."""

import collections
import pathlib
import re

from nova_ext_resources.cmd import status
from tests import base

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ROOT / 'doc' / 'source'
ADMIN = PAGES / 'admin'
PACKAGE = ROOT / 'nova_ext_resources'


class DocumentsTest(base.TestCase):
    def test_each_row_of_the_page_of_operations_has_its_tests(self) -> None:
        page = (ADMIN / 'operations.rst').read_text()
        files = [*(ROOT / 'tests').rglob('*.py')]
        source = '\n'.join(path.read_text() for path in files)
        found = {path.stem for path in files}
        found.update(re.findall(r'^ *(?:def|class) (\w+)', source, re.M))
        rows = re.findall(
            r'^   \* - (.*\n(?: {5}.*\n|\n(?= {5}))*)', page, re.M
        )
        heads = ('Action\n', 'Event\n')

        for row in rows:
            if row.startswith(heads):
                continue
            # Readers of the page do not see comments.
            shown, _dots, comment = row.partition('\n\n       .. ')
            named = set(re.findall(r'\btest_\w+|\b[A-Z]\w+Test\b', comment))

            self.assertTrue(named, f'no test shows: {row}')
            self.assertEqual(set(), named - found, row)
            self.assertNotIn('test_', shown)
        self.assertLess(20, len(rows))

    def test_the_support_matrix_has_the_versions_of_the_tests(self) -> None:
        page = (ADMIN / 'support.rst').read_text()
        constraints = (ROOT / 'upper-constraints.txt').read_text()
        for name in ('nova', 'openstack-placement'):
            [version] = re.findall(rf'^{name}==(\S+)$', constraints, re.M)

            self.assertIn(f'- {version}', page)

    def test_release_notes_are_where_reno_looks_for_them(self) -> None:
        notes = ROOT / 'releasenotes'
        [folder] = re.findall(
            r'^notesdir: (\w+)$', (notes / 'config.yaml').read_text(), re.M
        )

        for path in notes.rglob('*.yaml'):
            if path.name != 'config.yaml':
                self.assertEqual(notes / folder, path.parent)

    def test_each_release_note_has_an_identifier_of_its_own(self) -> None:
        names: dict[str, list[str]] = collections.defaultdict(list)
        for path in (ROOT / 'releasenotes' / 'changes').iterdir():
            # As reno reads it.
            names[path.stem[-16:]].append(path.name)

        for identifier, some in names.items():
            self.assertRegex(identifier, r'^[0-9a-f]{16}$', some)
            self.assertEqual(some[:1], some)
        self.assertNotEqual({}, names)

    def test_the_status_commands_that_pages_name_exist(self) -> None:
        pages = [*PAGES.rglob('*.rst'), ROOT / 'README.rst']
        text = '\n'.join(one.read_text() for one in pages)
        named = re.findall(r'nova-ext-resources-status (\w[^`\n\\]*)', text)

        for line in named:
            with self.subTest(line=line):
                # Raises SystemExit on words that it does not know.
                status.make_parser().parse_args(line.split())
        self.assertLess(10, len(named))

    def test_the_rooms_that_pages_name_exist(self) -> None:
        for name in ('reference/requirements', 'contributor/goals'):
            page = (PAGES / f'{name}.rst').read_text()
            for room in re.findall(r'``([a-z_]+(?:/[a-z_]*)+)``', page):
                path = PACKAGE / room

                self.assertTrue(
                    path.is_dir() or path.with_suffix('.py').is_file(), room
                )
