# SPDX-License-Identifier: Apache-2.0

"""Tests of the capacity test."""

from nova_ext_resources.claims.checks import capacity
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_view
from tests import base
from tests.unit import builders


class TestCapacity(base.TestCase):
    def find(
        self, host: host_view.HostView, request: assignment.ClaimRequest
    ) -> list[exception.Shortfall]:
        test = capacity.CapacityTest(builders.make_trackers())
        return list(test.shortfalls(host, request))

    def test_what_fits_has_no_shortfall(self) -> None:
        self.assertEqual(
            [], self.find(builders.make_view(), builders.make_request())
        )

    def test_units_in_use_are_reported(self) -> None:
        host = builders.make_view(seats=3)
        request = builders.make_request({builders.POOL: {builders.SEATS: 5}})

        [shortfall] = self.find(host, request)

        self.assertEqual(
            (builders.POOL, builders.SEATS, 5, 3),
            (
                shortfall.rp_uuid,
                shortfall.resource_class,
                shortfall.requested,
                shortfall.available,
            ),
        )
        self.assertIn('uses the rest', shortfall.reason)

    def test_scattered_ways_are_reported_as_such(self) -> None:
        host = builders.make_view([0b0101_0101_0111])

        [shortfall] = self.find(host, builders.make_request())

        self.assertEqual(3, shortfall.available)
        self.assertIn(
            '7 units are free, but not side by side', shortfall.reason
        )

    def test_just_enough_ways_that_are_scattered_are_reported_as_such(
        self,
    ) -> None:
        host = builders.make_view([0b0101_0101])

        [shortfall] = self.find(host, builders.make_request())

        self.assertIn(
            '4 units are free, but not side by side', shortfall.reason
        )

    def test_every_provider_that_is_short_is_reported(self) -> None:
        host = builders.make_view([0, 0], clos=0)
        request = builders.make_request(
            {
                builders.L3_0: {builders.WAYS: 2},
                builders.L3_1: {builders.WAYS: 2},
                builders.RDT: {builders.CLOS: 1},
            }
        )

        found = self.find(host, request)

        self.assertEqual(
            {builders.L3_0, builders.L3_1, builders.RDT},
            {shortfall.rp_uuid for shortfall in found},
        )
