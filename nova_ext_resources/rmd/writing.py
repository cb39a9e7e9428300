# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

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
    """Give the lock of the RMD at ``url``; the holder may take it again.

    It is held over requests. That is its purpose: RMD cannot take two.
    """
    parts = parse.urlsplit(url)
    host = parts.hostname or ''
    key = f'{"loopback" if host in LOOPBACK else host}:{parts.port}'
    with _locks_guard:
        return _locks.setdefault(key, threading.RLock())
