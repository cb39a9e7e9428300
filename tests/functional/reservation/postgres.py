# SPDX-License-Identifier: Apache-2.0

"""PostgreSQL, on a socket in a folder of its own and on no port."""

from collections.abc import Iterable
import os
import pathlib
import shutil

import psycopg2

from dev.cloud import child
from dev.cloud import errors
from dev.cloud import folder as folders
from dev.cloud import programs

#: Where Debian has what is not on the path.
_DEBIAN = pathlib.Path('/usr/lib/postgresql')

#: It refuses to run as root.
_USER = 'postgres'


def find(name: str) -> str:
    """Return the path of a program of PostgreSQL.

    :raises CloudError: it is not installed
    """
    there = sorted(_DEBIAN.glob(f'*/bin/{name}'))
    found = shutil.which(name) or (there and str(there[-1]))
    if not found:
        raise errors.CloudError(
            f'{name} is not installed. Install the package postgresql.'
        )
    return found


class Database:
    """One server with all databases.

    :ivar child: its process
    """

    def __init__(self, folder: folders.Folder) -> None:
        self._folder = folder
        self._data = folder.lib / 'postgres'
        program, *arguments = self._as_user(
            find('postgres'),
            '-D',
            str(self._data),
            '-k',
            str(self._data),
            *('-c', 'listen_addresses='),
            *('-c', 'fsync=off'),
            # A kill would leave segments in /dev/shm for ever.
            *('-c', 'dynamic_shared_memory_type=mmap'),
        )
        self.child = child.Child('postgres', program, arguments, folder=folder)

    def start(self) -> None:
        """Make the files and start; does not wait.

        :raises CloudError: it is not installed, or cannot make them
        """
        self._data.mkdir()
        if not os.getuid():
            for path in (self._folder.root, self._folder.lib):
                path.chmod(0o711)
            shutil.chown(self._data, _USER)
        programs.run(
            *self._as_user(
                find('initdb'),
                '--auth=trust',
                f'--username={_USER}',
                '--encoding=UTF8',
                '--no-sync',
                '-D',
                str(self._data),
            )
        )
        self.child.start()

    def wait(self) -> None:
        """Wait until it answers.

        :raises ChildFailed: it ended, or does not answer
        """
        self.child.wait_until(self._is_ready, seconds=300.0)

    def create(self, names: Iterable[str]) -> None:
        """Make databases without tables."""
        self._execute(*(f'CREATE DATABASE {name}' for name in names))

    def drop(self, name: str) -> None:
        """Remove a database, and end all connections to it."""
        self._execute(f'DROP DATABASE {name} WITH (FORCE)')

    def url(self, name: str) -> str:
        """Return the URL of a database, for SQLAlchemy."""
        return f'postgresql+psycopg2://{_USER}@/{name}?host={self._data}'

    def _as_user(self, *command: str) -> tuple[str, ...]:
        if os.getuid():
            return command
        setpriv = programs.get_packaged('setpriv')
        ids = (f'--reuid={_USER}', f'--regid={_USER}', '--clear-groups')
        return (setpriv, *ids, *command)

    def _execute(self, *statements: str) -> None:
        connection = self._connect()
        connection.autocommit = True
        for one in statements:
            connection.cursor().execute(one)
        connection.close()

    def _connect(self) -> psycopg2.extensions.connection:
        return psycopg2.connect(
            host=str(self._data), user=_USER, dbname='postgres'
        )

    def _is_ready(self) -> bool:
        try:
            self._connect().close()
        except psycopg2.Error:
            return False
        return True
