# SPDX-License-Identifier: Apache-2.0

"""Wait for something to become so, with a deadline."""

from collections.abc import Callable
import time
from typing import TypeVar

from dev.cloud import told as told_mod

_Found = TypeVar('_Found')


def until(
    find: Callable[[], _Found | None],
    told: str,
    *,
    seconds: float = 60.0,
    poll_seconds: float = 0.2,
) -> _Found:
    """Call ``find`` until it gives something true, and give that.

    :param told: what should become so, for the error
    :raises NotAsTold: it did not in ``seconds``
    """
    deadline = time.monotonic() + seconds
    while True:
        found = find()
        if found:
            return found
        if time.monotonic() > deadline:
            raise told_mod.NotAsTold(
                told, f'still not so after {seconds:.0f} s (last: {found!r})'
            )
        time.sleep(poll_seconds)
