# SPDX-License-Identifier: Apache-2.0

"""Threads that a test leaves behind, and that never rest.

Python runs one thread of a process at a time. One that computes all the time
makes each other one wait 5 ms whenever it has waited for a file or a lock: the
tests that follow in its process take twenty times as long.
"""

import ctypes
import os
import pathlib
import sys
import threading
import time
import traceback

import fixtures

#: Seconds of a processor, and the part of what the process had during a test,
#: beyond which it is busy. On a machine with other work both have less.
_SECONDS, _PART = 1.0, 0.2

_TICKS = os.sysconf('SC_CLK_TCK')


class NoBusyThreads(fixtures.Fixture):
    """Fails a test during which a thread of a former test was busy.

    The thread is ended, for the tests that follow.
    """

    def _setUp(self) -> None:
        before = _read_seconds()
        began_at = time.process_time()

        def check() -> None:
            all_spent = time.process_time() - began_at
            limit = max(_SECONDS, _PART * all_spent)
            busy = [
                thread
                for thread, spent in _read_seconds().items()
                if spent - before.get(thread, spent) > limit
            ]
            if busy:
                what = '\n'.join(map(_describe, busy))
                for thread in busy:
                    _end(thread)
                raise AssertionError(
                    'threads that a former test has left were busy during '
                    f'this one:\n{what}'
                )

        self.addCleanup(check)


def _read_seconds() -> dict[threading.Thread, float]:
    """Return what each other thread has had of a processor."""
    own = threading.current_thread()
    return {
        thread: _read(thread.native_id)
        for thread in threading.enumerate()
        if thread is not own and thread.native_id is not None
    }


def _read(native_id: int) -> float:
    """Return seconds; see /proc/pid/stat in proc(5), utime and stime."""
    try:
        text = pathlib.Path(f'/proc/self/task/{native_id}/stat').read_text()
    except OSError:
        # It has just ended.
        return 0.0
    fields = text.rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _describe(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    return f'{thread.name}:\n{"".join(traceback.format_stack(frame))}'


def _end(thread: threading.Thread) -> None:
    """Have it raise an exception as soon as it runs Python."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
    )
