# SPDX-License-Identifier: Apache-2.0

"""Units of a cache of eight ways, over time."""

from collections.abc import Iterable, Sequence
import random
from typing import Any

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.objects import bitmask
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import stays
from tests import base
from tests.unit.reservation.hosts import span

TRACKER = cache_ways.CacheWaysTracker()

#: Of the orders in which stays come that begin in the same second.
SIGNS = (0, -1, 1)


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


def settle(
    found: Sequence[stays.Stay], state: cache_ways.CacheWaysState
) -> dict[str, Any]:
    """Settle stays, all of which are new."""

    def list_met(during: interval.Interval) -> list[stays.Stay]:
        return [one for one in found if one.during.overlaps(during)]

    return stays.settle(TRACKER, state, list_met, found)


def rehearse(
    tracker: cache_ways.CacheWaysTracker,
    state: cache_ways.CacheWaysState,
    found: Iterable[stays.Stay],
) -> list[stays.Rehearsal]:
    made = stays.make_rehearsals(tracker, state)
    for one in made:
        one.play({each.key: each for each in found}, is_kept=True)
    return made


def come(
    known: Iterable[stays.Stay], sign: int, state: cache_ways.CacheWaysState
) -> list[str]:
    """Let all come in turn, and return those that find nothing.

    :param sign: -1 for those with more ways first, 0 by their keys
    """
    has, refused = dict[str, Any](), []
    ordered = sorted(known, key=lambda one: (sign * one.amount, one.key))
    times = {
        each for one in ordered for each in (one.during.start, one.during.end)
    }
    for second in sorted(times | {interval.ALWAYS}):
        for one in ordered:
            if one.during.end == second and one.key in has:
                units = has.pop(one.key)
                state = TRACKER.free(state, one.amount, units)
        for one in ordered:
            start = interval.ALWAYS if one.is_there else one.during.start
            if start != second:
                continue
            if one.is_there:
                state, has[one.key] = TRACKER.allocate(
                    state, one.amount, one.units
                )
            elif TRACKER.fits(state, one.amount):
                state, has[one.key] = TRACKER.allocate(state, one.amount)
            else:
                refused.append(one.key)
    return refused


class SettleTest(base.TestCase):
    def settle(self, *found: stays.Stay, taken: str = '0') -> dict[str, str]:
        chosen = settle(found, make_state(taken))
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
        changes = {one.key: one for one in ours}
        for one in rehearse(TRACKER, make_state(taken), [*before]):
            if refused := one.play(changes):
                return refused.key
        return None

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


class RehearsalTest(base.TestCase):
    """A change finds what a rehearsal of all from the beginning finds."""

    def test_random_changes(self) -> None:
        refused = 0
        for seed in range(30):
            rng = random.Random(seed)
            known: dict[str, stays.Stay] = {}
            played = rehearse(TRACKER, make_state('10000'), ())
            for _step in range(25):
                changes = self.draw(rng)
                after = {k: v for k, v in (known | changes).items() if v}
                expected = self.find_refused(known, after)

                is_kept = rng.random() < 0.8
                found = [one.play(changes, is_kept=is_kept) for one in played]

                where = f'seed {seed}'
                self.assertEqual(
                    expected, [one and one.key for one in found], where
                )
                refused += any(expected)
                if is_kept:
                    known = after
        self.assertGreater(refused, 50)

    def draw(self, rng: random.Random) -> dict[str, stays.Stay | None]:
        """Draw stays that come, change or go."""
        return {
            key: None
            if rng.random() < 0.3
            else make(
                key,
                rng.randint(1, 4),
                rng.choice(('1100000', '11')),
                span(start := rng.randrange(30), start + rng.randint(1, 9)),
                is_there=rng.random() < 0.05,
            )
            for key in rng.sample('abcdefghijklmnopqrst', rng.randint(1, 3))
        }

    def find_refused(
        self, before: dict[str, stays.Stay], after: dict[str, stays.Stay]
    ) -> list[str | None]:
        found, state = [], make_state('10000')
        for sign in SIGNS:
            former = come(before.values(), sign, state)
            refused = come(after.values(), sign, state)
            found.append(next((k for k in refused if k not in former), None))
        return found

    def test_what_does_not_change_is_not_played_again(self) -> None:
        found = [
            # Each meets the next one, but for every tenth.
            make(
                str(number),
                2,
                None,
                span(10 * number, 10 * number + (15 if number % 10 else 10)),
            )
            for number in range(2000, 0, -1)
        ]
        tracker = CountingTracker()
        played = rehearse(tracker, make_state(), found)
        tracker.taken = 0

        for one in played:
            one.play({'it': make('it', 2, None, span(10_002, 10_012))})

        self.assertLess(tracker.taken, 3 * 20)


class CountingTracker(cache_ways.CacheWaysTracker):
    taken = 0

    def allocate(self, *args: Any, **kwargs: Any) -> Any:
        self.taken += 1
        return super().allocate(*args, **kwargs)


class RandomTest(base.TestCase):
    """After a settlement no way is had twice, where all fit."""

    def test_random_stays(self) -> None:
        for seed in range(200):
            rng = random.Random(seed)
            found = [self.draw(rng, str(number)) for number in range(5)]
            taken = rng.choice(('0', '10000000', '1000', '11'))
            chosen = settle(found, make_state(taken))

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
