# SPDX-License-Identifier: Apache-2.0

"""Tests of which subscriptions a project may make and delete."""

from nova_ext_resources import exception
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation.store import subscriptions
from tests.unit.reservation.manager import notifiers

NOW = notifiers.NOW


class SubscriptionsTest(notifiers.NotifyingTestCase):
    def test_the_limit_of_a_project(self) -> None:
        few = subscriptions.Subscriptions(
            self.database, notifiers.Rules(), lambda: NOW, limit=1
        )
        document = {'url': self.receiver.url}
        for project in ('red', 'blue', '', ''):
            few.create(document, project=project)

        err = self.assertRaises(
            errors.TooManySubscriptions,
            few.create,
            document,
            project='red',
        )
        self.assertIn('red may have 1', str(err))

    def test_one_of_another_project_is_not_deleted(self) -> None:
        one = self.subscribe(project='red')

        self.assertRaises(
            errors.SubscriptionNotFound,
            self.subscriptions.delete,
            one.uuid,
            project='blue',
        )

        self.subscriptions.delete(one.uuid, project='red')

    def test_a_reservation_of_another_project(self) -> None:
        self.reserve('one', project='blue')

        for project, key in (('red', 'one'), ('', 'none')):
            self.assertRaises(
                exception.ReservationNotFound,
                self.subscribe,
                project=project,
                reservation=key,
            )
        self.subscribe(project='blue', reservation='one')

    def test_one_is_told_of_nothing_that_was_before(self) -> None:
        self.subscribe()
        self.reserve('before')
        late = self.subscribe()
        self.make_manager().run()

        self.assertEqual(0, self.read_follower(late).sent)
        self.assertEqual(1, len(self.receiver.got))
