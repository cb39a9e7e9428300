# SPDX-License-Identifier: Apache-2.0

"""Run a module or a program that cannot outlive its parent.

``python -m dev.cloud.guard FOLDER TARGET ARGUMENT ...``

A target with a slash is the path of a program, any other is a Python module.

Standard input is a pipe whose other end only the parent holds. When the
parent ends, however it ends, the kernel closes that end. A small watcher,
forked before anything else, then kills the target with all processes of its
group, and removes the folder.
It is a process, because a thread could not run in a target that hangs while
it holds the interpreter. ``PR_SET_PDEATHSIG`` would do less: it follows the
*thread* that started the child, is lost when the parent died before the
call, and cannot remove a folder, nor what the target has mounted there.
"""

import os
import runpy
import select
import signal
import sys

from dev.cloud import mounts

_STDIN = 0
_STDERR = 2


def main() -> None:
    """Start the watcher, then become the target."""
    folder, target, *arguments = sys.argv[1:]
    _start_watcher(folder)
    if os.sep in target:
        os.execv(target, [target, *arguments])
    sys.argv[:] = [target, *arguments]
    runpy.run_module(target, run_name='__main__', alter_sys=True)


def _start_watcher(folder: str) -> None:
    # The target holds the end for writing until it ends, and so do processes
    # that it forks.
    alive, held = os.pipe()
    os.set_inheritable(held, True)
    target_pid = os.getpid()
    if os.fork() == 0:
        try:
            # Not of the group that it is to kill.
            os.setsid()
            _watch(folder, target_pid, alive)
        finally:
            os._exit(0)
    os.close(alive)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)


def _watch(folder: str, target_pid: int, alive: int) -> None:
    # What the target inherited is not for the watcher.
    os.closerange(_STDERR + 1, alive)
    os.closerange(alive + 1, os.sysconf('SC_OPEN_MAX'))
    readable, _, _ = select.select([_STDIN, alive], [], [])
    # What the target has forked may be ending still when its parent, which
    # has waited for the target alone, closes its end. It says so before.
    if alive in readable or os.read(_STDIN, 1):
        # The target ended first: the parent knows, and lives.
        return
    os.killpg(target_pid, signal.SIGKILL)
    select.select([alive], [], [])
    # The watchers of several targets do this at once, and targets may write
    # until they end: the last watcher leaves nothing.
    mounts.remove(folder)


if __name__ == '__main__':
    main()
