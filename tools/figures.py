# SPDX-License-Identifier: Apache-2.0

"""What the package weighs, in figures that should fall.

``python tools/figures.py`` counts all but ``testing/``. Lines of comments, of
docstrings and empty ones are no code. ``sh tools/tox -e bench -- trace`` shows
how far one change of the kernel's groups travels through the modules.
"""

import ast
import collections
from collections.abc import Iterator
import io
import pathlib
import runpy
import tokenize

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / 'nova_ext_resources'

#: Tokens that make no line of code.
_SILENT = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
)

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def main() -> None:
    nova = runpy.run_path(str(PACKAGE / 'virt/compat/private_api.py'))
    modules = {path: path.read_text(encoding='utf-8') for path in _list()}
    trees = {path: ast.parse(text) for path, text in modules.items()}
    for what, number in (
        ('code lines', sum(_count(modules[one], trees[one]) for one in trees)),
        (
            'code lines but for reservation/',
            sum(
                _count(modules[one], trees[one])
                for one in trees
                if one.relative_to(PACKAGE).parts[0] != 'reservation'
            ),
        ),
        ('modules', len(trees)),
        ('modules in the largest folder', _find_largest(trees)),
        ('modules that only one beside them imports', _count_alone(trees)),
        ('own imports with "as"', _count_aliases(trees)),
        ('names of several classes', _count_shared(trees)),
        ('callables handed to constructors', _count_callables(trees)),
        ('internals of Nova that are replaced', len(nova['REPLACED'])),
        (
            'internals of Nova in all',
            len(nova['REPLACED']) + len(nova['USED']),
        ),
    ):
        print(f'{number:8,} {what}')


def _list() -> Iterator[pathlib.Path]:
    for path in sorted(PACKAGE.rglob('*.py')):
        if 'testing' not in path.parts:
            yield path


def _count(text: str, tree: ast.Module) -> int:
    documented: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node):
            first = node.body[0]
            documented.update(
                range(first.lineno, (first.end_lineno or first.lineno) + 1)
            )
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def _find_largest(trees: dict[pathlib.Path, ast.Module]) -> int:
    folders = collections.Counter(
        path.parent for path in trees if path.stem != '__init__'
    )
    return max(folders.values())


def _list_imports(tree: ast.Module) -> Iterator[tuple[str, str | None]]:
    """Yield the name of each own module that is imported, and its alias."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if (node.module or '').startswith(PACKAGE.name):
                for alias in node.names:
                    yield f'{node.module}.{alias.name}', alias.asname


def _count_alone(trees: dict[pathlib.Path, ast.Module]) -> int:
    users: dict[str, set[str]] = collections.defaultdict(set)
    for path, tree in trees.items():
        for name, _alias in _list_imports(tree):
            users[name].add(_name(path))
    return sum(
        len(found) == 1
        and {_get_room(one) for one in found} == {_get_room(name)}
        for name, found in users.items()
    )


def _name(path: pathlib.Path) -> str:
    return '.'.join(path.relative_to(PACKAGE.parent).with_suffix('').parts)


def _get_room(name: str) -> str:
    return name.rpartition('.')[0]


def _count_aliases(trees: dict[pathlib.Path, ast.Module]) -> int:
    return sum(
        alias is not None
        for tree in trees.values()
        for _name, alias in _list_imports(tree)
    )


def _count_shared(trees: dict[pathlib.Path, ast.Module]) -> int:
    names = collections.Counter(
        node.name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name[0] != '_'
    )
    return sum(number > 1 for number in names.values())


def _count_callables(trees: dict[pathlib.Path, ast.Module]) -> int:
    """Count parameters of constructors that are annotated as functions."""
    return sum(
        'Callable' in ast.unparse(argument.annotation)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == '__init__'
        for argument in (*node.args.args, *node.args.kwonlyargs)
        if argument.annotation
    )


if __name__ == '__main__':
    main()
