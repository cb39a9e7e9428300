# SPDX-License-Identifier: Apache-2.0

"""One process of the cloud, as its parent sees it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

from dev.cloud import errors
from dev.cloud import folder as folders
from dev.cloud import journal

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_TAIL_LINES = 15


class Child:
    """A Python module or a program that runs in a process of its own.

    What it prints goes to ``<name>.out`` in the folder of the logs.
    """

    def __init__(
        self,
        name: str,
        target: str,
        arguments: Sequence[str] = (),
        *,
        folder: folders.Folder,
        environ: Mapping[str, str] | None = None,
        fds: Sequence[int] = (),
        log: pathlib.Path | None = None,
    ) -> None:
        """Describe the process; nothing runs yet.

        :param target: a Python module, or the path of a program
        :param fds: file descriptors that the process inherits
        :param log: a log of its own, whose errors explain a failure
        """
        self.name = name
        self.output = folder.log / f'{name}.out'
        self._command = [
            sys.executable,
            '-m',
            'dev.cloud.guard',
            str(folder.root),
            target,
            *arguments,
        ]
        self._environ = _environ(environ or {}, is_ours=os.sep not in target)
        self._fds = tuple(fds)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id, or None when it was not started."""
        return self._process.pid if self._process else None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; does not wait for it.

        :raises OSError: when the machine cannot start one more
        """
        with self.output.open('wb') as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environ,
                cwd=_ROOT,
                pass_fds=self._fds,
                # Ctrl-C is for the parent, which stops its children in order.
                start_new_session=True,
            )

    def wait_until(
        self,
        is_ready: Callable[[], bool],
        *,
        seconds: float,
        poll_seconds: float = 0.05,
    ) -> None:
        """Poll until ``is_ready`` says so.

        :raises ChildFailed: the process ended
        :raises ChildNotReady: it runs, but was not ready in time
        """
        deadline = time.monotonic() + seconds
        while not is_ready():
            if not self.is_running:
                raise self._failed(errors.ChildFailed, self._ending())
            if time.monotonic() > deadline:
                raise self._failed(
                    errors.ChildNotReady,
                    f'was not ready after {seconds:.0f} s; on a busy machine '
                    f'try once more',
                )
            time.sleep(poll_seconds)

    def check(self) -> None:
        """Do nothing while the process runs.

        :raises ChildFailed: it has ended
        """
        if not self.is_running:
            raise self._failed(errors.ChildFailed, self._ending())

    def stop(self, *, seconds: float = 5.0) -> None:
        """End the process: SIGTERM, and SIGKILL when it stays.

        :param seconds: how long to wait before SIGKILL
        """
        self.terminate()
        self.wait(seconds=seconds)

    def terminate(self) -> None:
        """Ask the process to end, without waiting."""
        if self.is_running:
            self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, with what it has forked, and wait for it."""
        if self.is_running:
            self._kill()
        self.wait(seconds=5.0)

    def send(self, number: signal.Signals) -> None:
        """Send a signal that does not end it."""
        if self.is_running:
            self._signal(number)

    def wait(self, *, seconds: float) -> None:
        """Wait for the end, and force it after ``seconds``."""
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        stdin = self._process.stdin
        if stdin is not None and not stdin.closed:
            # See dev.cloud.guard: this process has not ended. With eventlet,
            # on which Nova 33 is, os.write would try a broken pipe for ever.
            with contextlib.suppress(BrokenPipeError):
                os.writev(stdin.fileno(), [b'.'])
            stdin.close()

    def tail(self, lines: int = _TAIL_LINES) -> list[str]:
        """Return the last lines that the process printed."""
        if not self.output.exists():
            return []
        text = self.output.read_text(errors='replace')
        return text.rstrip().splitlines()[-lines:]

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _kill(self) -> None:
        # It leads a group of its own.
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def _ending(self) -> str:
        if self._process is None:
            return 'was not started'
        code = self._process.returncode
        if code is not None and code < 0:
            return f'was ended by {signal.Signals(-code).name}'
        return f'ended by itself with code {code}'

    def _failed(
        self, error: type[errors.ChildFailed], reason: str
    ) -> errors.ChildFailed:
        logged = journal.Journal(self._log).problems(5) if self._log else []
        return error(
            self.name,
            reason,
            log=self.output,
            tail=[*self.tail(), *(f'log: {line}' for line in logged)],
        )


def stop(children: Iterable[Child], *, seconds: float) -> None:
    """End processes beside each other, and wait for their ends."""
    ending = [*children]
    for one in ending:
        one.terminate()
    for one in ending:
        one.wait(seconds=seconds)


def _environ(extra: Mapping[str, str], *, is_ours: bool) -> dict[str, str]:
    """Return the environment of a process: this one, and more.

    :param is_ours: whether our packages must be importable. A program has
        what is installed.
    """
    inherited = os.environ.get('PYTHONPATH')
    path = [str(_ROOT)] if is_ours else []
    path += [inherited] if inherited else []
    return {
        **os.environ,
        'PYTHONPATH': os.pathsep.join(path),
        'PYTHONUNBUFFERED': '1',
        'PYTHONWARNINGS': 'ignore',
        **extra,
    }
