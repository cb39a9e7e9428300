# SPDX-License-Identifier: Apache-2.0

"""Servers that have an entry with less than their flavors request."""

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.objects import alarm
from tests.unit.host import test_restore_failures
from tests.unit.host import with_host

SERVER = uuidsentinel.server


class ShortTest(test_restore_failures.ActingRestoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host.claim(with_host.make_claim(SERVER, 3))
        self.host.apply(SERVER)

    def expect(self, ways: int) -> list[str]:
        """Hear of Nova what the server requests; return who has less."""
        self.restore.expect({SERVER: with_host.make_claim(SERVER, ways)})
        return self.run_round()

    def test_it_is_an_alarm_when_two_answers_say_so(self) -> None:
        self.assertEqual([], self.expect(4))

        self.assertEqual([SERVER], self.expect(4))

        [problem] = self.restore.problems
        self.assertEqual(alarm.NOT_RECORDED, problem.alarm)
        self.assertIn(f'has 3 of 4 {with_host.WAYS}', problem.text)
        self.assertIn('host1', problem.text)

    def test_it_ends_with_the_first_answer_that_does_not(self) -> None:
        self.expect(4)
        self.expect(4)

        self.assertEqual([], self.expect(3))
        self.assertEqual([], self.expect(4))

    def test_one_that_was_resized_since_has_enough(self) -> None:
        self.expect(4)
        self.expect(4)
        self.host.release(SERVER)
        self.host.claim(with_host.make_claim(SERVER, 4))
        self.host.apply(SERVER)

        self.assertEqual([], self.run_round())

    def test_more_than_requested_is_none(self) -> None:
        self.expect(2)

        self.assertEqual([], self.expect(2))

    def test_what_the_compute_node_itself_offers_is_not_counted(self) -> None:
        for doubled in ((with_host.WAYS,), None):
            with self.subTest(doubled=doubled):
                self.patch(
                    self.restore, '_list_doubled', lambda found=doubled: found
                )
                self.expect(4)

                self.assertEqual([], self.expect(4))
