# SPDX-License-Identifier: Apache-2.0

"""The programs that are installed, in Python's environment and elsewhere."""

from collections.abc import Mapping
import os
import pathlib
import shutil
import subprocess
import sys

from dev.cloud import errors

#: Where Debian has daemons: first RabbitMQ itself, whose namesake on the path
#: changes the user, then what is not on the path of every user.
_FIRST = '/usr/lib/rabbitmq/bin:/usr/sbin'

#: No program of a cloud that starts needs longer, even under load.
_SECONDS = 900.0


def get(name: str) -> str:
    """Return the path of a program of Python's environment.

    :raises CloudError: it is not there
    """
    return _find(
        pathlib.Path(sys.executable).with_name(name),
        'functional --notest; that of the gate by: sh tools/tox -e gate',
    )


def get_beside(environment: str, name: str) -> str:
    """Return the path of a program of another environment of tox.

    :param environment: its name
    :raises CloudError: it is not there
    """
    path = pathlib.Path(sys.prefix).with_name(environment) / 'bin' / name
    return _find(path, environment)


def _find(path: pathlib.Path, environment: str) -> str:
    if not path.is_file():
        raise errors.CloudError(
            f'{path} does not exist. The environment that has it is made by: '
            f'sh tools/tox -e {environment} --notest'
        )
    return str(path)


def list_key_owner() -> list[str]:
    """Return the options of ``keystone-manage`` for the owner of new keys.

    It demands them of root, and fails with them for another user.
    """
    if os.geteuid():
        return []
    return ['--keystone-user=0', '--keystone-group=0']


def get_packaged(name: str) -> str:
    """Return the path of a program of the distribution.

    :raises CloudError: it is not there
    """
    found = shutil.which(name, path=f'{_FIRST}:{os.environ.get("PATH", "")}')
    if not found:
        raise errors.CloudError(
            f'{name} is not installed. Install the packages that bindep.txt '
            f'lists for the profile gate.'
        )
    return found


def check_packaged() -> None:
    """Expect what only the distribution has.

    :raises CloudError: a program is not there
    """
    for name in ('mariadbd', 'mariadb-install-db', 'epmd', 'rabbitmq-server'):
        get_packaged(name)


def run(*command: str, environ: Mapping[str, str] | None = None) -> str:
    """Run a program to its end; return what it printed.

    :raises CloudError: it fails
    """
    done = subprocess.run(
        command,
        env={**os.environ, **(environ or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        raise errors.CloudError(
            f'{" ".join(command)} ended with {done.returncode}:\n'
            f'{done.stdout[-2000:]}\n{_find_reasons(done.stdout)}'
        )
    return done.stdout


def _find_reasons(printed: str) -> str:
    """Return in one line, for a reader of last lines, what went wrong."""
    found = [line for line in printed.splitlines() if 'error' in line.lower()]
    return '; '.join(found[:3])
