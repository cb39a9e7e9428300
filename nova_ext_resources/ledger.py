# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The host's durable record of what its servers hold.

SQLite in WAL mode, one connection, every change synced to the disk before
the call returns (``synchronous=FULL``): nothing on the host is touched for
a server of which the ledger does not know. A second process that opens the
same ledger is refused; reading it with the ``sqlite3`` tool is fine.
"""

from collections.abc import Iterable, Iterator
import contextlib
import dataclasses
import datetime
import fcntl
import json
import operator
import os
import sqlite3
import threading
from typing import Any, TextIO

from oslo_utils import timeutils

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask

#: In ``PRAGMA user_version``; raised when a table changes.
VERSION = 1

_SCHEMA = """
CREATE TABLE entry (
    consumer_uuid TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    cpus TEXT,
    enforcers TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE assignment (
    consumer_uuid TEXT NOT NULL REFERENCES entry ON DELETE CASCADE,
    rp_uuid TEXT NOT NULL,
    resource_class TEXT NOT NULL,
    rp_key TEXT NOT NULL,
    amount INTEGER NOT NULL,
    units TEXT NOT NULL,
    is_allocated INTEGER NOT NULL,
    PRIMARY KEY (consumer_uuid, rp_uuid, resource_class)
) WITHOUT ROWID;
CREATE TABLE published (rp_uuid TEXT PRIMARY KEY) WITHOUT ROWID;
PRAGMA user_version = 1;
"""


_MAKE_WRITABLE = (
    'Make the folder writable for the user that nova-compute runs as, or set '
    '[ext_resources] ledger_path.'
)
_CLOSE_OTHERS = 'Close what else writes to it, such as the sqlite3 tool.'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How writing goes, for health checks.

    :ivar last_success_at: when it was last written; aware, UTC
    :ivar failure: why it could not be written the last time, '' if it could
    """

    last_success_at: datetime.datetime
    failure: str = ''


class Ledger:
    """Stores and gives back :class:`~.assignment.Entry`.

    :param path: the file; its folder is made when missing
    :raises LedgerError: it cannot be opened, is damaged, is in use by
        another process, or was written by a newer version
    """

    def __init__(self, path: str) -> None:
        # Whoever comes by a symbolic link finds the same lock beside it.
        self.path = os.path.realpath(path)
        self._lock = threading.Lock()
        with self._translated('cannot be opened'):
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            self._guard = self._take_guard()
            try:
                self._db = self._open()
            except BaseException:
                self._guard.close()
                raise
        self._status = Status(last_success_at=_read_clock())

    @property
    def status(self) -> Status:
        return self._status

    def retry(self) -> None:
        """After a failure, find out whether it is over; raises nothing."""
        if self._status.failure:
            with contextlib.suppress(exception.LedgerError):
                # Writes a page of the file, and changes nothing.
                with self._transaction() as db:
                    db.execute(f'PRAGMA user_version = {VERSION}')

    def list_entries(self) -> dict[str, assignment.Entry]:
        """Give all entries by consumer uuid.

        :raises LedgerError: a row makes no sense
        """
        with self._lock, self._translated('cannot be read'):
            rows = self._db.execute('SELECT * FROM entry').fetchall()
            held = self._db.execute('SELECT * FROM assignment').fetchall()
        by_consumer: dict[str, list[assignment.Assignment]] = {}
        with self._translated('has a row that makes no sense'):
            for row in held:
                by_consumer.setdefault(row['consumer_uuid'], []).append(
                    _read_assignment(row)
                )
            return {
                row['consumer_uuid']: _read_entry(row, by_consumer)
                for row in rows
            }

    def put(self, entry: assignment.Entry) -> None:
        """Write one entry in place of what was there, synced.

        :raises LedgerError: nothing was changed
        """
        rows = [_write_assignment(entry, one) for one in entry.assignments]
        with self._transaction() as db:
            _delete(db, [entry.consumer_uuid])
            db.execute(
                'INSERT INTO entry VALUES (?, ?, ?, ?)', _write_entry(entry)
            )
            db.executemany(
                'INSERT INTO assignment VALUES (?, ?, ?, ?, ?, ?, ?)', rows
            )

    def set_state(
        self, consumer_uuids: Iterable[str], state: assignment.State
    ) -> None:
        """Move entries on, all in one, synced; assignments stay.

        :raises LedgerError: nothing was changed
        """
        with self._transaction() as db:
            db.executemany(
                'UPDATE entry SET state = ? WHERE consumer_uuid = ?',
                [(state.value, one) for one in consumer_uuids],
            )

    def delete(self, consumer_uuids: Iterable[str]) -> None:
        """Forget entries, all in one, synced; unknown ones are passed over.

        :raises LedgerError: nothing was changed
        """
        with self._transaction() as db:
            _delete(db, consumer_uuids)

    def list_published(self) -> frozenset[str]:
        """Give the uuids of all providers that were ever published.

        :raises LedgerError: they cannot be read
        """
        with self._lock, self._translated('cannot be read'):
            rows = self._db.execute('SELECT rp_uuid FROM published').fetchall()
        return frozenset(row['rp_uuid'] for row in rows)

    def add_published(self, rp_uuids: Iterable[str]) -> None:
        """Remember providers before they are published, synced.

        :raises LedgerError: nothing was changed
        """
        with self._transaction() as db:
            db.executemany(
                'INSERT OR IGNORE INTO published VALUES (?)',
                [(one,) for one in rp_uuids],
            )

    def close(self) -> None:
        with self._lock:
            self._db.close()
            self._guard.close()

    def _take_guard(self) -> TextIO:
        # Kept open: the kernel frees the lock when the process ends.
        guard = open(f'{self.path}.lock', 'a')
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            guard.close()
            raise exception.LedgerInUse(
                path=self.path,
                reason='another process of this machine uses it; stop that '
                'one, or give this one another [ext_resources] ledger_path',
            ) from None
        return guard

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.row_factory = sqlite3.Row
        (version,) = db.execute('PRAGMA user_version').fetchone()
        if version not in (0, VERSION):
            raise exception.LedgerError(
                path=self.path,
                reason=f'it has version {version}, this package writes '
                f'{VERSION}; install the package that wrote it',
            )
        db.execute('PRAGMA journal_mode = WAL')
        db.execute('PRAGMA synchronous = FULL')
        db.execute('PRAGMA foreign_keys = ON')
        if version == 0:
            db.executescript(f'BEGIN;{_SCHEMA}COMMIT;')

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock, self._translated('cannot be written'):
                self._db.execute('BEGIN IMMEDIATE')
                try:
                    yield self._db
                    self._db.execute('COMMIT')
                except BaseException:
                    # A full disk ends the transaction by itself.
                    if self._db.in_transaction:
                        self._db.execute('ROLLBACK')
                    raise
        except exception.LedgerError as err:
            self._status = dataclasses.replace(self._status, failure=str(err))
            raise
        self._status = Status(last_success_at=_read_clock())

    @contextlib.contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except (
            sqlite3.Error,
            OSError,
            ValueError,
            KeyError,
            TypeError,
        ) as err:
            raise exception.LedgerError(
                path=self.path,
                reason=f'it {what}: {str(err).rstrip(".")}. Servers that run '
                'keep what they have; new ones are refused until this is '
                f'mended. {_advise(err)}',
            ) from err


def _read_clock() -> datetime.datetime:
    now: datetime.datetime = timeutils.utcnow(with_timezone=True)
    return now


#: What SQLite says of the file system, not of the contents of the file.
_OUTSIDE: dict[int, str] = {
    sqlite3.SQLITE_CANTOPEN: _MAKE_WRITABLE,
    sqlite3.SQLITE_PERM: _MAKE_WRITABLE,
    sqlite3.SQLITE_READONLY: _MAKE_WRITABLE,
    sqlite3.SQLITE_FULL: 'Make room on its file system.',
    sqlite3.SQLITE_IOERR: 'Look into the kernel log for its file system.',
    sqlite3.SQLITE_BUSY: _CLOSE_OTHERS,
    sqlite3.SQLITE_LOCKED: _CLOSE_OTHERS,
}


def _advise(err: Exception) -> str:
    if isinstance(err, OSError):
        return _MAKE_WRITABLE
    # The lower byte is the primary code, the others say it more closely.
    code = getattr(err, 'sqlite_errorcode', 0) & 0xFF
    return _OUTSIDE.get(
        code,
        'A damaged file may be moved away when no server of this host holds '
        'anything.',
    )


def _delete(db: sqlite3.Connection, consumer_uuids: Iterable[str]) -> None:
    db.executemany(
        'DELETE FROM entry WHERE consumer_uuid = ?',
        [(one,) for one in consumer_uuids],
    )


def _write_entry(entry: assignment.Entry) -> tuple[str, str, str | None, str]:
    cpus = None if entry.cpus is None else bitmask.format_list(entry.cpus)
    wishes = {name: dict(keys) for name, keys in entry.enforcers.items()}
    return entry.consumer_uuid, entry.state.value, cpus, json.dumps(wishes)


def _write_assignment(
    entry: assignment.Entry, one: assignment.Assignment
) -> tuple[str, str, str, str, int, str, bool]:
    return (
        entry.consumer_uuid,
        one.rp_uuid,
        one.resource_class,
        one.rp_key,
        one.amount,
        json.dumps(dict(one.units)),
        one.is_allocated,
    )


def _read_entry(
    row: sqlite3.Row, held: dict[str, list[assignment.Assignment]]
) -> assignment.Entry:
    cpus = row['cpus']
    return assignment.Entry(
        consumer_uuid=row['consumer_uuid'],
        state=assignment.State(row['state']),
        assignments=tuple(held.get(row['consumer_uuid'], ())),
        cpus=None if cpus is None else bitmask.parse_list(cpus),
        enforcers={
            name: dict(keys)
            for name, keys in _read_object(row['enforcers']).items()
        },
    )


def _read_assignment(row: sqlite3.Row) -> assignment.Assignment:
    return assignment.Assignment(
        rp_uuid=row['rp_uuid'],
        rp_key=row['rp_key'],
        resource_class=row['resource_class'],
        amount=operator.index(row['amount']),
        units=_read_object(row['units']),
        is_allocated=bool(row['is_allocated']),
    )


def _read_object(text: str) -> dict[str, Any]:
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError(f'{text} is no JSON object')
    return data
