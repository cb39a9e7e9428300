# SPDX-License-Identifier: Apache-2.0

"""Tests of the migrations."""

from concurrent import futures
import json
import logging
import re
import threading
from typing import Any, ClassVar

from alembic import autogenerate
from alembic import command
from alembic import migration
import fixtures
import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import cause
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import documents
from nova_ext_resources.reservation.store import events
from nova_ext_resources.reservation.store import history
from nova_ext_resources.reservation.store import news
from nova_ext_resources.reservation.store import schema
from nova_ext_resources.reservation.store import servers
from nova_ext_resources.reservation.store import shards
from nova_ext_resources.reservation.store import slots
from nova_ext_resources.reservation.store import states
from nova_ext_resources.reservation.store import subscriptions
from nova_ext_resources.reservation.store import tables
from nova_ext_resources.reservation.webhook import rules
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores

Cause = cause.Cause


def read_statements(database: databases.Database) -> dict[str, str]:
    """Return name -> the statement that makes it, without white space."""
    query = sa.text(
        'SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL'
    )
    with database.transaction() as connection:
        return {
            name: re.sub(r'\s+', '', sql)
            for name, sql in connection.execute(query)
            if name != 'alembic_version'
        }


class SchemaTest(base.TestCase):
    def make(self, name: str) -> databases.Database:
        return databases.Database(f'sqlite:///{self.make_folder()}/{name}')

    def test_migrations_from_empty_give_the_tables(self) -> None:
        database, wanted = self.make('migrated'), self.make('made')
        schema.upgrade(database)
        with wanted.transaction() as connection:
            tables.METADATA.create_all(connection)

        self.assertEqual(read_statements(wanted), read_statements(database))

    def test_alembic_finds_no_difference(self) -> None:
        database = self.make('migrated')
        schema.upgrade(database)

        with database.transaction() as connection:
            context = migration.MigrationContext.configure(
                connection, opts={'compare_server_default': True}
            )
            found = autogenerate.compare_metadata(context, tables.METADATA)

        self.assertEqual([], found)

    def test_all_shards_are_there_from_the_beginning(self) -> None:
        database = self.make('migrated')
        schema.upgrade(database)

        with database.transaction() as connection:
            found = shards.read_revisions(connection)

        none = dict.fromkeys(range(64), 0)
        self.assertEqual((none, none), found)

    def test_a_second_upgrade_changes_nothing(self) -> None:
        database = self.make('migrated')
        schema.upgrade(database)
        before = read_statements(database)

        schema.upgrade(database)
        schema.check(database)

        self.assertEqual(before, read_statements(database))

    def test_tables_of_a_newer_release_are_not_upgraded(self) -> None:
        database = self.make('newer')
        schema.upgrade(database)
        with database.transaction() as connection:
            connection.execute(
                sa.text("UPDATE alembic_version SET version_num = 'v99'")
            )

        err = self.assertRaises(exception.StoreError, schema.upgrade, database)

        self.assertIn('v99', str(err))

    def test_an_upgrade_that_fails_leaves_nothing(self) -> None:
        database = self.make('migrated')
        with database.transaction() as connection:
            connection.execute(
                sa.text('CREATE TABLE alembic_version (version_num CHAR(32))')
            )
            tables.STATES.create(connection)

        self.assertRaises(exception.StoreError, schema.upgrade, database)

        self.assertEqual(
            ['alembic_version', 'states'], self._list_tables(database)
        )

    def test_tables_without_a_version_are_left_alone(self) -> None:
        database = self.make('part')
        with database.transaction() as connection:
            tables.STATES.create(connection)

        err = self.assertRaises(exception.StoreError, schema.upgrade, database)

        self.assertIn('such as states, but no version', str(err))
        self.assertEqual(['states'], self._list_tables(database))

    def _list_tables(self, database: databases.Database) -> list[str]:
        with database.transaction() as connection:
            return sorted(sa.inspect(connection).get_table_names())

    def test_a_database_without_tables_is_refused(self) -> None:
        database = self.make('empty')

        err = self.assertRaises(exception.StoreError, schema.check, database)

        self.assertIn('version none', str(err))
        self.assertIn('needs version v09', str(err))

    def test_an_empty_database_gets_its_tables(self) -> None:
        database = self.make('new')

        schema.ensure(database)
        before = read_statements(database)
        schema.ensure(database)

        schema.check(database)
        self.assertEqual(before, read_statements(database))

    def test_a_check_logs_nothing(self) -> None:
        database = self.make('migrated')
        schema.upgrade(database)
        log = self.useFixture(fixtures.FakeLogger(level=logging.DEBUG))

        schema.check(database)

        self.assertEqual('', log.output)

    def test_tables_of_another_release_are_not_touched(self) -> None:
        database = self.make('other')
        schema.upgrade(database)
        with database.transaction() as connection:
            connection.execute(
                sa.text("UPDATE alembic_version SET version_num = 'v99'")
            )

        err = self.assertRaises(exception.StoreError, schema.ensure, database)

        self.assertIn('version v99', str(err))
        self.assertIn('install the release of the tables', str(err))

    def test_the_database_of_another_service_is_named_as_such(self) -> None:
        database = self.make('blazar')
        with database.transaction() as connection:
            connection.execute(
                sa.text('CREATE TABLE alembic_version (version_num TEXT)')
            )
            connection.execute(
                sa.text("INSERT INTO alembic_version VALUES ('35b314cd39ee')")
            )

        err = self.assertRaises(exception.StoreError, schema.ensure, database)

        self.assertIn('version 35b314cd39ee', str(err))
        self.assertIn('another service, such as Blazar', str(err))
        self.assertNotIn('--upgrade-tables', str(err))

    def test_another_process_may_make_the_tables_first(self) -> None:
        database = self.make('new')
        other = databases.Database(str(database.engine.url))
        upgrade = schema.upgrade

        def come_second(mine: databases.Database) -> None:
            self.patch(schema, 'upgrade', upgrade)
            upgrade(other)
            upgrade(mine)

        self.patch(schema, 'upgrade', come_second)

        schema.ensure(database)

        schema.check(other)

    def test_threads_that_make_the_tables_at_the_same_time(self) -> None:
        """As in a service that starts: each opens the store for itself."""
        count = 8
        begun = threading.Barrier(count)

        def ensure(url: str) -> None:
            begun.wait()
            schema.ensure(databases.Database(url))

        with futures.ThreadPoolExecutor(count) as threads:
            for _attempt in range(5):
                url = f'sqlite:///{self.make_folder()}/reservations.db'
                for _done in threads.map(ensure, [url] * count):
                    pass
                schema.check(databases.Database(url))


class FirstTablesTest(stores.StoreTestCase):
    """Tables of version v01, with a reservation of two servers."""

    #: Table -> rows as the first release wrote them.
    ROWS: ClassVar[dict[str, list[dict[str, Any]]]] = {
        'reservations': [
            {
                'reservation': 'lease',
                'request': '{}',
                'starts_at': 5,
                'ends_at': 9,
                'project': 'project',
            }
        ],
        'states': [
            {
                'reservation': 'lease',
                'number': 0,
                'state': 'pending',
                'changed_at': 1,
                'reason': 'a test',
            }
        ],
        'servers': [
            {
                'reservation': 'lease',
                'server': f'lease/{number}',
                'host': host,
                'cpus': cpus,
                'assignments': json.dumps(assignments),
                'starts_at': 5,
                'ends_at': 9,
                'is_held': True,
                'shard': number,
                'revision': 1,
            }
            for number, (host, cpus, assignments) in enumerate(
                [
                    ('a', None, []),
                    (
                        'b',
                        '[1, 2]',
                        [
                            {
                                'rp_uuid': 'b',
                                'rp_key': 'b',
                                'resource_class': 'VCPU',
                                'amount': 4,
                                'units': {},
                                'is_allocated': True,
                            }
                        ],
                    ),
                ]
            )
        ],
    }

    def make_tables(self, database: databases.Database) -> None:
        config = schema._make_config()
        with database.transaction() as connection:
            config.attributes['connection'] = connection
            command.upgrade(config, 'v01')
            for name, rows in self.ROWS.items():
                table = sa.table(name, *map(sa.column, rows[0]))
                connection.execute(sa.insert(table), rows)

    def test_they_are_refused_until_they_are_upgraded(self) -> None:
        database = databases.Database(self.url)

        err = self.assertRaises(exception.StoreError, schema.ensure, database)

        self.assertIn('version v01', str(err))
        schema.upgrade(database)
        schema.ensure(database)

    def test_the_history_begins_with_the_revisions_that_there_are(
        self,
    ) -> None:
        database = databases.Database(self.url)
        number, before = 3, 7
        with database.transaction() as connection:
            connection.execute(
                sa.text(
                    f'UPDATE shards SET revision = {before} '
                    f'WHERE number = {number}'
                )
            )

        schema.upgrade(database)

        with database.transaction() as connection:
            found = [
                history.has_had(connection, {number: revision})
                for revision in (before - 1, before)
            ]
        self.assertEqual([False, True], found)

    def test_rows_stay_and_their_slots_are_free(self) -> None:
        database = databases.Database(self.url)

        schema.upgrade(database)

        with database.transaction() as connection:
            held = servers.read_servers(connection, ['lease'], 0)['lease']
        self.assertEqual(['a', 'b'], [one.host for one in held])
        self.assertEqual(
            [(None, None)] * 2, [(one.consumer, one.taken_at) for one in held]
        )
        self.assertEqual({('b', 'VCPU'): 4}, held[1].places)
        self.assertEqual(frozenset({1, 2}), held[1].cpus)
        taken = slots.take(
            database, 'lease', 'one', lambda held: held[1], now=6
        )
        self.assertEqual('lease/1', taken and taken.key)

    def test_projects_are_charged_for_what_they_hold(self) -> None:
        database = databases.Database(self.url)
        demand = hosts.make_demand(_={'VCPU': 3}, _1={'VCPU': 1, 'PCPU': 2})
        request = hosts.make_request('lease', hosts.span(5, 9), demand)
        with database.transaction() as connection:
            for statement in (
                'UPDATE reservations SET request = :request',
                'INSERT INTO reservations SELECT '
                "'none', request, starts_at, ends_at, '' FROM reservations",
                'INSERT INTO reservations SELECT '
                "'over', request, starts_at, ends_at, project "
                "FROM reservations WHERE reservation = 'lease'",
            ):
                connection.execute(
                    sa.text(statement),
                    {'request': documents.write_request(request)}
                    if ':request' in statement
                    else {},
                )

        schema.upgrade(database)

        rows = [one[1:] for one in stores.dump(self.url)['charges']]
        self.assertEqual(
            [
                ('lease', 'project', 'PCPU', 4, 5, 9, 5),
                ('lease', 'project', 'VCPU', 8, 5, 9, 5),
            ],
            rows,
        )

    def test_what_reasons_said_is_read_for_the_last_time(self) -> None:
        database = databases.Database(self.url)
        rows = [
            ('degraded', 'host a is disabled, with 1 of its servers'),
            ('degraded', 'room is missing on host a: 1 VCPU of provider a'),
            ('degraded', 'servers are told to leave host a, which is: x'),
            ('degraded', 'broken, as host a is'),
            ('active', 'host a is disabled, says a person'),
            ('pending', 'moved: host a is disabled, with 1 of its servers'),
            ('pending', 'moved to make room for reservation other'),
            (
                'active',
                'server x holds nothing in placement; its place on host a is '
                'free for another one',
            ),
            (
                'ended',
                'its end has come; 1 of its servers were not shelved within '
                '24 hours: server x: host a',
            ),
        ]
        with database.transaction() as connection:
            for number, (state, reason) in enumerate(rows, 1):
                connection.execute(
                    sa.text(
                        'INSERT INTO states (reservation, number, state, '
                        'changed_at, reason) '
                        "VALUES ('lease', :number, :state, 1, :reason)"
                    ),
                    {'number': number, 'state': state, 'reason': reason},
                )

        schema.upgrade(database)

        with database.transaction() as connection:
            found = states.list_changes(connection, 'lease')
        self.assertEqual(
            [
                None,
                Cause.OUTAGE,
                Cause.SHORTAGE,
                Cause.NOTICE,
                None,
                None,
                Cause.MOVED,
                Cause.MOVED,
                Cause.FREED,
                Cause.LEFT,
            ],
            [one.cause for one in found],
        )
        self.assertEqual([], stores.dump(self.url)['notices'])

    def test_nobody_is_told_of_what_was_before(self) -> None:
        database = databases.Database(self.url)
        schema.upgrade(database)
        follower = subscriptions.Subscriptions(
            database, rules.PUBLIC, lambda: 7
        ).create({'url': 'https://example.org'})

        news.give_positions(database, 7)

        with database.transaction() as connection:
            self.assertEqual([], events.list_next(connection, follower, 9))

    def test_alembic_finds_no_difference_afterwards(self) -> None:
        database = databases.Database(self.url)

        schema.upgrade(database)

        with database.transaction() as connection:
            context = migration.MigrationContext.configure(connection)
            found = autogenerate.compare_metadata(context, tables.METADATA)
        self.assertEqual([], found)
