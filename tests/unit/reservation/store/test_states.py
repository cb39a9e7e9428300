# SPDX-License-Identifier: Apache-2.0

"""Tests of the rows of what happened, and of who was told to leave."""

from typing import Any

from nova_ext_resources.reservation import cause as cause_mod
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import notices
from nova_ext_resources.reservation.store import states
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores

Cause = cause_mod.Cause
State = state_mod.State


def make_change(
    state: State = State.DEGRADED, cause: Cause | None = None
) -> states.Change:
    return states.Change(
        state=state, changed_at=1, reason='host a is disabled', cause=cause
    )


class LackTest(base.TestCase):
    def test_why_a_reservation_is_degraded(self) -> None:
        room = make_change(cause=Cause.SHORTAGE)
        host = make_change(cause=Cause.OUTAGE)
        notice = make_change(cause=Cause.NOTICE)
        active = make_change(State.ACTIVE)
        cases: list[tuple[list[states.Change], Any]] = [
            ([make_change(State.PENDING, Cause.OUTAGE)], None),
            ([active, host], host),
            ([room, active, host, notice], host),
            ([room, host, make_change()], host),
            ([host, active], None),
            ([host, active, make_change(), notice], None),
        ]
        for changes, wanted in cases:
            with self.subTest(changes=changes):
                self.assertIs(wanted, states.find_lack(changes))

    def test_words_for_everybody_name_no_host(self) -> None:
        self.assertEqual('host a is disabled', make_change().words)
        for cause in Cause:
            words = make_change(cause=cause).words
            self.assertNotIn('host a', words)
            self.assertTrue(words.strip(), cause)


class GapsTest(base.TestCase):
    def test_when_a_reservation_was_degraded(self) -> None:
        changes = [
            states.Change(state=State(state), changed_at=at, reason='a test')
            for state, at in (
                ('pending', 1),
                ('degraded', 3),
                ('degraded', 4),
                ('active', 7),
                ('degraded', 9),
                ('active', 8),
                ('degraded', 20),
            )
        ]

        self.assertEqual([hosts.span(3, 7)], states.list_gaps(changes))


class NoticesTest(stores.StoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.database = databases.Database(self.url)
        admission = stores.make_admission(self.url)
        for key in ('one', 'two'):
            self.admit(admission, key, hosts.span(10, 20))

    def add(self, key: str, now: int, **hosts: str) -> None:
        with self.database.transaction() as connection:
            notices.add_notices(connection, key=key, hosts=hosts, now=now)

    def test_the_newest_of_each_host_counts(self) -> None:
        self.add('one', 1, x='a', y='a')
        self.add('two', 5, x='a')
        self.add('one', 3, x='b')

        with self.database.transaction() as connection:
            found = notices.read_notices(connection, ['x', 'y', 'z'])
            young = notices.read_notices(connection, ['x', 'y', 'z'], 3)

        self.assertEqual({('x', 'a'): 5, ('x', 'b'): 3, ('y', 'a'): 1}, found)
        self.assertEqual({('x', 'a'): 5, ('x', 'b'): 3}, young)
