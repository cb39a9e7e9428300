# SPDX-License-Identifier: Apache-2.0

"""Tests of a host's view."""

from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import host_view
from tests import base
from tests.unit import builders

PLACE = builders.RDT, builders.CLOS


class TestHostView(base.TestCase):
    def test_one_state_is_exchanged_and_the_rest_stays(self) -> None:
        before = builders.make_view()

        after = before.with_state(PLACE, count.CountState(6, 1))

        self.assertEqual(1, after.tracked[PLACE].state.used)
        self.assertEqual(before.keys, after.keys)
        for place in before.tracked.keys() - {PLACE}:
            self.assertIs(before.tracked[place], after.tracked[place])

    def test_the_view_that_it_was_made_of_stays_as_it_was(self) -> None:
        before = builders.make_view()

        before.with_state(PLACE, count.CountState(6, 1))

        self.assertEqual(0, before.tracked[PLACE].state.used)

    def test_the_rest_of_the_record_stays(self) -> None:
        place = builders.L3_0, builders.WAYS
        before = builders.make_view()

        after = before.with_state(place, before.tracked[place].state)

        self.assertEqual(before, after)

    def test_a_place_that_nobody_tracks_is_an_error(self) -> None:
        self.assertRaises(
            KeyError,
            host_view.HostView().with_state,
            PLACE,
            count.CountState(1),
        )
