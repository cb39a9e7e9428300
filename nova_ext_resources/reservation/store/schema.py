# SPDX-License-Identifier: Apache-2.0

"""Brings the tables of a database up to date."""

import pathlib
import threading

from alembic import command
from alembic import config as alembic_config
from alembic import script
from alembic import util
import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import retry

_MIGRATIONS = pathlib.Path(__file__).parent / 'migrations'

#: Table of Alembic.
_VERSIONS = 'alembic_version'

_UPGRADE = (
    'Stop all programs that use the tables, copy the database, and run '
    '"nova-ext-resources-reservations --upgrade-tables"; or install the '
    'release of the tables.'
)
_UNKNOWN = (
    'This release does not know the version of the tables: install the '
    'release of the tables, or a newer one; if the tables belong to another '
    'service, such as Blazar, name another database in '
    '[ext_resources_reservation] connection.'
)


#: Alembic keeps in globals what it upgrades: of two threads, one would go on
#: with the connection of the other.
_UPGRADING = threading.Lock()


def upgrade(database: databases.Database) -> None:
    """Make the tables, or change them to those of this release.

    Only one process may do so at a time; its threads wait for one another.

    :raises StoreError: the tables are of a newer release, or the database
        refused a statement. SQLite and PostgreSQL
        have undone all; of MariaDB restore a copy
    """
    config = _make_config()
    with _UPGRADING, database.transaction() as connection:
        _check_whole(connection)
        config.attributes['connection'] = connection
        try:
            command.upgrade(config, 'head')
        except util.CommandError as err:
            raise exception.StoreError(
                reason=f'its tables cannot be upgraded: {err}. Install the '
                'release of the tables, or a newer one.'
            ) from err


def ensure(database: databases.Database) -> None:
    """Make the tables in an empty database, and check them otherwise.

    :raises StoreError: they are of another release, or as of :func:`upgrade`
    """
    with database.transaction() as connection:
        is_empty = not sa.inspect(connection).get_table_names()
    if is_empty:
        # Another process may be faster: then it is read anew.
        retry.call(upgrade, database)
    check(database)


def check(database: databases.Database) -> None:
    """Check that the tables are those of this release.

    :raises StoreError: they are not, or the database cannot be read
    """
    wanted = script.ScriptDirectory.from_config(_make_config())
    with database.transaction() as connection:
        found = _find_version(connection)
    if found != wanted.get_current_head():
        known = {one.revision for one in wanted.walk_revisions()}
        raise exception.StoreError(
            reason=f'its tables have version {found or "none"}, and this '
            f'release needs version {wanted.get_current_head()}. '
            + (_UPGRADE if found is None or found in known else _UNKNOWN)
        )


def _check_whole(connection: sa.Connection) -> None:
    names = sa.inspect(connection).get_table_names()
    # It is made before all others.
    if names and _VERSIONS not in names:
        raise exception.StoreError(
            reason=f'the database has tables, such as {min(names)}, but no '
            'version of ours: the creation of the tables was interrupted, a '
            'copy is incomplete, or the database belongs to another program. '
            'Restore a copy; or, if nothing was reserved yet, empty the '
            'database and run this command again.'
        )


def _find_version(connection: sa.Connection) -> str | None:
    # Alembic would log two lines each time.
    if not sa.inspect(connection).has_table(_VERSIONS):
        return None
    query = sa.text('SELECT version_num FROM alembic_version')
    version: str | None = connection.scalar(query)
    return version


def _make_config() -> alembic_config.Config:
    config = alembic_config.Config()
    config.set_main_option('script_location', str(_MIGRATIONS))
    return config
