# SPDX-License-Identifier: Apache-2.0

"""Tests of transactions, and of what the tables refuse by themselves."""

import pathlib
import sqlite3
import threading
from typing import Any

import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import tables
from tests.unit.reservation.store import stores

RESERVATION = {
    'reservation': 'lease',
    'request': '{}',
    'starts_at': 0,
    'ends_at': 9,
    'project': '',
}
STATE = {
    'reservation': 'lease',
    'number': 0,
    'state': 'pending',
    'changed_at': 0,
    'reason': 'asked for',
}


class RefusalsTest(stores.StoreTestCase):
    """What no program can write, whatever it is."""

    def insert(self, table: sa.Table, **values: Any) -> None:
        with databases.Database(self.url).transaction() as connection:
            connection.execute(sa.insert(table).values(**values))

    def check_refused(self, table: sa.Table, **values: Any) -> None:
        err = self.assertRaises(
            exception.StoreError, self.insert, table, **values
        )
        # To try it again would be of no use.
        self.assertNotIsInstance(err, exception.Retriable)

    def test_a_state_without_a_reason(self) -> None:
        self.insert(tables.RESERVATIONS, **RESERVATION)

        for reason in ('', '  ', None):
            with self.subTest(reason=reason):
                self.check_refused(
                    tables.STATES, **{**STATE, 'reason': reason}
                )

        self.insert(tables.STATES, **STATE)

    def test_a_state_of_no_reservation(self) -> None:
        self.check_refused(tables.STATES, **STATE)

    def test_an_end_that_is_not_after_the_start(self) -> None:
        self.check_refused(
            tables.RESERVATIONS, **{**RESERVATION, 'ends_at': 0}
        )

    def test_the_same_reservation_twice(self) -> None:
        self.insert(tables.RESERVATIONS, **RESERVATION)

        self.assertRaises(
            exception.RevisionMoved,
            self.insert,
            tables.RESERVATIONS,
            **RESERVATION,
        )


class TransactionTest(stores.StoreTestCase):
    def test_an_error_undoes_all(self) -> None:
        before = stores.dump(self.url)
        database = databases.Database(self.url)

        def write() -> None:
            with database.transaction() as connection:
                connection.execute(
                    sa.insert(tables.RESERVATIONS).values(**RESERVATION)
                )
                raise ZeroDivisionError

        self.assertRaises(ZeroDivisionError, write)

        self.assertEqual(before, stores.dump(self.url))

    def read(self, url: str) -> None:
        with databases.Database(url).transaction() as connection:
            connection.execute(sa.select(1))

    def test_a_file_that_cannot_be_made(self) -> None:
        url = f'sqlite:///{self.make_folder()}/no/such/folder.db'

        err = self.assertRaises(exception.StoreError, self.read, url)

        self.assertIn('unable to open database file', str(err))
        self.assertIn('/no/such/folder.db cannot be used', str(err))
        self.assertIn('in a folder that exists', str(err))
        self.assertNotIsInstance(err, exception.Retriable)

    def test_a_file_of_something_else(self) -> None:
        path = pathlib.Path(self.make_folder(), 'notes.txt')
        path.write_text('x' * 1000)

        err = self.assertRaises(
            exception.StoreError, self.read, f'sqlite:///{path}'
        )

        self.assertIn(f'{path} cannot be used: file is not a', str(err))
        self.assertEqual('x' * 1000, path.read_text())

    def test_a_file_that_may_only_be_read(self) -> None:
        database = databases.Database(self.url)
        # What SQLite answers without the right to write; root has it always.
        sa.event.listen(
            database.engine,
            'connect',
            lambda connection, _record: connection.execute(
                'PRAGMA query_only = 1'
            ),
        )

        def write() -> None:
            with database.transaction() as connection:
                connection.execute(
                    sa.insert(tables.RESERVATIONS).values(**RESERVATION)
                )

        err = self.assertRaises(exception.StoreError, write)

        self.assertIn('attempt to write a readonly database', str(err))
        self.assertIn('the user that Nova runs as', str(err))
        self.assertNotIsInstance(err, exception.Retriable)

    def test_a_writer_that_does_not_end(self) -> None:
        self.patch(databases, 'BUSY_SECONDS', 0)
        database = databases.Database(self.url)
        write = sa.insert(tables.RESERVATIONS).values(**RESERVATION)

        def write_too() -> None:
            with database.transaction() as connection:
                connection.execute(write)

        with database.transaction() as other:
            other.execute(write)
            err = self.assertRaises(exception.StoreUnavailable, write_too)

        self.assertIn('Check that it runs', str(err))

    def make_busy_file(self) -> tuple[str, sqlite3.Connection]:
        """Return a new file, and the connection that writes to it."""
        file = f'{self.make_folder()}/new.db'
        other = sqlite3.connect(
            file, isolation_level=None, check_same_thread=False
        )
        self.addCleanup(other.close)
        other.execute('CREATE TABLE theirs (number)')
        other.execute('BEGIN IMMEDIATE')
        return f'sqlite:///{file}', other

    def test_a_new_file_that_another_program_writes_to(self) -> None:
        """SQLite refuses at once to change it to WAL mode."""
        url, other = self.make_busy_file()
        ending = threading.Timer(0.3, other.execute, ['COMMIT'])
        ending.start()
        self.addCleanup(ending.join)

        with databases.Database(url).transaction() as connection:
            mode = connection.scalar(sa.text('PRAGMA journal_mode'))

        self.assertEqual('wal', mode)

    def test_a_new_file_to_which_another_program_writes_on(self) -> None:
        self.patch(databases, 'BUSY_SECONDS', 0)
        url, _other = self.make_busy_file()
        database = databases.Database(url)

        self.assertRaises(
            exception.StoreUnavailable, database.transaction().__enter__
        )

    def test_a_database_without_tables(self) -> None:
        admission = stores.make_admission('sqlite://')

        err = self.assertRaises(
            exception.StoreError, admission.list_changes, 'lease'
        )

        self.assertIn('tables', str(err))


class BoundTest(stores.StoreTestCase):
    """Who boots a server must not wait for a machine that is gone."""

    def test_drivers_are_told_how_long_to_wait(self) -> None:
        for driver, names in (
            (
                'mysql+pymysql',
                ('connect_timeout', 'read_timeout', 'write_timeout'),
            ),
            ('postgresql+psycopg2', ('connect_timeout', 'keepalives_idle')),
        ):
            url = sa.make_url(
                f'{driver}://me:secret@host/name?charset=utf8mb4'
            )

            found = databases.bound(url, 5)

            self.assertEqual('secret', found.password)
            self.assertEqual('utf8mb4', found.query['charset'])
            for name in names:
                self.assertEqual('5', found.query[name], name)

    def test_what_the_url_says_holds(self) -> None:
        url = sa.make_url('mysql+pymysql://host/name?read_timeout=9')

        found = databases.bound(url, 5)

        self.assertEqual('9', found.query['read_timeout'])
        self.assertEqual('5', found.query['connect_timeout'])

    def test_a_wait_for_a_lock_ends_before_that_for_an_answer(self) -> None:
        mysql = databases.list_settings('mysql', 5)
        postgresql = databases.list_settings('postgresql', 5)

        self.assertIn('SET SESSION innodb_lock_wait_timeout = 4', mysql)
        self.assertIn("SET SESSION lock_timeout = '4s'", postgresql)
        self.assertIn("SET SESSION statement_timeout = '5s'", postgresql)
        # None would be for ever.
        self.assertIn(
            "SET SESSION lock_timeout = '1s'",
            databases.list_settings('postgresql', 1),
        )

    def test_another_writer_is_waited_for_as_long(self) -> None:
        for database, seconds in (
            (databases.Database(self.url, 3), 2),
            (databases.Database(self.url), databases.BUSY_SECONDS),
        ):
            with database.transaction() as connection:
                found = connection.scalar(sa.text('PRAGMA busy_timeout'))

            self.assertEqual(seconds * 1000, found)
