# SPDX-License-Identifier: Apache-2.0

"""The tables of the ledger: its schema in each version, entries as rows."""

from collections.abc import Iterable
import datetime
import json
import sqlite3
from typing import Any

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects.documents import foreign_data

#: In ``PRAGMA user_version``; incremented when a table changes.
VERSION = 3

_ENTRY_1 = """(
    consumer_uuid TEXT PRIMARY KEY, state TEXT NOT NULL, cpus TEXT,
    enforcers TEXT NOT NULL
) WITHOUT ROWID;
"""

#: Statements that make each version from the one before it.
_UPGRADES = {
    1: f"""
CREATE TABLE entry {_ENTRY_1}
CREATE TABLE assignment (
    consumer_uuid TEXT NOT NULL REFERENCES entry ON DELETE CASCADE,
    rp_uuid TEXT NOT NULL, resource_class TEXT NOT NULL, rp_key TEXT NOT NULL,
    amount INTEGER NOT NULL, units TEXT NOT NULL,
    is_allocated INTEGER NOT NULL,
    PRIMARY KEY (consumer_uuid, rp_uuid, resource_class)
) WITHOUT ROWID;
CREATE TABLE published (rp_uuid TEXT PRIMARY KEY) WITHOUT ROWID;
""",
    2: """
ALTER TABLE entry ADD COLUMN server_uuid TEXT NOT NULL DEFAULT '';
ALTER TABLE entry ADD COLUMN project_id TEXT;
ALTER TABLE entry ADD COLUMN flavor TEXT;
ALTER TABLE entry ADD COLUMN claimed_at TEXT;
UPDATE entry SET server_uuid = consumer_uuid;
""",
    3: """
ALTER TABLE entry ADD COLUMN purpose TEXT NOT NULL DEFAULT 'own';
""",
}

#: Added to a version. Releases that write it without them ignore them.
_ADDED = {
    'published_trait': """
CREATE TABLE published_trait (
    rp_uuid TEXT NOT NULL, trait TEXT NOT NULL, PRIMARY KEY (rp_uuid, trait)
) WITHOUT ROWID;
""",
    'note': """
CREATE TABLE note (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
""",
}

#: A copy, because SQLite drops columns only since 3.35.
_DOWNGRADE = f"""
CREATE TABLE entry_1 {_ENTRY_1}
INSERT INTO entry_1 SELECT consumer_uuid, state, cpus, enforcers FROM entry;
DROP TABLE entry;
ALTER TABLE entry_1 RENAME TO entry;
DROP TABLE IF EXISTS published_trait;
DROP TABLE IF EXISTS note;
"""  # noqa: S608


#: Columns that are fields as they are.
_ENTRY = ('consumer_uuid', 'server_uuid', 'project_id', 'flavor')
_ASSIGNMENT = ('rp_uuid', 'rp_key', 'resource_class', 'amount', 'is_allocated')


class VersionError(ValueError):
    """The tables have, or would have, a version that does not fit."""


def upgrade(db: sqlite3.Connection) -> None:
    """Make the tables, or change those of an older version; all or nothing.

    :raises VersionError: they are of a newer version
    """
    found = check_version(db)
    steps = ''.join(_UPGRADES[one] for one in range(found + 1, VERSION + 1))
    for name, statement in _ADDED.items():
        if not _has_table(db, name):
            steps += statement
    if steps:
        _run(db, steps, VERSION)


def _has_table(db: sqlite3.Connection, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return db.execute(query, [name]).fetchone() is not None


def downgrade(db: sqlite3.Connection) -> None:
    """Change the tables to version 1; all or nothing.

    :raises VersionError: version 1 cannot express an entry
    """
    moved = db.execute(
        "SELECT server_uuid FROM entry WHERE purpose != 'own'"
    ).fetchall()
    if moved:
        raise VersionError(
            'nothing was changed, because servers are being moved between '
            'hosts, and version 1 of the ledger cannot record moves; start '
            'nova-compute of this release, confirm or revert the moves of '
            'these servers, and run this command again: '
            f'{", ".join(one["server_uuid"] for one in moved)}'
        )
    # Else dropping the table would delete the assignments as well.
    db.execute('PRAGMA foreign_keys = OFF')
    _run(db, _DOWNGRADE, 1)


def _run(db: sqlite3.Connection, steps: str, version: int) -> None:
    db.executescript(
        f'BEGIN IMMEDIATE;{steps}PRAGMA user_version = {version};COMMIT;'
    )


def check_version(db: sqlite3.Connection) -> int:
    """Return the version of the tables, 0 when there are none.

    :raises VersionError: this release does not know it
    """
    version: int = db.execute('PRAGMA user_version').fetchone()[0]
    if not 0 <= version <= VERSION:
        raise VersionError(
            f'the ledger has version {version}, but this release writes '
            f'version {VERSION}; install the package that wrote the ledger'
        )
    return version


def dump(db: sqlite3.Connection) -> dict[str, list[sqlite3.Row]]:
    """Return the rows of all tables by name, to compare two connections."""
    names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {
        name: db.execute(f'SELECT * FROM "{name}"').fetchall()  # noqa: S608
        for (name,) in names.fetchall()
    }


def read(db: sqlite3.Connection) -> dict[str, assignment.Entry]:
    """Return all entries by consumer uuid.

    :raises foreign_data.UNREADABLE: a row is malformed
    """
    # Both tables as they are at one moment, beside a writer too.
    db.execute('BEGIN')
    try:
        entries = db.execute('SELECT * FROM entry').fetchall()
        assignments = db.execute('SELECT * FROM assignment').fetchall()
    finally:
        # A damaged file ends the transaction by itself.
        if db.in_transaction:
            db.execute('ROLLBACK')
    by_consumer: dict[str, list[assignment.Assignment]] = {}
    for row in assignments:
        by_consumer.setdefault(row['consumer_uuid'], []).append(
            assignment.Assignment(
                rp_uuid=row['rp_uuid'],
                rp_key=row['rp_key'],
                resource_class=row['resource_class'],
                amount=foreign_data.read_whole(row['amount']),
                units=_read_object(row['units']),
                is_allocated=bool(row['is_allocated']),
            )
        )
    made = (
        _read_entry(row, by_consumer.get(row['consumer_uuid'], ()))
        for row in entries
    )
    return {one.consumer_uuid: one for one in made}


def put(db: sqlite3.Connection, entry: assignment.Entry) -> None:
    """Replace an entry."""
    delete(db, [entry.consumer_uuid])
    _insert(db, 'entry', _write_entry(entry))
    for one in entry.assignments:
        _insert(
            db,
            'assignment',
            {
                'consumer_uuid': entry.consumer_uuid,
                **{name: getattr(one, name) for name in _ASSIGNMENT},
                'units': json.dumps(dict(one.units)),
            },
        )


def _insert(db: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    names, values = ', '.join(row), ', '.join(f':{name}' for name in row)
    db.execute(f'INSERT INTO {table} ({names}) VALUES ({values})', row)  # noqa: S608


def delete(db: sqlite3.Connection, consumer_uuids: Iterable[str]) -> None:
    """Delete entries; unknown ones are skipped."""
    db.executemany(
        'DELETE FROM entry WHERE consumer_uuid = ?',
        [(one,) for one in consumer_uuids],
    )


def _write_entry(entry: assignment.Entry) -> dict[str, Any]:
    cpus, at = entry.cpus, entry.claimed_at
    wishes = {name: dict(keys) for name, keys in entry.enforcers.items()}
    return {
        **{name: getattr(entry, name) for name in _ENTRY},
        'state': entry.state.value,
        'purpose': entry.purpose.value,
        'claimed_at': at and at.isoformat(),
        'cpus': None if cpus is None else bitmask.format_list(cpus),
        'enforcers': json.dumps(wishes),
    }


def _read_entry(
    row: sqlite3.Row, assignments: Iterable[assignment.Assignment]
) -> assignment.Entry:
    cpus, at = row['cpus'], row['claimed_at']
    return assignment.Entry(
        **{name: row[name] for name in _ENTRY},
        state=assignment.State(row['state']),
        purpose=assignment.Purpose(row['purpose']),
        assignments=tuple(assignments),
        claimed_at=None if at is None else _read_time(at),
        cpus=None if cpus is None else bitmask.parse_list(cpus),
        enforcers={
            name: dict(keys)
            for name, keys in _read_object(row['enforcers']).items()
        },
    )


def _read_time(text: str) -> datetime.datetime:
    at = datetime.datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f'{text} has no time zone')
    return at


def _read_object(text: str) -> dict[str, Any]:
    data = foreign_data.load_json(text)
    if not isinstance(data, dict):
        raise ValueError(f'{text} is not a JSON object')
    return data
