# SPDX-License-Identifier: Apache-2.0

"""Tests of what rows of the history mean, and of what is sent."""

import json

from nova_ext_resources.reservation import event
from nova_ext_resources.reservation import state as state_mod
from tests import base

Kind = event.Kind
State = state_mod.State


class EventTest(base.TestCase):
    def test_what_a_row_means(self) -> None:
        for before, state, wanted in (
            (None, State.PENDING, Kind.CREATED),
            (None, State.DEGRADED, Kind.CREATED),
            (State.PENDING, State.PENDING, Kind.CHANGED),
            (State.DEGRADED, State.DEGRADED, Kind.CHANGED),
            (State.PENDING, State.ACTIVE, Kind.STARTED),
            (State.PENDING, State.DEGRADED, Kind.DEGRADED),
            (State.DEGRADED, State.PENDING, Kind.RESTORED),
            (State.DEGRADED, State.ACTIVE, Kind.RESTORED),
            (State.DEGRADED, State.ENDED, Kind.ENDED),
            (State.ACTIVE, State.EXPIRED, Kind.EXPIRED),
            (State.ACTIVE, State.CANCELLED, Kind.CANCELLED),
            # The clock was set back.
            (State.ACTIVE, State.PENDING, Kind.CHANGED),
        ):
            with self.subTest(before=before, state=state):
                self.assertIs(wanted, event.find_kind(before, state))

    def test_each_kind_has_a_sentence(self) -> None:
        self.assertEqual({*Kind}, {*event.MESSAGES})

    def make(self) -> event.Event:
        return event.Event(
            uuid='e',
            kind=Kind.TAKEN,
            project='red',
            reservation='one',
            happened_at=0,
            facts={'place': 'one/0'},
            private={'host': 'a'},
        )

    def test_only_operators_see_all(self) -> None:
        found = [
            json.loads(self.make().write_body('s', 7, is_private=is_private))
            for is_private in (False, True)
        ]

        self.assertEqual([7, 7], [one['sequence'] for one in found])
        self.assertNotIn('host', found[0]['data'])
        self.assertEqual('a', found[1]['data']['host'])

    def test_an_id_is_of_one_subscription_and_stays(self) -> None:
        one = self.make()
        body = json.loads(one.write_body('s', 1, is_private=False))

        self.assertEqual(one.find_id('s'), body['id'])
        self.assertNotEqual(one.find_id('s'), one.find_id('t'))
