# SPDX-License-Identifier: Apache-2.0

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.host.reconcile import repair
from nova_ext_resources.objects import alarm
from nova_ext_resources.testing import fake_clock
from tests import base

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other


class RecoveriesTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.now = 50.0
        self.recoveries = repair.Recoveries(
            clock=fake_clock.FakeClock(lambda: self.now)
        )
        self.recoveries.note(SERVER, '2 CUSTOM_LLC_WAYS of L3_0 (mask 60)')

    def list_recent(self, *held: str) -> list[str]:
        return [one.subject for one in self.recoveries.list_recent(held)]

    def test_it_names_server_and_resources(self) -> None:
        (problem,) = self.recoveries.list_recent([SERVER])

        self.assertEqual(
            (alarm.APPLIED_AGAIN, SERVER), (problem.alarm, problem.subject)
        )
        for words in (SERVER, '2 CUSTOM_LLC_WAYS of L3_0 (mask 60)'):
            self.assertIn(words, problem.text)

    def test_it_is_reported_for_a_while(self) -> None:
        self.now += repair.SHOWN - 1
        self.assertEqual([SERVER], self.list_recent(SERVER))

        self.now += 1

        self.assertEqual([], self.list_recent(SERVER))

    def test_from_the_last_loss_on(self) -> None:
        self.now += repair.SHOWN - 1
        self.recoveries.note(SERVER, '3 CUSTOM_LLC_WAYS of L3_0 (mask 70)')
        self.now += repair.SHOWN - 1

        (problem,) = self.recoveries.list_recent([SERVER])

        self.assertIn('mask 70', problem.text)

    def test_of_a_server_that_has_left_nothing_is_reported(self) -> None:
        self.recoveries.note(OTHER, '1 CUSTOM_LLC_WAYS of L3_0 (mask 2)')

        self.assertEqual([OTHER], self.list_recent(OTHER))
        self.assertEqual([OTHER], self.list_recent(SERVER, OTHER))
