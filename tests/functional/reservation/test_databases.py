# SPDX-License-Identifier: Apache-2.0

"""Races, deaths and refusals on database servers, as on SQLite."""

import random
import string
import time
from typing import Any, ClassVar

from alembic import autogenerate
from alembic import migration
from dev.cloud.full import database as mariadb
import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import clock
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import progress
from nova_ext_resources.reservation.store import tables
from tests.functional.reservation import postgres
from tests.functional.reservation import servers
from tests.unit.reservation.manager import test_deliveries
from tests.unit.reservation.manager import test_notifying
from tests.unit.reservation.manager import test_outages
from tests.unit.reservation.manager import test_outages_planned
from tests.unit.reservation.manager import test_servers
from tests.unit.reservation.manager import test_turn
from tests.unit.reservation.store import racing
from tests.unit.reservation.store import stores
from tests.unit.reservation.store import test_capacity
from tests.unit.reservation.store import test_databases
from tests.unit.reservation.store import test_limits
from tests.unit.reservation.store import test_publications
from tests.unit.reservation.store import test_purge
from tests.unit.reservation.store import test_quotas
from tests.unit.reservation.store import test_records
from tests.unit.reservation.store import test_replacing
from tests.unit.reservation.store import test_schema
from tests.unit.reservation.store import test_slots
from tests.unit.reservation.store import test_states


class OnServer:
    """With a server, and a database for the test."""

    SERVER: ClassVar[Any]

    server: ClassVar[Any]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()  # type: ignore[misc]
        cls.server = cls.find_server()

    @classmethod
    def find_server(cls) -> Any:
        return servers.share(cls.SERVER)

    def make_url(self: Any) -> str:
        # Without digits: oslo.db looks in all of an error's message for the
        # numbers of those that say that MariaDB is out of reach, such as 2003.
        name = ''.join(random.choices(string.ascii_lowercase, k=20))
        self.server.create([name])
        # Each takes megabytes, in memory.
        self.addCleanup(self.server.drop, name)
        return str(self.server.url(name))


class OnMariaDb(OnServer):
    SERVER = mariadb.Database

    def make_url(self) -> str:
        return super().make_url().replace('charset=utf8', 'charset=utf8mb4')


class OnPostgres(OnServer):
    SERVER = postgres.Database


class OnOneOfItsOwn:
    """Mixed into one of these: no other test gets the server.

    For a class that restarts it, or changes what it does by default.
    """

    @classmethod
    def find_server(cls: Any) -> Any:
        server, folder = servers.start(cls.SERVER)
        cls.addClassCleanup(servers.stop, server, folder)
        return server


class ServerTests(racing.RaceTests):
    """What is tested with many processes, or in words of a server."""

    server: Any

    def test_alembic_finds_no_difference(self: Any) -> None:
        with databases.Database(self.url).transaction() as connection:
            context = migration.MigrationContext.configure(connection)
            found = autogenerate.compare_metadata(context, tables.METADATA)

        self.assertEqual([], found)

    def test_the_clock_of_the_server(self: Any) -> None:
        with databases.Database(self.url).transaction() as connection:
            found = clock.read_clock(connection)

        self.assertAlmostEqual(time.time(), found, delta=5)

    def test_keys_differ_by_case_and_reasons_have_any_script(
        self: Any,
    ) -> None:
        admission = stores.make_admission(self.url)
        for key in ('lease', 'Lease'):
            plan = self.admit(admission, key, racing.DURING)
            self.assertIsInstance(plan, planner.Plan)

        reason = 'не нужен 🛑'
        admission.change('Lease', state.State.CANCELLED, now=1, reason=reason)

        self.assertEqual(1, len(admission.list_changes('lease')))
        self.assertEqual(reason, admission.list_changes('Lease')[-1].reason)

    def test_a_name_that_is_too_long_is_not_shortened(self: Any) -> None:
        self.allow_all()

        admission = stores.make_admission(self.url)

        self.assertRaises(
            exception.StoreError,
            self.admit,
            admission,
            300 * 'x',
            racing.DURING,
        )

    def allow_all(self) -> None:
        """Let the server store what it can of what is too long."""

    def test_a_writer_that_does_not_end(self: Any) -> None:
        self.patch(databases, 'BUSY_SECONDS', 1)
        database = databases.Database(self.url)
        write = sa.update(tables.SHARDS).values(revision=1)

        def write_too() -> None:
            with database.transaction() as connection:
                connection.execute(write)

        with database.transaction() as other:
            other.execute(write)
            self.assertRaises(exception.StoreError, write_too)

    def test_a_server_that_restarts_loses_nothing(self: Any) -> None:
        admission = stores.make_admission(self.url)
        self.admit(admission, 'before', racing.DURING, least=3)

        self.server.child.stop()
        err = self.assertRaises(
            exception.StoreUnavailable, admission._refresh, 'x', 0
        )
        self.server.child.start()
        self.server.wait()

        self.assertIn('Check that it runs', str(err))
        refused = self.admit(admission, 'much', racing.DURING, least=2)
        self.assertIsInstance(refused, planner.Refusal)
        last = self.admit(admission, 'last', racing.DURING)
        self.assertIsInstance(last, planner.Plan)


class MariaDbTest(
    OnOneOfItsOwn,
    OnMariaDb,
    ServerTests,
    test_databases.RefusalsTest,
    test_purge.PurgeTest,
):
    def allow_all(self) -> None:
        with databases.Database(self.url).transaction() as connection:
            connection.execute(sa.text("SET GLOBAL sql_mode = ''"))

    def test_a_transaction_reads_the_same_twice(self) -> None:
        """Whatever the server does by default."""
        with databases.Database(self.url).transaction() as connection:
            connection.execute(
                sa.text(
                    'SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED'
                )
            )
        admission = stores.make_admission(self.url)
        self.admit(admission, 'one', racing.DURING)
        with databases.Database(self.url).transaction() as connection:
            before = progress.list_unfinished(connection)
            self.admit(admission, 'two', racing.DURING)
            after = progress.list_unfinished(connection)

        self.assertEqual(['one'], [one.key for one in before])
        self.assertEqual(before, after)


class PostgresTest(
    OnOneOfItsOwn,
    OnPostgres,
    ServerTests,
    test_databases.RefusalsTest,
    test_purge.PurgeTest,
):
    pass


class MariaDbReplaceTest(OnMariaDb, test_replacing.ReplaceTest):
    pass


class PostgresReplaceTest(OnPostgres, test_replacing.ReplaceTest):
    pass


class MariaDbRecordsTest(OnMariaDb, test_records.RecordsTest):
    pass


class PostgresRecordsTest(OnPostgres, test_records.RecordsTest):
    pass


class MariaDbNoticesTest(OnMariaDb, test_states.NoticesTest):
    pass


class PostgresNoticesTest(OnPostgres, test_states.NoticesTest):
    pass


class MariaDbPublicationsTest(OnMariaDb, test_publications.PublicationsTest):
    pass


class PostgresPublicationsTest(OnPostgres, test_publications.PublicationsTest):
    pass


class MariaDbSlotsTest(OnMariaDb, test_slots.SlotsTest):
    pass


class PostgresSlotsTest(OnPostgres, test_slots.SlotsTest):
    pass


class MariaDbUpgradeTest(OnMariaDb, test_schema.FirstTablesTest):
    pass


class PostgresUpgradeTest(OnPostgres, test_schema.FirstTablesTest):
    pass


class MariaDbManagerTest(OnMariaDb, test_turn.TurnTest, test_turn.FaultsTest):
    pass


class PostgresManagerTest(
    OnPostgres, test_turn.TurnTest, test_turn.FaultsTest
):
    pass


class MariaDbCapacityTest(
    OnMariaDb, test_capacity.CapacityTest, test_capacity.RaceTest
):
    # The walk is the same, and each of its steps reads all.
    STEPS = 50


class PostgresCapacityTest(
    OnPostgres, test_capacity.CapacityTest, test_capacity.RaceTest
):
    # The walk is the same, and each of its steps reads all.
    STEPS = 50


class MariaDbQuotasTest(OnMariaDb, test_quotas.QuotasTest):
    pass


class PostgresQuotasTest(OnPostgres, test_quotas.QuotasTest):
    pass


class MariaDbLimitsTest(OnMariaDb, test_limits.LimitsTest):
    pass


class PostgresLimitsTest(OnPostgres, test_limits.LimitsTest):
    pass


class MariaDbSlotsOfManagerTest(
    OnMariaDb, test_servers.ExpiringTest, test_servers.FreeingTest
):
    pass


class MariaDbOutagesTest(
    OnMariaDb, test_outages.OutagesTest, test_outages_planned.CapacityTest
):
    pass


class PostgresSlotsOfManagerTest(
    OnPostgres, test_servers.ExpiringTest, test_servers.FreeingTest
):
    pass


class PostgresOutagesTest(
    OnPostgres, test_outages.OutagesTest, test_outages_planned.CapacityTest
):
    pass


class MariaDbNotifyingTest(
    OnMariaDb, test_notifying.NotifyingTest, test_notifying.RemainingTest
):
    pass


class PostgresNotifyingTest(
    OnPostgres, test_notifying.NotifyingTest, test_notifying.RemainingTest
):
    pass


class MariaDbShortagesTest(OnMariaDb, test_notifying.ShortagesTest):
    pass


class PostgresShortagesTest(OnPostgres, test_notifying.ShortagesTest):
    pass


class MariaDbReceiversTest(OnMariaDb, test_deliveries.ReceiversTest):
    pass


class PostgresReceiversTest(OnPostgres, test_deliveries.ReceiversTest):
    pass


class MariaDbNotifiersTest(OnMariaDb, test_deliveries.ManagersTest):
    pass


class PostgresNotifiersTest(OnPostgres, test_deliveries.ManagersTest):
    pass
