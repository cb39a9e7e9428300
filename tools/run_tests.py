# SPDX-License-Identifier: Apache-2.0

"""Runs stestr, and ends with what failed and what was skipped, and why.

    python tools/run_tests.py [arguments of stestr]

What a failed test has to tell can be longer than what is kept of an output:
its last lines name the tests, each with the last line of its traceback and
where in this repository it comes from.

A machine that lacks something, such as FUSE or root, skips the tests that
need it, and the run succeeds. So that it is not taken for a whole one, its
last lines count those tests by reason. In an environment of tox all these
lines are also kept in its folder, and so are the names of the tests that were
skipped: there ``.ci/run`` finds them. The exit status is stestr's.

stestr runs one test for each CPU at a time, or ``TESTS_PER_CPU``: tests of
Nova's services wait for its threads and timers now and then. With
``TESTS_IN_MEMORY=1``, and without a ``TMPDIR``, temporary files are in memory
where there is room: tests make thousands of small files, and some disks take
milliseconds for each.

Before the tests all modules of the folder are compiled, once: else each worker
and each process that a test starts would compile those that it imports.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping
import contextlib
import importlib.util
import io
import os
import pathlib
import py_compile
import re
import subprocess
import sys
import tempfile
from typing import Any

import subunit
import testtools

#: How reasons begin that hold on every machine, because another environment
#: of tox tests the same.
KNOWN = ('Nova is not installed here',)

#: A test that was run, as testtools tells it.
Test = Mapping[str, Any]

#: What testtools calls a test that did not pass; the last: did not end.
FAILED = ('fail', 'uxsuccess', 'inprogress')

#: Before the file that names tests that are not to run.
LEFT_OUT = '--exclude-list'

#: Below the folder of the environment: what a run ends with, and tests that
#: it has skipped, in the form of stestr's ``--include-list``.
FILE = 'last_lines.txt'
SKIPPED = 'skipped.txt'

#: How unittest names what skips all tests of a class, or of a module.
_WHOLE = re.compile(r'setUp(?:Class|Module) \((.*)\)')

#: A line of a traceback that is of no library.
_FRAME = re.compile(
    r'File "(?!.*/(?:site-packages|lib/python[0-9.]+)/)'
    r'(?:.*/)?([^/"]+\.py)", line (\d+)'
)

#: Letters of what is told of a test that failed.
_LINE = 300

#: A file system in memory, and the bytes that must be free there.
MEMORY = '/dev/shm'
ROOM = 2 << 30

#: How byte code begins that holds while the hash of its source, which follows,
#: is the same. By default it holds for a source of the same size that changes
#: within the same second.
_BY_HASH = importlib.util.MAGIC_NUMBER + (3).to_bytes(4, 'little')


def main(arguments: list[str]) -> int:
    """Run stestr; return its exit status."""
    stestr = [sys.executable, '-m', 'stestr']
    options = arguments[: arguments.index('run')] if 'run' in arguments else []
    command = [*stestr, *spread(arguments)]
    compile_modules(pathlib.Path.cwd())
    with in_memory() as environ:
        status = subprocess.run(command, check=False, env=environ).returncode
    last = subprocess.run(
        [*stestr, *options, 'last', '--subunit'],
        check=False,
        stdout=subprocess.PIPE,
    )
    tests = read(last.stdout)
    lines = [
        *report_left_out(arguments),
        *report_failed(find_failed(tests)),
        *report_skipped(count_reasons(tests)),
    ]
    keep(FILE, lines)
    keep(SKIPPED, list_skipped(tests))
    for line in lines:
        print(line)
    return status


def compile_modules(folder: pathlib.Path) -> None:
    """Keep the byte code of all modules below a folder beside them."""
    tops = [one for one in folder.iterdir() if not one.name.startswith('.')]
    for path in (path for top in tops for path in top.rglob('*.py')):
        # It belongs to another user, or is no module that can be imported.
        with contextlib.suppress(OSError, ValueError):
            compile_module(path)


def compile_module(path: pathlib.Path) -> None:
    """Keep its byte code, unless there is that of this very source."""
    kept = pathlib.Path(importlib.util.cache_from_source(str(path)))
    head = _BY_HASH + importlib.util.source_hash(path.read_bytes())
    if not kept.exists() or kept.read_bytes()[: len(head)] != head:
        py_compile.compile(
            str(path),
            invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
            quiet=2,
        )


@contextlib.contextmanager
def in_memory() -> Iterator[dict[str, str]]:
    """Give the environment of the tests, which names their folder."""
    wanted = os.environ.get('TESTS_IN_MEMORY') == '1'
    if not wanted or 'TMPDIR' in os.environ or not has_room(MEMORY):
        yield {**os.environ}
        return
    with tempfile.TemporaryDirectory(
        prefix='tests-', dir=MEMORY, ignore_cleanup_errors=True
    ) as folder:
        # As /tmp: some tests have processes of other users.
        os.chmod(folder, 0o1777)
        yield {**os.environ, 'TMPDIR': folder}


def has_room(folder: str) -> bool:
    """Return whether tests can have their files there, and run some."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    free = found.f_bavail * found.f_frsize
    is_usable = os.access(folder, os.W_OK | os.X_OK)
    return is_usable and free > ROOM and not found.f_flag & os.ST_NOEXEC


def spread(arguments: list[str]) -> list[str]:
    """Return the arguments with how many tests run at a time.

    What the caller says of it comes later, and counts.
    """
    per_cpu = int(os.environ.get('TESTS_PER_CPU', '1'))
    if per_cpu == 1 or 'run' not in arguments:
        return arguments
    behind = arguments.index('run') + 1
    workers = per_cpu * len(os.sched_getaffinity(0))
    return [
        *arguments[:behind],
        f'--concurrency={workers}',
        *arguments[behind:],
    ]


def read(stream: bytes) -> list[Test]:
    """Return what testtools makes of each test: id, status and details.

    :param stream: of subunit, version 2
    """
    found: list[Test] = []
    result = testtools.StreamToDict(found.append)
    result.startTestRun()
    subunit.ByteStreamToStreamResult(io.BytesIO(stream)).run(result)
    result.stopTestRun()
    return found


def find_failed(tests: Iterable[Test]) -> dict[str, str]:
    """Return test -> the last line of its traceback."""
    return {
        test['id']: find_last_line(test['details'])
        for test in tests
        if test['status'] in FAILED
    }


def find_last_line(details: Mapping[str, Any]) -> str:
    """Return it, after the lines of ours that led there.

    Of a test that did not end, a word of that.
    """
    if 'traceback' not in details:
        return 'no traceback: it passed against expectation, or did not end'
    text = details['traceback'].as_text()
    last = next((one for one in reversed(text.split('\n')) if one.strip()), '')
    # It may have the whole log, in which something was missing.
    places = [f'{file}:{line}' for file, line in _FRAME.findall(text)]
    return ' '.join([*places, last[:_LINE]])


def count_reasons(tests: Iterable[Test]) -> dict[str, int]:
    """Return reason -> tests that were skipped for it."""
    return collections.Counter(
        find_reason(test) for test in tests if test['status'] == 'skip'
    )


def find_reason(test: Test) -> str:
    """Return why a test was skipped."""
    reason = test['details'].get('reason')
    return reason.as_text().strip() if reason else 'no reason'


def list_skipped(tests: Iterable[Test]) -> list[str]:
    """Return patterns of what this machine, or this user, could not run.

    Where a class or a module skips all of its tests, it stands for them.
    """
    return [
        make_pattern(test['id'])
        for test in tests
        if test['status'] == 'skip' and not find_reason(test).startswith(KNOWN)
    ]


def make_pattern(test_id: str) -> str:
    """Return a regular expression of a test, or of those of a class."""
    whole = _WHOLE.fullmatch(test_id)
    if whole:
        return rf'^{re.escape(whole[1])}\.'
    return f'^{re.escape(test_id)}$'


def report_left_out(arguments: list[str]) -> list[str]:
    """Return a line that names the list of tests that were not to run."""
    if LEFT_OUT not in arguments:
        return []
    return [
        f'Without the tests of {arguments[arguments.index(LEFT_OUT) + 1]}.'
    ]


def report_failed(failed: Mapping[str, str]) -> list[str]:
    """Return lines that name the tests; none if there is none."""
    if not failed:
        return []
    return [
        f'FAILED: {count_tests(len(failed))}:',
        *(f'  {test}: {line}' for test, line in sorted(failed.items())),
    ]


def report_skipped(reasons: Mapping[str, int]) -> list[str]:
    """Return lines that count the tests; none if no more than the known."""
    others = {
        reason: count
        for reason, count in reasons.items()
        if not reason.startswith(KNOWN)
    }
    if not others:
        return []
    total = sum(others.values())
    were = 'was' if total == 1 else 'were'
    ranked = sorted(others.items(), key=lambda item: (-item[1], item[0]))
    return [
        f'NOT ALL WAS TESTED: {count_tests(total)} {were} skipped, because '
        'this machine lacks something:',
        *(f'{count:5}  {reason}' for reason, count in ranked),
    ]


def count_tests(count: int) -> str:
    """Return the count with its noun."""
    return '1 test' if count == 1 else f'{count} tests'


def keep(name: str, lines: list[str]) -> None:
    """Write the lines where ``.ci/run`` finds them."""
    folder = os.environ.get('TOX_ENV_DIR')
    if folder:
        text = ''.join(f'{line}\n' for line in lines)
        pathlib.Path(folder, name).write_text(text, encoding='utf-8')


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
