# SPDX-License-Identifier: Apache-2.0

"""A database that takes connections, and says nothing."""

import socket
import time

from nova_ext_resources import exception
from nova_ext_resources.reservation.store import databases
from tests import base

#: The least that libpq takes.
SECONDS = 2


class HangingTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        listening = socket.create_server(('127.0.0.1', 0))
        self.addCleanup(listening.close)
        self.address = f'127.0.0.1:{listening.getsockname()[1]}'

    def check(self, driver: str) -> None:
        database = databases.Database(
            f'{driver}://me:secret@{self.address}/name', SECONDS
        )
        begun = time.monotonic()

        with self.assertRaisesRegex(
            exception.StoreUnavailable, 'does not answer'
        ):
            with database.transaction():
                pass

        self.assertLess(time.monotonic() - begun, 10 * SECONDS)

    def test_mariadb(self) -> None:
        self.check('mysql+pymysql')

    def test_postgresql(self) -> None:
        self.check('postgresql+psycopg2')
