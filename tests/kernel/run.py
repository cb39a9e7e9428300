# SPDX-License-Identifier: Apache-2.0

"""Run tests over the kernel of this machine.

    OS_TEST_RESCTRL=skylake2 python -m tests.kernel.run OUT NAME...

NAME is a module, a class or a test. Prints one line for each test, and
writes to OUT, a file of JSON lines, what came of it. Before that, OUT has a
line "loaded" for each test, so that one that never ran is missed.
"""

from collections.abc import Iterator
import json
import sys
import time
import traceback
from typing import IO, Any
import unittest

_RANK = {'pass': 0, 'skip': 1, 'fail': 2}


class Result(unittest.TestResult):
    """Says what came of each test, as soon as it is known."""

    def __init__(self, out: IO[str]) -> None:
        super().__init__()
        self._out = out
        self._test: Any = None
        self._begin()

    def _begin(self) -> None:
        self._began = time.monotonic()
        self._outcome = ('pass', '')

    def load(self, name: str) -> None:
        """Say that a test will run."""
        self._write({'test': name, 'outcome': 'loaded', 'text': ''})

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._test = test
        self._begin()

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self._test = None
        self._tell(test.id())

    def _tell(self, name: str) -> None:
        outcome, text = self._outcome
        seconds = round(time.monotonic() - self._began, 2)
        reason = text.strip().splitlines()[-1] if text.strip() else ''
        print(f'{outcome} {name} {seconds} {reason[:120]}', flush=True)
        self._write(
            {
                'test': name,
                'outcome': outcome,
                'seconds': seconds,
                'text': text,
            }
        )

    def _write(self, row: dict[str, Any]) -> None:
        self._out.write(f'{json.dumps(row)}\n')
        self._out.flush()

    def _set(self, test: Any, outcome: str, text: str) -> None:
        """Remember an outcome; the worst one counts, and of these the first.

        What comes while no test runs is of a class or a module, that could
        not be set up or cleaned up. No test will end and tell it.
        """
        if self._test is None:
            self._begin()
        if _RANK[outcome] > _RANK[self._outcome[0]]:
            self._outcome = (outcome, text)
        if self._test is None:
            self._tell(test.id())

    def _fail(self, test: Any, err: Any, details: Any) -> None:
        if details is not None:
            text = ''.join(
                f'{one.as_text()}\n'
                for name, one in sorted(details.items())
                if 'traceback' in name
            )
        else:
            text = ''.join(traceback.format_exception(*err))
        self._set(test, 'fail', text)

    def addFailure(
        self, test: Any, err: Any = None, details: Any = None
    ) -> None:
        self._fail(test, err, details)

    addError = addFailure

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._fail(test, err, None)

    def addSkip(
        self, test: Any, reason: Any = None, details: Any = None
    ) -> None:
        if details is not None and 'reason' in details:
            reason = details['reason'].as_text()
        self._set(test, 'skip', str(reason or ''))

    def addExpectedFailure(
        self, test: Any, err: Any = None, details: Any = None
    ) -> None:
        pass

    def addUnexpectedSuccess(self, test: Any, details: Any = None) -> None:
        self._set(test, 'fail', 'it passes, and is marked as one that fails')


def run(suite: unittest.TestSuite, out: IO[str]) -> None:
    """Run tests, and write what came of each."""
    result = Result(out)
    for one in _list_tests(suite):
        result.load(one.id())
    suite.run(result)


def _list_tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from _list_tests(one)
        else:
            yield one


def main() -> int:
    path, *names = sys.argv[1:]
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames(names)
    with open(path, 'a', encoding='utf-8') as out:
        run(suite, out)
    for error in loader.errors:
        print(error)
    return bool(loader.errors)


if __name__ == '__main__':
    sys.exit(main())
