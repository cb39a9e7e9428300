# SPDX-License-Identifier: Apache-2.0

"""What has the name of a test is run as one."""

import ast
from collections.abc import Iterator
import pathlib

from tests import base

ROOT = pathlib.Path(base.__file__).parent

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def list_nested(path: pathlib.Path) -> Iterator[str]:
    """Return the tests within functions, where nothing finds them."""
    for outer in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if not isinstance(outer, FUNCTIONS):
            continue
        for inner in ast.walk(outer):
            if inner is not outer and isinstance(inner, FUNCTIONS):
                if inner.name.startswith('test_'):
                    yield f'{path.relative_to(ROOT)}: {inner.name}'


class TestsTest(base.TestCase):
    def test_no_test_is_within_another_function(self) -> None:
        found = [
            one
            for path in sorted(ROOT.rglob('*.py'))
            for one in list_nested(path)
        ]

        self.assertEqual([], found)
