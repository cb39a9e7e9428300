# SPDX-License-Identifier: Apache-2.0

"""The docstring of every folder names its files, with a line each."""

import ast
import collections
from collections.abc import Iterator
import pathlib
import re

import nova_ext_resources
from tests import base

ROOT = pathlib.Path(nova_ext_resources.__path__[0])

#: The package, and what several tools share.
ROOTS = (ROOT, ROOT.parent / 'dev' / 'cloud')

#: Modules of one folder at most.
MAX_MODULES = 15

#: Folders that have more: no number may grow.
LARGE_FOLDERS = {
    'reservation': 57,
    'reservation/blazar': 19,
    'reservation/manager': 42,
    'reservation/store': 33,
    'testing/resctrl': 21,
    'testing/rmd_simulator': 23,
}

#: Public classes of ``reservation`` that have the name of another one. No name
#: may be added.
SHARED_NAMES = {
    *('Affinity', 'Cuts', 'Event', 'Limits', 'NovaServer', 'Outcome'),
    *('Reading', 'Room', 'Sender', 'Site', 'State', 'Step', 'Taken'),
    *('Target', 'Use'),
}

#: ``* ``name``: what it is for``
LINE = re.compile(r'^\* ``(\w+)``: \S', re.MULTILINE)

#: A path in our tree, as a text names it: ``host/manager``, ``drivers/``.
ROOMS = '|'.join(one.parent.name for one in ROOT.glob('*/__init__.py'))
PATH = re.compile(rf'``((?:{ROOMS})/[\w/]*)(?:\.py)?``')


def is_there(named: str) -> bool:
    path = ROOT / named
    return path.is_dir() or path.with_suffix('.py').is_file()


def list_folders() -> Iterator[pathlib.Path]:
    yield ROOT.parent / 'dev'
    for root in ROOTS:
        for path in sorted(root.rglob('__init__.py')):
            yield path.parent


def list_files(folder: pathlib.Path) -> list[str]:
    """Return the names of the modules and folders in a folder."""
    names = {path.stem for path in folder.glob('*.py')}
    names.update(path.parent.name for path in folder.glob('*/__init__.py'))
    return sorted(one for one in names if not one.startswith('__'))


def read_docstring(folder: pathlib.Path) -> str:
    text = (folder / '__init__.py').read_text(encoding='utf-8')
    return ast.get_docstring(ast.parse(text)) or ''


class FoldersTest(base.TestCase):
    def test_every_folder_names_its_files(self) -> None:
        for folder in list_folders():
            with self.subTest(folder=str(folder.relative_to(ROOT.parent))):
                named = LINE.findall(read_docstring(folder))

                self.assertEqual(list_files(folder), sorted(named))

    def test_no_folder_has_too_many_modules(self) -> None:
        found = {
            folder.relative_to(ROOT).as_posix(): len(
                [one for one in folder.glob('*.py') if one.stem[:2] != '__']
            )
            for folder in list_folders()
            if folder.is_relative_to(ROOT)
        }

        self.assertEqual(
            LARGE_FOLDERS,
            {name: n for name, n in found.items() if n > MAX_MODULES},
        )

    def test_each_class_has_a_name_of_its_own(self) -> None:
        found = collections.Counter(
            node.name
            for path in ROOT.rglob('*.py')
            if 'testing' not in path.parts
            for node in ast.parse(path.read_text(encoding='utf-8')).body
            if isinstance(node, ast.ClassDef) and node.name[0] != '_'
        )

        self.assertEqual(
            SHARED_NAMES, {name for name, count in found.items() if count > 1}
        )

    def test_every_module_says_what_it_is(self) -> None:
        silent = [
            str(path.relative_to(ROOT))
            for path in sorted(ROOT.rglob('*.py'))
            if not ast.get_docstring(
                ast.parse(path.read_text(encoding='utf-8'))
            )
        ]

        self.assertEqual([], silent)

    def test_every_python_file_begins_with_its_licence(self) -> None:
        without = [
            str(path.relative_to(ROOT))
            for path in sorted(ROOT.rglob('*.py'))
            if not path.read_text(encoding='utf-8').startswith(
                '# SPDX-License-Identifier: Apache-2.0\n'
            )
        ]

        self.assertEqual([], without)

    def test_the_paths_that_texts_name_exist(self) -> None:
        pages = (ROOT.parent / 'doc' / 'source').rglob('*.rst')
        missing = [
            f'{path.relative_to(ROOT.parent)}: {named}'
            for path in sorted([*ROOT.rglob('*.py'), *pages])
            for named in PATH.findall(path.read_text(encoding='utf-8'))
            if not is_there(named)
        ]

        self.assertEqual([], missing)
