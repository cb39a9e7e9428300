# SPDX-License-Identifier: Apache-2.0

"""Tests of intervals: whole seconds, half open, from dates of any zone."""

import datetime
import random
from typing import NamedTuple

from nova_ext_resources.reservation import interval
from tests import base


def make_date(
    *given: int, hours: int = 0, microsecond: int = 0
) -> datetime.datetime:
    zone = datetime.timezone(datetime.timedelta(hours=hours))
    year, month, day, hour = given
    return datetime.datetime(
        year, month, day, hour, microsecond=microsecond, tzinfo=zone
    )


class IntervalTest(base.TestCase):
    def test_intervals_that_touch_do_not_overlap(self) -> None:
        one, other = interval.Interval(0, 10), interval.Interval(10, 20)

        self.assertFalse(one.overlaps(other))
        self.assertFalse(other.overlaps(one))
        self.assertTrue(one.overlaps(interval.Interval(9, 10)))

    def test_an_end_that_is_not_after_the_start_is_refused(self) -> None:
        for end in (0, -1, interval.ALWAYS):
            error = self.assertRaises(ValueError, interval.Interval, 0, end)
            self.assertIn('not after the start', str(error))

    def test_what_is_no_whole_second_is_refused(self) -> None:
        for wrong in (0.5, '0', None, True, 1 << 63, -(1 << 63)):
            self.assertRaises(ValueError, interval.Interval, wrong, 10)
            self.assertRaises(ValueError, interval.Interval, 0, wrong)

    def test_without_an_end_it_is_open(self) -> None:
        open_ended = interval.Interval(5)

        self.assertTrue(open_ended.is_open)
        self.assertEqual(interval.FOREVER, open_ended.seconds)
        self.assertEqual(interval.Interval(9), open_ended.shift(9))

    def test_a_shift_keeps_the_length(self) -> None:
        moved = interval.Interval(5, 15).shift(100)

        self.assertEqual(interval.Interval(100, 110), moved)
        self.assertEqual(10, moved.seconds)

    def test_a_leap_day_is_a_day(self) -> None:
        leap = interval.from_datetimes(
            make_date(2028, 2, 28, 0), make_date(2028, 3, 1, 0)
        )
        plain = interval.from_datetimes(
            make_date(2027, 2, 28, 0), make_date(2027, 3, 1, 0)
        )

        self.assertEqual((172800, 86400), (leap.seconds, plain.seconds))

    def test_dates_of_any_zone_are_the_same_second(self) -> None:
        here = interval.from_datetimes(make_date(2027, 1, 1, 2, hours=2))
        there = interval.from_datetimes(make_date(2026, 12, 31, 19, hours=-5))

        self.assertEqual(here, there)
        self.assertEqual('2027-01-01T00:00:00Z to forever', str(here))

    def test_a_date_without_a_zone_is_refused(self) -> None:
        naive = datetime.datetime(2027, 1, 1)

        error = self.assertRaises(ValueError, interval.from_datetimes, naive)

        self.assertIn('2027-01-01T00:00:00 has no time zone', str(error))

    def test_fractions_of_a_second_are_covered(self) -> None:
        covered = interval.from_datetimes(
            make_date(2027, 1, 1, 0, microsecond=999999),
            make_date(2027, 1, 1, 1, microsecond=1),
        )

        self.assertEqual(3601, covered.seconds)

    def test_the_last_date_of_all_can_be_written(self) -> None:
        last = datetime.datetime.max.replace(tzinfo=datetime.UTC)
        found = interval.from_datetimes(make_date(2027, 1, 1, 0), last)

        self.assertLess(found.end, interval.FOREVER)
        self.assertIn('second 2', str(found))


class TableTest(base.TestCase):
    def test_random_intervals(self) -> None:
        rng = random.Random(1)

        def draw() -> interval.Interval:
            start = rng.choice((interval.ALWAYS, *range(-20, 20)))
            length = rng.choice((1, 2, 7, 30, 10**9, interval.FOREVER))
            end = min(max(start, -20) + length, interval.FOREVER)
            return interval.Interval(start, end)

        for _case in range(100):
            table = interval.Table[_Timed]()
            known: dict[str, _Timed] = {}
            for number in range(40):
                one = _Timed(str(number), draw())
                table.put(one)
                table.put(one)
                known[one.key] = one
                if rng.random() < 0.3:
                    gone = known.pop(rng.choice([*known]))
                    table.drop(gone)
                    table.drop(gone)
            for _question in range(10):
                during = draw()
                self.assertEqual(
                    sorted(
                        one.key
                        for one in known.values()
                        if one.during.overlaps(during)
                    ),
                    sorted(one.key for one in table.list_overlapping(during)),
                )
            for one in known.values():
                table.drop(one)
            self.assertEqual({}, {k: v for k, v in table._rows.items() if v})


class _Timed(NamedTuple):
    key: str
    during: interval.Interval
