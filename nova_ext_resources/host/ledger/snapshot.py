# SPDX-License-Identifier: Apache-2.0

"""Opens a copy of a ledger, as a start of nova-compute opens the ledger.

For a check that runs at any time. Every reader that SQLite has in WAL mode
writes to the files beside the database, or makes them.
"""

from collections.abc import Mapping
import contextlib
import dataclasses
import os
import pathlib
import sqlite3
import tempfile

from nova_ext_resources import exception
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.objects import assignment

#: A process that writes moves its changes into the file now and then.
_TRIES = 5

#: Primary codes of SQLite that are about the folder of the copy.
_OF_FOLDER = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What is in a ledger.

    :ivar entries: by consumer uuid
    :ivar published: uuid of each provider that was ever published -> the
        traits with which it was
    """

    entries: Mapping[str, assignment.Entry] = dataclasses.field(
        default_factory=dict
    )
    published: Mapping[str, frozenset[str]] = dataclasses.field(
        default_factory=dict
    )


def read(path: str) -> Content:
    """Return what is in a ledger, of any version that can start.

    :raises LedgerNotChecked: nothing can be told of it
    :raises LedgerError: nova-compute could not start with it
    """
    content = _read(path)
    try:
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, os.path.basename(path))
            _write(copy, content)
            with contextlib.closing(ledger_mod.Ledger(copy)) as ledger:
                return Content(
                    entries=ledger.list_entries(),
                    published=ledger.list_published(),
                )
    except OSError as err:
        raise _blame_folder(path, err) from err
    except exception.LedgerError as err:
        if _is_of_folder(err.__cause__):
            raise _blame_folder(path, err.__cause__) from err
        raise exception.LedgerError(path=path, reason=err.reason) from err


def _is_of_folder(err: BaseException | None) -> bool:
    code = getattr(err, 'sqlite_errorcode', 0) & 0xFF
    return isinstance(err, OSError) or code in _OF_FOLDER


def _blame_folder(
    path: str, err: BaseException | None
) -> exception.LedgerNotChecked:
    return exception.LedgerNotChecked(
        path=path,
        reason='the ledger was not checked, because it could not be copied to '
        f'the folder for temporary files: {err}. Free space there, or name '
        'another folder in the environment variable TMPDIR',
    )


def _read(path: str) -> tuple[bytes, bytes]:
    """Return the file, and the changes that are not in it yet.

    They fit together if the file did not change meanwhile.
    """
    real = os.path.realpath(path)
    try:
        for _ in range(_TRIES):
            before = os.stat(real)
            content = pathlib.Path(real).read_bytes(), _read_changes(real)
            after = os.stat(real)
            if (before.st_ino, before.st_mtime_ns) == (
                after.st_ino,
                after.st_mtime_ns,
            ):
                return content
    except OSError as err:
        raise exception.LedgerError(
            path=path, reason=f'the ledger cannot be read: {err}'
        ) from err
    raise exception.LedgerNotChecked(
        path=path,
        reason='the ledger was not checked, because nova-compute changed it '
        'during each read. Try again',
    )


def _read_changes(path: str) -> bytes:
    try:
        return pathlib.Path(f'{path}-wal').read_bytes()
    except FileNotFoundError:
        return b''


def _write(copy: str, content: tuple[bytes, bytes]) -> None:
    for name, data in zip((copy, f'{copy}-wal'), content, strict=True):
        pathlib.Path(name).write_bytes(data)
