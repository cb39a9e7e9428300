# SPDX-License-Identifier: Apache-2.0

"""Tests of which state may follow which."""

from nova_ext_resources import exception
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import state
from tests import base

State = state.State


class StateTest(base.TestCase):
    def test_what_is_over_stays_so(self) -> None:
        for over in (State.ENDED, State.EXPIRED, State.CANCELLED):
            self.assertTrue(over.is_final)
            for wanted in State:
                with self.subTest(over=over, wanted=wanted):
                    self.assertRaises(
                        exception.StateRefused,
                        state.check_next,
                        'lease',
                        over,
                        wanted,
                    )

    def test_what_is_not_over_can_end(self) -> None:
        for one in (State.PENDING, State.ACTIVE, State.DEGRADED):
            self.assertFalse(one.is_final)
            for wanted in (State.ENDED, State.EXPIRED, State.CANCELLED, one):
                with self.subTest(one=one, wanted=wanted):
                    state.check_next('lease', one, wanted)

    def test_what_is_over_says_so(self) -> None:
        err = self.assertRaises(
            exception.StateRefused,
            state.check_next,
            'lease',
            State.ENDED,
            State.PENDING,
        )

        self.assertEqual(
            'Reservation lease is ended and cannot become pending: a '
            'reservation in this state no longer changes; make another '
            'reservation.',
            str(err),
        )

    def test_the_clock_is_not_late(self) -> None:
        during = interval.Interval(5, 9)
        for one, now, wanted in (
            (State.PENDING, 4, State.PENDING),
            (State.PENDING, 5, State.ACTIVE),
            (State.DEGRADED, 5, State.DEGRADED),
            (State.DEGRADED, 9, State.ENDED),
            (State.ACTIVE, 8, State.ACTIVE),
            (State.ACTIVE, 4, State.PENDING),
            (State.DEGRADED, 4, State.DEGRADED),
            (State.CANCELLED, 9, State.CANCELLED),
        ):
            with self.subTest(one=one, now=now):
                self.assertEqual(wanted, one.find_now(during, now))
