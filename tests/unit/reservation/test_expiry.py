# SPDX-License-Identifier: Apache-2.0

"""Tests of what is left of a reservation that was not used in time."""

import dataclasses

from nova_ext_resources.reservation import expiry
from nova_ext_resources.reservation import planned_server
from tests import base
from tests.unit.reservation import hosts

DURING = hosts.span(1000, 2000)


def make_slot(
    key: str, consumer: str | None = None
) -> planned_server.PlannedServer:
    return planned_server.PlannedServer(
        key=key, host='a', during=DURING, assignments=(), consumer=consumer
    )


class ExpiryTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.request = hosts.make_request(
            'lease', DURING, least=2, most=3, expires_after=100
        )

    def test_when_it_is_due(self) -> None:
        never = dataclasses.replace(self.request, expires_after=None)
        for request, now, wanted in (
            (self.request, 1099, False),
            (self.request, 1100, True),
            (self.request, 1999, True),
            (self.request, 2000, False),
            (never, 1999, False),
        ):
            with self.subTest(now=now):
                found = expiry.is_due(request, DURING, now)

                self.assertIs(wanted, found)

    def test_it_counts_from_the_start_that_was_planned(self) -> None:
        later = hosts.span(1500, 2500)

        self.assertFalse(expiry.is_due(self.request, later, 1599))
        self.assertTrue(expiry.is_due(self.request, later, 1600))

    def test_time_in_which_it_was_degraded_does_not_count(self) -> None:
        for gaps, wanted in (
            ([], 1100),
            ([(900, 1000)], 1100),
            ([(900, 1010)], 1110),
            ([(1050, 1060), (1105, 1200)], 1205),
            ([(1099, 1500)], 1501),
            ([(1100, 1500)], 1100),
        ):
            with self.subTest(gaps=gaps):
                spans = [hosts.span(*one) for one in gaps]

                found = expiry.find_time(self.request, 1000, spans)

                self.assertEqual(wanted, found)
                self.assertFalse(
                    expiry.is_due(self.request, DURING, wanted - 1, spans)
                )
                self.assertTrue(
                    expiry.is_due(self.request, DURING, wanted, spans)
                )

    def test_nothing_is_left_if_nothing_is_taken(self) -> None:
        held = [make_slot('x/0'), make_slot('x/1')]

        left = expiry.expire(self.request, held)

        self.assertIsNone(left.request)
        self.assertEqual(tuple(held), left.released)
        self.assertEqual(
            'none of 2 servers was created by 1970-01-01T00:18:20Z',
            left.reason,
        )

    def test_what_is_taken_is_left(self) -> None:
        held = [make_slot('x/0', 'one'), make_slot('x/1'), make_slot('x/2')]

        left = expiry.expire(self.request, held)

        self.assertEqual(
            dataclasses.replace(
                self.request, least=1, most=1, expires_after=None
            ),
            left.request,
        )
        self.assertEqual(tuple(held[1:]), left.released)
        self.assertIn('only 1 of 3 servers', left.reason)

    def test_what_is_wholly_taken_expires_no_more(self) -> None:
        held = [make_slot('x/0', 'one'), make_slot('x/1', 'two')]

        left = expiry.expire(self.request, held)

        self.assertEqual((), left.released)
        self.assertEqual(
            (2, 2, None),
            (
                left.request and left.request.least,
                left.request and left.request.most,
                left.request and left.request.expires_after,
            ),
        )

    def test_seconds_that_make_no_sense(self) -> None:
        for seconds in (0, -1, 1.5, True):
            with self.subTest(seconds=seconds):
                self.assertRaises(
                    ValueError,
                    dataclasses.replace,
                    self.request,
                    expires_after=seconds,
                )
