# SPDX-License-Identifier: Apache-2.0

"""Tests of which state may follow which."""

from nova_ext_resources import exception
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

    def test_what_has_started_is_not_pending_again(self) -> None:
        err = self.assertRaises(
            exception.StateRefused,
            state.check_next,
            'lease',
            State.ACTIVE,
            State.PENDING,
        )

        self.assertEqual(
            'Reservation lease is active and cannot become pending; it can '
            'become: active, cancelled, degraded, ended, expired.',
            str(err),
        )
