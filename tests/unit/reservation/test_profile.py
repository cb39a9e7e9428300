# SPDX-License-Identifier: Apache-2.0

"""Tests of profiles beside a list with one number for every second."""

import itertools
from typing import Any

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import profile
from tests import base

#: Seconds at which something may change, and that are compared; in the last
#: one all is as it will be forever.
SECONDS = 20
COMPARED = SECONDS + 1


@st.composite
def intervals(draw: st.DrawFn) -> interval.Interval:
    start = draw(st.integers(min_value=0, max_value=SECONDS - 1))
    end = draw(
        st.one_of(
            st.integers(min_value=start + 1, max_value=SECONDS),
            st.just(interval.FOREVER),
        )
    )
    return interval.Interval(start, end)


changes = st.lists(
    st.tuples(
        st.sampled_from(['add', 'set']),
        intervals(),
        st.integers(min_value=-3, max_value=3),
    ),
    max_size=8,
)


def make_both(given: list[Any]) -> tuple[profile.Profile, list[int]]:
    """Make a profile, and the same second by second."""
    steps, plain = profile.Profile(2), [2] * COMPARED
    for name, during, amount in given:
        getattr(steps, name)(during, amount)
        for second in range(during.start, min(during.end, COMPARED)):
            plain[second] = amount + (plain[second] if name == 'add' else 0)
    return steps, plain


class ProfileTest(base.TestCase):
    @hypothesis.given(changes, intervals())
    def test_it_is_the_list_of_seconds(
        self, given: list[Any], during: interval.Interval
    ) -> None:
        steps, plain = make_both(given)

        seconds = plain[during.start : during.end]
        self.assertEqual(max(seconds), steps.highest(during))
        self.assertEqual(min(seconds), steps.lowest(during))
        listed = [
            value
            for part, value in steps.list_steps(during)
            for _ in range(part.start, min(part.end, COMPARED))
        ]
        self.assertEqual(seconds, listed)

    @hypothesis.given(changes, intervals(), st.integers(-5, 5))
    def test_gaps_are_all_seconds_below_an_amount(
        self, given: list[Any], during: interval.Interval, amount: int
    ) -> None:
        steps, plain = make_both(given)

        gaps = list(steps.list_gaps(during, amount))

        below = {
            second
            for start, end in gaps
            for second in range(start, min(end, COMPARED))
        }
        self.assertEqual(
            {
                second
                for second in range(during.start, min(during.end, COMPARED))
                if plain[second] < amount
            },
            below,
        )
        for (_start, end), (start, _end) in itertools.pairwise(gaps):
            self.assertLess(end, start)

    @hypothesis.given(changes)
    def test_steps_of_one_value_are_one(self, given: list[Any]) -> None:
        steps, plain = make_both(given)

        values = [2, *plain]
        borders = sum(
            one != other for one, other in zip(values, plain, strict=False)
        )
        self.assertEqual(borders + 1, len(steps))

    @hypothesis.given(changes, st.integers(0, SECONDS - 1), intervals())
    def test_what_is_forgotten_changes_nothing_later(
        self, given: list[Any], before: int, during: interval.Interval
    ) -> None:
        steps, plain = make_both(given)

        steps.forget(before)

        steps.add(during, 1)
        for second in range(before, COMPARED):
            at = interval.Interval(second, second + 1)
            raised = during.start <= second < during.end
            self.assertEqual(plain[second] + raised, steps.lowest(at))

    def test_nothing_is_left_of_what_is_taken_back(self) -> None:
        steps = profile.Profile()
        for during in (interval.Interval(1, 5), interval.Interval(3)):
            steps.add(during, 2)
            steps.add(during, -2)

        self.assertEqual(1, len(steps))
