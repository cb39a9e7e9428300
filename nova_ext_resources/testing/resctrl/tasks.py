# SPDX-License-Identifier: Apache-2.0

"""Which threads exist, and who cloned whom.

A thread starts in the group of the one that cloned it; the model asks here
what happened since it asked last.
"""

from collections.abc import Collection, Iterable
import itertools
import os
import re
from typing import Protocol

#: (thread, the one that cloned it), or (thread, None) when it died.
Change = tuple[int, int | None]


class Tasks(Protocol):
    """Where the model gets its threads from."""

    def exists(self, tid: int) -> bool: ...

    def list_all(self) -> Iterable[int]:
        """Return all threads, in the order of the kernel's list."""

    def watch(self, tid: int) -> None:
        """Tell that a thread is about to be put into a group."""

    def list_changes(self, watched: Collection[int]) -> list[Change]:
        """Return what happened since the last call, in that order."""

    def reset(self) -> None:
        """Forget what was made up, and what was seen."""


class MadeUpTasks:
    """Threads that are numbers only: exact, and under the test's control."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._processes: dict[int, int] = {1: 1}
        self._changes: list[Change] = []
        self._next = itertools.count(1000)

    def start(self, tid: int | None = None, parent: int = 1) -> int:
        """Fork a process."""
        tid = self._add(tid, parent)
        self._processes[tid] = tid
        return tid

    def clone(self, parent: int, tid: int | None = None) -> int:
        """Start a thread."""
        tid = self._add(tid, parent)
        self._processes[tid] = self._processes[parent]
        return tid

    def _add(self, tid: int | None, parent: int) -> int:
        if tid is None:
            tid = next(n for n in self._next if n not in self._processes)
        elif tid in self._processes:
            raise ValueError(f'{tid} lives')
        self._changes.append((tid, parent))
        return tid

    def list_threads(self, pid: int) -> list[int]:
        """Return the threads of a process."""
        return [tid for tid, p in self._processes.items() if p == pid]

    def exit(self, tid: int) -> None:
        """End a thread, or the process if it is the first of one."""
        for one in [n for n, p in self._processes.items() if tid in (n, p)]:
            del self._processes[one]
            self._changes.append((one, None))

    def exists(self, tid: int) -> bool:
        return tid in self._processes

    def list_all(self) -> Iterable[int]:
        return tuple(self._processes)

    def watch(self, tid: int) -> None:
        pass

    def list_changes(self, watched: Collection[int]) -> list[Change]:
        changes, self._changes = self._changes, []
        return changes


class ProcTasks:
    """The threads of this machine.

    ``/proc`` does not tell who cloned a thread. One that is new in a process
    with a thread in a group is taken as cloned by the first thread of that
    process, which is what QEMU does with its own. Children of other
    processes start in the default group.

    A process whose number is used again is told by its start time, a thread
    is not: looking at each for each write takes far too long.
    """

    def __init__(self, proc: str = '/proc') -> None:
        self._proc = proc
        self.reset()

    def reset(self) -> None:
        self._seen: dict[int, set[int]] = {}
        self._births: dict[int, str] = {}
        self._owners: dict[int, int] = {}

    def exists(self, tid: int | str) -> bool:
        return os.path.exists(f'{self._proc}/{tid}')

    def list_all(self) -> Iterable[int]:
        for pid in sorted(map(int, filter(str.isdigit, self._list('')))):
            yield from sorted(self._list_threads(pid))

    def watch(self, tid: int) -> None:
        for known, threads in self._seen.items():
            if tid in threads and self.exists(f'{known}/task/{tid}'):
                self._owners[tid] = known
                return
        owner = self._find_process(tid)
        born = None if owner is None else self._find_birth(owner)
        if owner is None or born is None:
            return
        self._owners[tid] = owner
        if self._births.get(owner) != born:
            self._births[owner] = born
            self._seen[owner] = self._list_threads(owner)
        self._seen[owner].add(tid)

    def list_changes(self, watched: Collection[int]) -> list[Change]:
        processes: dict[int, list[int]] = {}
        for tid in watched:
            processes.setdefault(self._owners.get(tid, tid), []).append(tid)
        changes: list[Change] = []
        for pid, tids in processes.items():
            changes.extend(self._list_changes_of(pid, tids))
        return changes

    def _list_changes_of(
        self, pid: int, watched: Collection[int]
    ) -> Iterable[Change]:
        is_alive = self._find_birth(pid) == self._births.get(pid)
        threads = self._list_threads(pid) if is_alive else set()
        for tid in watched:
            if tid not in threads:
                self._owners.pop(tid, None)
                yield tid, None
        for tid in sorted(threads - self._seen.get(pid, set())):
            self._owners[tid] = pid
            yield tid, pid
        if threads:
            self._seen[pid] = threads
        else:
            self._seen.pop(pid, None)
            self._births.pop(pid, None)

    def _list(self, path: str) -> list[str]:
        try:
            return os.listdir(f'{self._proc}/{path}')
        except OSError:
            return []

    def _list_threads(self, pid: int) -> set[int]:
        return {int(name) for name in self._list(f'{pid}/task')}

    def _find_birth(self, tid: int) -> str | None:
        """Return the start time: a number that is used again has another."""
        text = self._read(f'{tid}/stat')
        # The name, in parentheses, may hold anything.
        return text.rpartition(')')[2].split()[19] if text else None

    def _find_process(self, tid: int) -> int | None:
        match = re.search(r'^Tgid:\s*(\d+)', self._read(f'{tid}/status'), re.M)
        return int(match[1]) if match else None

    def _read(self, path: str) -> str:
        try:
            with open(f'{self._proc}/{path}', encoding='utf-8') as stream:
                return stream.read()
        except (OSError, UnicodeDecodeError):
            return ''


def make(kind: str) -> Tasks:
    """Make ``made-up`` tasks, or those of ``proc``.

    :raises ValueError: it is neither
    """
    if kind == 'made-up':
        return MadeUpTasks()
    if kind == 'proc':
        return ProcTasks()
    raise ValueError(f'{kind} tasks: made-up or proc are there')
