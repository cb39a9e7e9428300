# SPDX-License-Identifier: Apache-2.0

"""What is durable of what a nova-compute does, and the kill at one of them.

A step is whatever outlives the process: a transaction of the ledger, a
request that changes placement or RMD, a write of Nova's database by its
conductor, a message to another service, a guest that is made, powered or
destroyed. Between two steps only memory changes, which dies with the
process. So a kill after a step is also the kill before the next one.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import threading

_UUID = re.compile(
    r'[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
)

#: What the first kill of an operation stands before.
BEFORE, AFTER = 'before', 'after'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """When a process kills itself.

    :ivar name: of the step; '' for any
    :ivar phase: before or after it; '' for either
    :ivar count: at which occurrence from now on
    :ivar number: tells one plan from the next
    """

    name: str = ''
    phase: str = ''
    count: int = 1
    number: int = 0

    def to_text(self) -> str:
        return '|'.join(
            [str(self.number), self.name, self.phase, str(self.count)]
        )


def from_text(text: str) -> Plan:
    number, name, phase, count = text.split('|')
    return Plan(name=name, phase=phase, count=int(count), number=int(number))


class Recorder:
    """Writes each step of this process down, and kills it at one.

    :param folder: has ``trace`` and, while there is one, ``plan``
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._plan = folder / 'plan'
        self._trace = os.open(
            folder / 'trace', os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
        )
        self._lock = threading.Lock()
        self._number = 0
        self._left = 0

    def note(self, name: str, phase: str) -> None:
        with self._lock:
            os.write(self._trace, f'{phase}|{name}\n'.encode())
            if self._is_due(name, phase):
                os.write(self._trace, f'killed|{phase} {name}\n'.encode())
                os.kill(os.getpid(), signal.SIGKILL)

    def _is_due(self, name: str, phase: str) -> bool:
        try:
            plan = from_text(self._plan.read_text())
        except FileNotFoundError:
            return False
        if plan.number != self._number:
            self._number, self._left = plan.number, plan.count
        if plan.name not in ('', name) or plan.phase not in ('', phase):
            return False
        self._left -= 1
        return self._left == 0


_recorder: Recorder | None = None


def record(folder: pathlib.Path) -> None:
    """Record the steps of this process from now on."""
    global _recorder
    _recorder = Recorder(folder)


@contextlib.contextmanager
def around(name: str) -> Iterator[None]:
    """Surround a step; without a recorder, or a name, that is nothing."""
    if _recorder is None or not name:
        yield
        return
    name = _UUID.sub('UUID', name)
    _recorder.note(name, BEFORE)
    yield
    _recorder.note(name, AFTER)
