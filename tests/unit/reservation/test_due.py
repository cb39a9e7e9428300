# SPDX-License-Identifier: Apache-2.0

"""Tests of what time brings to a reservation."""

from nova_ext_resources.reservation import due
from nova_ext_resources.reservation import state
from tests import base
from tests.unit.reservation import hosts

State = state.State

DURING = hosts.span(1000, 2000)


class DueTest(base.TestCase):
    def test_what_is_due_when(self) -> None:
        for one, now, wanted in (
            (State.PENDING, 999, None),
            (State.PENDING, 1000, State.ACTIVE),
            (State.PENDING, 2000, State.ENDED),
            (State.ACTIVE, 1000, None),
            (State.ACTIVE, 1999, None),
            (State.ACTIVE, 2000, State.ENDED),
            (State.DEGRADED, 1999, None),
            (State.DEGRADED, 2000, State.ENDED),
            (State.ENDED, 0, None),
            (State.CANCELLED, 3000, None),
            (State.EXPIRED, 1500, None),
        ):
            with self.subTest(one=one, now=now):
                found = due.find_due(one, DURING, now)

                self.assertEqual(wanted, found and found[0])

    def test_an_open_end_never_comes(self) -> None:
        found = due.find_due(State.ACTIVE, hosts.span(5), 1 << 61)

        self.assertIsNone(found)

    def test_a_clock_that_is_not_steady_ends_nothing(self) -> None:
        for one in (State.PENDING, State.ACTIVE, State.DEGRADED):
            with self.subTest(one=one):
                found = due.find_due(one, DURING, 2000, is_steady=False)

                self.assertIsNone(found)
        started = due.find_due(State.PENDING, DURING, 1000, is_steady=False)
        self.assertIsNotNone(started, 'the start can be undone')

    def test_a_start_is_undone_if_the_clock_is_set_back(self) -> None:
        for now, wanted in (
            (999, None),
            (1000 - due.MAX_SKEW, None),
            (999 - due.MAX_SKEW, State.PENDING),
        ):
            with self.subTest(now=now):
                found = due.find_due(State.ACTIVE, DURING, now)

                self.assertEqual(wanted, found and found[0])

    def test_reasons_name_the_time(self) -> None:
        found = [
            due.find_due(one, DURING, now)
            for one, now in (
                (State.PENDING, 1500),
                (State.ACTIVE, 2500),
                (State.ACTIVE, 0),
            )
        ]

        self.assertEqual(
            [
                'its start, 1970-01-01T00:16:40Z, has come',
                'its end, 1970-01-01T00:33:20Z, has come',
                'the clock is before its start, 1970-01-01T00:16:40Z, again',
            ],
            [one[1] for one in found if one],
        )
