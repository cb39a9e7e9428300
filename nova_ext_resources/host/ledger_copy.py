# SPDX-License-Identifier: Apache-2.0

"""Opens a copy of a ledger, as a start of nova-compute opens the ledger.

For a check that runs at any time. Every reader that SQLite has in WAL mode
writes to the files beside the database, or makes them.
"""

from collections.abc import Mapping
import contextlib
import os
import pathlib
import shutil
import tempfile

from nova_ext_resources import exception
from nova_ext_resources.host import ledger as ledger_mod
from nova_ext_resources.objects import assignment

#: A process that writes moves its changes into the file now and then.
_TRIES = 5


def read_entries(path: str) -> Mapping[str, assignment.Entry]:
    """Return all entries by consumer uuid, of any version that can start.

    :raises LedgerError: nova-compute could not start with it
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, os.path.basename(path))
        try:
            _copy(os.path.realpath(path), copy)
            with contextlib.closing(ledger_mod.Ledger(copy)) as ledger:
                return ledger.list_entries()
        except OSError as err:
            raise exception.LedgerError(
                path=path, reason=f'it cannot be read: {err}'
            ) from err
        except exception.LedgerError as err:
            raise exception.LedgerError(path=path, reason=err.reason) from err


def _copy(path: str, copy: str) -> None:
    """Copy the file, and the changes that are not in it yet.

    They fit together if the file did not change meanwhile.
    """
    for _ in range(_TRIES):
        before = os.stat(path)
        shutil.copyfile(path, copy)
        pathlib.Path(f'{copy}-wal').write_bytes(_read_changes(path))
        after = os.stat(path)
        if (before.st_ino, before.st_mtime_ns) == (
            after.st_ino,
            after.st_mtime_ns,
        ):
            return


def _read_changes(path: str) -> bytes:
    try:
        return pathlib.Path(f'{path}-wal').read_bytes()
    except FileNotFoundError:
        return b''
