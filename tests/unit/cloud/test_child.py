# SPDX-License-Identifier: Apache-2.0


from collections.abc import Callable
import os
import signal
import subprocess
import sys
import time

from dev.cloud import child
from dev.cloud import errors
from dev.cloud import folder as folders
from tests import base

_SECONDS = 60.0

#: A parent that starts a child, says its process id, and waits.
_PARENT = """
import pathlib, sys, time; from dev.cloud import child, folder
made = child.Child('it', 'timeit', ['-n1', sys.argv[2]],
                   folder=folder.Folder(pathlib.Path(sys.argv[1])))
made.start()
made.wait_until(lambda: 'up' in made.tail(), seconds=60)
print(made.pid, flush=True)
time.sleep(600)
"""


def _is_alive(pid: int) -> bool:
    try:
        with open(f'/proc/{pid}/stat') as stat:
            return stat.read().rpartition(')')[2].split()[0] != 'Z'
    except FileNotFoundError:
        return False


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.02)


class ChildTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = folders.Folder.create()
        self.addCleanup(self.folder.remove)

    def make_child(self, statement: str) -> child.Child:
        """A child that runs a statement, by way of a module that does."""
        made = child.Child(
            'it', 'timeit', ['-n1', '-r1', statement], folder=self.folder
        )
        self.addCleanup(made.kill)
        return made

    def make_sleeper(self, *, deaf: bool = False) -> child.Child:
        ignore = 'signal.signal(signal.SIGTERM, signal.SIG_IGN);'
        made = self.make_child(
            f'import signal, time;{ignore if deaf else ""}'
            f'print("up", flush=True); time.sleep(600)'
        )
        made.start()
        made.wait_until(lambda: 'up' in made.tail(), seconds=_SECONDS)
        return made

    def test_one_that_ends_early_is_reported_with_what_it_said(self) -> None:
        made = self.make_child('raise ValueError("no disk")')
        made.start()

        error = self.assertRaises(
            errors.ChildFailed,
            made.wait_until,
            lambda: False,
            seconds=_SECONDS,
        )

        self.assertIn('ended by itself with code 1', str(error))
        self.assertIn('ValueError: no disk', str(error))

    def test_one_that_is_not_ready_in_time_is_reported(self) -> None:
        made = self.make_sleeper()

        self.assertRaises(
            errors.ChildNotReady, made.wait_until, lambda: False, seconds=0.1
        )

    def test_one_that_died_is_reported_with_its_signal(self) -> None:
        made = self.make_sleeper()
        assert made.pid is not None
        os.kill(made.pid, signal.SIGKILL)
        _wait_until(lambda: not made.is_running)

        error = self.assertRaises(errors.ChildFailed, made.check)

        self.assertIn('was ended by SIGKILL', str(error))

    def test_stopping_ends_it(self) -> None:
        made = self.make_sleeper()

        made.stop()

        self.assertFalse(made.is_running)

    def test_one_that_ignores_the_request_to_end_is_killed(self) -> None:
        made = self.make_sleeper(deaf=True)

        made.stop(seconds=0.2)

        self.assertFalse(made.is_running)

    def test_stopping_twice_is_stopping_once(self) -> None:
        made = self.make_sleeper()

        made.stop()
        made.stop()

        self.assertFalse(made.is_running)

    def test_stopping_leaves_the_folder(self) -> None:
        made = self.make_sleeper()

        made.stop()

        self.assertTrue(self.folder.root.exists())

    def kill_parent_of(self, statement: str) -> None:
        """Start a parent with a child, kill it, and expect nothing left."""
        parent = subprocess.Popen(
            [sys.executable, '-c', _PARENT, str(self.folder.root), statement],
            stdout=subprocess.PIPE,
        )
        assert parent.stdout is not None
        self.addCleanup(parent.stdout.close)
        pid = int(parent.stdout.readline())

        parent.kill()
        parent.wait()

        _wait_until(
            lambda: not _is_alive(pid) and not self.folder.root.exists()
        )
        self.assertFalse(_is_alive(pid))
        self.assertFalse(self.folder.root.exists())

    def test_what_it_has_forked_ends_with_its_parent_too(self) -> None:
        # The forked process has the standard output of the first one.
        self.kill_parent_of(
            'import os, time; os.fork() or time.sleep(600);'
            'print("up", flush=True); time.sleep(600)'
        )

    def test_it_ends_with_its_parent_and_takes_the_folder_along(self) -> None:
        self.kill_parent_of(
            'import time; print("up", flush=True); time.sleep(600)'
        )

    def test_it_ends_with_its_parent_even_if_it_hangs(self) -> None:
        # No other thread of the child can run while this one sleeps.
        self.kill_parent_of(
            'import ctypes; print("up", flush=True);'
            'ctypes.PyDLL(None).sleep(600)'
        )

    def test_one_that_is_killed_leaves_the_folder(self) -> None:
        made = self.make_sleeper()

        made.kill()

        time.sleep(0.2)
        self.assertTrue(self.folder.root.exists())


class ProgramTest(base.TestCase):
    """A program in the place of a module, with processes below it."""

    def setUp(self) -> None:
        super().setUp()
        self.folder = folders.Folder.create()
        self.addCleanup(self.folder.remove)

    def start(
        self, command: str = 'sleep 600 & echo $!; wait'
    ) -> tuple[child.Child, int]:
        """Start a shell; return it, and the process below it."""
        made = child.Child(
            'it',
            '/bin/sh',
            ['-c', command],
            folder=self.folder,
        )
        self.addCleanup(made.kill)
        made.start()
        made.wait_until(lambda: bool(made.tail()), seconds=_SECONDS)
        return made, int(made.tail()[0])

    def test_killing_it_ends_what_is_below_it(self) -> None:
        made, below = self.start()

        made.kill()

        _wait_until(lambda: not _is_alive(below))
        self.assertFalse(_is_alive(below))
        self.assertTrue(self.folder.root.exists())

    def test_what_outlives_it_leaves_the_folder(self) -> None:
        """As for a moment on a busy machine after it was killed."""
        made, below = self.start('sleep 600 & echo $!; sleep 0.2')
        self.addCleanup(os.kill, below, signal.SIGKILL)

        made.wait(seconds=_SECONDS)

        time.sleep(0.2)
        self.assertTrue(self.folder.root.exists())

    def test_it_does_not_find_this_checkout(self) -> None:
        made = child.Child(
            'it',
            sys.executable,
            ['-P', '-c', 'import dev.cloud.full'],
            folder=self.folder,
        )
        made.start()
        made.wait(seconds=_SECONDS)

        self.assertIn('ModuleNotFoundError', '\n'.join(made.tail()))
