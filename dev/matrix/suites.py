# SPDX-License-Identifier: Apache-2.0

"""The classes of the tests, and which tests each has, from their source.

Nothing is imported: Nova is not installed everywhere.
"""

import ast
from collections.abc import Iterator, Mapping
import dataclasses
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]

#: Where the tests are that play operations.
FUNCTIONAL = ('tests', 'functional')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """A class of a module of tests.

    :ivar bases: the full names of those that it derives from, in order
    :ivar tests: the names of its own methods that are tests
    """

    bases: tuple[str, ...]
    tests: frozenset[str]


Classes = Mapping[str, Class]


def read(root: pathlib.Path = ROOT) -> Classes:
    """Return the full name of each class of functional tests -> the class."""
    return {
        name: made
        for path in root.joinpath(*FUNCTIONAL).rglob('*.py')
        for name, made in _list_classes(root, path)
    }


def _list_classes(
    root: pathlib.Path, path: pathlib.Path
) -> Iterator[tuple[str, Class]]:
    module = '.'.join(path.relative_to(root).with_suffix('').parts)
    tree = ast.parse(path.read_text(encoding='utf-8'))
    # House style: modules are imported, and never names of them.
    imported = {
        alias.asname or alias.name: f'{node.module}.{alias.name}'
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(one).partition('.') for one in node.bases]
            yield (
                f'{module}.{node.name}',
                Class(
                    bases=tuple(
                        f'{imported.get(first, first)}.{rest}'
                        if dot
                        else f'{module}.{first}'
                        for first, dot, rest in bases
                    ),
                    tests=frozenset(_list_tests(node)),
                ),
            )


def _list_tests(node: ast.ClassDef) -> Iterator[str]:
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name.startswith('test_'):
            yield one.name


def list_ancestors(classes: Classes, name: str) -> list[str]:
    """Return a class and what it derives from, the nearest first."""
    found = [name]
    for base in classes[name].bases:
        if base in classes:
            found += list_ancestors(classes, base)
    return found


def is_run(name: str) -> bool:
    """Return whether stestr finds a class, by its full name."""
    return name.split('.')[-2].startswith('test_')


def find_tests(classes: Classes, name: str) -> frozenset[str]:
    """Return the full names of a test: one for each class that plays it.

    :param name: module, class and method; the class may be one that others
        derive from
    """
    owner, _dot, method = name.rpartition('.')
    return frozenset(
        f'{one}.{method}'
        for one in classes
        if is_run(one)
        and owner in (ancestors := list_ancestors(classes, one))
        and any(method in classes[each].tests for each in ancestors)
    )
