# SPDX-License-Identifier: Apache-2.0

"""Tests of the calendar: by hand, and beside every second by itself."""

import doctest
import os
import random
from typing import Any

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import calendar
from nova_ext_resources.reservation import interval
from tests import base
from tests.unit.reservation import reference

HOST: str = uuidsentinel.host
OTHER: str = uuidsentinel.other
CPUS = (HOST, 'VCPU')
RAM = (HOST, 'MEMORY_MB')
PLACES = (CPUS, RAM, (OTHER, 'VCPU'))

HOUR = 3600

#: Of the machine that is compared with the reference. How many in the whole,
#: and the first seed, may be given.
CASES = int(os.environ.get('RESERVATION_CASES', '400'))
SEED = int(os.environ.get('RESERVATION_SEED', '1'))
SECONDS = 24
STEPS = 14


def span(start: int, end: int = interval.FOREVER) -> interval.Interval:
    return interval.Interval(start, end)


def make_calendar(**capacities: int) -> calendar.Calendar:
    made = calendar.Calendar()
    for name, capacity in capacities.items():
        made.set_capacity((HOST, name), capacity)
    return made


class Machine:
    """Does the same at random to a calendar and to the reference."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.ours = calendar.Calendar()
        self.theirs = reference.Reference(SECONDS + 1)
        for place in PLACES:
            self._set_capacity(place, span(0))

    def draw(self) -> interval.Interval:
        start = self.rng.randrange(SECONDS - 1)
        if self.rng.random() < 0.2:
            return span(start)
        return span(start, self.rng.randint(start + 1, SECONDS))

    def draw_places(self) -> dict[host_view.Place, int]:
        chosen = self.rng.sample(PLACES, self.rng.randint(1, len(PLACES)))
        return {place: self.rng.randint(1, 5) for place in chosen}

    def step(self, number: int) -> None:
        kind = self.rng.random()
        if kind < 0.2:
            self._set_capacity(self.rng.choice(PLACES), self.draw())
        elif kind < 0.4 and self.theirs.bookings:
            key = self.rng.choice(sorted(self.theirs.bookings))
            during, places = self.theirs.bookings.pop(key)
            removed = self.ours.remove(key)
            assert removed == calendar.Booking(during, places)
        else:
            during, places = self.draw(), self.draw_places()
            self.theirs.bookings[str(number)] = during, places
            self.ours.add(str(number), during, places)

    def _set_capacity(
        self, place: host_view.Place, during: interval.Interval
    ) -> None:
        capacity = self.rng.randint(0, 12)
        self.theirs.set_capacity(place, capacity, during)
        self.ours.set_capacity(place, capacity, during)


def count(
    made: calendar.Calendar,
    places: calendar.Places,
    during: interval.Interval,
) -> int:
    """Return how many times all amounts fit together in an interval."""
    return min(
        made.find_largest(place, during) // amount
        for place, amount in places.items()
    )


def fits(
    made: calendar.Calendar,
    places: calendar.Places,
    during: interval.Interval,
) -> bool:
    """Return whether all amounts are free throughout an interval."""
    return count(made, places, during) > 0


def list_seconds(steps: list[tuple[int, int]]) -> list[int]:
    """Return the number of each second, of steps that begin with the first."""
    ends = [*(time for time, _number in steps[1:]), SECONDS]
    return [
        number
        for (time, number), end in zip(steps, ends, strict=True)
        for _second in range(time, min(end, SECONDS))
    ]


class CalendarTest(base.TestCase):
    def test_the_example_is_true(self) -> None:
        text = calendar.__doc__
        assert text is not None
        names: dict[str, Any] = {
            'day': calendar.Calendar(),
            'CPUS': CPUS,
            'HOUR': 1,
            'hours': span,
        }
        example = doctest.DocTestParser().get_doctest(
            text, names, 'calendar', None, 0
        )
        out: list[str] = []

        result = doctest.DocTestRunner().run(example, out=out.append)

        self.assertEqual((0, []), (result.failed, out))
        self.assertGreater(result.attempted, 5)

    def test_a_place_without_capacity_is_unknown(self) -> None:
        empty = make_calendar(VCPU=8)

        for call in (
            lambda: empty.peak(RAM, span(0, 1)),
            lambda: fits(empty, {RAM: 1}, span(0, 1)),
            lambda: empty.add('one', span(0, 1), {CPUS: 1, RAM: 1}),
        ):
            error = self.assertRaises(KeyError, call)
            self.assertIn('MEMORY_MB', str(error))
            self.assertIn(HOST, str(error))

        self.assertEqual({}, empty.bookings)
        self.assertEqual(0, empty.peak(CPUS, span(0)))

    def test_absurd_amounts_are_refused(self) -> None:
        made = make_calendar(VCPU=8)

        for amount in (0, -1, 1.5, True, class_inventory.MAX_INT + 1, None):
            self.assertRaises(
                ValueError, made.add, 'one', span(0, 1), {CPUS: amount}
            )
        for capacity in (-1, 1.5, class_inventory.MAX_INT + 1):
            error = self.assertRaises(
                ValueError, made.set_capacity, CPUS, capacity
            )
            self.assertIn('capacity', str(error))

        self.assertEqual(8, made.find_largest(CPUS, span(0)))

    def test_a_key_is_booked_once(self) -> None:
        made = make_calendar(VCPU=8)
        made.add('one', span(0, 1), {CPUS: 1})

        self.assertRaises(ValueError, made.add, 'one', span(5), {CPUS: 1})

        made.remove('one')
        self.assertRaises(KeyError, made.remove, 'one')
        self.assertEqual(8, made.find_largest(CPUS, span(0)))

    def test_growth_counts_from_its_second_on(self) -> None:
        made = make_calendar(VCPU=8)
        made.set_capacity(CPUS, 16, span(100))

        self.assertEqual(8, made.find_largest(CPUS, span(99)))
        self.assertEqual(16, made.find_largest(CPUS, span(100)))

    def test_maintenance_breaks_what_is_booked_then(self) -> None:
        made = make_calendar(VCPU=8, MEMORY_MB=64)
        made.add('one', span(0, 100), {CPUS: 6, RAM: 6})

        made.set_capacity(CPUS, 4, span(50, 200))

        self.assertEqual(0, made.find_largest(CPUS, span(0, 60)))
        self.assertEqual(-2, made.find_free(CPUS, span(0, 60)))

    def test_capacity_that_is_set_anew_is_not_added(self) -> None:
        made = make_calendar(VCPU=8)
        made.set_capacity(CPUS, 8)
        made.set_capacity(CPUS, 6, span(50))

        self.assertEqual(6, made.find_free(CPUS, span(0)))

    def test_many_servers_fit_as_their_scarcest_class_allows(self) -> None:
        made = make_calendar(VCPU=8, MEMORY_MB=64)
        made.add('one', span(0, 10), {CPUS: 3})

        self.assertEqual(2, count(made, {CPUS: 2, RAM: 10}, span(5, 20)))
        self.assertEqual(4, count(made, {CPUS: 2, RAM: 10}, span(10, 20)))
        self.assertEqual(0, count(made, {CPUS: 2, RAM: 65}, span(10, 20)))

    def test_peaks_of_two_classes_need_not_be_at_once(self) -> None:
        made = make_calendar(VCPU=8, MEMORY_MB=8)
        made.add('one', span(0, 10), {CPUS: 6})
        made.add('two', span(10, 20), {RAM: 6})

        self.assertTrue(fits(made, {CPUS: 2, RAM: 2}, span(0, 20)))
        self.assertFalse(fits(made, {CPUS: 3, RAM: 2}, span(0, 20)))
        self.assertEqual(
            [(8, 0), (10, 0), (20, 2)],
            [*made.list_counts([([CPUS], 3), ([RAM], 3)], 8, 9)],
        )

    def test_of_several_places_one_has_the_amount(self) -> None:
        made = make_calendar(VCPU=8, MEMORY_MB=5)
        made.add('one', span(0, 10), {CPUS: 6})

        self.assertEqual(
            [(0, 1), (10, 3)], [*made.list_counts([([CPUS, RAM], 3)], 0, 9)]
        )
        self.assertEqual(
            [(0, 0), (10, 2)], [*made.list_counts([([CPUS], 3)], 0, 2)]
        )
        self.assertEqual([(4, 0)], [*made.list_counts([((), 3)], 4, 9)])
        self.assertEqual([(4, 9)], [*made.list_counts([], 4, 9)])

    def test_steps_show_capacity_and_use(self) -> None:
        made = make_calendar(VCPU=8)
        made.set_capacity(CPUS, 4, span(15))
        made.add('one', span(10, 20), {CPUS: 3})

        self.assertEqual(
            [
                (span(0, 10), 8, 0),
                (span(10, 15), 8, 3),
                (span(15, 20), 4, 3),
                (span(20, 30), 4, 0),
            ],
            list(made.list_steps(CPUS, span(0, 30))),
        )

    def test_what_has_ended_is_forgotten(self) -> None:
        made = make_calendar(VCPU=8)
        for number in range(50):
            made.add(str(number), span(number, number + 10), {CPUS: 1})
        before = [made.peak(CPUS, span(at, at + 1)) for at in range(40, 70)]

        made.forget(40)

        self.assertEqual({str(n) for n in range(31, 50)}, {*made.bookings})
        self.assertEqual(
            before, [made.peak(CPUS, span(at, at + 1)) for at in range(40, 70)]
        )
        for key in list(made.bookings):
            made.remove(key)
        self.assertEqual(0, made.peak(CPUS, span(50)))

    def test_changes_are_told_once(self) -> None:
        made = make_calendar(VCPU=8, MEMORY_MB=8)
        made.pop_changed()

        made.add('one', span(0, 5), {CPUS: 1})

        self.assertEqual({CPUS}, made.pop_changed())
        self.assertEqual(set(), made.pop_changed())
        made.remove('one')
        made.set_capacity(RAM, 9)
        self.assertEqual({CPUS, RAM}, made.pop_changed())


class BlazarTest(base.TestCase):
    """What Blazar 18 gets wrong about capacity over time."""

    def test_several_servers_on_one_host_are_counted_each(self) -> None:
        # It promised 12 vCPU on a host of 8: amount=3 was counted once.
        made = make_calendar(VCPU=8)
        asked = {CPUS: 4}

        self.assertEqual(2, count(made, asked, span(0, 10)))
        for number in range(2):
            made.add(str(number), span(0, 10), asked)
        self.assertEqual(0, count(made, asked, span(0, 10)))

    def test_leases_may_follow_one_another(self) -> None:
        # It refuses a lease that starts when another ends.
        made = make_calendar(VCPU=8)
        made.add('one', span(10, 20), {CPUS: 8})

        self.assertTrue(fits(made, {CPUS: 8}, span(20, 30)))
        self.assertTrue(fits(made, {CPUS: 8}, span(0, 10)))
        self.assertFalse(fits(made, {CPUS: 1}, span(19, 20)))
        self.assertFalse(fits(made, {CPUS: 1}, span(10, 11)))

    def test_servers_on_other_hosts_take_nothing_here(self) -> None:
        # The flavor plugin counts the whole amount on every host.
        made = make_calendar(VCPU=8)
        made.set_capacity((OTHER, 'VCPU'), 8)
        made.add('one', span(0, 10), {CPUS: 8})

        self.assertEqual(8, made.find_largest((OTHER, 'VCPU'), span(0, 10)))

    def test_what_is_not_at_once_is_not_added_up(self) -> None:
        made = make_calendar(VCPU=8)
        for number in range(4):
            during = span(number * 10, number * 10 + 10)
            made.add(str(number), during, {CPUS: 6})

        self.assertEqual(2, made.find_largest(CPUS, span(0, 40)))

    def test_allocation_ratio_and_running_servers_count(self) -> None:
        # Its instance plugin reads neither.
        given = class_inventory.Inventory(
            total=8, reserved=1, allocation_ratio=2.0
        )
        made = make_calendar(VCPU=given.capacity)
        made.add('a server that runs', span(0), {CPUS: 9})

        self.assertEqual(5, made.find_largest(CPUS, span(1000, 2000)))


class ReferenceTest(base.TestCase):
    """Beside every second by itself; a failure names the seed of its case."""

    def test_random_calendars(self) -> None:
        for seed in range(SEED, SEED + CASES):
            machine = Machine(seed)
            for number in range(STEPS):
                machine.step(number)
                self._compare(machine, f'RESERVATION_SEED={seed}')

    def _compare(self, machine: Machine, seed: str) -> None:
        ours, theirs, during = machine.ours, machine.theirs, machine.draw()
        place, places = machine.rng.choice(PLACES), machine.draw_places()
        counts = ours.list_counts(
            [([one], amount) for one, amount in places.items()],
            during.start,
            99,
        )

        self.assertEqual(
            (
                theirs.peak(place, during),
                theirs.find_free(place, during),
                theirs.fits(places, during),
                [
                    min(
                        max(theirs.count_free(one, second), 0) // amount
                        for one, amount in places.items()
                    )
                    for second in range(during.start, SECONDS)
                ],
            ),
            (
                ours.peak(place, during),
                ours.find_free(place, during),
                fits(ours, places, during),
                list_seconds([*counts]),
            ),
            seed,
        )
