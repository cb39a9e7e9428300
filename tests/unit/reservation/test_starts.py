# SPDX-License-Identifier: Apache-2.0

"""Tests of the starts from which amounts would do."""

import random
from types import MappingProxyType
from typing import Any

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import host
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import starts
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation.hosts import span

Affinity = plan_request.Affinity
SECONDS = 20


class StartsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.make()

    def make(self) -> None:
        self.planner = hosts.make_planner(
            hosts.make_host('one'), hosts.make_host('two')
        )
        self.fleet = self.planner.fleet

    def book(self, key: str, during: interval.Interval, vcpus: int) -> None:
        request = hosts.make_request(
            key, during, hosts.make_demand(_={'VCPU': vcpus})
        )
        plan = self.planner.plan(request, 0)
        if isinstance(plan, planner.Plan):
            self.planner.accept(request, plan)

    def list_starts(
        self, *names: str, latest: int = interval.FOREVER, **fields: Any
    ) -> list[int]:
        request = hosts.make_request('it', span(0, 3), **fields)
        return list(
            starts.list_starts(
                self.fleet, request, latest, {*(names or ('one', 'two'))}
            )
        )

    def count(self, start: int, affinity: Affinity) -> int:
        """Return how many servers of four VCPU fit for three seconds."""
        fits = [
            self.fleet.calendar.find_largest(
                (name, 'VCPU'), span(start, start + 3)
            )
            // 4
            for name in self.fleet.hosts
        ]
        if affinity is Affinity.ANY:
            return sum(fits)
        if affinity is Affinity.SAME_HOST:
            return max(fits)
        return sum(map(bool, fits))

    def test_it_starts_when_enough_are_free(self) -> None:
        self.book('a', span(0, 5), 8)
        self.book('b', span(0, 9), 8)
        self.book('c', span(20, 22), 8)

        self.assertEqual([5, 9, 22], self.list_starts())
        self.assertEqual([9], self.list_starts('two'))
        self.assertEqual([9, 22], self.list_starts(least=3))
        self.assertEqual([5], self.list_starts(latest=8))
        self.assertEqual([], self.list_starts(latest=4))
        self.assertEqual([9], self.list_starts(least=4, latest=9))
        self.assertEqual([], self.list_starts(least=5))

    def test_amounts_do_at_no_other_start(self) -> None:
        for seed in range(40):
            rng = random.Random(seed)
            self.make()
            for number in range(8):
                start = rng.randrange(SECONDS)
                during = span(start, rng.randint(start + 1, SECONDS + 1))
                self.book(str(number), during, rng.randint(1, 8))
            for affinity in Affinity:
                for least in (1, 2, 3):
                    self._compare(affinity, least, f'seed {seed}')

    def _compare(self, affinity: Affinity, least: int, seed: str) -> None:
        found = self.list_starts(affinity=affinity, least=least)

        enough = [
            start
            for start in range(SECONDS + 2)
            if self.count(start, affinity) >= least
        ]
        self.assertEqual([], sorted({*found} - {*enough}), seed)
        self.assertEqual(enough[:1], found[:1], seed)
        for start in enough:
            if start - 1 not in enough:
                self.assertIn(start, found, seed)

    def test_classes_of_sharing_providers_are_not_asked_for(self) -> None:
        pool = hosts.make_provider('pool', (), DISK_GB=100)
        fleet = fleets.Fleet(
            [
                host.make_host(
                    name,
                    [hosts.make_provider(name, (), VCPU=8), pool],
                    host_view.HostView(),
                )
                for name in ('one', 'two')
            ],
            hosts.TRACKERS,
        )
        request = hosts.make_request(
            'it', span(0, 3), hosts.make_demand(_={'VCPU': 2, 'DISK_GB': 1})
        )

        self.assertEqual({'VCPU': 2}, starts.make_ask(fleet, request))


class LayersTest(base.TestCase):
    def test_layers_add_up_to_the_steps_and_begin_where_they_rise(
        self,
    ) -> None:
        rng = random.Random(1)
        for _case in range(200):
            times = sorted(rng.sample(range(SECONDS), rng.randint(1, 8)))
            steps = [(time, rng.randint(-1, 4)) for time in times]
            numbers = dict.fromkeys(range(-1, SECONDS), 0)
            for time, number in steps:
                for second in range(time, SECONDS):
                    numbers[second] = max(number, 0)

            layers = [*starts._list_layers(steps)]

            for second, number in numbers.items():
                there = [
                    servers
                    for start, end, servers in layers
                    if start <= second < end
                ]
                self.assertEqual(number, sum(there), str(steps))
            for start, end, _servers in layers:
                self.assertGreater(numbers[start], numbers[start - 1])
                if end < SECONDS:
                    self.assertLess(numbers[end], numbers[end - 1])


class SharingTest(base.TestCase):
    """Two hosts have the seats of a rack, another one has others.

    A disk is for all of them.
    """

    POOLS = (('left', 'CUSTOM_SEAT'), ('right', 'CUSTOM_SEAT'), ('disk', 'GB'))
    RACKS = MappingProxyType({'a': 'left', 'b': 'left', 'c': 'right'})
    NEEDS = MappingProxyType({'VCPU': 4, 'CUSTOM_SEAT': 3, 'GB': 2})

    def make(self, rng: random.Random) -> None:
        pools = {
            place: hosts.make_provider(place[0], (), **{place[1]: 7})
            for place in self.POOLS
        }
        self.fleet = fleets.Fleet(
            [
                host.make_host(
                    name,
                    [
                        hosts.make_provider(name, (), VCPU=8),
                        pools[rack, 'CUSTOM_SEAT'],
                        pools['disk', 'GB'],
                    ],
                    host_view.HostView(),
                )
                for name, rack in self.RACKS.items()
            ],
            hosts.TRACKERS,
        )
        places = sorted(self.fleet.calendar.places)
        for number in range(rng.randint(2, 16)):
            start = rng.randrange(SECONDS)
            self.fleet.calendar.add(
                str(number),
                span(start, rng.randint(start + 1, SECONDS + 1)),
                {rng.choice(places): rng.randint(1, 5)},
            )

    def count(self, start: int, affinity: Affinity) -> int:
        """Return how many servers fit, rack by rack."""

        def fits(rp_uuid: str, name: str) -> int:
            during = span(start, start + 3)
            free = self.fleet.calendar.find_largest((rp_uuid, name), during)
            return free // self.NEEDS[name]

        most = 1 if affinity is Affinity.DIFFERENT_HOSTS else 99
        racks = {'left': 0, 'right': 0}
        alone = []
        for name, rack in self.RACKS.items():
            own = min(fits(name, 'VCPU'), most)
            seats = fits(rack, 'CUSTOM_SEAT')
            alone.append(min(own, seats, fits('disk', 'GB')))
            racks[rack] = min(racks[rack] + own, seats)
        if affinity is Affinity.SAME_HOST:
            return max(alone)
        return min(sum(racks.values()), fits('disk', 'GB'))

    def test_amounts_do_at_no_other_start(self) -> None:
        for seed in range(40):
            self.make(random.Random(seed))
            for affinity in Affinity:
                for least in (1, 2, 3):
                    request = hosts.make_request(
                        'it',
                        span(0, 3),
                        hosts.make_demand(_=self.NEEDS),
                        affinity=affinity,
                        least=least,
                    )

                    found = starts.list_starts(
                        self.fleet, request, interval.FOREVER, {*'abc'}
                    )

                    enough = [
                        start
                        for start in range(SECONDS + 2)
                        if self.count(start, affinity) >= least
                    ]
                    known = [*found]
                    where = f'seed {seed}, {affinity}, {least}'
                    self.assertEqual(enough[:1], known[:1], where)
                    self.assertEqual(set(), {*known} - {*enough}, where)
