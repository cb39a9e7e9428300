# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Imports point one way, and Nova is imported in three places only."""

import ast
from collections.abc import Iterator
import pathlib

import nova_ext_resources
from tests import base

#: From the top: a part may import the parts of its own row and of the rows
#: below it. What every row may use stands in the last one.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({'cmd', 'agent', 'virt', 'scheduler', 'cli', 'testing'}),
    frozenset(
        {
            'books',
            'host',
            'healing',
            'discovery',
            'enforcement',
            'handover',
            'hostview',
            'placement',
            'reservation',
            'server_locks',
            'serving',
            'service',
            'measuring',
            'server_list',
            'monitoring',
            'metrics',
            'health',
            'tuning',
        }
    ),
    frozenset(
        {
            'trackers',
            'claims',
            'placing',
            'claim_tests',
            'inventory',
            'enforcers',
        }
    ),
    frozenset({'ledger', 'rmd', 'resctrl', 'plugins'}),
    frozenset(
        {
            'objects',
            'definitions',
            'extra_specs',
            'conf',
            'option_values',
            'exception',
            'shares',
            'alarms',
            'rdt',
        }
    ),
)

#: Only these may import Nova (its internals may change any day).
USES_NOVA = ('virt.', 'scheduler.', 'cmd.compute')

#: Collects the options of all plugins; nothing imports it.
ABOVE_ALL = ('conf.opts',)

ROOT = pathlib.Path(nova_ext_resources.__path__[0])
PACKAGE = nova_ext_resources.__name__


def list_modules() -> Iterator[tuple[str, ast.Module]]:
    """Give each module's name below the package, and its tree."""
    for path in sorted(ROOT.rglob('*.py')):
        parts = path.relative_to(ROOT).with_suffix('').parts
        name = '.'.join(part for part in parts if part != '__init__')
        yield name, ast.parse(path.read_text(encoding='utf-8'))


def list_imports(tree: ast.Module) -> Iterator[str]:
    """Give the full dotted names that a module imports, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, 'relative import'
            yield from (f'{node.module}.{alias.name}' for alias in node.names)


def find_layer(part: str) -> int:
    for number, layer in enumerate(LAYERS):
        if part in layer:
            return number
    raise AssertionError(f'{part} has no place in LAYERS: give it one')


def find_wrong_imports(name: str, tree: ast.Module) -> list[str]:
    """Give what a module imports from a layer above its own."""
    if not name or name in ABOVE_ALL:
        return []
    own = find_layer(name.partition('.')[0])
    wrong = []
    for imported in list_imports(tree):
        package, _dot, rest = imported.partition('.')
        part = rest.partition('.')[0]
        if package == PACKAGE and part and find_layer(part) < own:
            wrong.append(f'{name} imports {imported}')
    return wrong


def find_imports_of_nova(name: str, tree: ast.Module) -> list[str]:
    """Give what a module imports of Nova, where it must not."""
    if f'{name}.'.startswith(USES_NOVA):
        return []
    return [
        f'{name} imports {imported}'
        for imported in list_imports(tree)
        if imported.partition('.')[0] == 'nova'
    ]


class ImportDirectionTest(base.TestCase):
    def test_imports_point_from_the_upper_layers_to_the_lower(self) -> None:
        wrong = [
            one
            for name, tree in list_modules()
            for one in find_wrong_imports(name, tree)
        ]

        self.assertEqual([], wrong)

    def test_nova_is_imported_at_the_edge_only(self) -> None:
        wrong = [
            one
            for name, tree in list_modules()
            for one in find_imports_of_nova(name, tree)
        ]

        self.assertEqual([], wrong)

    def test_an_import_of_an_upper_layer_is_noticed(self) -> None:
        tree = ast.parse('def f():\n    from nova_ext_resources import host')

        wrong = find_wrong_imports('objects.view', tree)

        self.assertEqual(
            ['objects.view imports nova_ext_resources.host'], wrong
        )

    def test_an_import_of_nova_is_noticed(self) -> None:
        tree = ast.parse('import nova.conf')

        wrong = find_imports_of_nova('claims', tree)

        self.assertEqual(['claims imports nova.conf'], wrong)

    def test_eventlet_and_asyncio_are_imported_nowhere(self) -> None:
        wrong = [
            f'{name} imports {imported}'
            for name, tree in list_modules()
            for imported in list_imports(tree)
            if imported.partition('.')[0] in ('eventlet', 'asyncio')
        ]

        self.assertEqual([], wrong)
