# SPDX-License-Identifier: Apache-2.0

"""Races and deaths on SQLite."""

from tests.unit.reservation.store import racing
from tests.unit.reservation.store import stores


class SqliteTest(racing.RaceTests, stores.StoreTestCase):
    pass
