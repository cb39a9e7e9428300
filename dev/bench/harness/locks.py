# SPDX-License-Identifier: Apache-2.0

"""How long Nova's threads hold the lock that all of a host wait for.

``install`` runs in the process of Nova, before it imports Nova; ``read`` in
that of the benchmark.
"""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import threading
import time
from typing import Any

#: Nova's ``COMPUTE_RESOURCE_SEMAPHORE``: its claims and its resource tracker.
NAME = 'compute_resources'

_FILE = 'locks.txt'


def install() -> None:
    """Write down for how long each holder has it."""
    from oslo_concurrency import lockutils

    path = pathlib.Path(os.environ['OS_NOVA_CONFIG_DIR'], _FILE)
    original = lockutils.lock
    writing = threading.Lock()

    @contextlib.contextmanager
    def lock(name: str, *args: Any, **kwargs: Any) -> Iterator[Any]:
        with original(name, *args, **kwargs) as held:
            began = time.perf_counter()
            try:
                yield held
            finally:
                seconds = time.perf_counter() - began
        if name == NAME:
            with writing, path.open('a') as file:
                file.write(f'{seconds}\n')

    lockutils.lock = lock


def read(etc: pathlib.Path) -> list[float]:
    """Return the milliseconds of each holder, and forget them.

    :param etc: the folder of the cloud's configuration
    """
    path = etc / _FILE
    if not path.exists():
        return []
    found = [float(line) * 1000 for line in path.read_text().splitlines()]
    path.unlink()
    return found
