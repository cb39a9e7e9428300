# SPDX-License-Identifier: Apache-2.0

"""Run a module in a child process that cannot outlive its parent.

``python -m cloud.guard FOLDER MODULE ARGUMENT ...``

Standard input is a pipe whose other end only the parent holds. When the
parent ends, however it ends, the kernel closes that end. A small watcher,
forked before anything else, then kills the module and removes the folder.
It is a process, because a thread could not run in a module that hangs while
it holds the interpreter. ``PR_SET_PDEATHSIG`` would do less: it follows the
*thread* that started the child, is lost when the parent died before the
call, and cannot remove a folder, nor what the module has mounted there.
"""

import os
import runpy
import select
import signal
import sys

from cloud import mounts

_STDIN = 0
_STDERR = 2


def main() -> None:
    """Start the watcher, then become the module."""
    folder, module, *arguments = sys.argv[1:]
    _start_watcher(folder)
    sys.argv[:] = [module, *arguments]
    runpy.run_module(module, run_name='__main__', alter_sys=True)


def _start_watcher(folder: str) -> None:
    # The module holds the end for writing until it ends.
    alive, _held = os.pipe()
    module_pid = os.getpid()
    if os.fork() == 0:
        try:
            _watch(folder, module_pid, alive)
        finally:
            os._exit(0)
    os.close(alive)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)


def _watch(folder: str, module_pid: int, alive: int) -> None:
    # What the module inherited is not for the watcher.
    os.closerange(_STDERR + 1, alive)
    os.closerange(alive + 1, os.sysconf('SC_OPEN_MAX'))
    readable, _, _ = select.select([_STDIN, alive], [], [])
    if alive in readable:
        # The module ended first: the parent knows, and lives.
        return
    os.kill(module_pid, signal.SIGKILL)
    select.select([alive], [], [])
    # The watchers of several modules do this at once, and modules may write
    # until they end: the last watcher leaves nothing.
    mounts.remove(folder)


if __name__ == '__main__':
    main()
