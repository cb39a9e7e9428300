# SPDX-License-Identifier: Apache-2.0

"""Tests of how events are put in order, for many subscriptions."""

import json
from typing import Any

import sqlalchemy as sa

from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import news
from nova_ext_resources.reservation.store import tables
from tests.unit.reservation.manager import notifiers
from tests.unit.reservation.store import stores


class ManyTest(notifiers.NotifyingTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.statements: list[str] = []

    def fill(self, number: int) -> None:
        """Make as many subscriptions of other projects."""
        made = self.subscribe(project='other')
        with self.database.transaction() as connection:
            query = sa.select(tables.SUBSCRIPTIONS).where(
                tables.SUBSCRIPTIONS.c.subscription == made.uuid
            )
            row = dict(connection.execute(query).one()._mapping)
            connection.execute(
                sa.insert(tables.SUBSCRIPTIONS),
                [
                    {**row, 'subscription': f'{one}', 'project': f'p{one}'}
                    for one in range(number)
                ],
            )

    def count(self, database: databases.Database) -> None:
        def note(*args: Any) -> None:
            self.statements.append(args[2])

        sa.event.listen(database.engine, 'before_cursor_execute', note)

    def test_an_event_that_concerns_none_of_many(self) -> None:
        self.fill(200)
        database = databases.Database(self.url)
        manager = self.make_manager(database)
        manager.run()
        self.count(database)
        self.reserve('one', project='nobody')
        manager.run()

        self.assertLess(len(self.statements), 60)
        self.assertEqual([], stores.dump(self.url)['events'])
        self.assertEqual([], self.receiver.got)

    def test_no_subscription_is_read_under_the_lock(self) -> None:
        self.fill(20)
        self.reserve('one', project='nobody')
        database = databases.Database(self.url)
        self.count(database)
        news.give_positions(database, int(self.time.clock) + 50)

        under = self.statements[
            next(
                number
                for number, one in enumerate(self.statements)
                if one.startswith('UPDATE positions')
            ) :
        ]
        self.assertTrue(under)
        for one in under:
            self.assertNotIn('secret', one)
            if 'FROM subscriptions' in one:
                self.assertIn('LIMIT', one)

    def test_one_that_is_made_while_events_are_put_in_order(self) -> None:
        """It is told of all that comes after it, also by who read before."""
        self.reserve('before', after=0, seconds=5000)
        database = databases.Database(self.url)
        self.subscribe(events=['reservation.ending'], remaining=['1m'])
        read = news._read_remaining

        def create(*args: Any) -> Any:
            self.patch(news, '_read_remaining', read)
            found = read(*args)
            self.subscribe(
                events=['reservation.ending'], remaining=['1h', '5m']
            )
            self.time.pass_by(2000)
            return found

        self.patch(news, '_read_remaining', create)
        news.give_positions(database, int(self.time.clock) + 2000)
        self.make_manager().run()

        self.assertEqual(['reservation.ending'], self.receiver.kinds)
        self.assertEqual(
            3600, json.loads(self.receiver.got[0].body)['data']['seconds_left']
        )
