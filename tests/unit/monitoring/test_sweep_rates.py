# SPDX-License-Identifier: Apache-2.0

from hypothesis import given
from hypothesis import strategies as st

from nova_ext_resources.drivers.resctrl.kernel import counters
from nova_ext_resources.monitoring import sample
from nova_ext_resources.monitoring import sweep
from tests import base
from tests.unit import strategies  # noqa: F401  (the profile)

DOMAIN = counters.Domain(cache=0)

_counts = st.one_of(
    st.none(), st.integers(min_value=0, max_value=(1 << 64) - 1)
)
_times = st.floats(min_value=-1e6, max_value=1e6)


def make_reading(
    total: int | None, at: float, inode: int = 1, cache: int = 0
) -> sweep.CounterReading:
    return sweep.CounterReading(
        at=at,
        whole_at=at,
        group=counters.GroupCounters(
            inode=inode,
            domains={
                counters.Domain(cache=cache): counters.Counters(
                    total=total, local=total, occupancy=7
                )
            },
        ),
    )


class RatesTest(base.TestCase):
    def make_sample(
        self, before: sweep.CounterReading | None, after: sweep.CounterReading
    ) -> sample.DomainSample:
        (one,) = sweep.make_samples(before, after)
        return one

    def test_a_rate_is_growth_per_second(self) -> None:
        one = self.make_sample(make_reading(100, 5.0), make_reading(500, 7.0))

        self.assertEqual((200.0, 200.0), (one.total_rate, one.local_rate))
        self.assertEqual(
            counters.Counters(total=500, local=500, occupancy=7),
            one.counters,
        )

    def test_nothing_moved_is_a_rate(self) -> None:
        one = self.make_sample(make_reading(100, 5.0), make_reading(100, 7.0))

        self.assertEqual(0.0, one.total_rate)

    def test_there_is_no_rate_without_a_baseline(self) -> None:
        after = make_reading(500, 7.0)

        for before in (
            None,
            make_reading(None, 5.0),
            make_reading(100, 7.0),
            make_reading(100, 8.0),
            make_reading(501, 5.0),
            make_reading(100, 5.0, inode=2),
            make_reading(100, 5.0, cache=1),
        ):
            with self.subTest(before=before):
                one = self.make_sample(before, after)

                self.assertIsNone(one.total_rate)
                self.assertIsNone(one.local_rate)

    def test_there_is_no_rate_without_a_number(self) -> None:
        one = self.make_sample(make_reading(100, 5.0), make_reading(None, 7.0))

        self.assertIsNone(one.total_rate)

    @given(_counts, _counts, _times)
    def test_no_rate_is_negative(
        self, before: int | None, after: int | None, seconds: float
    ) -> None:
        rate = sweep.find_rate(before, after, seconds)

        self.assertTrue(rate is None or rate >= 0)

    @given(
        st.lists(
            st.tuples(
                # A step of the counter, a reset, or no number.
                st.one_of(
                    st.none(),
                    st.just('reset'),
                    st.integers(min_value=0, max_value=1 << 40),
                ),
                st.integers(min_value=1, max_value=60),
            ),
            max_size=30,
        )
    )
    def test_rates_tell_what_was_moved_and_never_more(
        self, steps: list[tuple[int | str | None, int]]
    ) -> None:
        at, count, moved, told = 0.0, 0, 0, 0.0
        before = None
        for step, seconds in steps:
            at += seconds
            if step == 'reset':
                count = 0
            elif isinstance(step, int):
                count += step
                moved += step
            after = make_reading(None if step is None else count, at)
            rate = self.make_sample(before, after).total_rate
            told += (rate or 0.0) * seconds
            before = after

        self.assertLessEqual(told, moved * (1 + 1e-9))
