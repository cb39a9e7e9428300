# SPDX-License-Identifier: Apache-2.0

"""Reading a ledger beside the process that writes it."""

import contextlib
import pathlib
import sqlite3

from nova_ext_resources.host.ledger import schema
from nova_ext_resources.objects import assignment


def read_entries(path: str) -> dict[str, assignment.Entry]:
    """Return all entries of a ledger by consumer uuid, read only."""
    uri = f'{pathlib.Path(path).resolve().as_uri()}?mode=ro'
    with contextlib.closing(
        sqlite3.connect(uri, uri=True, isolation_level=None)
    ) as db:
        db.row_factory = sqlite3.Row
        return schema.read(db)
