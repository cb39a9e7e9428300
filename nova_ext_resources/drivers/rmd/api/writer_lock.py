# SPDX-License-Identifier: Apache-2.0

"""One writer per RMD.

RMD checks for duplicates outside its lock and keeps the memory bandwidth
of a request in a global variable: two writes at a time mix their values
and both are answered with success. Everything in this process that changes
one RMD therefore goes through one lock, whichever client object it uses.
"""

import threading
from urllib import parse

_locks: dict[str, threading.RLock] = {}
_locks_guard = threading.Lock()

#: Spellings of this host: two clients may name the same RMD differently.
LOOPBACK = frozenset({'localhost', '127.0.0.1', '::1'})


def writer_lock(url: str) -> threading.RLock:
    """Return the lock of the RMD at ``url``; the holder may take it again.

    It is held over requests. That is its purpose: RMD cannot take two.
    """
    with _locks_guard:
        return _locks.setdefault(identify(url), threading.RLock())


def identify(url: str) -> str:
    """Return the same for all spellings of one RMD's URL."""
    parts = parse.urlsplit(url)
    host = parts.hostname or ''
    return f'{"loopback" if host in LOOPBACK else host}:{parts.port}'
