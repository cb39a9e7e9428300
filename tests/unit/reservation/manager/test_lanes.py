# SPDX-License-Identifier: Apache-2.0

"""Tests of who may have a request under way."""

from typing import Any

from nova_ext_resources.reservation.manager import lanes
from nova_ext_resources.reservation.store import followers
from nova_ext_resources.reservation import subscription
from tests import base


def make_follower(project: str = 'red', **fields: Any) -> followers.Follower:
    return followers.Follower(
        subscription=subscription.make_subscription(
            {'url': 'https://example.org:8443/token'},
            uuid='1',
            project=project,
            now=1,
        ),
        position=1,
        **fields,
    )


class LanesTest(base.TestCase):
    def find(self, *, is_slow: bool = False, **fields: Any) -> set[lanes.Lane]:
        return {*lanes.find_lanes(make_follower(**fields), is_slow=is_slow)}

    def test_who_has_a_place_among_the_quick_ones(self) -> None:
        well = ('well', '')

        self.assertIn(well, self.find(sent=1))
        self.assertNotIn(well, self.find())
        self.assertNotIn(well, self.find(sent=1, failures=1))
        self.assertNotIn(well, self.find(sent=1, is_slow=True))
        self.assertIn(('doubtful', ''), self.find())

    def test_projects_are_bounded_and_operators_by_receiver(self) -> None:
        receiver = ('destination', 'https://example.org:8443/...')

        self.assertLess({receiver, ('project', 'red')}, self.find())
        self.assertEqual({receiver, ('doubtful', '')}, self.find(project=''))

    def test_places_are_taken_and_given_back(self) -> None:
        made = lanes.Lanes()
        wanted = [('project', 'red'), ('well', '')]
        for _number in range(lanes.PLACES['project']):
            self.assertTrue(made.has_room(wanted))
            made.take(wanted)
        self.assertFalse(made.has_room(wanted))
        self.assertTrue(made.has_room([('project', 'blue'), ('well', '')]))

        made.leave(wanted)
        self.assertTrue(made.has_room(wanted))

    def test_when_nobody_has_room(self) -> None:
        made = lanes.Lanes()
        made.take(lanes.PLACES['well'] * [('well', '')])
        self.assertFalse(made.is_full)
        made.take(lanes.PLACES['doubtful'] * [('doubtful', '')])
        self.assertTrue(made.is_full)
