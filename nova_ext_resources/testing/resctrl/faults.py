# SPDX-License-Identifier: Apache-2.0

"""What goes wrong on demand."""

import dataclasses
import errno
import fnmatch
import threading


@dataclasses.dataclass(slots=True, kw_only=True)
class Fault:
    """Something that happens to file operations.

    :ivar operation: ``read``, ``write``, ``mkdir``, ``rmdir``, ``listdir``
        or ``*``
    :ivar path: a pattern like ``*/schemata``, whose ``*`` matches ``/`` too
    :ivar error: the name of an errno; None when it goes on after ``do``
    :ivar skip: so many operations go well before
    :ivar count: so many fail; None for all
    :ivar half: a write to schemata sets the first half of what it should,
        one at least, and then fails
    :ivar do: name and arguments of something to do first, as
        :class:`.interference.Interference` can
    """

    operation: str = '*'
    path: str = '*'
    error: str | None = 'EIO'
    skip: int = 0
    count: int | None = 1
    half: bool = False
    do: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        if self.error is not None and not hasattr(errno, self.error):
            raise ValueError(f'{self.error} is no errno')

    def matches(self, operation: str, path: str) -> bool:
        return self.operation in (operation, '*') and fnmatch.fnmatchcase(
            path, self.path
        )

    def fail(self, path: str) -> None:
        """Raise the error, if there is one."""
        if self.error is not None:
            raise OSError(getattr(errno, self.error), 'on demand', path)


class Faults:
    """The faults that are to come."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def take(self, operation: str, path: str) -> Fault | None:
        """Return the fault that hits this operation, and count it."""
        with self._lock:
            for fault in self._faults:
                if not fault.matches(operation, path):
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                if fault.count is not None:
                    fault.count -= 1
                    if not fault.count:
                        self._faults.remove(fault)
                return fault
        return None


def halve(text: str) -> str:
    """Return the first half of the settings in a text for schemata."""
    settings = [
        f'{line.partition(":")[0]}:{part}'
        for line in text.splitlines()
        for part in line.partition(':')[2].split(';')
    ]
    kept = settings[: max(1, len(settings) // 2)]
    return ''.join(f'{setting}\n' for setting in kept)
