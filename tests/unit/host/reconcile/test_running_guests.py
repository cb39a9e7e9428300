# SPDX-License-Identifier: Apache-2.0

import threading

import fixtures

from nova_ext_resources.facts import guest
from nova_ext_resources.host.reconcile import running_guests
from tests import base

ONE = guest.Guest(name='instance-00000001', number=3)


class GuestListTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.free = threading.Event()
        self.addCleanup(self.free.set)
        self.asked = 0
        self.error: Exception | None = None
        self.made = running_guests.GuestList(
            self.ask, host='host1', patience=60
        )

    def ask(self) -> running_guests.Guests:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return {'server': ONE}

    def hang(self) -> running_guests.Guests:
        self.asked += 1
        self.free.wait(60)
        return {'server': ONE}

    def test_each_reader_gets_an_answer_of_its_own(self) -> None:
        for _ in range(2):
            self.assertEqual({'server': ONE}, self.made.read())

        self.assertEqual(2, self.asked)
        self.assertEqual('', self.log.output)

    def test_nothing_is_known_while_the_hypervisor_is_away(self) -> None:
        self.error = OSError('gone')

        for _ in range(2):
            self.assertIsNone(self.made.read())

        self.assertEqual(1, self.log.output.count('OSError: gone'))
        self.error = None
        self.assertEqual({'server': ONE}, self.made.read())
        self.error = OSError('gone')
        self.made.read()
        self.assertEqual(2, self.log.output.count('OSError: gone'))

    def test_nothing_is_known_while_no_thread_can_be_started(self) -> None:
        def fail(_thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with fixtures.MonkeyPatch('threading.Thread.start', fail):
            self.assertIsNone(self.made.read())

        self.assertIn("can't start new thread", self.log.output)
        self.assertEqual({'server': ONE}, self.made.read())

    def test_one_question_at_most_hangs(self) -> None:
        made = running_guests.GuestList(self.hang, host='host1', patience=0.01)

        for _ in range(3):
            self.assertIsNone(made.read())

        self.assertEqual(1, self.asked)
        self.assertIn('no answer within 0.01 s', self.log.output)
