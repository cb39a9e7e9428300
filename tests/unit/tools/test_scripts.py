# SPDX-License-Identifier: Apache-2.0

"""What holds for every script and file of settings."""

from collections.abc import Iterator
import pathlib
import re

from tests import base

ROOT = pathlib.Path(__file__).parents[3]

#: Where scripts and settings are.
PLACES = (
    '*.*',
    '.*',
    '.ci/*',
    'bench/**/*',
    'cloud/**/*',
    'demo/**/*',
    'devstack/*',
    'tools/**/*',
)

#: Names of texts, which may name any host.
TEXTS = frozenset({'.rst', '.md'})

#: A site has an index of its own, which pip and apt know.
INDEX = re.compile(
    r'pypi\.org|pythonhosted\.org|deb\.debian\.org|archive\.ubuntu\.com'
    r'|index-url'
)


def list_scripts() -> Iterator[pathlib.Path]:
    for place in PLACES:
        for path in ROOT.glob(place):
            if path.is_file() and path.suffix not in TEXTS | {'.pyc'}:
                yield path


def find_index(text: str) -> list[str]:
    return [line for line in text.splitlines() if INDEX.search(line)]


class ScriptsTest(base.TestCase):
    def test_none_names_a_package_index(self) -> None:
        found = {
            str(path.relative_to(ROOT)): lines
            for path in list_scripts()
            if (lines := find_index(path.read_text(errors='replace')))
        }

        self.assertEqual({}, found)

    def test_they_are_there(self) -> None:
        names = {str(path.relative_to(ROOT)) for path in list_scripts()}

        self.assertLessEqual(
            {'tox.ini', '.ci/run', 'tools/tox', 'bindep.txt', '.zuul.yaml'},
            names,
        )

    def test_one_is_noticed(self) -> None:
        self.assertEqual(1, len(find_index('reach https://pypi.org\nor not')))
