# SPDX-License-Identifier: Apache-2.0

"""Tests of who has too little."""

from typing import Any

from nova_ext_resources.reservation import lack
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import profile
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation import test_promise_ledger

PLACE = ('a', 'VCPU')


def make_slots(
    key: str, start: int, end: int, number: int = 1, **fields: Any
) -> tuple[planned_server.PlannedServer, ...]:
    """Make some of four units each."""
    return tuple(
        test_promise_ledger.make_slot(
            f'{key}/{one}', hosts.span(start, end), {PLACE: 4}, **fields
        )
        for one in range(number)
    )


class LackTest(base.TestCase):
    def find(
        self,
        held: dict[str, Any],
        capacity: int = 8,
        used: int = 0,
        now: int = 0,
        degraded: tuple[str, ...] = (),
        **priorities: int,
    ) -> set[str]:
        made = profile.Profile(capacity)
        # Less for a time.
        made.add(hosts.span(20, 30), -4)
        supplies = {PLACE: lack.Supply(capacity=made, used=used)}
        found = lack.list_lacking(
            held, supplies, now, degraded=degraded, priorities=priorities
        )
        for places in found.values():
            self.assertEqual({PLACE}, places)
        return {*found}

    def test_what_fits(self) -> None:
        held = {'x': make_slots('x', 5, 20, 2), 'y': make_slots('y', 20, 40)}

        self.assertEqual(set(), self.find(held))

    def test_what_does_not(self) -> None:
        for number, start, end, lacks in (
            (3, 5, 20, True),
            (2, 5, 21, True),
            (2, 29, 40, True),
            (2, 30, 40, False),
        ):
            held = {'x': make_slots('x', start, end, number)}
            self.assertEqual({'x'} if lacks else set(), self.find(held))

    def test_what_has_passed_does_not_matter(self) -> None:
        held = {
            'x': make_slots('x', 5, 40, 2),
            'y': make_slots('y', 20, 30, 2),
        }

        self.assertEqual(set(), self.find(held, now=30))

    def test_who_comes_first(self) -> None:
        x, y = make_slots('x', 5, 10, 2), make_slots('y', 5, 10, 1)
        taken = make_slots('y', 5, 10, 1, consumer='server', taken_at=0)

        self.assertEqual({'y'}, self.find({'x': x, 'y': y}))
        self.assertEqual({'x'}, self.find({'x': x, 'y': y}, y=1))
        self.assertEqual({'x'}, self.find({'x': x, 'y': taken}, x=1))
        self.assertEqual({'x'}, self.find({'x': x, 'y': y}, degraded=('x',)))

    def test_who_lacks_something_leaves_it_to_others(self) -> None:
        held = {
            'x': make_slots('x', 5, 10, 3),
            'y': make_slots('y', 5, 10, 2),
        }
        self.assertEqual({'x'}, self.find(held))
        # What has started has it all the same.
        self.assertEqual({'x', 'y'}, self.find(held, now=5))

    def test_others_beside_keep_degraded_what_is(self) -> None:
        held = {'x': make_slots('x', 5, 10, 2)}

        self.assertEqual(set(), self.find(held, used=1))
        self.assertEqual({'x'}, self.find(held, used=1, degraded=('x',)))
        self.assertEqual(set(), self.find(held, degraded=('x',)))

    def test_places_of_which_nothing_is_known(self) -> None:
        held = {'x': make_slots('x', 5, 10, 9)}

        self.assertEqual(
            {}, lack.list_lacking(held, {}, 0, degraded=(), priorities={})
        )
