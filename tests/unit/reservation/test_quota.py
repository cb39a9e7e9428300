# SPDX-License-Identifier: Apache-2.0

"""Tests of what counts against a quota, and of what is left of it."""

from typing import Any

from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import quota
from tests import base
from tests.unit.reservation import hosts

HOUR, DAY = quota.HOUR, quota.DAY

#: Of all quotas here: ten days.
WINDOW = 10 * DAY


def make_charge(
    start: int, end: int, since: int | None = None, **fields: Any
) -> quota.Charge:
    """Make a charge of one unit, with times in days."""
    return quota.Charge(
        **{
            'reservation': 'other',
            'resource_class': 'VCPU',
            'amount': 1,
            'starts_at': start * DAY,
            'ends_at': end if end == interval.FOREVER else end * DAY,
            'reserved_from': (start if since is None else since) * DAY,
            **fields,
        }
    )


def make_account(
    unit_hours: int, *charges: quota.Charge, resource_class: str = 'VCPU'
) -> quota.Account:
    return quota.Account(
        quotas=(
            quota.Quota(
                project='red',
                resource_class=resource_class,
                unit_hours=unit_hours,
                days=10,
            ),
        ),
        charges=charges,
    )


def make_request(start: int, end: int, **fields: Any) -> plan_request.Request:
    """Make a request of four VCPU per server, with times in hours."""
    last = end if end == interval.FOREVER else end * HOUR
    return hosts.make_request(
        'lease', hosts.span(start * HOUR, last), project='red', **fields
    )


class CountTest(base.TestCase):
    def check(self, charge: quota.Charge, *wanted: tuple[int, int]) -> None:
        """Compare days at times, which are days too."""
        for now, days in wanted:
            found = charge.count_seconds(now * DAY, WINDOW)

            self.assertEqual(days, found / DAY, f'day {now}')

    def test_what_is_ahead_counts_however_far(self) -> None:
        self.check(make_charge(50, 70), (0, 20), (50, 20), (60, 20))

    def test_what_is_over_counts_for_the_days_of_the_quota(self) -> None:
        self.check(make_charge(50, 70), (61, 19), (79, 1), (80, 0), (999, 0))

    def test_what_has_no_end_counts_for_as_long(self) -> None:
        charge = make_charge(50, interval.FOREVER)

        self.check(charge, (0, 10), (50, 10), (55, 10), (999, 10))

    def test_a_later_part_of_what_has_no_end(self) -> None:
        charge = make_charge(56, interval.FOREVER, since=50)

        # With the six days before it: ten in all.
        self.check(charge, (56, 4), (60, 4), (62, 6), (66, 10), (999, 10))

    def test_each_unit_counts(self) -> None:
        self.check(make_charge(50, 51, amount=7), (0, 7))

    def test_what_is_left_of_it_when_it_is_released(self) -> None:
        charge = make_charge(50, 70)

        for now, end in ((51, 51), (70, 70), (99, 70)):
            left = charge.cut(now * DAY)
            assert left
            self.assertEqual(end * DAY, left.ends_at)
        self.assertIsNone(charge.cut(50 * DAY))
        self.assertIsNone(charge.cut(0))


class LimitTest(base.TestCase):
    """A server of four VCPU takes four unit-hours an hour."""

    def allow(
        self,
        account: quota.Account,
        request: plan_request.Request,
        now: int = 0,
        wanted: int = 0,
    ) -> int:
        """Return how many servers are allowed."""
        found = account.limit(request, now * HOUR, wanted)
        self.assertEqual(request.least, found.least)
        return found.most

    def refuse(self, *args: Any, **kwargs: Any) -> errors.QuotaExceeded:
        err = self.assertRaises(
            errors.QuotaExceeded, self.allow, *args, **kwargs
        )
        assert isinstance(err, errors.QuotaExceeded)
        return err

    def test_all_of_it_may_be_reserved_and_no_more(self) -> None:
        request = make_request(0, 10, least=2)

        self.assertEqual(2, self.allow(make_account(80), request))
        self.refuse(make_account(79), request)

    def test_what_counts_already(self) -> None:
        other = make_charge(0, 1)
        request = make_request(0, 10)

        self.assertEqual(1, self.allow(make_account(64, other), request))
        self.refuse(make_account(63, other), request)

    def test_charges_for_other_classes_do_not(self) -> None:
        other = make_charge(0, 1, resource_class='MEMORY_MB')

        self.allow(make_account(40, other), make_request(0, 10))

    def test_a_quota_for_another_class_is_not_in_the_way(self) -> None:
        account = make_account(0, resource_class='MEMORY_MB')

        self.assertEqual(9, self.allow(account, make_request(0, 9, most=9)))

    def test_no_quota(self) -> None:
        self.assertEqual(
            9, self.allow(quota.Account(), make_request(0, 9, most=9))
        )

    def test_more_servers_come_as_far_as_it_goes(self) -> None:
        request = make_request(0, 10, least=2, most=9)

        self.assertEqual(3, self.allow(make_account(150), request))
        self.assertEqual(9, self.allow(make_account(999), request))
        self.refuse(make_account(150), request, wanted=4)

    def test_what_has_no_end_counts_for_the_days_of_the_quota(self) -> None:
        request = make_request(5, interval.FOREVER)

        self.allow(make_account(960), request)
        self.refuse(make_account(959), request)

    def test_zero_allows_nothing(self) -> None:
        err = self.refuse(make_account(0), make_request(0, 1))

        self.assertEqual((0, 0), (err.fitting, err.longest))
        self.assertIn('Nothing can be had', str(err))

    def test_a_change_gives_back_what_is_ahead(self) -> None:
        own = make_charge(1, 2, reservation='lease', amount=4)
        account = make_account(96, own)

        self.allow(account, make_request(30, 54))
        self.refuse(account, make_request(30, 55))

    def test_a_change_does_not_give_back_what_is_over(self) -> None:
        own = make_charge(0, 1, reservation='lease', amount=4)
        account = make_account(96, own)

        self.allow(account, make_request(0, 24), now=12)
        self.refuse(account, make_request(0, 25), now=12)

    def test_what_does_not_grow_is_allowed_however_low_it_became(
        self,
    ) -> None:
        own = make_charge(1, 2, reservation='lease', amount=8)
        account = make_account(5, own)

        self.assertEqual(2, self.allow(account, make_request(24, 48, least=2)))
        self.assertEqual(1, self.allow(account, make_request(24, 72)))
        self.refuse(account, make_request(24, 49, least=2))

    def test_what_has_no_end_and_has_run_for_long(self) -> None:
        own = make_charge(0, interval.FOREVER, reservation='lease', amount=8)
        account = make_account(0, own)
        shorter = make_request(0, 24 * 40, least=1)

        # Nothing more than the ten days that count anyway.
        self.allow(account, make_request(0, interval.FOREVER), now=24 * 30)
        self.refuse(account, shorter, now=24 * 30)

    def test_what_is_said(self) -> None:
        err = self.refuse(
            make_account(100, make_charge(0, 1)),
            make_request(0, 10, least=3),
        )

        self.assertEqual((1, 22800), (err.fitting, err.longest))
        self.assertEqual(
            'Reservation lease exceeds what project red may reserve.\n'
            'VCPU: 120 unit-hours requested, 76 left (24 of 100 '
            'are reserved or were in the last 10 days).\n'
            '1 can be had for that time.\n'
            '3 can be had for 6h20m.',
            str(err),
        )
        (shortage,) = err.shortages
        self.assertEqual(120 * HOUR, shortage.asked)
        self.assertEqual(24 * HOUR, shortage.use.used)

    def test_what_is_offered_is_allowed(self) -> None:
        account = make_account(100, make_charge(0, 1))
        err = self.refuse(account, make_request(0, 10, least=3))

        self.allow(account, make_request(0, 10, least=err.fitting))
        for more, is_allowed in ((0, True), (1, False)):
            during = hosts.span(0, err.longest + more)
            request = hosts.make_request(
                'lease', during, project='red', least=3
            )
            if is_allowed:
                self.allow(account, request)
            else:
                self.refuse(account, request)

    def test_the_time_that_is_offered_to_what_has_started(self) -> None:
        own = make_charge(0, 1, reservation='lease', amount=4)
        account = make_account(100, own)

        err = self.refuse(account, make_request(0, 30), now=12)

        self.assertEqual(25 * HOUR, err.longest)


class NumbersTest(base.TestCase):
    def test_hours_are_rounded_to_the_safe_side(self) -> None:
        for seconds, down, up in (
            (0, '0', '0'),
            (3600, '1', '1'),
            (5400, '1.5', '1.5'),
            (3601, '1', '1.01'),
            (7199, '1.99', '2'),
            (10**25 * 3600, f'{10**25}', f'{10**25}'),
        ):
            self.assertEqual(down, quota.format_hours(seconds))
            self.assertEqual(up, quota.format_hours(seconds, is_up=True))

    def test_what_is_no_quota(self) -> None:
        for fields in (
            {'unit_hours': -1},
            {'unit_hours': 1.5},
            {'unit_hours': True},
            {'unit_hours': quota.MAX_UNIT_HOURS + 1},
            {'unit_hours': 1, 'days': 0},
            {'unit_hours': 1, 'days': quota.MAX_DAYS + 1},
        ):
            with self.subTest(**fields):
                values: Any = {
                    'project': 'red',
                    'resource_class': 'VCPU',
                    **fields,
                }
                err = self.assertRaises(ValueError, quota.Quota, **values)

                self.assertIn('must be a whole number from', str(err))
