# SPDX-License-Identifier: Apache-2.0

"""Tests of what makes way for a change of capacity."""

import random
from typing import Any

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import packing
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import way as way_mod
from tests import base
from tests.unit.reservation import changes
from tests.unit.reservation import hosts
from tests.unit.reservation.hosts import span
from tests.unit.reservation import test_calendar

SECONDS = 14

CASES = max(test_calendar.CASES // 8, 1)
SEEDS = range(test_calendar.SEED, test_calendar.SEED + CASES)


class WayTestCase(base.TestCase):
    """Two hosts of eight CPUs; each server needs four unless it says so."""

    def setUp(self) -> None:
        super().setUp()
        self.make('a', 'b')

    def make(self, *names: str) -> None:
        self.planner = hosts.make_planner(*map(hosts.make_host, names))
        self.held: dict[str, packing.PlannedServers] = {}
        self.planned: list[capacity_change.CapacityChange] = []

    def book(
        self, key: str, start: int, end: int, amount: int = 4, **fields: Any
    ) -> bool:
        demand = hosts.make_demand(_={'VCPU': amount})
        request = hosts.make_request(key, span(start, end), demand, **fields)
        plan = self.planner.plan(request, 0, lead=SECONDS)
        if isinstance(plan, planner.Refusal):
            return False
        self.planner.accept(request, plan)
        self.held[key] = plan.servers
        return True

    def find(
        self,
        change: capacity_change.CapacityChange,
        *,
        now: int = 0,
        fixed: int = 0,
        is_withdrawn: bool = False,
    ) -> way_mod.Way:
        """Plan a change; the fleet follows it afterwards."""
        fleet = self.planner.fleet
        places = capacity_plan.find_places(fleet, change)
        before = way_mod.list_missing(fleet, places, now)
        if is_withdrawn:
            self.planned.remove(change)
        else:
            self.planned.append(change)
        capacity_plan.apply(fleet, self.planned, now)
        booked = dict(fleet.bookings)
        found = way_mod.find_way(
            self.planner, change, before, self.held, now=now, fixed=fixed
        )
        self.assertEqual(booked, fleet.bookings)
        return found

    def list_hosts(self, way: way_mod.Way, key: str) -> list[str]:
        return [one.host for one in way.moved[key]]


class WayTest(WayTestCase):
    def test_nothing_is_in_the_way(self) -> None:
        self.book('lease', 5, 9)

        for during in (span(9), span(1, 5)):
            way = self.find(changes.make_maintenance('x', during))
            self.assertEqual(way_mod.Way(), way)
            self.planned.clear()

    def test_what_has_not_started_is_moved(self) -> None:
        self.book('lease', 5, 9, least=2)

        way = self.find(changes.make_maintenance('x', span(8, 10)))

        self.assertEqual(['b', 'b'], self.list_hosts(way, 'lease'))
        self.assertEqual(('lease',), way.hurt)
        self.assertEqual((), way.degraded)
        self.assertEqual(span(5, 9), way.moved['lease'][0].during)

    def test_what_has_started_is_not_moved(self) -> None:
        self.book('lease', 5, 9, least=2)

        way = self.find(changes.make_maintenance('x', span(8, 10)), fixed=5)

        self.assertEqual(way_mod.Way(degraded=('lease',)), way)

    def test_what_fits_nowhere_is_degraded(self) -> None:
        self.book('lease', 5, 9, least=3)

        way = self.find(changes.make_maintenance('x', span(8, 10)))

        self.assertEqual(way_mod.Way(degraded=('lease',)), way)

    def test_those_stay_that_come_first(self) -> None:
        self.book('small', 5, 9, amount=2)
        self.book('large', 5, 9, amount=3)
        self.book('first', 5, 9, amount=1, priority=1)

        way = self.find(changes.make_change('x', span(6, 7), {'VCPU': -4}))

        self.assertEqual(('small',), way.hurt)
        self.assertEqual(['b'], self.list_hosts(way, 'small'))

    def test_what_fits_beside_a_cut_is_not_hurt(self) -> None:
        self.book('lease', 5, 9)

        way = self.find(changes.make_change('x', span(6, 7), {'VCPU': -4}))

        self.assertEqual((), way.hurt)

    def test_what_was_missing_before_is_not_laid_to_its_charge(self) -> None:
        self.book('lease', 5, 9, least=2)
        self.find(changes.make_maintenance('x', span(5, 9)))

        again = changes.make_change('y', span(5, 9), {'VCPU': -1})

        self.assertEqual((), self.find(again).hurt)

    def test_who_counts_on_more_is_hurt_when_it_does_not_come(self) -> None:
        more = changes.make_change('x', span(5, 9), {'VCPU': 4})
        self.find(more)
        self.book('lease', 5, 9, least=3)
        self.book('other', 2, 5, least=2)

        way = self.find(more, is_withdrawn=True)

        self.assertEqual(('lease',), way.hurt)

    def test_a_pool_is_cut_for_all_hosts_together(self) -> None:
        pool = hosts.make_provider('pool', CUSTOM_SEAT=10)
        self.planner = hosts.make_planner(
            *(
                host_mod.make_host(
                    name,
                    [hosts.make_provider(name, VCPU=8), pool],
                    host_view.HostView(),
                )
                for name in ('a', 'b')
            )
        )
        for key, seats in (('lease', 3), ('other', 1)):
            request = hosts.make_request(
                key,
                span(5, 9),
                hosts.make_demand(_={'VCPU': 1, 'CUSTOM_SEAT': seats}),
                least=2,
                affinity=plan_request.Affinity.DIFFERENT_HOSTS,
            )
            plan = self.planner.plan(request, 0)
            assert isinstance(plan, planner.Plan)
            self.planner.accept(request, plan)
            self.held[key] = plan.servers
        cut = changes.make_change(
            'x', span(6, 7), {'CUSTOM_SEAT': -5}, '', 10, rp_uuid='pool'
        )

        way = self.find(cut)

        self.assertEqual(way_mod.Way(degraded=('lease',)), way)

    def test_a_host_that_is_not_there(self) -> None:
        self.book('lease', 5, 9)

        way = self.find(changes.make_maintenance('x', span(5), 'gone'))

        self.assertEqual((), way.hurt)


class RandomTest(WayTestCase):
    """What is said is so, second by second; capacity is counted by hand."""

    def test_random_changes(self) -> None:
        outcomes = set()
        for seed in SEEDS:
            with self.subTest(seed=seed):
                outcomes |= self.check(random.Random(seed))
        if CASES > 50:
            self.assertEqual({'none', 'moved', 'degraded'}, outcomes)

    def check(self, rng: random.Random) -> set[str]:
        self.make('a', 'b', 'c')
        for number in range(10):
            self.book(
                str(number),
                *self.draw_times(rng),
                amount=rng.randint(1, 6),
                least=rng.randint(1, 2),
                priority=rng.randint(0, 1),
            )
        host, fixed = rng.choice('abc'), rng.choice((0, 0, 4))
        during = interval.Interval(*self.draw_times(rng))
        amount = rng.choice((0, -2, -5, -8))
        change = changes.make_maintenance('x', during, host)
        if amount:
            change = changes.make_change('x', during, {'VCPU': amount}, host)

        way = self.find(change, fixed=fixed)

        def count_left(name: str, second: int) -> int:
            if name != host or not during.start <= second < during.end:
                return 8
            return 8 + amount if amount else 0

        self.check_room(self.held, count_left, bool(way.hurt))
        after = {**self.held, **way.moved}
        kept = {
            key: one for key, one in after.items() if key not in way.degraded
        }
        self.check_room(kept, count_left, False)
        for key, servers in way.moved.items():
            before = self.held[key]
            self.assertGreater(before[0].during.start, fixed)
            self.assertEqual(len(before), len(servers))
            self.assertEqual(before[0].during, servers[0].during)
            self.assertTrue({host} & {one.host for one in before})
        return {
            'none' if not way.hurt else '',
            'moved' if way.moved else '',
            'degraded' if way.degraded else '',
        } - {''}

    def draw_times(self, rng: random.Random) -> tuple[int, int]:
        start = rng.randrange(1, SECONDS - 1)
        return start, rng.randint(start + 1, SECONDS)

    def check_room(self, held: Any, count_left: Any, is_short: bool) -> None:
        """Check whether more is held somewhere than there is."""
        found = any(
            sum(
                one.places[name, 'VCPU']
                for servers in held.values()
                for one in servers
                if one.host == name
                and one.during.start <= second < one.during.end
            )
            > count_left(name, second)
            for name in 'abc'
            for second in range(SECONDS)
        )
        self.assertEqual(is_short, found)
