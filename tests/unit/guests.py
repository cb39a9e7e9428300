# SPDX-License-Identifier: Apache-2.0

"""Real processes that look like the QEMU of a server."""

import contextlib
import os
import subprocess
import sys
from typing import Any
import unittest

import fixtures

#: Threads start and end as its input says; it ends with its input.
_GUEST = """
import itertools, os, subprocess, sys, threading, time
if sys.argv[1] == '-pidfile':
    import fcntl
    pid_file = open(sys.argv[2], 'a')
    fcntl.lockf(pid_file, fcntl.LOCK_EX)
os.setresuid(*[int(sys.argv[-2]) or os.getuid()] * 3)
ends = []
def start(seconds=None):
    end, begun = threading.Event(), threading.Event()
    def run():
        begun.set()
        end.wait(seconds)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    begun.wait()
    return end, thread
def churn():
    for _ in range(400):
        start(0.005)
        time.sleep(0.0005)
def say(text):
    print(text, flush=True)
for _ in range(int(sys.argv[-1]) - 1):
    ends.append(start())
say(os.getpid())
for line in sys.stdin:
    word = line.strip()
    if word == 'clone':
        ends.append(start())
        say(ends[-1][1].native_id)
    elif word == 'end':
        end, thread = ends.pop()
        end.set()
        thread.join()
        say(thread.native_id)
    elif word == 'child':
        child = subprocess.Popen(['sleep', '60'])
        say(child.pid)
    elif word == 'churn':
        threading.Thread(target=churn, daemon=True).start()
        say(0)
os.killpg(0, 9)
"""


class Guest(fixtures.Fixture):
    """A process with ``-uuid`` in its command line, and many threads.

    :param uuid: or another value of the option
    :param option: ``-pidfile`` has it lock that file, as libvirt does
    :param user: number of the user that it runs as, if not of this process;
        only root can have one, others skip the test

    :ivar pid: of the process, which is its first thread
    """

    def __init__(
        self,
        uuid: str,
        threads: int = 4,
        option: str = '-uuid',
        *,
        user: int | None = None,
    ) -> None:
        super().__init__()
        if user is not None and os.getuid():
            raise unittest.SkipTest(
                'needs to be root, for a process of another user'
            )
        self._words = (option, uuid, str(user or 0), str(threads))

    def _setUp(self) -> None:
        command = (sys.executable, '-I', '-S', '-c', _GUEST, *self._words)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.addCleanup(self.end)
        assert self.process.stdout is not None
        self.pid = int(self.process.stdout.readline())

    def end(self) -> None:
        """End it, with all that it has started."""
        if self.process.returncode is None:
            self.process.communicate()

    def do(self, what: str) -> int:
        """Have it do something; give the thread that this is about."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f'{what}\n')
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def list_threads(self) -> set[int]:
        with contextlib.suppress(FileNotFoundError):
            return {int(name) for name in os.listdir(f'/proc/{self.pid}/task')}
        return set()


def list_tasks(group: dict[str, Any]) -> set[int]:
    """Return the threads of a group, as the test kernel describes it."""
    return set(group['tasks'])
