# SPDX-License-Identifier: Apache-2.0

"""Ways in which the simulator fails on purpose.

A fault waits in a list until a request comes that it fits. It is used up
after ``count`` requests, or stays for ever.
"""

from collections.abc import Mapping
import dataclasses
import threading
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal['slow', 'hang', 'drop', 'status', 'garbage']
When: TypeAlias = Literal['before', 'after']

KINDS = ('slow', 'hang', 'drop', 'status', 'garbage')

#: What ``garbage`` answers, by name.
GARBAGE = {
    'html': '<html><body>It works!</body></html>',
    'json': '{"number": "two", "Caches": [7, null], "rdt": []}',
    'cut': '{"number":2,"Caches":{"0":{"cache_id":0,"NumW',
    'binary': '\x00\x01\x02 \ufffd not even text',
}

#: Not HTTP at all, a body that never ends, and one that breaks off half-way.
NO_HTTP = 'no-http'
ENDLESS = 'endless'
BROKEN = 'broken'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way to fail.

    :ivar kind: ``slow`` waits ``seconds`` and then answers rightly; ``hang``
        never answers; ``drop`` closes the connection; ``status`` answers
        with ``status`` and ``body``; ``garbage`` answers 200 with what
        ``body`` names
    :ivar when: before the request is carried out, or after
    :ivar methods: HTTP methods that it fits; empty for all
    :ivar path: what the path starts with
    :ivar count: how many requests it spoils, None for all
    """

    kind: Kind
    when: When = 'before'
    seconds: float = 1.0
    status: int = 503
    body: str = ''
    methods: tuple[str, ...] = ()
    path: str = ''
    count: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f'kind {self.kind!r} is none of {KINDS}')
        if self.when not in ('before', 'after'):
            raise ValueError(f'when {self.when!r} is not before or after')
        if self.count is not None and self.count < 1:
            raise ValueError(f'count {self.count} is below 1')
        known = (*GARBAGE, NO_HTTP, ENDLESS, BROKEN, '')
        if self.kind == 'garbage' and self.body not in known:
            raise ValueError(f'garbage {self.body!r} is none of {known}')

    def fits(self, method: str, path: str) -> bool:
        """Return whether it spoils such a request."""
        return path.startswith(self.path) and (
            not self.methods or method in self.methods
        )


def from_dict(data: Mapping[str, Any]) -> Fault:
    """Read a fault from JSON.

    :raises ValueError: it is none
    """
    try:
        return Fault(**{**data, 'methods': tuple(data.get('methods', ()))})
    except TypeError as err:
        raise ValueError(str(err)) from err


class Faults:
    """The list of faults. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[Fault, int | None]] = []

    def add(self, fault: Fault) -> None:
        """Let it wait for requests."""
        with self._lock:
            self._waiting.append((fault, fault.count))

    def clear(self) -> None:
        """Fail no more."""
        with self._lock:
            self._waiting.clear()

    def list_faults(self) -> list[Fault]:
        """Return those that still wait."""
        with self._lock:
            return [fault for fault, _left in self._waiting]

    def take(self, method: str, path: str) -> Fault | None:
        """Return the first that fits, and count it."""
        with self._lock:
            for index, (fault, left) in enumerate(self._waiting):
                if not fault.fits(method, path):
                    continue
                if left == 1:
                    del self._waiting[index]
                elif left is not None:
                    self._waiting[index] = (fault, left - 1)
                return fault
        return None
