# SPDX-License-Identifier: Apache-2.0

"""Tests of the index: it leaves no host out that has room."""

import random

from nova_ext_resources.reservation import calendar as calendar_mod
from nova_ext_resources.reservation import index
from nova_ext_resources.reservation import interval
from tests import base

HOSTS = ('one', 'two', 'three', 'four')
QUARTER = index.QUARTER


def span(start: int, end: int = interval.FOREVER) -> interval.Interval:
    return interval.Interval(start, end)


def make_places(name: str) -> dict[str, list[tuple[str, str]]]:
    """Make a host with two providers of ways."""
    return {
        'VCPU': [(name, 'VCPU')],
        'WAYS': [(f'{name} 0', 'WAYS'), (f'{name} 1', 'WAYS')],
    }


def make_calendar() -> calendar_mod.Calendar:
    made = calendar_mod.Calendar()
    for name in HOSTS:
        for places in make_places(name).values():
            for place in places:
                made.set_capacity(place, 8)
    return made


def make_index(calendar: calendar_mod.Calendar) -> index.Index:
    return index.Index(calendar, {name: make_places(name) for name in HOSTS})


def has_room(
    calendar: calendar_mod.Calendar,
    name: str,
    ask: index.Ask,
    during: interval.Interval,
) -> bool:
    return all(
        any(
            calendar.find_free(place, during) >= amount
            for place in make_places(name)[resource_class]
        )
        for resource_class, amount in ask.items()
    )


class IndexTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.calendar = make_calendar()
        self.index = make_index(self.calendar)

    def find(self, during: interval.Interval, **ask: int) -> list[str]:
        return list(self.index.find(ask, during))

    def test_hosts_are_found_in_their_order(self) -> None:
        self.assertEqual([*HOSTS], self.find(span(0), VCPU=8, WAYS=8))
        self.assertEqual([], self.find(span(0), VCPU=9))

    def test_a_class_that_no_host_has_is_found_nowhere(self) -> None:
        self.assertEqual([], self.find(span(0), VCPU=1, SEATS=1))

    def test_a_change_is_seen_by_asks_that_are_known(self) -> None:
        self.find(span(0), VCPU=5)
        self.find(span(0), VCPU=4)

        self.calendar.add('it', span(0, 3600), {('two', 'VCPU'): 4})

        self.assertEqual(
            ['one', 'three', 'four'], self.find(span(0, 3600), VCPU=5)
        )
        self.assertEqual([*HOSTS], self.find(span(0, 3600), VCPU=4))
        self.calendar.remove('it')
        self.assertEqual([*HOSTS], self.find(span(0, 3600), VCPU=5))

    def test_one_provider_with_room_is_enough(self) -> None:
        for number in range(2):
            during = span(number * QUARTER, (number + 1) * QUARTER)
            self.calendar.add(
                str(number), during, {(f'one {number}', 'WAYS'): 8}
            )

        self.assertEqual('one', self.find(span(0), WAYS=1)[0])
        self.calendar.add('ever', span(0), {('one 1', 'WAYS'): 1})
        self.assertEqual('two', self.find(span(0), WAYS=8)[0])

    def test_open_ends_block_for_good(self) -> None:
        self.calendar.add('it', span(5000), {('one', 'VCPU'): 8})

        for during in (span(0), span(10**9, 10**9 + 3600), span(10**9)):
            self.assertEqual([*HOSTS[1:]], self.find(during, VCPU=1))
        self.assertEqual([*HOSTS], self.find(span(0, 4500), VCPU=1))

    def test_the_oldest_asks_are_dropped(self) -> None:
        for amount in range(1, 9):
            for ways in range(1, 9):
                self.find(span(0), VCPU=amount, WAYS=ways)

        self.assertEqual(index.MAX_ASKS, len(self.index._asks))
        self.calendar.add('it', span(0), {('one', 'VCPU'): 8})
        self.assertEqual([*HOSTS[1:]], self.find(span(0), VCPU=8, WAYS=8))
        self.assertEqual([*HOSTS[1:]], self.find(span(0), VCPU=1, WAYS=1))

    def test_random_bookings(self) -> None:
        rng = random.Random(1)
        for _case in range(30):
            self.calendar = make_calendar()
            self.index = make_index(self.calendar)
            for number in range(30):
                self._change(rng, number)
                self._compare(rng)

    def _draw(self, rng: random.Random) -> interval.Interval:
        start = rng.randrange(10 * QUARTER)
        if rng.random() < 0.1:
            return span(start)
        return span(start, start + rng.randint(1, 6 * QUARTER))

    def _change(self, rng: random.Random, number: int) -> None:
        if self.calendar.bookings and rng.random() < 0.3:
            self.calendar.remove(rng.choice([*self.calendar.bookings]))
        else:
            places = make_places(rng.choice(HOSTS))
            place = rng.choice([*places['VCPU'], *places['WAYS']])
            amount = rng.randint(1, 8)
            self.calendar.add(str(number), self._draw(rng), {place: amount})

    def _compare(self, rng: random.Random) -> None:
        during = self._draw(rng)
        for ask in (
            {'VCPU': rng.randint(1, 8), 'WAYS': rng.randint(1, 8)},
            {'VCPU': rng.randint(1, 8)},
        ):
            self.assertLessEqual(
                set(self._list_with_room(ask, during)),
                set(self.index.find(ask, during)),
            )
        # Of whole quarters and one provider it knows all.
        whole = span(
            during.start // QUARTER * QUARTER,
            min(-(-during.end // QUARTER) * QUARTER, interval.FOREVER),
        )
        self.assertEqual(
            self._list_with_room(ask, whole), [*self.index.find(ask, whole)]
        )

    def _list_with_room(
        self, ask: index.Ask, during: interval.Interval
    ) -> list[str]:
        return [
            one for one in HOSTS if has_room(self.calendar, one, ask, during)
        ]
