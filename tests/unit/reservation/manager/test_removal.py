# SPDX-License-Identifier: Apache-2.0

"""Tests of servers that do not go though Nova is asked."""

import dataclasses
import logging

import fixtures

from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import lateness
from nova_ext_resources.reservation.manager import need
from nova_ext_resources.reservation.manager import pauses
from nova_ext_resources.reservation.manager import removal
from nova_ext_resources.reservation.manager import time_budget
from nova_ext_resources.reservation import nova_server
from tests import base
from tests.unit.reservation.manager import clouds
from tests.unit.reservation.manager import test_draining
from tests.unit.reservation import test_lending

START = test_draining.START


class PausesTest(base.TestCase):
    def test_each_is_twice_as_long_up_to_the_longest(self) -> None:
        found, now, ends = pauses.Pauses(10, 60), 1000, []
        for _time in range(5):
            found.begin('x', 'ACTIVE', now, 'words')
            begin = now
            while found.find('x', 'ACTIVE', now) == 'words':
                now += 1
            ends.append(now - begin)

        self.assertEqual([10, 20, 40, 60, 60], ends)

    def test_what_ends_a_pause(self) -> None:
        found = pauses.Pauses(10, 60)
        found.begin('x', 'ACTIVE', 1000)

        self.assertIsNone(found.find('x', 'SHELVED', 1000))
        self.assertIsNone(found.find('y', 'ACTIVE', 1000))
        # The clock was set back.
        self.assertIsNone(found.find('x', 'ACTIVE', 999))
        found.forget(1069)
        self.assertIsNotNone(found.find('x', 'ACTIVE', 1000))
        found.forget(1070)
        self.assertIsNone(found.find('x', 'ACTIVE', 1000))

    def test_another_state_begins_anew(self) -> None:
        found = pauses.Pauses(10, 60)
        for state in ('ACTIVE', 'ACTIVE', 'SHELVED'):
            found.begin('x', state, 1000)

        self.assertIsNotNone(found.find('x', 'SHELVED', 1009))
        self.assertIsNone(found.find('x', 'SHELVED', 1010))


class StubbornCloud(clouds.FakeCloud):
    """Does nothing with its servers.

    :ivar error: with which Nova answers; None if it says nothing
    """

    error: exception.ComputeUnavailable | None = None

    def act(self, uuid: str, action: nova_server.Action) -> None:
        self.asked.append((uuid, action.value))
        if self.error is not None:
            raise self.error


class RemovalTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = StubbornCloud()
        self.cloud.hold('x', 'a', 4)
        self.removal = removal.Removal(self.cloud)

    def run_from(self, begin: int, seconds: int) -> list[int]:
        """Make a pass every five seconds; return when Nova was asked."""
        found = []
        for now in range(begin, begin + seconds, 5):
            before = len(self.cloud.asked)
            self.removal.begin(time_budget.Effort(), now)
            self.missing = self.removal.remove(
                'x', lambda _server: '', is_deleted=False
            )
            if len(self.cloud.asked) > before:
                found.append(now - begin)
        return found

    def test_nova_is_asked_after_pauses_that_grow(self) -> None:
        refusal = exception.ComputeUnavailable(action='act', reason='409')
        for error, words in ((None, 'shelve of server x'), (refusal, '409')):
            with self.subTest(words=words):
                self.cloud.error = error
                self.removal = removal.Removal(self.cloud)

                found = self.run_from(1000, 1400)

                self.assertEqual(
                    [0, 15, 45, 105, 225, 465, 765, 1065], [*found[:8]]
                )
                self.assertIn(words, self.missing)

    def test_it_is_asked_at_once_if_the_server_has_changed(self) -> None:
        self.run_from(1000, 400)
        server = self.cloud.servers['x']
        self.cloud.servers['x'] = dataclasses.replace(server, status='PAUSED')

        self.assertEqual([0, 15], self.run_from(1400, 40))

    def test_nova_that_is_away_is_asked_in_each_pass(self) -> None:
        self.cloud.error = exception.ComputeUnavailable(
            action='act', reason='away', is_away=True
        )

        self.assertEqual([0, 5, 10, 15], self.run_from(1000, 20))


class WarningsTest(test_draining.DrainingTestCase):
    def test_a_server_that_cannot_go_is_named_less_often(self) -> None:
        self.borrow('x', 8)
        server = self.cloud.servers['x']
        self.cloud.servers['x'] = dataclasses.replace(server, status='ERROR')
        log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        words = 'Server x cannot be shelved while its status is ERROR'

        self.run_from(START - 3600, START)
        self.assertEqual(6, log.output.count(words))
        self.cloud.servers['x'] = dataclasses.replace(server, status='ERROR')
        self.run_from(START, START + 3600)

        self.assertEqual(7, log.output.count(words))

    def test_each_reservation_that_has_begun_is_named_at_once(self) -> None:
        log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        late = lateness.Lateness()
        for now, keys, wanted in (
            (START, 'a', 1),
            (START + 30, 'a', 1),
            (START + 31, 'ab', 2),
            (START + 59, 'ab', 2),
            (START + 91, 'ab', 3),
        ):
            with self.subTest(now=now, keys=keys):
                late.report(make_need(now, keys), 'all', now)

                self.assertEqual(wanted, log.output.count('is not free'))


def make_need(start: int, keys: str) -> need.Need:
    """Make a need of one CPU for each reservation."""
    slots = [(key, test_lending.make_slot(f'{key}/0', VCPU=1)) for key in keys]
    return need.Need(
        host='h',
        start=start,
        slots=slots,
        places=frozenset({('a', 'VCPU')}),
        leaving=frozenset(),
        shortage={('a', 'VCPU'): 1},
        uses={},
    )
