# SPDX-License-Identifier: Apache-2.0

"""Run tests over the kernel of this machine.

    OS_TEST_RESCTRL=skylake2 python -m tests.kernel.run OUT NAME...

NAME is a module, a class or a test. Prints one line for each test, and
writes to OUT, a file of JSON lines, what came of it.
"""

import json
import sys
import time
import traceback
from typing import IO, Any
import unittest


class Result(unittest.TestResult):
    """Says what came of each test, as soon as it is known."""

    def __init__(self, out: IO[str]) -> None:
        super().__init__()
        self._out = out
        self._began = time.monotonic()
        self._outcome = ('pass', '')

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._began = time.monotonic()
        self._outcome = ('pass', '')

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        outcome, text = self._outcome
        seconds = round(time.monotonic() - self._began, 2)
        reason = text.strip().splitlines()[-1] if text.strip() else ''
        print(f'{outcome} {test.id()} {seconds} {reason[:120]}', flush=True)
        row = {
            'test': test.id(),
            'outcome': outcome,
            'seconds': seconds,
            'text': text,
        }
        self._out.write(f'{json.dumps(row)}\n')
        self._out.flush()

    def _fail(self, err: Any, details: Any) -> None:
        if details is not None:
            text = ''.join(
                f'{one.as_text()}\n'
                for name, one in sorted(details.items())
                if 'traceback' in name
            )
        else:
            text = ''.join(traceback.format_exception(*err))
        # Of several subtests the first one tells most.
        if self._outcome[0] != 'fail':
            self._outcome = ('fail', text)

    def addFailure(
        self, test: Any, err: Any = None, details: Any = None
    ) -> None:
        self._fail(err, details)

    addError = addFailure

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._fail(err, None)

    def addSkip(
        self, test: Any, reason: Any = None, details: Any = None
    ) -> None:
        if details is not None and 'reason' in details:
            reason = details['reason'].as_text()
        if self._outcome[0] == 'pass':
            self._outcome = ('skip', str(reason or ''))

    def addExpectedFailure(
        self, test: Any, err: Any = None, details: Any = None
    ) -> None:
        pass


def main() -> int:
    path, *names = sys.argv[1:]
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames(names)
    with open(path, 'a', encoding='utf-8') as out:
        suite.run(Result(out))
    for error in loader.errors:
        print(error)
    return bool(loader.errors)


if __name__ == '__main__':
    sys.exit(main())
