# SPDX-License-Identifier: Apache-2.0

"""Has stestr find Nova's tests, and skip those that are not to run."""

from collections.abc import Iterator
import os
import pathlib
from typing import Any
import unittest

import nova
import testtools
from testtools import content

from tests.nova_suite import drivers
from tests.nova_suite import skips


def load_tests(
    loader: unittest.TestLoader, standard: Any, pattern: str | None
) -> unittest.TestSuite:
    mode = skips.Mode(os.environ.get('NOVA_SUITE', 'nothing'))
    top = pathlib.Path(nova.__file__).parents[1]
    drivers.install(mode)
    found = unittest.TestLoader().discover(
        str(top / 'nova' / 'tests' / 'functional'), top_level_dir=str(top)
    )
    return unittest.TestSuite(replace(one, mode) for one in flatten(found))


def flatten(tests: Any) -> Iterator[Any]:
    """Yield the tests of a suite of suites."""
    for one in tests:
        if isinstance(one, unittest.TestSuite):
            yield from flatten(one)
        else:
            yield one


def replace(test: Any, mode: skips.Mode) -> Any:
    """Return the test, or one that says why it is not run."""
    reason = skips.find_reason(test.id(), mode)
    if reason is None:
        return test
    return testtools.PlaceHolder(
        test.id(),
        outcome='addSkip',
        details={'reason': content.text_content(reason)},
    )
