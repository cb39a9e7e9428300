# SPDX-License-Identifier: Apache-2.0

import itertools
import math

from nova_ext_resources.tuning import level
from tests import base


def make_level(waiting: float, error: float = 0.0) -> level.Level:
    return level.Level(waiting=waiting, error=error)


class LevelTest(base.TestCase):
    def test_who_waits_for_half_of_its_time_takes_twice_as_long(self) -> None:
        self.assertAlmostEqual(math.log(2), make_level(0.5).time)

    def test_at_worst_it_is_slower_than_likely(self) -> None:
        for waiting in (0.01, 0.1, 0.3, 0.5, 0.7, 0.9):
            one = make_level(waiting)
            self.assertGreater(one.worst_time, one.time)

    def test_both_grow_with_waiting_without_a_jump(self) -> None:
        levels = [make_level(i / 200) for i in range(191)]
        for name in ('time', 'worst_time'):
            values = [getattr(one, name) for one in levels]
            steps = [b - a for a, b in itertools.pairwise(values)]
            self.assertGreater(min(steps), 0)
            self.assertLess(max(steps), 0.25)

    def test_an_error_is_the_slope_times_that_of_waiting(self) -> None:
        for waiting in (0.05, 0.2, 0.36, 0.4, 0.6, 0.9):
            one, more = make_level(waiting, 0.01), make_level(waiting + 1e-6)
            self.assertAlmostEqual(
                (more.time - one.time) * 1e4, one.time_error, places=4
            )
            self.assertAlmostEqual(
                (more.worst_time - one.worst_time) * 1e4,
                one.worst_error,
                places=4,
            )

    def test_nothing_waits_all_the_time(self) -> None:
        self.assertEqual(make_level(0.95).time, make_level(1.0).time)


class CompareTest(base.TestCase):
    def test_a_gain_is_likely_and_a_loss_is_at_worst(self) -> None:
        low, high = make_level(0.2), make_level(0.3)

        gain, _error = level.find_gain(high, low)
        loss, _error = level.find_loss(low, high)

        self.assertAlmostEqual(math.log(0.8 / 0.7), gain)
        self.assertGreater(loss, 2 * gain)

    def test_errors_of_both_add_up(self) -> None:
        one = make_level(0.2, 0.01)

        self.assertAlmostEqual(
            one.time_error * math.sqrt(2), level.find_gain(one, one)[1]
        )
        self.assertAlmostEqual(
            one.worst_error * math.sqrt(2), level.find_loss(one, one)[1]
        )
