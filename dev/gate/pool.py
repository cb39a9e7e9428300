# SPDX-License-Identifier: Apache-2.0

"""Clients that work side by side."""

from collections.abc import Iterator
from concurrent import futures
import contextlib


@contextlib.contextmanager
def opened(size: int) -> Iterator[futures.ThreadPoolExecutor]:
    """Give threads, and wait for none of them.

    Callers take the results. When one of these is an error, the others would
    go on with their patience; the end of the cloud is an end for them, too.
    """
    threads = futures.ThreadPoolExecutor(size)
    try:
        yield threads
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
