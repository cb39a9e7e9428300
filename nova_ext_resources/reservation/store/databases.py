# SPDX-License-Identifier: Apache-2.0

"""Transactions on the database of the reservations.

Not by oslo.db's ``enginefacade``: what it is not told it takes from the group
``[database]`` of the process, which in a service of Nova is Nova's.
"""

from collections.abc import Iterator
import contextlib
import sqlite3
from typing import Any

from oslo_db import exception as db_exception
from oslo_db.sqlalchemy import engines
import sqlalchemy as sa
import tenacity

from nova_ext_resources import exception
from nova_ext_resources.reservation.store import files

#: Seconds for which a statement waits for the other writers. MariaDB would do
#: so for 50 s, PostgreSQL for ever.
BUSY_SECONDS = 30

#: Name of a dialect -> what each new connection is told.
_SETTINGS: dict[str, tuple[str, ...]] = {
    # Readers and the writer do not wait for each other in WAL mode.
    'sqlite': ('PRAGMA busy_timeout = {}000', 'PRAGMA journal_mode = WAL'),
    # All statements of a transaction read the same, as in SQLite, whatever the
    # server does by default.
    'mysql': (
        'SET SESSION innodb_lock_wait_timeout = {}',
        'SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ',
    ),
    'postgresql': (
        "SET SESSION lock_timeout = '{}s'",
        'SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL '
        'REPEATABLE READ',
    ),
}

#: The same, where whoever asks must not wait for long.
_HURRIED: dict[str, tuple[str, ...]] = {
    'postgresql': ("SET SESSION statement_timeout = '{}s'",),
}

#: Name of a driver -> what its URL is given, where it does not say otherwise,
#: so that it does not wait for a machine that is gone. ``{}`` are seconds.
_BOUNDS = {
    'pymysql': {
        'connect_timeout': '{}',
        'read_timeout': '{}',
        'write_timeout': '{}',
    },
    'mysqldb': {
        'connect_timeout': '{}',
        'read_timeout': '{}',
        'write_timeout': '{}',
    },
    # A statement that was sent is lost with the machine: nothing but
    # keepalives finds that out.
    'psycopg2': {
        'connect_timeout': '{}',
        'tcp_user_timeout': '{}000',
        'keepalives_idle': '{}',
        'keepalives_interval': '1',
        'keepalives_count': '3',
    },
}

#: The other one goes on, and this transaction was rolled back.
_CONFLICTS = (db_exception.DBDeadlock, db_exception.DBDuplicateEntry)

#: Of PostgreSQL, where another transaction has changed the row since this one
#: began to read.
_NOT_SERIALIZABLE = '40001'

#: Of a ``CHECK`` that failed, in MariaDB and in MySQL. PyMySQL raises for them
#: what it raises when a server is out of reach.
_CHECK_FAILED = frozenset({4025, 3819})

#: Of SQLite, where to try it again is of no use.
_FILE_ERRORS = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)


class Database:
    """One database. It is reached when it is used for the first time.

    :param url: as SQLAlchemy reads it, such as ``sqlite:////var/lib/x.db`` or
        ``mysql+pymysql://user:password@host/name?charset=utf8mb4``
    :param max_wait: seconds for which each step waits at most, be it for a
        connection, an answer or another writer. None where it may take long:
        then :data:`BUSY_SECONDS` for others that write, and for the machine
        what the URL says
    """

    def __init__(self, url: str, max_wait: int | None = None) -> None:
        made = files.keep_connections(sa.make_url(url))
        is_file = made.get_backend_name() == 'sqlite'
        self.engine = engines.create_engine(
            made if max_wait is None else bound(made, max_wait),
            sqlite_fk=True,
            # MariaDB shortens what is too long where it is not strict.
            mysql_sql_mode='TRADITIONAL',
            max_retries=0,
            # For eventlet only; it gives the CPU away after each transaction.
            thread_checkin=False,
            # A file has no pool.
            pool_timeout=None if is_file else max_wait,
        )
        # In texts of errors, which are logged: secrets and tokens are among
        # them.
        self.engine.hide_parameters = True
        self._settings = list_settings(self.engine.dialect.name, max_wait)
        self._retrying = _make_retrying(max_wait)
        sa.event.listen(self.engine, 'connect', self._prepare)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Do all or nothing of what is within.

        The first statement must write if any does: SQLite refuses to write
        after another one has written since the first read.

        :raises RevisionMoved: another transaction was faster
        :raises StoreUnavailable: it is out of reach. When that is raised at
            the end, it is not known whether all was stored, or nothing
        :raises StoreError: any other refusal of the database
        """
        with _translating(self.engine.url.database):
            with self.engine.begin() as connection:
                yield connection

    def close(self) -> None:
        """Close all connections; the next transaction opens another one."""
        self.engine.dispose()

    def _prepare(self, connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        for one in self._settings:
            self._retrying(cursor.execute, one)
        cursor.close()
        # psycopg2 has begun a transaction, which would undo the setting.
        connection.commit()


def list_settings(dialect: str, max_wait: int | None) -> list[str]:
    """Return what each new connection is told.

    A wait for another writer ends a second before that for an answer: else it
    would look as if the database did not answer, and the connection be lost.

    :param max_wait: as of :class:`Database`
    """
    busy = _limit_busy(max_wait)
    hurried = () if max_wait is None else _HURRIED.get(dialect, ())
    return [
        *(one.format(busy) for one in _SETTINGS.get(dialect, ())),
        *(one.format(max_wait) for one in hurried),
    ]


def _limit_busy(max_wait: int | None) -> int:
    """Return for how many seconds to wait for another writer."""
    return BUSY_SECONDS if max_wait is None else max(max_wait - 1, 1)


def _make_retrying(max_wait: int | None) -> tenacity.Retrying:
    """Return what tries a setting again while a file of SQLite is busy.

    SQLite refuses at once, whatever ``busy_timeout`` says, to change a file to
    WAL mode while another connection writes to it or changes it as well.
    """
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_is_busy),
        stop=tenacity.stop_after_delay(_limit_busy(max_wait)),
        wait=tenacity.wait_random_exponential(multiplier=0.01, max=0.5),
        reraise=True,
    )


def bound(url: sa.URL, seconds: int) -> sa.URL:
    """Return a URL whose driver waits for so long at most.

    What the URL says itself holds.
    """
    added = _BOUNDS.get(url.get_driver_name(), {})
    return url.update_query_dict(
        {
            name: value.format(seconds)
            for name, value in added.items()
            if name not in url.query
        }
    )


@contextlib.contextmanager
def _translating(file: str | None) -> Iterator[None]:
    """Raise errors of this package for those of the database.

    :param file: what the URL names, which is a file if it is of SQLite
    """
    try:
        yield
    except (db_exception.DBError, sa.exc.SQLAlchemyError) as err:
        if _is_conflict(err):
            raise exception.RevisionMoved(
                reason=f'another process wrote at the same time ({err})'
            ) from err
        if _is_file_error(err):
            raise exception.StoreError(
                reason=f'the file {file} cannot be used: {err.__cause__}. It '
                'must be a database of SQLite, in a folder that exists and '
                'has room, and this user must be allowed to write to both: '
                'run it as the user that Nova runs as, or correct the URL.'
            ) from err
        if _is_unavailable(err):
            raise exception.StoreUnavailable(
                reason=f'the database does not answer: {err}. Check that it '
                'runs and can be reached from here.'
            ) from err
        raise exception.StoreError(
            reason=f'the database refused: {err}. Check its URL, and that its '
            'tables are those of this release.'
        ) from err


def _is_conflict(err: Exception) -> bool:
    code = getattr(getattr(err, 'orig', None), 'pgcode', None)
    return isinstance(err, _CONFLICTS) or code == _NOT_SERIALIZABLE


def _is_busy(err: BaseException) -> bool:
    code = getattr(err, 'sqlite_errorcode', None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_BUSY


def _is_file_error(err: Exception) -> bool:
    """Return whether SQLite cannot use its file, whenever it tries."""
    code = getattr(err.__cause__, 'sqlite_errorcode', None)
    # The higher bits are details.
    return code is not None and code & 0xFF in _FILE_ERRORS


def _is_unavailable(err: Exception) -> bool:
    """Return whether the same statement may succeed later."""
    if isinstance(err, sa.exc.OperationalError):
        return _CHECK_FAILED.isdisjoint(getattr(err.orig, 'args', ()))
    return isinstance(
        err, (db_exception.DBConnectionError, sa.exc.TimeoutError)
    )
