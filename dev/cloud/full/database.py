# SPDX-License-Identifier: Apache-2.0

"""MariaDB, on a socket in the folder of the cloud and on no port."""

from collections.abc import Iterable
import getpass

import pymysql

from dev.cloud import child
from dev.cloud import folder as folders
from dev.cloud import programs

_READY_SECONDS = 300.0

#: The default log of 96 MiB would be most of the files of a server, and the
#: rings of native input and output are counted for all servers of a user.
_FILES = (
    '--innodb-log-file-size=16M',
    '--skip-innodb-use-native-aio',
)

#: What is lost when it is killed ends with it anyway.
_OPTIONS = (
    *_FILES,
    '--skip-networking',
    '--max-connections=500',
    '--innodb-flush-log-at-trx-commit=0',
    '--innodb-flush-method=nosync',
    '--innodb-buffer-pool-size=256M',
    '--performance-schema=OFF',
    '--skip-log-bin',
    '--skip-name-resolve',
    '--character-set-server=utf8mb3',
)


class Database:
    """One server with all databases.

    :ivar child: its process
    """

    def __init__(self, folder: folders.Folder) -> None:
        self._data = folder.lib / 'mariadb'
        self._socket = folder.root / 'mariadb.sock'
        self._temporary = folder.lib / 'mariadb-tmp'
        self._installer = programs.get_packaged('mariadb-install-db')
        self.child = child.Child(
            'mariadb',
            programs.get_packaged('mariadbd'),
            [
                '--no-defaults',
                f'--user={getpass.getuser()}',
                f'--datadir={self._data}',
                f'--tmpdir={self._temporary}',
                f'--socket={self._socket}',
                f'--pid-file={folder.lib / "mariadb.pid"}',
                *_OPTIONS,
            ],
            folder=folder,
        )

    def start(self) -> None:
        """Make the files and start; does not wait.

        :raises CloudError: it is not installed, or cannot make them
        """
        # One that starts removes the temporary tables of all others in the
        # same folder, and fails when another one was faster.
        self._temporary.mkdir()
        programs.run(
            self._installer,
            '--no-defaults',
            f'--user={getpass.getuser()}',
            f'--datadir={self._data}',
            f'--tmpdir={self._temporary}',
            '--auth-root-authentication-method=normal',
            '--skip-test-db',
            '--innodb-buffer-pool-size=32M',
            *_FILES,
        )
        self.child.start()

    def wait(self) -> None:
        """Wait until it answers.

        :raises ChildFailed: it ended, or does not answer
        """
        self.child.wait_until(self._is_ready, seconds=_READY_SECONDS)

    def create(self, names: Iterable[str]) -> None:
        """Make databases without tables, those that there are not yet."""
        with self._connect() as connection, connection.cursor() as cursor:
            for name in names:
                cursor.execute(f'CREATE DATABASE IF NOT EXISTS {name}')

    def drop(self, name: str) -> None:
        """Remove a database that no transaction uses.

        :raises pymysql.Error: one does, for longer than a minute
        """
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute('SET SESSION lock_wait_timeout = 60')
            cursor.execute(f'DROP DATABASE {name}')

    def url(self, name: str) -> str:
        """Return the URL of a database, for SQLAlchemy.

        Without TLS, which a socket has no use for: PyMySQL would read all
        certificates of the machine for each connection.
        """
        return (
            f'mysql+pymysql://root@localhost/{name}'
            f'?unix_socket={self._socket}&charset=utf8&ssl_disabled=true'
        )

    def _connect(self) -> pymysql.Connection:
        return pymysql.connect(
            unix_socket=str(self._socket), user='root', ssl_disabled=True
        )

    def _is_ready(self) -> bool:
        try:
            self._connect().close()
        except pymysql.Error:
            return False
        return True
