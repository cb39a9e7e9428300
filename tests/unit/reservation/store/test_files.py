# SPDX-License-Identifier: Apache-2.0

"""Tests of connections to a file that outlive a transaction."""

import os
import shutil
import threading
from typing import Any

import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import files
from nova_ext_resources.reservation.store import tables
from tests.unit.reservation.store import stores

RESERVATION = {
    'reservation': 'lease',
    'request': '{}',
    'starts_at': 0,
    'ends_at': 9,
    'project': '',
}


class FilesTest(stores.StoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.database = databases.Database(self.url)
        self.addCleanup(self.database.close)
        self.opened: list[Any] = []
        sa.event.listen(
            self.database.engine,
            'connect',
            lambda connection, _record: self.opened.append(connection),
        )

    def count(self) -> int:
        """Return the number of reservations."""
        query = sa.select(sa.func.count()).select_from(tables.RESERVATIONS)
        with self.database.transaction() as connection:
            return connection.scalars(query).one()

    def write(self, key: str) -> None:
        with self.database.transaction() as connection:
            connection.execute(
                sa.insert(tables.RESERVATIONS),
                {**RESERVATION, 'reservation': key},
            )

    def test_the_file_is_opened_once(self) -> None:
        self.write('one')
        self.write('two')

        self.assertEqual(2, self.count())
        self.assertEqual(1, len(self.opened))

    def test_a_transaction_that_fails_leaves_nothing_to_the_next(self) -> None:
        self.write('one')

        self.assertRaises(exception.RevisionMoved, self.write, 'one')
        with self.database.transaction() as connection:
            found = connection.scalar(sa.text('PRAGMA foreign_keys'))
        self.write('two')

        self.assertEqual(1, found)
        self.assertEqual(2, self.count())

    def test_a_file_that_is_replaced_is_opened_anew(self) -> None:
        """As by a copy that is restored: nothing goes into the old one."""
        self.write('one')
        path = self.database.engine.url.database
        other = databases.Database(self.url)
        self.addCleanup(other.close)
        with other.transaction() as connection:
            connection.execute(sa.text('PRAGMA wal_checkpoint(TRUNCATE)'))
        shutil.copy(path, f'{path}.copy')
        self.write('two')

        os.replace(f'{path}.copy', path)
        for suffix in ('-wal', '-shm'):
            os.unlink(f'{path}{suffix}')

        self.assertEqual(1, self.count())
        self.write('three')
        self.assertEqual(2, self.count())

    def test_threads_do_not_wait_for_one_another(self) -> None:
        self.write('one')
        threads = 4 * files._KEPT
        met = threading.Barrier(threads, timeout=30)
        found = []

        def read() -> None:
            with self.database.transaction() as connection:
                query = sa.select(tables.RESERVATIONS.c.reservation)
                keys = connection.scalars(query).all()
                met.wait()
            found.append(keys)

        running = [threading.Thread(target=read) for _ in range(threads)]
        for one in running:
            one.start()
        for one in running:
            one.join()

        self.assertEqual([['one']] * threads, found)
        self.assertLessEqual(self.database.engine.pool.checkedin(), 5)

    def test_a_child_has_connections_of_its_own(self) -> None:
        self.write('one')

        pid = os.fork()
        if not pid:
            try:
                self.write('two')
                os._exit(len(self.opened))
            finally:
                os._exit(9)

        self.assertEqual(2, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        self.assertEqual(2, self.count())
        self.assertEqual(1, len(self.opened))

    def test_other_databases_are_left_alone(self) -> None:
        for url in (
            'sqlite://',
            'sqlite:///file:x?mode=memory&uri=true',
            'mysql+pymysql://me@host/name',
            'postgresql+psycopg2://me@host/name',
        ):
            made = sa.make_url(url)

            self.assertIs(made, files.keep_connections(made))
