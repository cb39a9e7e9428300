# SPDX-License-Identifier: Apache-2.0

"""Which tests passed."""

from collections.abc import Iterable
import pathlib

from tools import run_tests

#: What stestr shows as passed.
_PASSED = frozenset({'success', 'xfail'})

_DID_NOT_RUN = frozenset({'skip', 'exists'})


def read(paths: Iterable[pathlib.Path]) -> dict[str, bool]:
    """Return test -> whether it passed; tests that ran only.

    :param paths: of streams of subunit; a later one counts
    """
    return {
        str(test['id']): test['status'] in _PASSED
        for path in paths
        for test in run_tests.read(path.read_bytes())
        if test['status'] not in _DID_NOT_RUN
    }
