# SPDX-License-Identifier: Apache-2.0

"""The host's durable record of what its servers hold.

SQLite in WAL mode, one connection that writes, every change synced to the
disk before the call returns (``synchronous=FULL``): nothing on the host is
changed for a server of which the ledger has no entry. A second process that
opens the same ledger to write is refused; others can read it beside the first
one.
"""

from collections.abc import Iterable, Iterator, Mapping
import contextlib
import dataclasses
import datetime
import os
import pathlib
import sqlite3
import stat
import threading

from oslo_log import log as logging

from nova_ext_resources import clocks
from nova_ext_resources import exception
from nova_ext_resources.host.ledger import process_lock
from nova_ext_resources.host.ledger import schema
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects.documents import foreign_data

LOG = logging.getLogger(__name__)

#: Of the folder and of the files, at most.
FOLDER_MODE = 0o750
FILE_MODE = process_lock.FILE_MODE

#: What SQLite and this module add to the file's name.
_SUFFIXES = ('', '-wal', '-shm', '-journal', '.lock')

_EFFECT = (
    'Running servers keep their resources; new servers are refused until this '
    'is corrected. '
)
_MAKE_WRITABLE = (
    'The folder of the ledger must exist, and must be writable for the user '
    'of nova-compute; otherwise set [ext_resources] ledger_path.'
)
_RESTORE = (
    'Running servers keep their resources; new servers are refused. Stop '
    'nova-compute and follow "The ledger is lost" in the documentation: '
    'restore a copy only if no server has come to this host or left it since '
    'the copy; otherwise start without a ledger.'
)
_LOST = 'was deleted, replaced, emptied or changed by another program'
_CLOSE_OTHERS = (
    'Stop other programs that write to the ledger, such as the sqlite3 tool.'
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStatus:
    """Whether the ledger can be written, for health checks.

    :ivar last_success_at: time of the last write; aware, UTC
    :ivar failure: the reason when the last write failed, else ''
    """

    last_success_at: datetime.datetime
    failure: str = ''


class Ledger:
    """Stores :class:`~.assignment.Entry` by consumer.

    :param path: the file; its folder is made when missing
    :raises LedgerError: it cannot be opened, is damaged, is in use by
        another process, or was written by a newer version
    """

    def __init__(self, path: str) -> None:
        # A symbolic link leads to the same lock beside the file.
        self.path = os.path.realpath(path)
        self._lock = threading.Lock()
        with _translated(self.path, 'cannot be opened'):
            _make_folder(os.path.dirname(self.path))
            # The kernel frees the locks when the process ends.
            self._guard = process_lock.take(self.path)
            try:
                self._db = self._open()
                self._inode = os.stat(self.path).st_ino
                self._written = schema.dump(self._db)
            except BaseException:
                self._guard.close()
                raise
        self._status = LedgerStatus(last_success_at=clocks.MACHINE.read())
        # What is made of the rows, until others are written.
        self._entries: dict[str, assignment.Entry] = {}
        self._read_of: object = None

    @property
    def status(self) -> LedgerStatus:
        return self._status

    def check(self) -> None:
        """Find out whether the file still has what was written.

        After a failure, also whether writing works again. Raises nothing;
        the answer is in ``status``.
        """
        with contextlib.suppress(exception.LedgerError):
            if self._status.failure:
                # Writes a page of the file, and changes nothing.
                with self._transaction() as db:
                    db.execute(f'PRAGMA user_version = {schema.VERSION}')
            else:
                with self._recording_failure(), self._begun():
                    pass

    def list_entries(self) -> dict[str, assignment.Entry]:
        """Return all entries by consumer uuid.

        :raises LedgerError: a row is malformed
        """
        with self._lock, _translated(self.path, 'cannot be read'):
            if self._read_of is not self._written:
                self._entries = schema.read(self._db)
                self._read_of = self._written
            return dict(self._entries)

    def list_different(
        self, entries: Mapping[str, assignment.Entry]
    ) -> frozenset[str]:
        """Return the consumers of which the ledger has something else.

        :param entries: what they should have
        :raises LedgerError: a row is malformed
        """
        written = self.list_entries()
        return frozenset(
            uuid
            for uuid in written.keys() | entries.keys()
            # As a rule their order is the same, too.
            if written.get(uuid) != entries.get(uuid)
            and _sort(written.get(uuid)) != _sort(entries.get(uuid))
        )

    def put(self, entry: assignment.Entry) -> None:
        """Write an entry in place of the former one, synced.

        :raises LedgerError: nothing was changed
        """
        self.replace([], [entry])

    def replace(
        self, gone: Iterable[str], made: Iterable[assignment.Entry]
    ) -> None:
        """Delete entries and write others, all or none, synced.

        :param gone: uuids of consumers; unknown ones are skipped
        :raises LedgerError: nothing was changed
        """
        with self._transaction() as db:
            schema.delete(db, gone)
            for entry in made:
                schema.put(db, entry)

    def set_state(
        self, consumer_uuids: Iterable[str], state: assignment.State
    ) -> None:
        """Change the state of entries, all or none, synced.

        :raises LedgerError: nothing was changed
        """
        with self._transaction() as db:
            db.executemany(
                'UPDATE entry SET state = ? WHERE consumer_uuid = ?',
                [(state.value, one) for one in consumer_uuids],
            )

    def delete(self, consumer_uuids: Iterable[str]) -> None:
        """Delete entries, all or none, synced; unknown ones are skipped.

        :raises LedgerError: nothing was changed
        """
        with self._transaction() as db:
            schema.delete(db, consumer_uuids)

    def list_published(self) -> dict[str, frozenset[str]]:
        """Return all providers that were ever published, by uuid.

        :return: the traits with which each was ever published
        :raises LedgerError: they cannot be read
        """
        with self._lock, _translated(self.path, 'cannot be read'):
            rows = self._db.execute(
                'SELECT rp_uuid, trait FROM published '
                'LEFT JOIN published_trait USING (rp_uuid)'
            ).fetchall()
        traits: dict[str, set[str]] = {}
        for row in rows:
            own = traits.setdefault(row['rp_uuid'], set())
            own.update(filter(None, [row['trait']]))
        return {rp_uuid: frozenset(own) for rp_uuid, own in traits.items()}

    def add_published(self, traits: Mapping[str, Iterable[str]]) -> None:
        """Record providers before they are published, synced.

        :param traits: by the uuid of the provider that has them
        :raises LedgerError: nothing was changed
        """
        with self._transaction() as db:
            db.executemany(
                'INSERT OR IGNORE INTO published VALUES (?)',
                [(one,) for one in traits],
            )
            db.executemany(
                'INSERT OR IGNORE INTO published_trait VALUES (?, ?)',
                [(uuid, one) for uuid, own in traits.items() for one in own],
            )

    def read_note(self, name: str) -> str:
        """Return what an enforcer has noted, '' for nothing.

        :raises LedgerError: it cannot be read
        """
        with self._lock, _translated(self.path, 'cannot be read'):
            query = 'SELECT text FROM note WHERE name = ?'
            row = self._db.execute(query, [name]).fetchone()
        return str(row['text']) if row else ''

    def write_note(self, name: str, text: str) -> None:
        """Note what an enforcer has to know after a restart, synced.

        :raises LedgerError: nothing was changed
        """
        with self._transaction() as db:
            db.execute('REPLACE INTO note VALUES (?, ?)', [name, text])

    def close(self) -> None:
        with self._lock:
            self._db.close()
            self._guard.close()

    def _open(self) -> sqlite3.Connection:
        # SQLite gives the files beside it the same mode.
        for suffix in _SUFFIXES:
            _restrict(f'{self.path}{suffix}', FILE_MODE)
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
        schema.check_version(db)
        db.execute('PRAGMA journal_mode = WAL')
        db.execute('PRAGMA synchronous = FULL')
        db.execute('PRAGMA foreign_keys = ON')
        schema.upgrade(db)

    def _check_file(self) -> None:
        """Refuse to write into a file that has not what was written to it.

        A start would not find it again, or find something else. Within a
        transaction: nobody else writes meanwhile.
        """
        with _translated(self.path, _LOST, advice=_RESTORE):
            if os.stat(self.path).st_ino != self._inode:
                raise OSError('another file has this name')
        # This connection has pages in its cache that the file may have lost.
        with _read_only(self.path) as db:
            try:
                is_kept = schema.dump(db) == self._written
                is_kept &= schema.check_version(db) == schema.VERSION
            except sqlite3.DatabaseError as err:
                # Else the file system refuses, or a process is in the way.
                if err.sqlite_errorcode not in _CUT:
                    raise
                is_kept = False
        if not is_kept:
            with _translated(self.path, _LOST, advice=_RESTORE):
                raise ValueError(
                    'the data in the file is not the data that was written'
                )

    @contextlib.contextmanager
    def _recording_failure(self) -> Iterator[None]:
        try:
            yield
        except exception.LedgerError as err:
            self._status = dataclasses.replace(self._status, failure=str(err))
            raise

    @contextlib.contextmanager
    def _begun(self) -> Iterator[sqlite3.Connection]:
        """Begin a transaction, which ends without a change by default."""
        with self._lock, _translated(self.path, 'cannot be written'):
            self._db.execute('BEGIN IMMEDIATE')
            try:
                self._check_file()
                yield self._db
            finally:
                # A full disk ends the transaction by itself.
                if self._db.in_transaction:
                    self._db.execute('ROLLBACK')

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._recording_failure(), self._begun() as db:
            yield db
            written = schema.dump(db)
            db.execute('COMMIT')
            self._written = written
        self._status = LedgerStatus(last_success_at=clocks.MACHINE.read())


@contextlib.contextmanager
def _read_only(path: str) -> Iterator[sqlite3.Connection]:
    uri = f'{pathlib.Path(os.path.realpath(path)).as_uri()}?mode=ro'
    with contextlib.closing(
        sqlite3.connect(uri, uri=True, isolation_level=None)
    ) as db:
        db.row_factory = sqlite3.Row
        yield db


def downgrade(path: str) -> None:
    """Change a ledger to version 1, the only one that older releases read.

    :raises LedgerError: it was not changed
    """
    with (
        contextlib.closing(Ledger(path)) as ledger,
        _translated(ledger.path, 'cannot be downgraded'),
    ):
        schema.downgrade(ledger._db)


def _sort(entry: assignment.Entry | None) -> assignment.Entry | None:
    """Return an entry with its assignments in one order."""
    return entry and dataclasses.replace(
        entry,
        assignments=tuple(
            sorted(
                entry.assignments,
                key=lambda one: (one.rp_uuid, one.resource_class),
            )
        ),
    )


def _make_folder(path: str) -> None:
    os.makedirs(path, mode=FOLDER_MODE, exist_ok=True)
    # Another folder may belong to other software as well.
    if os.path.basename(path) == 'ext_resources':
        _restrict(path, FOLDER_MODE)


def _restrict(path: str, mode: int) -> None:
    """Remove permissions beyond a mode, as older releases left them."""
    # Files of another user are for that user to restrict.
    with contextlib.suppress(FileNotFoundError, PermissionError):
        found = stat.S_IMODE(os.stat(path).st_mode)
        if found & ~mode:
            os.chmod(path, found & mode)
            LOG.info(
                'Mode of %(path)s changed from %(old)04o to %(new)04o',
                {'path': path, 'old': found, 'new': found & mode},
            )


@contextlib.contextmanager
def _translated(path: str, what: str, *, advice: str = '') -> Iterator[None]:
    try:
        yield
    except schema.VersionError as err:
        raise exception.LedgerError(path=path, reason=str(err)) from err
    except (sqlite3.Error, OSError, *foreign_data.UNREADABLE) as err:
        raise exception.LedgerError(
            path=path,
            reason=f'the file {what}: {str(err).rstrip(".")}. '
            f'{advice or _advise(err)}',
        ) from err


#: Errors of SQLite about a file that lacks what SQLite wrote to it.
_CUT = frozenset(
    {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_IOERR_SHORT_READ,
        sqlite3.SQLITE_NOTADB,
    }
)

#: Errors of SQLite about the file system, not about the file's contents.
_OUTSIDE: dict[int, str] = {
    sqlite3.SQLITE_CANTOPEN: _MAKE_WRITABLE,
    sqlite3.SQLITE_PERM: _MAKE_WRITABLE,
    sqlite3.SQLITE_READONLY: _MAKE_WRITABLE,
    sqlite3.SQLITE_FULL: 'Free space on the file system of the ledger.',
    sqlite3.SQLITE_IOERR: 'Look for its file system in the kernel log.',
    sqlite3.SQLITE_BUSY: _CLOSE_OTHERS,
    sqlite3.SQLITE_LOCKED: _CLOSE_OTHERS,
}


def _advise(err: Exception) -> str:
    # The lower byte is the primary code, the others say it more closely.
    code = getattr(err, 'sqlite_errorcode', 0) & 0xFF
    return _EFFECT + _OUTSIDE.get(
        sqlite3.SQLITE_PERM if isinstance(err, OSError) else code,
        'If the file is damaged, it may be moved away when no server of this '
        'host holds resources.',
    )
