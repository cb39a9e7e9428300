# SPDX-License-Identifier: Apache-2.0

"""Tests of what is promised, beside a count second by second."""

import dataclasses
import random
from typing import Any

from nova_ext_resources.objects import assignment
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import owed
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import promise_ledger
from tests import base
from tests.unit.reservation import hosts

PLACES = (('a', 'VCPU'), ('a', 'MEMORY_MB'), ('b', 'VCPU'))

#: The last second that is counted; what is open ends later.
LAST = 30


def make_slot(
    key: str,
    during: interval.Interval,
    amounts: dict[tuple[str, str], int],
    **fields: Any,
) -> planned_server.PlannedServer:
    return planned_server.PlannedServer(
        key=key,
        host=next(iter(amounts))[0],
        during=during,
        assignments=tuple(
            assignment.Assignment(
                rp_uuid=place[0],
                rp_key='',
                resource_class=place[1],
                amount=amount,
            )
            for place, amount in amounts.items()
        ),
        **fields,
    )


def draw_slot(key: str, dice: random.Random) -> planned_server.PlannedServer:
    start = dice.randrange(LAST)
    end = dice.choice([interval.FOREVER, dice.randint(start + 1, LAST)])
    places = dice.sample(PLACES, dice.randint(1, 3))
    return make_slot(
        key,
        interval.Interval(start, end),
        {place: dice.randint(1, 9) for place in places},
        consumer=dice.choice([None, None, f'server of {key}']),
        taken_at=start - 20,
    )


def counts(one: planned_server.PlannedServer, second: int) -> bool:
    if not one.during.start <= second < one.during.end:
        return False
    # Ten seconds of the thirty were before the start.
    return one.consumer is None or second < one.during.start + 10


def count_peak(
    slots: list[planned_server.PlannedServer],
    place: tuple[str, str],
    now: int,
    end: int,
) -> int:
    """Return the most that is promised in any second."""
    return max(
        sum(one.places.get(place, 0) for one in slots if counts(one, second))
        for second in range(now, min(end, LAST + 1))
    )


class PromisesTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.promises = promise_ledger.Promises()

    def take(
        self, *slots: planned_server.PlannedServer, key: str = 'x'
    ) -> None:
        request = hosts.make_request(key, slots[0].during)
        self.promises.take(request, slots)

    def test_peaks_are_those_of_the_worst_second(self) -> None:
        dice, known = random.Random(5), dict[str, Any]()
        for number in range(400):
            if known and dice.random() < 0.45:
                key = dice.choice(sorted(known))
                self.promises.drop(key, known.pop(key))
            else:
                key = str(number)
                known[key] = tuple(
                    draw_slot(f'{key}/{one}', dice)
                    for one in range(dice.randint(1, 3))
                )
                self.take(*known[key], key=key)
            self.check(known, number % LAST, dice)

    def check(self, known: Any, now: int, dice: random.Random) -> None:
        slots = [one for ones in known.values() for one in ones]
        for place in PLACES:
            for end in (interval.FOREVER, dice.randint(now + 1, LAST + 1)):
                self.assertEqual(
                    count_peak(slots, place, now, end),
                    self.promises.find_peak(place, now, end),
                    f'{place} from {now} to {end}',
                )
        promised = {place for one in slots for place in one.places}
        self.assertEqual(
            promised,
            {
                (rp_uuid, name)
                for rp_uuid, names in self.promises.places.items()
                for name in names
            },
        )
        self.assertEqual(not slots, self.promises.is_empty)
        for name in ('a', 'b'):
            self.assertEqual(
                any(one.host == name for one in slots),
                self.promises.is_promised(name),
            )

    def test_the_clock_goes_on_and_back(self) -> None:
        self.take(
            make_slot('x/0', hosts.span(2, 5), {PLACES[0]: 7}),
            make_slot('x/1', hosts.span(4, 9), {PLACES[0]: 2}),
        )

        for now, peak in ((0, 9), (4, 9), (5, 2), (9, 0), (3, 9)):
            self.assertEqual(
                peak,
                self.promises.find_peak(PLACES[0], now, interval.FOREVER),
            )

    def test_when_the_most_is_promised_first_and_to_whom(self) -> None:
        slots = (
            make_slot('x/0', hosts.span(2, 5), {PLACES[0]: 7}),
            make_slot('x/1', hosts.span(4, 9), {PLACES[0]: 2}),
        )
        self.take(*slots)

        start, found = self.promises.list_peak(PLACES[0], 0, 20)

        self.assertEqual(4, start)
        self.assertEqual([*slots], [one.slot for one in found])
        _start, found = self.promises.list_peak(PLACES[0], 5, 20)
        self.assertEqual([slots[1]], [one.slot for one in found])
        self.assertEqual((0, []), self.promises.list_peak(PLACES[2], 0, 9))

    def test_when_more_is_promised_than_a_number(self) -> None:
        self.take(
            make_slot('x/0', hosts.span(2, 5), {PLACES[0]: 7}),
            make_slot('x/1', hosts.span(8, 9), {PLACES[0]: 2}),
        )

        for since, limit, begin in (
            (0, 6, 2),
            (3, 6, 3),
            (5, 6, interval.FOREVER),
            (5, 1, 8),
            (0, 7, interval.FOREVER),
        ):
            self.assertEqual(
                begin, self.promises.find_begin(PLACES[0], 0, since, limit)
            )
        self.assertEqual(
            interval.FOREVER, self.promises.find_begin(PLACES[2], 0, 0, 0)
        )

    def test_a_host_that_was_created_anew(self) -> None:
        slot = make_slot('x/0', hosts.span(2, 5), {PLACES[0]: 7})
        own = dataclasses.replace(slot.assignments[0], rp_key='a')
        slot = dataclasses.replace(slot, assignments=(own,))
        self.take(slot)

        find, during = self.promises.find_former, hosts.span(4, 9)
        found = find('a', 'new', during)

        assert found is not None
        self.assertEqual(slot, found.slot)
        self.assertIsNone(find('a', 'a', during))
        self.assertIsNone(find('b', 'new', during))
        # It is over, and kept for a while; or it begins later.
        self.assertIsNone(find('a', 'new', hosts.span(5, 9)))
        self.assertIsNone(find('a', 'new', hosts.span(0, 2)))
        self.promises.drop('x', (slot,))
        self.assertIsNone(find('a', 'new', during))

    def test_a_server_that_came_to_a_host_that_was_created_anew(self) -> None:
        slot = make_slot(
            'x/0',
            hosts.span(100, 200),
            {PLACES[0]: 7},
            consumer='one',
            taken_at=100,
        )
        own = dataclasses.replace(slot.assignments[0], rp_key='a')
        self.take(dataclasses.replace(slot, assignments=(own,)))

        find, counted = self.promises.find_former, promise_ledger.CLAIM_SECONDS
        self.assertIsNotNone(find('a', 'new', hosts.span(100)))
        # What it holds is used, as placement says.
        self.assertIsNone(find('a', 'new', hosts.span(100 + counted)))

    def test_who_has_taken_what(self) -> None:
        taken = make_slot(
            'x/0', hosts.span(2, 5), {PLACES[0]: 7}, consumer='one'
        )
        self.take(taken)

        self.assertEqual(('x', taken), self.promises.find_taken('one'))
        self.promises.drop('x', (taken,))
        self.assertIsNone(self.promises.find_taken('one'))

    def test_a_slot_that_was_taken_long_before_is_not_promised(self) -> None:
        self.take(
            make_slot(
                'x/0',
                hosts.span(100, 200),
                {PLACES[0]: 7},
                consumer='one',
                taken_at=100 - promise_ledger.CLAIM_SECONDS,
            )
        )

        self.assertFalse(self.promises.is_promised('a'))
        self.assertEqual(
            0, self.promises.find_peak(PLACES[0], 100, interval.FOREVER)
        )
        taken = owed.Taken(
            consumer='one',
            amount=7,
            end=200,
            is_removed=False,
            counted_until=interval.ALWAYS,
        )
        for now, end, found in (
            (100, 110, [taken]),
            (50, 100, []),
            (200, 300, []),
            (100 - promise_ledger.CLAIM_SECONDS, 110, [taken]),
        ):
            self.assertEqual(
                found, self.promises.list_taken_of(PLACES[0], now, end)
            )
        self.promises.drop('x', self.promises.slots['x'])
        self.assertEqual([], self.promises.list_taken_of(PLACES[0], 100, 110))

    def test_a_server_that_has_another_slot_keeps_it(self) -> None:
        """Reservations are read one by one, in any order."""
        old, new = (
            make_slot(
                f'{key}/0', hosts.span(2, 5), {PLACES[0]: 7}, consumer='one'
            )
            for key in 'xy'
        )
        self.take(old, key='x')
        self.take(new, key='y')

        self.promises.drop('x', (old,))
        self.take(dataclasses.replace(old, consumer=None), key='x')

        self.assertEqual(('y', new), self.promises.find_taken('one'))

    def test_what_is_promised_of_providers_in_a_time(self) -> None:
        self.take(
            make_slot('x/0', hosts.span(5, 9), {PLACES[0]: 1}),
            make_slot('x/1', hosts.span(2, 4), {PLACES[2]: 1}),
            make_slot('x/2', hosts.span(1, 3), {PLACES[0]: 1}),
        )

        def find(rp_uuids: str, start: int, end: int) -> list[str]:
            found = self.promises.list_promises(
                rp_uuids, hosts.span(start, end)
            )
            return [one.slot.key for one in found]

        self.assertEqual(['x/2', 'x/0'], find('a', 0, 20))
        self.assertEqual(['x/2', 'x/1', 'x/0'], find('ab', 0, 20))
        self.assertEqual(['x/0'], find('a', 3, 20))
        self.assertEqual([], find('c', 0, 20))


class RemovedTest(base.TestCase):
    """Servers that are removed at the end of their reservation."""

    def setUp(self) -> None:
        super().setUp()
        self.promises = promise_ledger.Promises()

    def take(
        self,
        key: str,
        during: interval.Interval,
        amount: int,
        at_end: plan_request.AtEnd = plan_request.AtEnd.DELETE,
        **fields: Any,
    ) -> None:
        slot = make_slot(f'{key}/0', during, {PLACES[0]: amount}, **fields)
        request = hosts.make_request(key, during, at_end=at_end)
        self.promises.take(request, (slot,))

    def find_peak(self, now: int, end: int = interval.FOREVER) -> int:
        return self.promises.find_peak(PLACES[0], now, end)

    def test_the_next_one_needs_no_more_than_they_hold(self) -> None:
        self.take('x', hosts.span(100, 200), 7, consumer='one', taken_at=100)
        self.take('y', hosts.span(200, 300), 9)

        # Two more than there are free when the first has gone.
        self.assertEqual(2, self.find_peak(150))
        self.assertEqual(0, self.find_peak(150, 200))
        # It is removed, and may be there for a moment, or be gone.
        self.assertEqual(9, self.find_peak(200))

    def test_what_is_kept_is_not_free(self) -> None:
        self.take(
            'x',
            hosts.span(100, 200),
            7,
            plan_request.AtEnd.KEEP,
            consumer='one',
            taken_at=100,
        )
        self.take('y', hosts.span(200, 300), 9)

        self.assertEqual(9, self.find_peak(150))

    def test_what_begins_before_they_have_gone_is_needed(self) -> None:
        self.take('x', hosts.span(100, 200), 7, consumer='one', taken_at=100)
        self.take('y', hosts.span(199, 300), 9)

        self.assertEqual(9, self.find_peak(150))

    def test_a_slot_that_nobody_has_taken_gives_nothing_back(self) -> None:
        self.take('x', hosts.span(100, 200), 7)
        self.take('y', hosts.span(200, 300), 9)

        self.assertEqual(9, self.find_peak(150))

    def test_units_that_lie_side_by_side_are_not_given_back(self) -> None:
        slot = make_slot(
            'x/0',
            hosts.span(100, 200),
            {PLACES[0]: 7, PLACES[1]: 4},
            consumer='one',
            taken_at=100,
        )
        ways, memory = slot.assignments
        ways = dataclasses.replace(ways, units={'mask': '7f'})
        slot = dataclasses.replace(slot, assignments=(ways, memory))
        request = hosts.make_request(
            'x', slot.during, at_end=plan_request.AtEnd.DELETE
        )
        self.promises.take(request, (slot,))
        self.take('y', hosts.span(200, 300), 9)

        self.assertEqual(9, self.find_peak(150))
        for place, is_removed in ((PLACES[0], False), (PLACES[1], True)):
            (taken,) = self.promises.list_taken_of(place, 150, 250)
            self.assertEqual(is_removed, taken.is_removed)
        self.promises.drop('x', (slot,))
        self.promises.drop('y', self.promises.slots['y'])
        self.assertEqual({}, dict(self.promises.places))

    def test_nothing_is_left_of_it(self) -> None:
        self.take('x', hosts.span(100, 200), 7, consumer='one', taken_at=100)
        self.take('y', hosts.span(200, 300), 9)

        self.promises.drop('x', self.promises.slots['x'])
        self.assertEqual(9, self.find_peak(150))
        self.promises.drop('y', self.promises.slots['y'])
        self.assertEqual({}, dict(self.promises.places))

    def test_second_by_second(self) -> None:
        dice = random.Random(6)
        for _round in range(100):
            self.promises = promise_ledger.Promises()
            known = []
            for number in range(dice.randint(1, 6)):
                start = dice.randrange(LAST)
                slot = make_slot(
                    f'{number}/0',
                    hosts.span(start, dice.randint(start + 1, LAST)),
                    {PLACES[0]: dice.randint(1, 9)},
                    consumer=dice.choice([None, f'server {number}']),
                    # Long before: it is held now.
                    taken_at=-100,
                )
                known.append(slot)
                self.promises.take(
                    hosts.make_request(
                        str(number),
                        slot.during,
                        at_end=plan_request.AtEnd.SHELVE,
                    ),
                    (slot,),
                )
            now = dice.randrange(LAST)
            self.assertEqual(count_needed(known, now), self.find_peak(now))


def count_needed(slots: list[planned_server.PlannedServer], now: int) -> int:
    """Return what must be free beside what is held now, in any second."""

    def count(second: int) -> int:
        promised = sum(
            one.places[PLACES[0]]
            for one in slots
            if one.consumer is None
            and one.during.start <= second < one.during.end
        )
        returned = sum(
            one.places[PLACES[0]]
            for one in slots
            if one.consumer is not None and now < one.during.end <= second
        )
        return promised - returned

    return max(count(second) for second in range(now, LAST + 1))
