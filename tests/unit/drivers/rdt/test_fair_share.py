# SPDX-License-Identifier: Apache-2.0

"""Tests of the division of what is left."""

from collections.abc import Sequence

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.drivers.rdt import fair_share
from tests import base

demands = st.lists(
    st.tuples(
        st.integers(min_value=0, max_value=10),
        st.integers(min_value=0, max_value=40),
    ).map(lambda one: (one[0], one[0] + one[1])),
    max_size=8,
)

spares = st.integers(min_value=0, max_value=200)

steps = st.integers(min_value=1, max_value=12)


def sum_minimums(given: Sequence[fair_share.Demand]) -> int:
    return sum(least for least, _most in given)


def deal(
    capacity: int, given: Sequence[fair_share.Demand], step: int
) -> tuple[int, ...]:
    """Deal out step by step, always to the first who has got least."""
    spare = capacity - sum_minimums(given)
    amounts = [least for least, _most in given]
    while spare >= step:
        waiting = [
            (amounts[i] - least, i)
            for i, (least, most) in enumerate(given)
            if amounts[i] + step <= most
        ]
        if not waiting:
            break
        amounts[min(waiting)[1]] += step
        spare -= step
    return tuple(amounts)


class TestDivide(base.TestCase):
    @hypothesis.given(given=demands, spare=spares, step=steps)
    def test_it_is_as_if_dealt_out_step_by_step(
        self, given: list[fair_share.Demand], spare: int, step: int
    ) -> None:
        capacity = sum_minimums(given) + spare

        self.assertEqual(
            deal(capacity, given, step),
            fair_share.divide(capacity, given, step),
        )

    @hypothesis.given(given=demands, spare=spares, step=steps)
    def test_everybody_stays_between_minimum_and_maximum(
        self, given: list[fair_share.Demand], spare: int, step: int
    ) -> None:
        capacity = sum_minimums(given) + spare

        amounts = fair_share.divide(capacity, given, step)

        self.assertLessEqual(sum(amounts), capacity)
        for amount, (least, most) in zip(amounts, given, strict=True):
            self.assertLessEqual(least, amount)
            self.assertLessEqual(amount, most)
            self.assertEqual(0, (amount - least) % step)

    @hypothesis.given(given=demands, spare=spares)
    def test_nothing_is_left_that_somebody_could_take(
        self, given: list[fair_share.Demand], spare: int
    ) -> None:
        capacity = sum_minimums(given) + spare

        amounts = fair_share.divide(capacity, given)

        could_take = sum(most for _least, most in given) - sum(amounts)
        self.assertEqual(0, min(could_take, capacity - sum(amounts)))

    def test_the_rest_is_divided_and_not_the_whole(self) -> None:
        self.assertEqual((6, 4), fair_share.divide(10, [(4, 10), (2, 10)]))

    def test_what_one_cannot_take_goes_to_the_others(self) -> None:
        self.assertEqual(
            (3, 7, 7), fair_share.divide(17, [(2, 3), (2, 20), (2, 20)])
        )

    def test_what_does_not_go_round_goes_to_the_first(self) -> None:
        self.assertEqual(
            (1, 3, 3, 2),
            fair_share.divide(9, [(1, 1), (1, 9), (1, 9), (1, 9)]),
        )

    def test_less_than_a_step_stays_free(self) -> None:
        self.assertEqual(
            (40, 30), fair_share.divide(79, [(20, 100), (20, 100)], 10)
        )

    def test_the_minimums_alone_may_fill_it(self) -> None:
        self.assertEqual((3, 5), fair_share.divide(8, [(3, 8), (5, 8)]))

    def test_nobody_gets_nothing(self) -> None:
        self.assertEqual((), fair_share.divide(8, []))

    def test_minimums_that_do_not_fit_are_refused(self) -> None:
        error = self.assertRaises(
            ValueError, fair_share.divide, 7, [(3, 8), (5, 8)]
        )

        self.assertIn('add up to 8, but only 7 units', str(error))

    def test_a_range_that_is_none_is_refused(self) -> None:
        for given in ((3, 2), (-1, 2)):
            with self.subTest(given=given):
                self.assertRaises(ValueError, fair_share.divide, 7, [given])

    def test_a_step_that_is_none_is_refused(self) -> None:
        self.assertRaises(ValueError, fair_share.divide, 7, [(1, 2)], 0)
