# SPDX-License-Identifier: Apache-2.0

"""Tests of rows of subscriptions, such as no request of today makes them."""

from typing import Any

import fixtures
import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import event
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation.store import tables
from tests.unit.reservation.manager import notifiers


class UnreadableTest(notifiers.NotifyingTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=20))
        self.other = self.subscribe(events=['reservation'])

    def write(self, follower: followers.Follower, **values: Any) -> None:
        with self.database.transaction() as connection:
            connection.execute(
                sa.update(tables.SUBSCRIPTIONS)
                .where(tables.SUBSCRIPTIONS.c.subscription == follower.uuid)
                .values(**values)
            )

    def test_what_another_release_knew(self) -> None:
        one = self.subscribe(events=['reservation.created'])
        self.write(one, kinds='["reservation.created", "reservation.sold"]')
        two = self.subscribe(zone='one', resource_class='VCPU', threshold=10)
        self.write(two, resource_class='FROM_LATER', threshold=-1)
        self.have(5)
        self.reserve('lease', after=10**7)

        self.assertTrue(self.make_manager().run())

        self.assertEqual(
            frozenset({event.Kind.CREATED}),
            self.read_follower(one).subscription.kinds,
        )
        self.assertEqual(2, len(self.receiver.got))
        self.assertEqual(3, len(self.subscriptions.list_subscriptions()))

    def test_what_nobody_can_read_is_in_nobodys_way(self) -> None:
        broken = self.subscribe(events=['reservation'])
        self.write(broken, remaining='no list')
        self.write(broken, kinds='["reservation.created"')
        self.reserve('lease', after=10**7)
        manager = self.make_manager()
        manager.run()

        self.assertEqual(1, len(self.receiver.got))
        self.assertIn(f'subscription {broken.uuid} cannot', self.log.output)
        (found,) = self.subscriptions.list_subscriptions()
        self.assertEqual(self.other.uuid, found.uuid)
        self.subscribe()
        self.assertRaises(
            exception.StoreError, self.subscriptions.get, broken.uuid
        )

        self.subscriptions.delete(broken.uuid)
        self.assertRaises(
            errors.SubscriptionNotFound, self.subscriptions.get, broken.uuid
        )

    def test_what_remains_cannot_be_read(self) -> None:
        broken = self.subscribe(events=['reservation'])
        self.write(broken, remaining='no list')
        self.subscribe(events=['reservation.ending'], remaining=['1h'])
        self.reserve('lease', after=0, seconds=4000)
        manager = self.make_manager()
        self.time.pass_by(1000)
        manager.run()

        self.assertIn('reservation.ending', self.receiver.kinds)


class SecretsTest(notifiers.NotifyingTestCase):
    def test_no_error_has_a_secret_or_a_token(self) -> None:
        one = self.subscribe()
        with self.database.transaction() as connection:
            err = self.assertRaises(
                exception.StoreError, self.insert_again, one
            )
            connection.rollback()

        self.assertIn('subscriptions', str(err))
        self.assertNotIn('whsec_', str(err))
        self.assertNotIn('/hook', str(err))

    def insert_again(self, follower: followers.Follower) -> None:
        with self.database.transaction() as connection:
            followers.add(connection, follower)
