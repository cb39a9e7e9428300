# SPDX-License-Identifier: Apache-2.0

"""The tutorial shows the whole example, as it says."""

import ast
import pathlib
import re

from tests import base

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLE = ROOT / 'examples' / 'licences'
PAGE = ROOT / 'doc' / 'source' / 'user' / 'tutorial.rst'

_SHOWN = re.compile(
    r'^\.\. literalinclude:: (?P<path>\S+)\n(?P<options>(?: {3}:.*\n)*)', re.M
)
_OPTION = re.compile(r'^ {3}:([\w-]+): (.*)$', re.M)

#: Where what a reader has to write begins: before it are the licence of the
#: example, and what it is.
_BEGINNINGS = {
    'acme_licences/inventory.py': 'import json',
    'pyproject.toml': '[build-system]',
    'setup.cfg': '[metadata]',
}


def find_object(text: str, name: str) -> str:
    """Return the lines of a function or of a method."""
    nodes: list[ast.stmt] = ast.parse(text).body
    for part in name.split('.'):
        found = next(n for n in nodes if getattr(n, 'name', None) == part)
        nodes = getattr(found, 'body', [])
    lines = text.splitlines()[found.lineno - 1 : found.end_lineno]
    return '\n'.join(lines)


def cut(text: str, options: dict[str, str]) -> str:
    """Return what Sphinx shows of a file, with the options of the page."""
    if 'pyobject' in options:
        return find_object(text, options['pyobject'])
    lines = text.splitlines()
    if 'start-at' in options:
        first = next(
            i for i, v in enumerate(lines) if options['start-at'] in v
        )
        lines = lines[first:]
    if 'end-before' in options:
        last = next(
            i for i, v in enumerate(lines) if options['end-before'] in v
        )
        lines = lines[:last]
    return '\n'.join(lines)


def list_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


class TutorialTest(base.TestCase):
    def read_page(self) -> dict[str, list[str]]:
        """Return the lines that the page shows, by file."""
        shown: dict[str, list[str]] = {}
        for found in _SHOWN.finditer(PAGE.read_text()):
            path = (PAGE.parent / found['path']).resolve()
            piece = cut(
                path.read_text(), dict(_OPTION.findall(found['options']))
            )
            name = str(path.relative_to(EXAMPLE))
            shown.setdefault(name, []).extend(list_lines(piece))
        return shown

    def test_every_line_is_shown_in_its_order(self) -> None:
        wanted = {}
        for name, beginning in _BEGINNINGS.items():
            text = (EXAMPLE / name).read_text()
            wanted[name] = list_lines(cut(text, {'start-at': beginning}))

        self.assertEqual(wanted, self.read_page())

    def test_there_is_no_other_file(self) -> None:
        empty = 'acme_licences/__init__.py'
        names = {
            str(path.relative_to(EXAMPLE))
            for pattern in ('*.toml', '*.cfg', 'acme_licences/*.py')
            for path in EXAMPLE.glob(pattern)
        }

        self.assertEqual({empty, *_BEGINNINGS}, names)
        self.assertEqual([], ast.parse((EXAMPLE / empty).read_text()).body)
