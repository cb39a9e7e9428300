# SPDX-License-Identifier: Apache-2.0

"""Which tests passed."""

from collections.abc import Iterable, Mapping
import pathlib
from typing import Any

from tools import run_tests

#: What stestr shows as passed.
_PASSED = frozenset({'success', 'xfail'})

_DID_NOT_RUN = frozenset({'skip', 'exists'})


def read(paths: Iterable[pathlib.Path]) -> dict[str, bool]:
    """Return test -> whether it passed; tests that ran only.

    :param paths: of streams of subunit; a later one counts
    """
    found = {}

    def see(test: Mapping[str, Any]) -> None:
        if test['status'] not in _DID_NOT_RUN:
            found[str(test['id'])] = test['status'] in _PASSED

    for path in paths:
        run_tests.read(path.read_bytes(), see)
    return found
