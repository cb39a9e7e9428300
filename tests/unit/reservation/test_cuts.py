# SPDX-License-Identifier: Apache-2.0

"""Tests of what is cut beside what is promised, by a count of each second."""

import random
from typing import Any

from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import forecast
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import spare as spare_mod
from tests import base
from tests.unit.reservation import changes
from tests.unit.reservation import hosts
from tests.unit.reservation import test_promise_ledger

PLACE = ('a', 'VCPU')

LAST = test_promise_ledger.LAST


def count(
    slots: list[planned_server.PlannedServer],
    cuts: list[capacity_change.CapacityChange],
    second: int,
    *,
    now: int,
    shown: int | None,
) -> int:
    """Return what is needed in a second."""
    promised = sum(
        one.places.get(PLACE, 0)
        for one in slots
        if one.during.start <= second < one.during.end
    )
    if not promised:
        return 0
    found = forecast.make(cuts, 'VCPU', shown, now)
    moment = interval.Interval(second, second + 1)
    left = found.count(is_sure=True).lowest(moment)
    return promised + max(found.shown - left, 0)


class CutsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.promises = promise_ledger.Promises()

    def take(self, slot: planned_server.PlannedServer, **fields: Any) -> None:
        request = hosts.make_request(slot.key, slot.during, **fields)
        self.promises.take(request, (slot,))

    def test_second_by_second(self) -> None:
        dice = random.Random(7)
        for _round in range(200):
            self.promises = promise_ledger.Promises()
            slots = [
                test_promise_ledger.make_slot(
                    f'{number}/0',
                    draw_during(dice),
                    {PLACE: dice.randint(1, 9)},
                )
                for number in range(dice.randint(1, 4))
            ]
            cuts = [
                changes.make_change(
                    str(number),
                    draw_during(dice),
                    {'VCPU': dice.choice([-7, -3, -1, 4])},
                )
                for number in range(dice.randint(1, 3))
            ]
            for one in slots:
                self.take(one)
            self.promises.follow(cuts)

            self.check(slots, cuts, dice)

    def check(
        self,
        slots: list[planned_server.PlannedServer],
        cuts: list[capacity_change.CapacityChange],
        dice: random.Random,
    ) -> None:
        now = dice.randrange(LAST)
        shown = dice.choice([None, dice.randint(0, 20)])
        seconds = range(now, LAST + 1)
        needed = {
            one: count(slots, cuts, one, now=now, shown=shown)
            for one in seconds
        }
        for end in (interval.FOREVER, dice.randint(now + 1, LAST)):
            peak = max(needed[one] for one in seconds if one < end)
            self.assertEqual(
                peak, self.promises.find_peak(PLACE, now, end, shown)
            )
            owed = self.promises.find_owed(PLACE, now, end, shown)
            self.assertEqual(peak, owed.count({}))
            start, _found = self.promises.list_peak(PLACE, now, end, shown)
            self.assertEqual(peak, needed[start])
        since, limit = dice.randint(now, LAST), dice.randint(0, 20)
        self.assertEqual(
            next(
                (
                    one
                    for one in seconds
                    if one >= since and needed[one] > limit
                ),
                interval.FOREVER,
            ),
            self.promises.find_begin(PLACE, now, since, limit, shown=shown),
        )

    def test_what_is_given_back_is_given_back_from_a_cut_too(self) -> None:
        """Two leases, one after the other, and a cut beside both."""
        self.take(
            test_promise_ledger.make_slot(
                'x/0',
                hosts.span(0, 10),
                {PLACE: 4},
                consumer='x',
                taken_at=-99,
            ),
            at_end=plan_request.AtEnd.DELETE,
        )
        self.take(
            test_promise_ledger.make_slot(
                'y/0', hosts.span(10, 20), {PLACE: 4}
            )
        )
        self.promises.follow(
            [changes.make_change('cut', hosts.span(5, 30), {'VCPU': -2})]
        )

        for now, end, peak in (
            (0, 10, 0),
            (0, 11, 2),
            (0, 99, 2),
            (10, 99, 6),
        ):
            self.assertEqual(peak, self.promises.find_peak(PLACE, now, end))

    def test_more_does_not_count(self) -> None:
        self.take(
            test_promise_ledger.make_slot('x/0', hosts.span(5, 9), {PLACE: 4})
        )
        self.promises.follow(
            [changes.make_change('more', hosts.span(0, 30), {'VCPU': 2})]
        )

        self.assertEqual(
            4, self.promises.find_peak(PLACE, 0, interval.FOREVER)
        )

    def test_what_was_cut_already_counts_no_more(self) -> None:
        self.take(
            test_promise_ledger.make_slot('x/0', hosts.span(5, 9), {PLACE: 2})
        )
        self.promises.follow(
            [changes.make_change('cut', hosts.span(0), {'VCPU': -4})]
        )

        for shown, peak in ((8, 6), (6, 4), (4, 2), (None, 6)):
            self.assertEqual(
                peak, self.promises.find_peak(PLACE, 1, 99, shown)
            )

    def test_a_clock_that_goes_back(self) -> None:
        self.take(
            test_promise_ledger.make_slot('x/0', hosts.span(9, 12), {PLACE: 2})
        )
        self.promises.follow(
            [changes.make_change('cut', hosts.span(10, 20), {'VCPU': -4})]
        )

        for now, peak in ((15, 0), (5, 6), (11, 6), (9, 6)):
            self.assertEqual(peak, self.promises.find_peak(PLACE, now, 99, 8))

    def test_who_is_refused_is_told_of_the_cut(self) -> None:
        self.take(
            test_promise_ledger.make_slot('x/0', hosts.span(5, 9), {PLACE: 2})
        )
        self.promises.follow(
            [changes.make_change('night', hosts.span(0), {'VCPU': -4})]
        )

        for shown, free, words in (
            (
                8,
                6,
                'x/0, or taken away as planned by capacity change night from',
            ),
            (4, 2, 'promised to reservation x/0 from 1970'),
        ):
            spare = spare_mod.Spare(
                self.promises,
                lambda _place, free=free: free,  # type: ignore[misc]
                now=1,
                find_capacity=lambda _place, shown=shown: shown,  # type: ignore[misc]
            )
            asked = {PLACE[0]: {'resources': {PLACE[1]: 1}}}
            self.assertFalse(spare.fits(asked))
            (found,) = spare.explain(asked)
            self.assertIn(words, found.reason)

    def test_others_take_the_place_of_those_before(self) -> None:
        self.take(
            test_promise_ledger.make_slot('x/0', hosts.span(5, 9), {PLACE: 4})
        )
        for cut in (2, 1):
            change = changes.make_change(
                'cut', hosts.span(0, 30), {'VCPU': -cut}
            )
            self.promises.follow([change])

            self.assertEqual(
                4 + cut, self.promises.find_peak(PLACE, 0, interval.FOREVER)
            )


def draw_during(dice: random.Random) -> interval.Interval:
    start = dice.randrange(LAST)
    end = dice.choice([interval.FOREVER, dice.randint(start + 1, LAST)])
    return interval.Interval(start, end)
