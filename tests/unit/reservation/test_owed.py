# SPDX-License-Identifier: Apache-2.0

"""Tests of what must be left, beside a count second by second."""

import random

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import owed as owed_mod
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import promise_ledger
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation import test_promise_ledger

PLACE = test_promise_ledger.PLACES[0]
LAST = test_promise_ledger.LAST


class OwedTest(base.TestCase):
    def test_nothing_is_owed(self) -> None:
        owed = promise_ledger.Promises().find_owed(PLACE, 0, 9)

        self.assertFalse(owed)
        self.assertEqual(0, owed.count({'other': 5}))

    def make_taken(
        self,
        end: int,
        *,
        is_removed: bool = False,
        counted_until: int = interval.ALWAYS,
    ) -> owed_mod.Taken:
        return owed_mod.Taken(
            consumer='one',
            amount=7,
            end=end,
            is_removed=is_removed,
            counted_until=counted_until,
        )

    def test_what_is_not_held_is_owed(self) -> None:
        owed = owed_mod.Owed(amounts=[(0, 2)], taken=[self.make_taken(9)])

        for held, amount in ((0, 9), (4, 5), (7, 2), (9, 2)):
            self.assertEqual(amount, owed.count({'one': held, 'other': 5}))

    def test_what_counts_as_promised_is_not_owed_twice(self) -> None:
        taken = self.make_taken(9, counted_until=5)
        owed = owed_mod.Owed(amounts=[(0, 7), (5, 0)], taken=[taken])

        for held, amount in ((0, 7), (7, 7)):
            self.assertEqual(amount, owed.count({'one': held}))

    def test_what_was_just_taken_is_owed_later_on(self) -> None:
        promises = promise_ledger.Promises()
        for key, start, consumer in (('s', 900, 'one'), ('p', 4600, None)):
            slot = test_promise_ledger.make_slot(
                key,
                hosts.span(start, 9000),
                {PLACE: 4},
                consumer=consumer,
                taken_at=998,
            )
            promises.take(hosts.make_request(key, slot.during), (slot,))

        owed = promises.find_owed(PLACE, 1000, interval.FOREVER)

        # Of both when the second one begins, but for what the server holds.
        for held, amount in ((0, 8), (3, 5), (4, 4)):
            self.assertEqual(amount, owed.count({'one': held}))

    def test_only_what_is_held_is_given_back(self) -> None:
        taken = self.make_taken(5, is_removed=True)
        owed = owed_mod.Owed(amounts=[(0, 0), (5, 9)], taken=[taken])

        for held, amount in ((7, 2), (8, 2), (3, 6), (0, 9)):
            self.assertEqual(amount, owed.count({'one': held}))

    def test_a_server_that_stays_gives_nothing_back(self) -> None:
        owed = owed_mod.Owed(
            amounts=[(0, 0), (5, 9)], taken=[self.make_taken(5)]
        )

        for held, amount in ((7, 9), (0, 9)):
            self.assertEqual(amount, owed.count({'one': held}))

    def test_second_by_second(self) -> None:
        dice = random.Random(8)
        for _round in range(300):
            now = dice.randrange(LAST)
            slots = self.draw(dice, now)
            promises = promise_ledger.Promises()
            for one in slots:
                request = hosts.make_request(
                    one.key, one.during, at_end=plan_request.AtEnd.DELETE
                )
                promises.take(request, (one,))
            owed = promises.find_owed(PLACE, now, interval.FOREVER)
            held = {
                one.consumer: one.places[PLACE]
                for one in slots
                if one.consumer
            }

            if all(one.taken_at == -100 for one in slots):
                self.assertEqual(
                    test_promise_ledger.count_needed(slots, now),
                    owed.count(held),
                )
            for name in held:
                held[name] = dice.randint(0, held[name])
            self.assertEqual(
                self.count_exactly(slots, held, now), owed.count(held)
            )

    def draw(
        self, dice: random.Random, now: int
    ) -> list[planned_server.PlannedServer]:
        """Draw slots; none is taken before it begins."""
        found = []
        for number in range(dice.randint(1, 6)):
            consumer = dice.choice([None, f'server {number}'])
            start = dice.randrange(now + 1 if consumer else LAST)
            found.append(
                test_promise_ledger.make_slot(
                    f'{number}',
                    hosts.span(start, dice.randint(start + 1, LAST)),
                    {PLACE: dice.randint(1, 9)},
                    consumer=consumer,
                    # Long before, or so that it counts until some second.
                    taken_at=dice.choice([-100, dice.randint(-30, 0)]),
                )
            )
        return found

    def count_exactly(
        self,
        slots: list[planned_server.PlannedServer],
        held: dict[str, int],
        now: int,
    ) -> int:
        def count(second: int) -> int:
            total = 0
            for one in slots:
                has = held.get(one.consumer or '', 0)
                if one.consumer and one.taken_at is not None:
                    until = one.taken_at + promise_ledger.CLAIM_SECONDS
                    if second < min(until, one.during.end):
                        total += one.places[PLACE]
                        continue
                if one.during.start <= second < one.during.end:
                    total += one.places[PLACE] - has
                elif now < one.during.end <= second:
                    total -= has
            return total

        return max(count(second) for second in range(now, LAST + 1))
