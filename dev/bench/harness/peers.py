# SPDX-License-Identifier: Apache-2.0

"""A process that is measured beside another one, maybe in another environment.

It does what it is asked for, one after the other: a line of JSON each. It
measures itself, so that neither the pipe nor the other process counts. While
it waits it takes no CPU time, so that two of them can take turns.
"""

from collections.abc import Callable, Mapping
import json
import os
import pathlib
import subprocess
import sys
from typing import Any, TypeAlias

from dev.bench.harness import timing

#: Name of a command -> what does it. It returns JSON types.
Commands: TypeAlias = Mapping[str, Callable[..., Any]]

ROOT = pathlib.Path(__file__).resolve().parents[3]


class Peer:
    """Starts a module that calls :func:`serve`, and ends it.

    :param python: the interpreter of the environment that it needs
    """

    def __init__(self, python: str, module: str, *arguments: str) -> None:
        self._module = module
        # What several releases of a library find out of date is not measured.
        self._process = subprocess.Popen(
            [python, '-W', 'ignore', '-m', module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, 'PYTHONPATH': str(ROOT)},
            text=True,
        )

    def __enter__(self) -> 'Peer':
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def ask(self, command: str, **given: Any) -> tuple[Any, timing.Spent]:
        """Have something done; return the answer, and what it took.

        :raises RuntimeError: the process has ended
        """
        pipes = self._process
        assert pipes.stdin and pipes.stdout
        try:
            print(json.dumps([command, given]), file=pipes.stdin, flush=True)
            line = pipes.stdout.readline()
        except BrokenPipeError:
            line = ''
        if not line:
            raise RuntimeError(
                f'{self._module} has ended with {pipes.wait()} when it was '
                f'asked for {command}; what it has written above says why'
            )
        answer, spent = json.loads(line)
        return answer, timing.Spent(*spent)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            pipe.close()


def serve(commands: Commands) -> None:
    """Do what is asked for, until nobody asks."""
    # Libraries may print what they like.
    answers = os.fdopen(os.dup(1), 'w', encoding='utf-8')
    os.dup2(2, 1)
    for line in sys.stdin:
        command, given = json.loads(line)
        answer, spent = timing.spend(lambda: commands[command](**given))  # noqa: B023
        print(json.dumps([answer, spent]), file=answers, flush=True)
