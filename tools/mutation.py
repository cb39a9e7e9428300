# SPDX-License-Identifier: Apache-2.0

"""Break single lines of the product at random, and see whether tests notice.

    .tox/mutation/bin/python tools/mutation.py record
    .tox/functional/bin/python tools/mutation.py record --suite functional
    .tox/mutation/bin/python tools/mutation.py run --count 100 --seed 1

``record`` runs the tests of a suite once and remembers which of them pass
through which lines. ``run`` breaks one line at a time, runs the tests that
pass through it, the unit tests first, and puts the line back. It prints each
break and whether a test noticed it, and ends with 1 when fewer than
``--least`` percent were noticed.

What is not broken: tests and ``testing/``, docstrings, annotations,
decorators of classes, texts, log messages, and lines that no test reaches
(these are counted and listed, since nothing protects them).
"""

import argparse
import ast
from collections.abc import Iterable, Iterator
import dataclasses
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import coverage

ROOT = pathlib.Path(__file__).resolve().parents[1]
PRODUCT = ROOT / 'nova_ext_resources'
#: Seconds until a test run counts as hung, which is a break that is noticed.
TIMEOUT = 900

#: What can be recorded and run: its folder, its own environment, and how many
#: tests of other modules a break is shown to; functional tests take long.
SUITES = {
    'unit': ('./tests/unit', 'mutation', 120),
    'functional': ('./tests/functional', 'functional', 15),
}

ENVIRONMENT = {
    'LC_ALL': 'C.UTF-8',
    'OS_NOVA_DISABLE_EVENTLET_PATCHING': '1',
    'PYTHONDONTWRITEBYTECODE': '1',
}

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """One change of one expression or statement.

    :ivar line: where it begins
    :ivar start, end: offsets in the file
    """

    path: pathlib.Path
    line: int
    start: int
    end: int
    new: str
    old: str

    def __str__(self) -> str:
        where = self.path.relative_to(ROOT)
        return f'{where}:{self.line}: {self.old!r} -> {self.new!r}'


class Finder(ast.NodeVisitor):
    """Lists what can be broken in a module."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.text = path.read_text(encoding='utf-8')
        self.offsets = [0]
        for line in self.text.splitlines(keepends=True):
            self.offsets.append(self.offsets[-1] + len(line.encode()))
        self.raw = self.text.encode()
        self.found: list[Break] = []
        self.visit(ast.parse(self.text))

    def add(self, node: ast.expr | ast.stmt, new: str) -> None:
        start = self.offsets[node.lineno - 1] + node.col_offset
        assert node.end_lineno is not None and node.end_col_offset is not None
        end = self.offsets[node.end_lineno - 1] + node.end_col_offset
        old = self.raw[start:end].decode()
        if old != new:
            self.found.append(
                Break(
                    path=self.path,
                    line=node.lineno,
                    start=start,
                    end=end,
                    new=new,
                    old=old,
                )
            )

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for one in node.body:
            self.visit(one)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for one in (*node.args.defaults, *node.args.kw_defaults):
            if one is not None:
                self.visit(one)
        for one in node.body:
            self.visit(one)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func)
            if called.startswith('LOG.'):
                return
            self.add(node, 'pass')
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.add(node, 'pass')

    def visit_Assert(self, node: ast.Assert) -> None:
        """Asserts narrow types only."""

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == 'TYPE_CHECKING':
            return
        self.add(node.test, f'not ({ast.unparse(node.test)})')
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.add(node.test, f'not ({ast.unparse(node.test)})')
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word = ' or ' if isinstance(node.op, ast.And) else ' and '
        parts = (f'({ast.unparse(one)})' for one in node.values)
        self.add(node, f'({word.join(parts)})')
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.Invert):
            self.add(node, f'({ast.unparse(node.operand)})')
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        other = COMPARISONS.get(type(node.ops[0]))
        if len(node.ops) == 1 and other is not None:
            new = ast.Compare(node.left, [other()], node.comparators)
            self.add(node, f'({ast.unparse(new)})')
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = OPERATORS.get(type(node.op))
        is_text = any(
            isinstance(one, ast.Constant | ast.JoinedStr)
            and not isinstance(getattr(one, 'value', None), int | float)
            for one in (node.left, node.right)
        )
        if other is not None and not is_text:
            new = ast.BinOp(node.left, other(), node.right)
            self.add(node, f'({ast.unparse(new)})')
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.add(node, repr(not node.value))
        elif isinstance(node.value, int):
            self.add(node, repr(node.value + 1))

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self.add(node, 'return None')
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self.add(node, 'pass')

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts are read by people."""

    def visit_Call(self, node: ast.Call) -> None:
        if ast.unparse(node.func).startswith(('LOG.', 'cfg.')):
            return
        self.generic_visit(node)


def record(suite: str, workers: int) -> int:
    """Run the tests once, and keep which of them pass through a line."""
    find_data(suite).unlink(missing_ok=True)
    parts = [
        subprocess.Popen(
            [
                *(sys.executable, __file__, 'part'),
                *(str(number), str(workers), '--suite', suite),
            ],
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT},
        )
        for number in range(workers)
    ]
    status = max(one.wait() for one in parts)
    whole = coverage.CoverageData(str(find_data(suite)))
    for number in range(workers):
        path = f'{find_data(suite)}.{number}'
        part = coverage.CoverageData(path)
        part.read()
        whole.update(part)
        os.unlink(path)
    whole.write()
    return status


def record_part(suite: str, number: int, workers: int) -> int:
    """Run every so many-th test, in this process."""
    cover = coverage.Coverage(
        data_file=f'{find_data(suite)}.{number}',
        source=['nova_ext_resources'],
        omit=['nova_ext_resources/testing/*'],
        config_file=False,
        messages=False,
    )
    cover.start()
    tests = list(list_tests(SUITES[suite][0]))
    failed: list[str] = []
    for one in tests[number::workers]:
        cover.switch_context(one.id())
        result = unittest.TestResult()
        unittest.TestSuite([one]).run(result)
        cover.switch_context('')
        if not result.wasSuccessful():
            failed.append(one.id())
    cover.stop()
    cover.save()
    find_failed(suite, number).write_text('\n'.join(failed))
    print(
        f'{len(tests[number::workers])} tests, {len(failed)} failed', *failed
    )
    return int(bool(failed))


def list_tests(folder: str) -> Iterator[unittest.TestCase]:
    todo: list[unittest.TestSuite | unittest.TestCase] = [
        unittest.TestLoader().discover(folder, top_level_dir=str(ROOT))
    ]
    while todo:
        one = todo.pop()
        if isinstance(one, unittest.TestSuite):
            todo.extend(one)
        else:
            yield one


def find_data(suite: str) -> pathlib.Path:
    return ROOT / '.tox' / f'mutation-{suite}.coverage'


def find_failed(suite: str, number: int) -> pathlib.Path:
    return ROOT / '.tox' / f'mutation-{suite}.failed.{number}'


def list_failed(suite: str) -> set[str]:
    """Return the tests that failed without a break: they notice nothing."""
    pattern = find_failed(suite, 0).with_suffix('.*').name
    files = (ROOT / '.tox').glob(pattern)
    return {name for one in files for name in one.read_text().split()}


def list_breaks() -> Iterator[Break]:
    for path in sorted(PRODUCT.rglob('*.py')):
        if 'testing' not in path.parts:
            yield from Finder(path).found


def run(given: argparse.Namespace) -> int:
    """Break so many lines, and report which breaks no test notices."""
    suites = [Suite(name) for name in SUITES if find_data(name).exists()]
    rng = random.Random(given.seed)
    breaks = [
        one
        for one in list_breaks()
        if str(one.path.relative_to(PRODUCT)).startswith(given.rooms)
    ]
    tally = {'noticed': 0, 'SURVIVED': 0, 'unreached': 0}
    for one in rng.sample(breaks, min(given.count, len(breaks))):
        verdict = judge(one, suites, rng)
        tally[verdict] += 1
        print(f'{verdict:9}  {one}', flush=True)
    tried = sum(tally.values())
    share = 100.0 * tally['noticed'] / max(tried, 1)
    print(f'{tried} breaks, {share:.0f} % noticed: {tally}')
    return int(share < given.least)


class Suite:
    """The tests of a suite, and which lines they pass through."""

    def __init__(self, name: str) -> None:
        self.name = name
        _folder, env, self.most = SUITES[name]
        self.python = ROOT / '.tox' / env / 'bin' / 'python'
        self.data = coverage.CoverageData(str(find_data(name)))
        self.data.read()
        self.failed = list_failed(name)


def judge(one: Break, suites: Iterable[Suite], rng: random.Random) -> str:
    """Run the tests that pass through a line, until one notices its break."""
    verdict = 'unreached'
    for suite in suites:
        tests = choose(one, suite, rng)
        if tests and is_noticed(one, suite, tests):
            return 'noticed'
        if tests:
            verdict = 'SURVIVED'
    return verdict


def choose(one: Break, suite: Suite, rng: random.Random) -> list[str]:
    """Return all tests of the module itself, then some of the others."""
    tests = sorted(list_passing(suite.data, one) - suite.failed)
    rng.shuffle(tests)
    # Tests mirror the layout.
    prefix = find_own(one, suite)
    others = [test for test in tests if not test.startswith(prefix)]
    own = [test for test in tests if test.startswith(prefix)]
    return own + others[: suite.most]


def find_own(one: Break, suite: Suite) -> str:
    """Return with what the names of a module's own tests begin."""
    *rooms, name = one.path.relative_to(PRODUCT).with_suffix('').parts
    return '.'.join(['tests', suite.name, *rooms, f'test_{name}'])


def list_passing(data: coverage.CoverageData, one: Break) -> set[str]:
    """Return the tests that pass through a line.

    Lines that run at import belong to no test: all tests of the same file
    stand in for them.
    """
    lines = data.contexts_by_lineno(str(one.path))
    tests = {test for test in lines.get(one.line, ()) if test}
    if not tests and one.line in lines:
        tests = {test for own in lines.values() for test in own if test}
    return tests


def is_noticed(one: Break, suite: Suite, tests: list[str]) -> bool:
    """Break the line, run the tests; whether one of them fails."""
    before = one.path.read_bytes()
    try:
        one.path.write_bytes(
            before[: one.start] + one.new.encode() + before[one.end :]
        )
        return not do_pass(suite, tests)
    finally:
        one.path.write_bytes(before)


def do_pass(suite: Suite, tests: list[str]) -> bool:
    with tempfile.NamedTemporaryFile('w', suffix='.list') as names:
        names.write('\n'.join(tests))
        names.flush()
        classes = sorted({one.rpartition('.')[0] for one in tests})
        command = [
            *(str(suite.python), '-m', 'testtools.run', '--failfast'),
            *('--load-list', names.name, *classes),
        ]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                timeout=TIMEOUT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **ENVIRONMENT},
            )
        except subprocess.TimeoutExpired:
            print(f'no end after {TIMEOUT} seconds:')
            return False
        return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('command', choices=('record', 'run', 'part'))
    parser.add_argument('part', nargs='*', type=int, help=argparse.SUPPRESS)
    parser.add_argument('--suite', choices=sorted(SUITES), default='unit')
    parser.add_argument('--workers', type=int, default=2)
    parser.add_argument('--count', type=int, default=100)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--least', type=float, default=95.0, metavar='PERCENT')
    parser.add_argument(
        '--rooms', default='', help='only of rooms that begin like this'
    )
    given = parser.parse_args()
    if given.command == 'record':
        return record(given.suite, given.workers)
    if given.command == 'part':
        return record_part(given.suite, *given.part)
    return run(given)


if __name__ == '__main__':
    sys.exit(main())
