# SPDX-License-Identifier: Apache-2.0

"""How often RMD writes a mask to the right one of several caches.

RMD v0.3.1 goes through a map of Go while it writes, whose order is random.
But the odds are not one half, nor the same after each start: for each pool
they are drawn when RMD starts, and stay. With two caches, about 0.72 of the
masks were right after most starts, and about 0.27 after some. Twelve attempts
in a row fail twice in a hundred cases then; otherwise practically never.

A pool is bad when 15 of its last 24 attempts missed. Of the good ones, less
than one in a thousand ever looks like that; of the bad ones, nine in ten do.
"""

import collections
from collections.abc import Mapping
import threading

#: So many of the last attempts of a pool are remembered.
WINDOW = 24

#: Misses among them that make a pool bad.
BAD = 15


class Odds:
    """What came of the last attempts of each pool. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._misses: dict[str, collections.deque[bool]] = {}

    def add(self, pool: str, *, is_miss: bool) -> None:
        """Note an attempt on a host with several caches.

        :param is_miss: whether the mask came to another cache
        """
        with self._lock:
            window = collections.deque[bool](maxlen=WINDOW)
            self._misses.setdefault(pool, window).append(is_miss)

    def forget(self) -> None:
        """Forget all: another start of RMD has other odds."""
        with self._lock:
            self._misses.clear()

    def list_bad(self) -> Mapping[str, tuple[int, int]]:
        """Return pool -> misses and attempts, of the bad ones."""
        with self._lock:
            return {
                pool: (sum(misses), len(misses))
                for pool, misses in sorted(self._misses.items())
                if sum(misses) >= BAD
            }
