# SPDX-License-Identifier: Apache-2.0

"""Processes and threads that tests start and end."""

import pathlib
import subprocess
import sys
import unittest

#: One thread more for each line of its input; it ends with its input.
_CHILD = """
import sys, threading, time
def rest():
    numbers.append(threading.get_native_id())
    print(numbers[-1], flush=True)
    time.sleep(100000)
numbers = []
print(threading.get_native_id(), flush=True)
for _line in sys.stdin:
    threading.Thread(target=rest, daemon=True).start()
"""

_LAST = pathlib.Path('/proc/sys/kernel/ns_last_pid')


class Tasks:
    """Those of one test."""

    def __init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._threads: dict[int, list[int]] = {}

    def start(self, tid: int | None, parent: int) -> int:
        """Start a process, with this number if one is given.

        :raises unittest.SkipTest: this machine cannot do it
        """
        if parent != 1:
            raise unittest.SkipTest('a child of a child cannot be had')
        if tid is not None:
            _LAST.write_text(str(tid - 1))
        child = subprocess.Popen(
            [sys.executable, '-I', '-S', '-c', _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        number = int(child.stdout.readline())
        self._processes[number] = child
        self._threads[number] = [number]
        if tid not in (None, number):
            raise unittest.SkipTest(f'{number} came where {tid} was wanted')
        return number

    def clone(self, parent: int) -> int:
        child = self._processes[parent]
        assert child.stdin and child.stdout
        child.stdin.write('\n')
        child.stdin.flush()
        number = int(child.stdout.readline())
        self._threads[parent].append(number)
        return number

    def list_threads(self, pid: int) -> list[int]:
        return list(self._threads[pid])

    def exit(self, tid: int) -> None:
        """End a process.

        :raises unittest.SkipTest: it is one thread of many
        """
        if tid not in self._processes:
            raise unittest.SkipTest('a single thread cannot be ended')
        _end(self._processes.pop(tid))
        self._threads[tid] = []

    def end_all(self) -> None:
        while self._processes:
            _end(self._processes.popitem()[1])
        self._threads.clear()


def _end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()
