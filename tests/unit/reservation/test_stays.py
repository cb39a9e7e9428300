# SPDX-License-Identifier: Apache-2.0

"""Units of a cache of eight ways, over time."""

from collections.abc import Iterable
import random
from typing import Any

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.objects import bitmask
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import stays
from tests import base
from tests.unit.reservation.hosts import span

TRACKER = cache_ways.CacheWaysTracker()


def make_state(taken: str = '0') -> cache_ways.CacheWaysState:
    return cache_ways.CacheWaysState(0xFF, int(taken, 2))


def make(
    key: str,
    amount: int,
    mask: str | None = None,
    during: interval.Interval | None = None,
    **fields: Any,
) -> stays.Stay:
    """Make a stay; ``mask`` are the ways that were planned."""
    units = {} if mask is None else {'mask': f'{int(mask, 2):x}'}
    return stays.Stay(
        key=key,
        during=during or span(0),
        amount=amount,
        units=units,
        **fields,
    )


class SettleTest(base.TestCase):
    def settle(self, *found: stays.Stay, taken: str = '0') -> dict[str, str]:
        keys = {one.key for one in found}
        chosen = stays.settle(TRACKER, make_state(taken), found, keys)
        return {
            key: f'{int(units["mask"], 16):08b}'
            for key, units in chosen.items()
        }

    def test_what_is_free_stays_as_it_was_planned(self) -> None:
        one, other = make('a', 2, '110000'), make('b', 4, '1111')

        self.assertEqual({}, self.settle(one, other, taken='11000000'))

    def test_a_server_has_got_what_was_planned_for_another(self) -> None:
        got = make('z', 4, '1111', is_there=True)

        found = self.settle(make('a', 4, '1111'), got)

        self.assertEqual({'a': '11110000'}, found)

    def test_what_was_planned_by_amounts_gets_units(self) -> None:
        found = self.settle(make('a', 4), make('b', 2, '1100'))

        self.assertEqual({'a': '11110000'}, found)

    def test_others_may_have_the_same_units_later(self) -> None:
        one = make('a', 8, '11111111', span(0, 5))
        other = make('b', 8, '11111111', span(5, 9))

        self.assertEqual({}, self.settle(one, other))

    def test_what_fits_nowhere_keeps_what_it_has(self) -> None:
        found = self.settle(make('a', 4, '1111'), taken='00011000')

        self.assertEqual({}, found)


class RefusedTest(base.TestCase):
    def find(
        self,
        before: Iterable[stays.Stay],
        *ours: stays.Stay,
        taken: str = '0',
    ) -> str | None:
        found = stays.find_refused(TRACKER, make_state(taken), [*before], ours)
        return found.key if found else None

    def test_all_find_what_they_need(self) -> None:
        self.assertIsNone(self.find([make('a', 4)], make('b', 4)))

    def test_a_smaller_one_may_come_first_and_part_what_is_left(self) -> None:
        # Three above and two below what is taken: one way and one way fit
        # below, but the host gives the uppermost first.
        taken = '00011100'

        found = self.find(
            [make('a', 1), make('b', 1)], make('c', 3), taken=taken
        )

        self.assertEqual('c', found)

    def test_one_that_would_be_refused_without_us_is_not_our_fault(
        self,
    ) -> None:
        before = [make('a', 6), make('b', 6)]

        self.assertIsNone(self.find(before, make('c', 1)))

    def test_what_never_meets_us_does_not_matter(self) -> None:
        before = [make('a', 8, None, span(0, 5)), make('b', 8, None, span(9))]

        self.assertIsNone(self.find(before, make('c', 8, None, span(5, 9))))

    def test_a_server_that_is_there_has_what_it_has(self) -> None:
        there = make('a', 2, '00011000', span(0, 9), is_there=True)

        self.assertEqual('b', self.find([there], make('b', 4)))
        self.assertIsNone(self.find([there], make('b', 4, None, span(9))))

    def test_a_longer_stay_takes_the_place_of_the_shorter_one(self) -> None:
        short, next_one = (
            make('a', 8, None, span(0, 5)),
            make('b', 8, None, span(5, 9)),
        )

        self.assertEqual(
            'b',
            self.find([short, next_one], make('a', 8, None, span(0, 6))),
        )

    def test_those_that_overlap_by_way_of_others_come_too(self) -> None:
        rng = random.Random(7)
        for _number in range(100):
            found = [
                make(
                    str(number),
                    1,
                    None,
                    span(start := rng.randrange(20), start + 1 + number % 4),
                )
                for number in range(6)
            ]

            met = stays._list_met(found, {'0'})

            self.assertEqual(self.list_met(found), {one.key for one in met})

    def list_met(self, found: list[stays.Stay]) -> set[str]:
        met = {'0'}
        while True:
            more = {
                one.key
                for one in found
                for other in found
                if other.key in met and one.during.overlaps(other.during)
            }
            if more == met:
                return met
            met = more


class RandomTest(base.TestCase):
    """After a settlement no way is had twice, where all fit."""

    def test_random_stays(self) -> None:
        for seed in range(200):
            rng = random.Random(seed)
            found = [self.draw(rng, str(number)) for number in range(5)]
            taken = rng.choice(('0', '10000000', '1000', '11'))
            chosen = stays.settle(
                TRACKER, make_state(taken), found, {one.key for one in found}
            )

            self.check(found, chosen, int(taken, 2), f'seed {seed}')

    def draw(self, rng: random.Random, key: str) -> stays.Stay:
        amount = rng.randint(1, 3)
        start = rng.randrange(8)
        mask = None
        if rng.random() < 0.7:
            run = bitmask.make_run(rng.randrange(8 - amount), amount)
            mask = f'{run:b}'
        return make(key, amount, mask, span(start, start + rng.randint(1, 5)))

    def check(
        self,
        found: list[stays.Stay],
        chosen: dict[str, Any],
        taken: int,
        where: str,
    ) -> None:
        masks = {
            one.key: int(units['mask'], 16)
            for one in found
            if (units := chosen.get(one.key, one.units))
        }
        for one in found:
            if one.key not in chosen:
                continue
            # What was chosen was free of all others.
            self.assertTrue(bitmask.has_run(masks[one.key], one.amount), where)
            self.assertEqual(0, masks[one.key] & taken, where)
            for other in found:
                if (
                    other.key != one.key
                    and other.key in chosen
                    and other.during.overlaps(one.during)
                ):
                    self.assertEqual(
                        0, masks[one.key] & masks[other.key], where
                    )
