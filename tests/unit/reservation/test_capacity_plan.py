# SPDX-License-Identifier: Apache-2.0

"""Tests of the capacity that changes leave, second by second."""

import dataclasses
import random

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import capacity_plan
from nova_ext_resources.reservation import fleets
from nova_ext_resources.reservation import forecast
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planner as planner_mod
from tests import base
from tests.unit.reservation import changes
from tests.unit.reservation import hosts
from tests.unit.reservation.hosts import span
from tests.unit.reservation import test_calendar

SECONDS = 16

CASES = max(test_calendar.CASES // 8, 1)
SEEDS = range(test_calendar.SEED, test_calendar.SEED + CASES)


def make_sharing_host(name: str) -> host_mod.Host:
    """Make one of eight CPUs that shares a pool of ten GB with others."""
    return host_mod.make_host(
        name,
        [
            hosts.make_provider(name, VCPU=8),
            hosts.make_provider('pool', DISK_GB=10),
        ],
        host_view.HostView(),
    )


def count(
    planned: list[capacity_change.CapacityChange],
    place: host_view.Place,
    second: int,
    now: int,
    capacity: int,
) -> int:
    """Return what there is of a place in a second, if it is not over."""
    mine = [
        one
        for one in planned
        if (one.is_of_host and one.host == place[0]) or one.rp_uuid == place[0]
    ]
    for one in mine:
        if not one.amounts and one.during.start <= second < one.during.end:
            return 0
    own = [one for one in mine if one.amounts]
    found = forecast.make(own, place[1], capacity, now).count()
    return found.lowest(span(second, second + 1))


class PlanTest(base.TestCase):
    def list_free(
        self, fleet: fleets.Fleet, place: host_view.Place, last: int = 6
    ) -> list[int]:
        return [
            fleet.calendar.find_free(place, span(one, one + 1))
            for one in range(last)
        ]

    def make(self, *names: str) -> fleets.Fleet:
        made = [make_sharing_host(one) for one in names or 'ab']
        return fleets.Fleet(made, hosts.TRACKERS)

    def test_a_host_in_maintenance_leaves_the_pool_to_others(self) -> None:
        fleet = self.make()

        capacity_plan.apply(
            fleet, [changes.make_maintenance('x', span(2, 4))], 0
        )

        self.assertEqual(
            [8, 8, 0, 0, 8, 8], self.list_free(fleet, ('a', 'VCPU'))
        )
        self.assertEqual([8] * 6, self.list_free(fleet, ('b', 'VCPU')))
        self.assertEqual([10] * 6, self.list_free(fleet, ('pool', 'DISK_GB')))
        self.assertIsNone(fleet.foresee('a', span(3, 9)))
        self.assertIsNotNone(fleet.foresee('a', span(4, 9)))

    def test_a_pool_is_changed_for_all_hosts(self) -> None:
        fleet = self.make()
        less = changes.make_change(
            'x', span(2, 4), {'DISK_GB': -3}, '', 10, rp_uuid='pool'
        )
        gone = changes.make_maintenance(
            'y', span(3, 5), host='', rp_uuid='pool'
        )

        capacity_plan.apply(fleet, [less, gone], 0)

        self.assertEqual(
            [10, 10, 7, 0, 0, 10],
            self.list_free(fleet, ('pool', 'DISK_GB')),
        )
        for name in 'ab':
            future = fleet.foresee(name, span(2, 3))
            assert future is not None
            self.assertEqual(
                7, future.view.tracked['pool', 'DISK_GB'].state.free
            )
            future = fleet.foresee(name, span(2, 5))
            assert future is not None
            self.assertNotIn(('pool', 'DISK_GB'), future.view.tracked)

    def test_a_pool_of_hosts_that_are_all_in_maintenance(self) -> None:
        fleet = self.make()

        capacity_plan.apply(
            fleet,
            [
                changes.make_maintenance('x', span(1, 4)),
                changes.make_maintenance('y', span(1, 4), 'b'),
                changes.make_change(
                    'z',
                    span(2, 4),
                    {'DISK_GB': -3},
                    host='',
                    rp_uuid='pool',
                    before=10,
                ),
            ],
            0,
        )

        self.assertEqual(
            [10, 10, 7, 7, 10, 10], self.list_free(fleet, ('pool', 'DISK_GB'))
        )
        self.assertEqual(
            [8, 0, 0, 0, 8, 8], self.list_free(fleet, ('a', 'VCPU'))
        )

    def test_what_is_taken_back_leaves_nothing(self) -> None:
        fleet = self.make()
        planned = [
            changes.make_maintenance('x', span(2, 4)),
            changes.make_change(
                'y', span(1, 3), {'DISK_GB': -3}, host='', rp_uuid='pool'
            ),
        ]
        capacity_plan.apply(fleet, planned, 0)

        capacity_plan.apply(fleet, [], 0)

        self.assertEqual([8] * 6, self.list_free(fleet, ('a', 'VCPU')))
        self.assertEqual([10] * 6, self.list_free(fleet, ('pool', 'DISK_GB')))
        self.assertIsNotNone(fleet.foresee('a', span(0)))

    def test_bookings_stay(self) -> None:
        planner = hosts.make_planner(hosts.make_host('a'))
        request = hosts.make_request('lease', span(1, 5))
        plan = planner.plan(request, 0)
        assert isinstance(plan, planner_mod.Plan)
        planner.accept(request, plan)

        capacity_plan.apply(
            planner.fleet, [changes.make_maintenance('x', span(2, 4))], 0
        )

        self.assertEqual(
            [8, 4, -4, -4, 4, 8], self.list_free(planner.fleet, ('a', 'VCPU'))
        )

    def test_one_server_may_have_all_that_comes(self) -> None:
        for limit, ratio, delta, most in (
            (0, 1.0, 8, 16),
            (8, 1.0, 8, 16),
            (5, 1.0, 8, 5),
            (0, 4.0, 30, 15),
            (0, 1.0, -5, 8),
        ):
            with self.subTest(limit=limit, ratio=ratio, delta=delta):
                fleet = self.make('a')
                host, place = fleet.hosts['a'], ('a', 'VCPU')
                known = class_inventory.Inventory(
                    total=8, max_unit=limit, allocation_ratio=ratio
                )
                tracked = dataclasses.replace(
                    host.view.tracked[place], inventory=known
                )
                view = dataclasses.replace(
                    host.view, tracked={**host.view.tracked, place: tracked}
                )
                fleet.hosts['a'] = dataclasses.replace(host, view=view)

                capacity_plan.apply(
                    fleet,
                    [changes.make_change('x', span(2), {'VCPU': delta})],
                    0,
                )

                future = fleet.foresee('a', span(2))
                assert future is not None
                found = future.view.tracked[place].inventory
                self.assertEqual(most, found and found.max_unit)

    def test_hosts_that_are_not_there(self) -> None:
        fleet = self.make('a')

        capacity_plan.apply(
            fleet,
            [
                changes.make_maintenance('x', span(2, 4), 'gone'),
                changes.make_change('y', span(2), {'VCPU': -1}, 'gone'),
            ],
            0,
        )

        self.assertEqual([8] * 6, self.list_free(fleet, ('a', 'VCPU')))

    def test_units_that_are_not_alike(self) -> None:
        host = hosts.make_cached_host('a')
        fleet = fleets.Fleet([host], hosts.TRACKERS)
        place = 'a L3_0', hosts.WAYS
        less, more = (
            changes.make_change(
                'x', during, {hosts.WAYS: amount}, rp_uuid='a L3_0'
            )
            for during, amount in ((span(1, 2), -2), (span(3, 4), 2))
        )

        capacity_plan.apply(fleet, [less, more], 0)

        self.assertEqual([8, 0, 8, 8, 8], self.list_free(fleet, place, 5))

    def test_random_changes_second_by_second(self) -> None:
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.check_random(random.Random(seed))

    def check_random(self, rng: random.Random) -> None:
        fleet = self.make()
        # What was planned before is gone.
        for _round in range(2):
            planned = [self.draw(rng, str(one)) for one in range(4)]
            now = rng.randrange(SECONDS)
            capacity_plan.apply(fleet, planned, now)
        for place, capacity in (
            (('a', 'VCPU'), 8),
            (('b', 'VCPU'), 8),
            (('pool', 'DISK_GB'), 10),
        ):
            for second in range(now, SECONDS):
                wanted = count(planned, place, second, now, capacity)
                found = fleet.calendar.find_free(
                    place, span(second, second + 1)
                )
                self.assertEqual(wanted, found, f'{place} {second} {planned}')

    def draw(
        self, rng: random.Random, key: str
    ) -> capacity_change.CapacityChange:
        start = rng.randrange(SECONDS - 1)
        end = rng.choice([interval.FOREVER, rng.randint(start + 1, SECONDS)])
        during = interval.Interval(start, end)
        kind, host = rng.random(), rng.choice('ab')
        if kind < 0.2:
            return changes.make_maintenance(key, during, host)
        if kind < 0.3:
            return changes.make_maintenance(key, during, '', rp_uuid='pool')
        amount = rng.choice([-9, -5, -2, -1, 1, 3, 7])
        before = rng.randint(1, 11)
        if kind < 0.5:
            return changes.make_change(
                key, during, {'DISK_GB': amount}, '', before, rp_uuid='pool'
            )
        return changes.make_change(key, during, {'VCPU': amount}, host, before)
