# SPDX-License-Identifier: Apache-2.0

"""Tests of how far ahead, and for how long, may be reserved."""

import functools
from typing import Any

from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import limits as limits_mod
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import shortfalls
from tests import base
from tests.unit.reservation import hosts

#: 2030-01-01T00:00Z.
NOW = 1893456000

FOREVER = interval.FOREVER


def span(start: int, end: int = FOREVER) -> interval.Interval:
    """Return an interval by seconds from now."""
    last = end if end == FOREVER else NOW + end
    return hosts.span(NOW + start, last)


class LimitsTest(base.TestCase):
    def check(
        self,
        limits: limits_mod.Limits,
        start: int,
        end: int = FOREVER,
        before: interval.Interval | None = None,
        **fields: Any,
    ) -> str:
        """Return why a request is refused; '' if it is not."""
        request = hosts.make_request('lease', span(start, end), **fields)
        try:
            limits.check(request, NOW, before)
        except errors.LimitExceeded as err:
            return str(err)
        return ''

    def test_without_limits_all_is_allowed(self) -> None:
        limits = limits_mod.Limits()

        self.assertEqual('', self.check(limits, 0))
        self.assertEqual('', self.check(limits, 10**10, delay=FOREVER))

    def test_the_latest_start_is_allowed_and_no_later_one(self) -> None:
        limits = limits_mod.Limits(ahead=86400)

        self.assertEqual('', self.check(limits, 86400))
        self.assertEqual(
            'Reservation lease may not start at 2030-01-02T00:00:01Z: the '
            'latest start is 2030-01-02T00:00:00Z, 1d from now. Choose an '
            'earlier start, or a shorter delay, or ask the operators for '
            'another limit.',
            self.check(limits, 86401),
        )

    def test_a_delay_counts(self) -> None:
        limits = limits_mod.Limits(ahead=100)

        self.assertEqual('', self.check(limits, 40, delay=60))
        self.assertIn('00:01:41Z: the', self.check(limits, 40, delay=61))
        self.assertIn('forever', self.check(limits, 40, delay=FOREVER))

    def test_nothing_ahead(self) -> None:
        limits = limits_mod.Limits(ahead=0)

        self.assertEqual('', self.check(limits, 0))
        self.assertIn('0s from now', self.check(limits, 1))

    def test_the_longest_duration_is_allowed_and_no_longer_one(self) -> None:
        limits = limits_mod.Limits(duration=3600)

        self.assertEqual('', self.check(limits, 50, 3650))
        self.assertEqual(
            'Reservation lease may not last 1h1s: the longest duration is 1h. '
            'Choose an earlier end, or ask the operators for another limit.',
            self.check(limits, 50, 3651),
        )
        self.assertEqual(
            'Reservation lease may not be without an end: the longest '
            'duration is 1h. Name an end, or ask the operators for another '
            'limit.',
            self.check(limits, 50),
        )

    def test_what_is_beyond_it_already_may_stay_and_shrink(self) -> None:
        limits = limits_mod.Limits(ahead=100, duration=100)
        before = span(500, 700)

        self.assertEqual('', self.check(limits, 500, 700, before))
        self.assertEqual('', self.check(limits, 400, 600, before))
        self.assertIn('start at', self.check(limits, 501, 600, before))
        self.assertIn(
            'start at', self.check(limits, 500, 600, before, delay=1)
        )
        self.assertIn('last', self.check(limits, 500, 701, before))
        self.assertIn('without', self.check(limits, 500, before=before))

    def test_what_has_no_end_may_stay_so(self) -> None:
        limits = limits_mod.Limits(duration=100)

        self.assertEqual('', self.check(limits, 0, before=span(0)))
        self.assertEqual('', self.check(limits, 0, 500, before=span(0)))

    def test_as_many_servers_as_it_may_have_or_had(self) -> None:
        limits = limits_mod.Limits(servers=4)
        for most, had, is_allowed in (
            (4, 0, True),
            (5, 0, False),
            (5, 6, True),
            (7, 6, False),
        ):
            with self.subTest(most=most, had=had):
                request = hosts.make_request('lease', span(0), most=most)
                check = functools.partial(
                    limits.check, request, NOW, servers=had
                )
                if is_allowed:
                    check()
                else:
                    self.assertRaises(errors.LimitExceeded, check)

    def test_no_numbers(self) -> None:
        for fields in (
            {'ahead': -1},
            {'duration': 0},
            {'ahead': 1.5},
            {'duration': True},
            {'duration': FOREVER + 1},
        ):
            with self.subTest(**fields):
                wrong: Any = fields
                self.assertRaises(ValueError, limits_mod.Limits, **wrong)


class TrimTest(base.TestCase):
    def refuse(self, earliest: int | None) -> planner.Refusal:
        offer = None
        if earliest is not None:
            during = span(earliest, earliest + 10)
            offer = planner.Plan(during=during, servers=())
        return planner.Refusal(
            during=span(0, 10),
            largest=None,
            earliest=offer,
            shortfalls=shortfalls.Shortfalls((), {}),
        )

    def test_no_time_is_offered_that_would_be_refused(self) -> None:
        limits = limits_mod.Limits(ahead=100)

        for earliest, wanted in ((100, 100), (101, None), (None, None)):
            self.assertEqual(
                self.refuse(wanted), limits.trim(self.refuse(earliest), NOW)
            )

    def test_a_plan_stays(self) -> None:
        plan = planner.Plan(during=span(200), servers=())

        self.assertIs(plan, limits_mod.Limits(ahead=1).trim(plan, NOW))
