# SPDX-License-Identifier: Apache-2.0

import pathlib

import sqlalchemy as sa

from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import schema
from nova_ext_resources.reservation.store import tables
from tests import base
from tests.unit.reservation.store import migrated
from tests.unit.reservation.store import stores


def read_all(url: str) -> tuple[list[str], dict[str, list[tuple[str, ...]]]]:
    """Return how tables and indexes are made, and all rows."""
    query = sa.text(
        'SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name'
    )
    with databases.Database(url).transaction() as connection:
        made = [*connection.scalars(query)]
    return made, stores.dump(url)


class MigratedTest(base.TestCase):
    def make_url(self) -> str:
        return f'sqlite:///{self.make_folder()}/reservations.db'

    def test_a_copy_is_what_the_migrations_make(self) -> None:
        copied, made = self.make_url(), self.make_url()

        migrated.make_tables(databases.Database(copied))
        schema.upgrade(databases.Database(made))

        self.assertEqual(read_all(made), read_all(copied))
        schema.check(databases.Database(copied))

    def test_statements_that_are_repeated_make_the_same(self) -> None:
        noted, repeated = self.make_url(), self.make_url()

        statements = migrated._migrate(databases.Database(noted))
        migrated._repeat(databases.Database(repeated), statements)

        self.assertEqual(read_all(noted), read_all(repeated))

    def test_what_is_written_to_one_is_in_no_other(self) -> None:
        first, second = self.make_url(), self.make_url()
        for url in (first, second):
            migrated.make_tables(databases.Database(url))

        with databases.Database(first).transaction() as connection:
            connection.execute(sa.delete(tables.SHARDS))

        self.assertEqual([], stores.dump(first)['shards'])
        self.assertNotEqual([], stores.dump(second)['shards'])
        third = self.make_url()
        migrated.make_tables(databases.Database(third))
        self.assertEqual(read_all(second), read_all(third))

    def test_nothing_but_the_file_is_left(self) -> None:
        folder = pathlib.Path(self.make_folder())

        migrated.make_tables(databases.Database(f'sqlite:///{folder}/one'))

        self.assertEqual(['one'], [one.name for one in folder.iterdir()])
