# SPDX-License-Identifier: Apache-2.0

"""Tests of the granularity test."""

from nova_ext_resources.claims.checks import granularity
from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from tests import base
from tests.unit import builders

PLACE = builders.POOL, builders.SEATS


class TestGranularity(base.TestCase):
    def find(
        self, tracked: host_view.Tracked, amount: int
    ) -> list[exception.Shortfall]:
        test = granularity.GranularityTest(builders.make_trackers())
        request = builders.make_request({PLACE[0]: {PLACE[1]: amount}})
        host = host_view.HostView(tracked={PLACE: tracked})
        return list(test.shortfalls(host, request))

    def test_an_amount_that_keeps_the_units_has_no_shortfall(self) -> None:
        tracked = builders.make_count(12, min_unit=2, step_size=2)

        self.assertEqual([], self.find(tracked, 4))

    def test_each_broken_rule_is_reported(self) -> None:
        tracked = builders.make_count(12, min_unit=4, max_unit=8, step_size=4)
        for amount, word in ((1, 'at least'), (9, 'at most'), (6, 'multiple')):
            with self.subTest(amount=amount):
                [shortfall] = self.find(tracked, amount)
                self.assertEqual(amount, shortfall.requested)
                self.assertEqual(12, shortfall.available)
                self.assertIn(word, shortfall.reason)

    def test_more_than_there_is_can_never_be_had(self) -> None:
        for fields in ({}, {'max_unit': 20}):
            tracked = builders.make_count(12, 9, **fields)
            with self.subTest(fields=fields):
                [shortfall] = self.find(tracked, 13)

                self.assertTrue(shortfall.is_permanent)
                self.assertIn('12 in total', shortfall.reason)

    def test_what_may_be_allocated_twice_has_room_for_more(self) -> None:
        tracked = builders.make_count(12, max_unit=20, allocation_ratio=2.0)

        self.assertEqual([], self.find(tracked, 13))

    def test_a_published_view_leaves_it_to_placement(self) -> None:
        tracked = host_view.Tracked(
            tracker='count', state=builders.make_count(12).state
        )

        self.assertEqual([], self.find(tracked, 99))

    def test_an_attribute_that_the_tracker_cannot_give_is_reported(
        self,
    ) -> None:
        test = granularity.GranularityTest(builders.make_trackers())
        request = builders.make_request(
            {PLACE[0]: {PLACE[1]: 2}}, attributes={PLACE[1]: {'max': '4'}}
        )
        host = host_view.HostView(tracked={PLACE: builders.make_count(12)})

        [shortfall] = test.shortfalls(host, request)

        self.assertIn(
            'no attribute max; known attributes: none', shortfall.reason
        )
        self.assertTrue(shortfall.is_permanent)
