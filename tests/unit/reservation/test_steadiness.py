# SPDX-License-Identifier: Apache-2.0

"""Tests of when a clock is trusted."""

from nova_ext_resources.reservation import steadiness
from tests import base

WAIT = 300


class SteadinessTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.steadiness = steadiness.Steadiness(WAIT)

    def observe(self, clock: float, passed: float) -> tuple[float, bool]:
        """Return the step, and whether the clock is trusted then."""
        step = self.steadiness.observe(clock, passed)
        return step, self.steadiness.is_steady(passed)

    def test_nothing_is_known_before_the_first_reading(self) -> None:
        self.assertFalse(self.steadiness.is_steady(1000))

    def test_a_clock_is_trusted_once_it_has_been_watched(self) -> None:
        for passed, wanted in ((0, False), (WAIT - 1, False), (WAIT, True)):
            with self.subTest(passed=passed):
                found = self.observe(5000 + passed, passed)

                self.assertEqual((0, wanted), found)

    def test_a_step_either_way_begins_the_wait_anew(self) -> None:
        for step in (3600, -3600, steadiness.MAX_STEP + 1):
            with self.subTest(step=step):
                self.steadiness = steadiness.Steadiness(WAIT)
                self.observe(0, 0)
                self.assertEqual((0, True), self.observe(WAIT, WAIT))

                after = self.observe(WAIT + 10 + step, WAIT + 10)
                late = self.observe(2 * WAIT + 9 + step, 2 * WAIT + 9)
                again = self.observe(2 * WAIT + 10 + step, 2 * WAIT + 10)

                self.assertEqual((step, False), after)
                self.assertEqual((0, False), late)
                self.assertEqual((0, True), again)

    def test_a_clock_that_is_slewed_makes_no_step(self) -> None:
        drift = 0.001
        for passed in range(0, 10 * WAIT, 60):
            step, _is_steady = self.observe(passed * (1 + drift), passed)
            self.assertEqual(0, step)
        self.assertTrue(self.steadiness.is_steady(10 * WAIT))

    def test_no_wait_trusts_the_first_reading(self) -> None:
        self.steadiness = steadiness.Steadiness(0)

        self.assertEqual((0, True), self.observe(5, 5))
