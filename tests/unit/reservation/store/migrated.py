# SPDX-License-Identifier: Apache-2.0

"""Databases with the tables of this release, migrated once a process.

The migrations take longer than a short test does. Their statements are the
same each time: a file of SQLite is copied, and a server gets the statements
again that the first of its databases got.
"""

import functools
import pathlib
import tempfile
from typing import Any

import sqlalchemy as sa

from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import schema

#: First words of statements that change something.
_CHANGES = ('ALTER', 'CREATE', 'DELETE', 'DROP', 'INSERT', 'UPDATE')

#: Name of a dialect -> the statements with their parameters, in their order.
_STATEMENTS: dict[str, list[tuple[str, Any]]] = {}


def make_tables(database: databases.Database) -> None:
    """Make in an empty database what the migrations make of it."""
    dialect = database.engine.dialect.name
    if dialect == 'sqlite':
        path = pathlib.Path(str(database.engine.url.database))
        path.write_bytes(_migrate_file())
    elif dialect in _STATEMENTS:
        _repeat(database, _STATEMENTS[dialect])
    else:
        _STATEMENTS[dialect] = _migrate(database)


@functools.cache
def _migrate_file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, 'migrated.db')
        database = databases.Database(f'sqlite:///{path}')
        schema.upgrade(database)
        # Its log goes into the file.
        database.close()
        return path.read_bytes()


def _migrate(database: databases.Database) -> list[tuple[str, Any]]:
    """Return the statements that changed something."""
    found: list[tuple[str, Any]] = []

    def note(*args: Any) -> None:
        _connection, _cursor, statement, parameters, *_rest = args
        if statement.split()[0].upper() in _CHANGES:
            found.append((statement, parameters))

    sa.event.listen(database.engine, 'before_cursor_execute', note)
    schema.upgrade(database)
    sa.event.remove(database.engine, 'before_cursor_execute', note)
    return found


def _repeat(
    database: databases.Database, statements: list[tuple[str, Any]]
) -> None:
    with database.transaction() as connection:
        for statement, parameters in statements:
            connection.exec_driver_sql(statement, parameters or None)
