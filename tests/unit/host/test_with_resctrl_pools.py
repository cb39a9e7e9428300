# SPDX-License-Identifier: Apache-2.0

"""A host whose servers share pools of ways, or of bandwidth."""

import dataclasses
import glob
import itertools
import os
import random
from typing import Any

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources import exception
from nova_ext_resources.facts import guest as guest_obj
from nova_ext_resources.host import manager
from nova_ext_resources.objects import alarm
from tests.unit import guests
from tests.unit.host import test_with_resctrl
from tests.unit.host import with_resctrl
from tests.unit import watching

A = uuidsentinel.a
B = uuidsentinel.b
C = uuidsentinel.c

#: Each has a CPU of the first domain.
MIGRATION = uuidsentinel.migration
OTHER_MIGRATION = uuidsentinel.other_migration

CPUS = {A: frozenset({1}), B: frozenset({2}), C: frozenset({3})}


class PoolsTestCase(with_resctrl.ResctrlHostTestCase):
    OPTIONS: dict[str, int] = {}  # noqa: RUF012 - read only

    def setUp(self) -> None:
        super().setUp()
        self.host = self.make_resctrl_host(**self.OPTIONS)

    def reopen(self, **options: Any) -> None:
        """Restart the service, with other options."""
        self.host.close()
        self.host = self.make_resctrl_host(**{**self.OPTIONS, **options})

    def take(
        self,
        uuid: str,
        resource_class: str,
        amount: int,
        most: int | None = None,
        domain: int = 0,
    ) -> None:
        attributes = {'max': str(most)} if most else {}
        self.start_with(
            uuid,
            {f'L3_{domain}': {resource_class: amount}},
            cpus=CPUS[uuid],
            attributes={resource_class: attributes} if attributes else None,
            thread_policy='isolate',
        )

    def heal(self) -> None:
        self.host.refresh()
        self.host.heal()
        self.assertEqual((), self.host.problems)

    def get_own(self, uuid: str, control: str = 'L3') -> int:
        return self.get_masks(f'nova-{uuid}', control)[0]

    @property
    def enforcer(self) -> base.Enforcer:
        return self.host.enforcement._enforcers['resctrl']

    def find_tunables(self) -> dict[str, tuple[int, int, int]]:
        return {
            one.consumer_uuid: (one.minimum, one.amount, one.maximum)
            for one in self.enforcer.list_tunables()
        }

    def share(self, **amounts: int) -> None:
        """Say what servers shall have, A to C."""
        shares = {
            one.consumer_uuid: one for one in self.enforcer.list_tunables()
        }
        self.enforcer.set_tunables(
            [
                dataclasses.replace(
                    shares[getattr(uuidsentinel, name)], amount=amount
                )
                for name, amount in amounts.items()
            ]
        )


class BurstTest(PoolsTestCase):
    """Six of eleven ways are the pool's: 0x03f. The host keeps 0x600."""

    OPTIONS = {'burst_ways': 6}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.watch = watching.Watch(self.machine, 0x600)
        self.addCleanup(lambda: self.assertEqual([], self.watch.faults))

    def burst(
        self, uuid: str, amount: int = 2, most: int | None = None
    ) -> None:
        self.watch.least[uuid, '0'] = amount
        self.take(uuid, classes.BURST, amount, most)

    def count_own(self, *uuids: str) -> list[int]:
        return [self.get_own(one).bit_count() for one in uuids]

    def test_a_server_that_moves_lends_its_part_until_it_is_back(
        self,
    ) -> None:
        self.burst(A)
        self.burst(B)
        self.assertEqual([3, 3], self.count_own(A, B))

        self.host.park(A, MIGRATION)

        self.assertEqual(0x3F, self.get_own(B))
        self.heal()
        self.host.unpark(A, MIGRATION)
        self.assertEqual([3, 3], self.count_own(A, B))
        self.heal()

    def test_the_pool_is_sold_apart(self) -> None:
        (found,) = {
            one.name: one
            for one in self.host.providers()
            if one.name.endswith('L3_0')
        }.values()

        self.assertEqual(6, found.inventories[classes.BURST].total)
        self.assertEqual(3, found.inventories[classes.WAYS].max_unit)
        self.assertEqual(8, found.inventories[classes.WAYS].reserved)

    def test_the_only_server_has_the_whole_pool(self) -> None:
        self.burst(A)

        self.assertEqual(0x03F, self.get_own(A))
        self.assertEqual(0x7C0, self.get_masks('')[0])
        self.assertEqual(0x7FF, self.get_masks('')[1])
        self.heal()

    def test_nobody_has_more_than_its_flavor_says(self) -> None:
        self.burst(A, 2, 3)

        self.assertEqual(0x007, self.get_own(A))
        # What of the pool nobody may use waits for the next server.
        self.assertEqual(0x7C0, self.get_masks('')[0])
        self.heal()

    def test_who_comes_is_made_room_for(self) -> None:
        self.burst(A)
        self.burst(B, 3)

        self.assertEqual((0x007, 0x038), (self.get_own(A), self.get_own(B)))
        self.burst(C, 1)
        self.assertEqual(
            [0x003, 0x01C, 0x020], [self.get_own(one) for one in CPUS]
        )
        self.heal()

    def test_who_goes_leaves_its_ways_to_the_others(self) -> None:
        for one in CPUS:
            self.burst(one)

        self.host.release(B)
        self.assertEqual((0x007, 0x038), (self.get_own(A), self.get_own(C)))
        self.host.release(A)
        self.assertEqual(0x03F, self.get_own(C))
        self.host.release(C)

        self.assertEqual({0: 0x7FF, 1: 0x7FF}, self.get_masks(''))
        self.heal()

    def test_only_the_minimums_must_fit(self) -> None:
        for one in CPUS:
            self.burst(one)

        self.host.release(A)
        self.assertRaises(exception.CapacityExceeded, self.burst, A, 3)

        self.assertEqual({B, C}, set(self.list_ours()))

    def test_ways_for_one_alone_are_untouched_by_the_pool(self) -> None:
        self.take(A, classes.WAYS, 2)
        before = self.get_own(A)

        self.burst(B)
        self.burst(C)
        self.host.release(B)

        self.assertEqual(before, self.get_own(A))
        self.assertEqual(0x0C0, before)
        self.heal()

    def test_own_ways_beside_burst_ways_are_refused_for_good(self) -> None:
        before = self.kernel.list_groups()

        err = self.assertRaises(
            exception.ConstraintsViolated,
            self.start_with,
            A,
            {'L3_0': {classes.WAYS: 3, classes.BURST: 2}},
        )

        self.assertIn('of one provider', str(err))
        self.assertTrue(all(one.is_permanent for one in err.shortfalls))
        self.assertEqual(before, self.kernel.list_groups())
        self.assertEqual({}, self.read_rows())

    def test_own_ways_of_another_cache_are_beside_burst_ways(self) -> None:
        self.watch.least[A, '0'] = 2
        self.start_with(
            A,
            {'L3_0': {classes.BURST: 2}, 'L3_1': {classes.WAYS: 3}},
            cpus=None,
        )

        self.assertEqual({0: 0x03F, 1: 0x1C0}, self.get_masks(f'nova-{A}'))
        self.heal()

    def test_both_from_a_time_when_they_were_sold_are_an_alarm(self) -> None:
        entry = self.start_with(A, {'L3_0': {classes.WAYS: 3}})
        (own,) = classes.pick(entry.assignments, classes.WAYS)
        burst = dataclasses.replace(
            own, resource_class=classes.BURST, amount=2, units={}
        )
        both = dataclasses.replace(
            entry, assignments=(*entry.assignments, burst)
        )
        # As it once was: all that it had were the burst ways.
        self.kernel.write(f'nova-{A}/schemata', 'L3:0=3f\n')
        self.enforcer.list_applied()

        self.assertFalse(self.enforcer.is_applied(both))
        self.watch.faults.clear()

    def test_any_order_of_coming_and_going_keeps_what_was_sold(self) -> None:
        for order in itertools.permutations(CPUS):
            for one in CPUS:
                self.burst(one)
            for one in order:
                self.host.release(one)
                self.watch.least.pop((one, '0'))
            self.assertEqual({0: 0x7FF, 1: 0x7FF}, self.get_masks(''))

    def test_a_long_time_of_coming_and_going(self) -> None:
        chance = random.Random(7)
        for _ in range(60):
            one = chance.choice(list(CPUS))
            if one in self.host.entries:
                self.watch.least.pop((one, '0'), None)
                self.host.release(one)
            else:
                least = chance.randint(1, 2)
                self.burst(one, least, chance.choice([None, least, 4]))
            if len(self.host.entries) > 1 and chance.random() < 0.3:
                self.enforcer.set_tunables(
                    [
                        dataclasses.replace(share, amount=share.minimum)
                        for share in self.enforcer.list_tunables()
                    ]
                )
        self.heal()

    def test_after_a_restart_all_is_as_it_was(self) -> None:
        self.burst(A)
        self.burst(B, 3)
        before = self.list_ours()

        self.reopen()
        self.host.reconcile([A, B])

        self.assertEqual(before, self.list_ours())
        self.assertEqual((), self.host.problems)

    def test_a_mask_outside_of_the_pool_is_put_right(self) -> None:
        self.burst(A)
        self.burst(B)
        for mask in (0x001, 0x0FF, 0x7FF, 0x03F):
            self.kernel.write(f'nova-{A}/schemata', f'L3:0={mask:x}\n')
            self.watch.faults.clear()

            self.heal()

            self.watch.faults.clear()
            self.assertEqual(
                {0x007, 0x038}, {self.get_own(A), self.get_own(B)}
            )

    def test_a_division_that_is_allowed_is_left_alone(self) -> None:
        self.burst(A)
        self.burst(B)
        self.kernel.write(f'nova-{A}/schemata', 'L3:0=3\n')
        self.kernel.write(f'nova-{B}/schemata', 'L3:0=3c\n')

        self.heal()

        self.assertEqual((0x3, 0x3C), (self.get_own(A), self.get_own(B)))

    def test_others_in_the_pool_make_it_smaller(self) -> None:
        self.burst(A)
        self.watch.least.clear()
        self.kernel.add_group('db', 'L3:0=3;1=400\n')

        self.heal()

        self.watch.faults.clear()
        self.assertEqual(0x03C, self.get_own(A))
        self.kernel.remove_group('db')
        self.burst(B)
        self.assertEqual((0x007, 0x038), (self.get_own(A), self.get_own(B)))

    def test_a_server_that_nobody_knows_keeps_its_run(self) -> None:
        self.kernel.add_group(f'nova-{C}', 'L3:0=3;1=600\n', cpus='3')
        self.host.refresh()

        self.burst(A)

        self.assertEqual(0x03C, self.get_own(A))
        self.assertEqual(0x003, self.get_own(C))
        self.watch.faults.clear()

    def test_who_goes_can_go_while_others_have_the_pool(self) -> None:
        self.burst(A)
        self.burst(B)
        self.kernel.add_group('db', 'L3:0=3e;1=400\n')
        self.host.refresh()

        self.host.release(B)

        self.assertEqual({A}, set(self.list_ours()))
        self.watch.faults.clear()

    def test_a_pool_that_others_have_is_an_alarm(self) -> None:
        self.burst(A)
        self.kernel.add_group('db', 'L3:0=3e;1=400\n')

        self.host.heal()

        (problem,) = self.host.problems
        self.assertEqual(alarm.NOT_APPLIED, problem.alarm)
        self.assertIn('other software on the host', str(problem))
        self.kernel.write(f'nova-{A}/cpus_list', '9\n')
        self.host.apply(A)
        self.assertEqual(CPUS[A], set(self.list_ours()[A]['cpus']))
        self.assertEqual(0x03F, self.get_own(A))
        self.assertRaises(exception.CapacityExceeded, self.burst, B, 1)
        self.watch.least.pop((B, '0'))
        self.kernel.remove_group('db')
        self.heal()
        self.watch.faults.clear()

    def test_whatever_fails_sold_ways_stay_with_who_bought_them(self) -> None:
        self.burst(A)
        self.burst(B, 3)
        for error in ('EIO', 'EINVAL', 'ENOSPC'):
            for number in range(20):
                with self.subTest(number=number, error=error):
                    self.check_failure_at(number, error)

    def check_failure_at(self, number: int, error: str) -> None:
        self.kernel.fail(skip=number, error=error)
        try:
            self.take(C, classes.BURST, 1)
        except exception.ExtResourcesError:
            self.assertNotEqual('applied', self.read_rows().get(C))
        self.kernel.stop_failing()
        self.host.release(C)
        self.heal()
        self.assertEqual({A, B}, set(self.list_ours()))
        self.assertEqual((0x007, 0x038), (self.get_own(A), self.get_own(B)))
        self.assertEqual([], self.watch.faults)

    def test_a_release_that_fails_anywhere_is_finished_later(self) -> None:
        for number in range(12):
            for one in CPUS:
                if one not in self.host.entries:
                    self.burst(one)
            self.watch.least.pop((B, '0'))
            self.kernel.fail(skip=number, error='EIO')
            try:
                self.host.release(B)
            except exception.EnforcementFailed:
                self.kernel.stop_failing()
                self.host.heal()
            self.kernel.stop_failing()
            self.assertEqual({A, C}, set(self.list_ours()))
            self.assertEqual(
                {0x007, 0x038}, {self.get_own(A), self.get_own(C)}
            )
            self.heal()

    def test_a_host_without_the_pool_any_more_says_so(self) -> None:
        self.burst(A)
        self.host.close()
        self.host = self.make_resctrl_host(burst_ways=0)

        self.host.reconcile([A])

        (problem, lost) = self.host.problems
        self.assertIn('burst_ways', str(problem))
        self.assertEqual((alarm.UNIT_LOST, A), (lost.alarm, lost.subject))
        self.assertIn(f'{classes.BURST} of L3_0', lost.text)
        self.watch.faults.clear()

    def test_ways_that_were_sold_before_the_pool_are_not_promised(
        self,
    ) -> None:
        self.reopen(burst_ways=0)
        for uuid in (A, C, B):
            self.take(uuid, classes.WAYS, 3)
        self.host.release(C)
        masks = [self.get_own(uuid) for uuid in (A, B)]
        self.assertIn(0x007, masks)

        self.reopen()

        self.assertEqual((6, 3), self.find_pool())
        self.assertRaises(exception.CapacityExceeded, self.burst, C, 4)
        self.burst(C, 3)
        self.assertEqual(0x038, self.get_own(C))
        self.assertEqual(masks, [self.get_own(uuid) for uuid in (A, B)])
        for uuid in (A, B):
            self.host.release(uuid)
        self.heal()
        self.assertEqual((6, 0), self.find_pool())

    def find_pool(self) -> tuple[int, int]:
        """Return how many ways the pool has, and how many are lost."""
        (given,) = (
            one.inventories[classes.BURST]
            for one in self.host.providers()
            if one.name.endswith('L3_0')
        )
        return given.total, given.reserved

    # -- fine tuning ---------------------------------------------------

    def test_what_may_be_moved_is_told(self) -> None:
        self.burst(A, 2, 5)
        self.burst(B, 1)

        self.assertEqual({A: (2, 4, 5), B: (1, 2, 6)}, self.find_tunables())

    def test_of_a_pool_that_is_overdrawn_nothing_is_offered(self) -> None:
        self.burst(A, 3)
        self.burst(B, 3)
        self.reopen(burst_ways=4)
        self.watch.faults.clear()

        self.host.heal()

        self.assertEqual({}, self.find_tunables())
        problems = {one.subject: one for one in self.host.problems}
        pool = problems.pop('L3_0 CUSTOM_LLC_WAYS_BURST')
        self.assertEqual(alarm.OVERALLOCATED, pool.alarm)
        self.assertEqual({A, B}, problems.keys())
        for problem in problems.values():
            self.assertIn(
                'burst_ways is 4; set burst_ways to at least 6', str(problem)
            )
        self.assertEqual((0x007, 0x038), (self.get_own(A), self.get_own(B)))
        self.reopen()
        self.heal()
        self.assertEqual({A: (3, 3, 6), B: (3, 3, 6)}, self.find_tunables())
        self.watch.faults.clear()

    def test_ways_are_moved_from_one_to_another(self) -> None:
        self.burst(A)
        self.burst(B, 1)

        self.share(a=5, b=1)

        self.assertEqual((0x01F, 0x020), (self.get_own(A), self.get_own(B)))
        self.heal()
        self.assertEqual({A: (2, 5, 6), B: (1, 1, 6)}, self.find_tunables())
        self.share(a=2, b=4)
        self.assertEqual((0x003, 0x03C), (self.get_own(A), self.get_own(B)))

    def test_saying_it_again_changes_nothing(self) -> None:
        self.burst(A)
        self.burst(B)
        self.share(a=4, b=2)
        self.kernel.forget_operations()

        self.share(a=4, b=2)

        operations = {one for one, _ in self.kernel.list_operations()}
        self.assertEqual(set(), operations & {'write', 'mkdir', 'rmdir'})

    def test_what_was_said_stays_when_a_server_is_applied_again(self) -> None:
        self.burst(A)
        self.burst(B)
        self.share(a=4, b=2)

        self.host.apply(A)

        self.assertEqual((0x00F, 0x030), (self.get_own(A), self.get_own(B)))

    def test_what_was_said_is_forgotten_with_the_servers(self) -> None:
        self.burst(A)
        self.burst(B)
        self.share(a=4, b=2)

        self.burst(C)
        self.host.release(C)

        self.assertEqual((0x007, 0x038), (self.get_own(A), self.get_own(B)))

    def test_impossible_shares_are_refused_whole(self) -> None:
        self.burst(A, 2, 4)
        self.burst(B)
        before = self.list_ours()
        for amounts in (
            {'a': 1, 'b': 2},
            {'a': 5, 'b': 1},
            {'a': 4, 'b': 3},
            {'a': 4},
        ):
            with self.subTest(amounts=amounts):
                self.assertRaises(
                    exception.EnforcementFailed, self.share, **amounts
                )
                self.assertEqual(before, self.list_ours())

    def test_a_share_of_somebody_without_any_is_refused(self) -> None:
        self.burst(A)
        (share,) = self.enforcer.list_tunables()

        err = self.assertRaises(
            exception.EnforcementFailed,
            self.enforcer.set_tunables,
            [dataclasses.replace(share, consumer_uuid=B)],
        )

        self.assertIn('holds no unit', str(err))

    def test_a_failed_move_is_told_and_breaks_nothing(self) -> None:
        self.burst(A)
        self.burst(B)
        for number in range(6):
            self.kernel.fail(skip=number, error='EIO')
            try:
                self.share(a=4, b=2)
            except exception.EnforcementFailed:
                self.kernel.stop_failing()
                self.heal()
            self.kernel.stop_failing()
            self.share(a=2, b=4)
            self.assertEqual(
                (0x003, 0x03C), (self.get_own(A), self.get_own(B))
            )


class SparseBurstTest(PoolsTestCase):
    SHAPE = 'epyc16'
    OPTIONS = {'burst_ways': 6}  # noqa: RUF012

    def test_the_default_group_keeps_all_but_the_pool(self) -> None:
        self.take(A, classes.BURST, 2)

        self.assertEqual(0x003F, self.get_own(A))
        self.assertEqual(0xFFC0, self.get_masks('')[0])
        self.heal()


class BandwidthTest(PoolsTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.watch = watching.Watch(self.machine, 0x600)
        self.addCleanup(lambda: self.assertEqual([], self.watch.faults))

    def limit(self, uuid: str, amount: int, most: int | None = None) -> None:
        self.take(uuid, classes.PERCENT, amount, most)
        self.watch.limited.add(uuid)

    def test_without_a_maximum_the_amount_is_the_limit(self) -> None:
        self.limit(A, 30)
        self.limit(B, 20)

        self.assertEqual(30, self.get_own(A, 'MB'))
        self.assertEqual(
            {A: (30, 30, 30), B: (20, 20, 20)}, self.find_tunables()
        )
        self.heal()

    def test_more_is_had_while_it_is_free(self) -> None:
        self.limit(A, 20, 95)

        self.assertEqual(90, self.get_own(A, 'MB'))
        self.heal()

    def test_who_comes_is_made_room_for(self) -> None:
        self.limit(A, 20, 100)
        self.limit(B, 30, 50)
        self.limit(C, 10)

        self.assertEqual(
            [40, 50, 10], [self.get_own(one, 'MB') for one in CPUS]
        )
        self.heal()
        self.host.release(B)
        self.assertEqual([90, 10], [self.get_own(one, 'MB') for one in (A, C)])

    def test_a_limit_outside_of_its_bounds_is_put_right(self) -> None:
        self.limit(A, 20, 60)
        for value in (10, 70, 100):
            self.kernel.write(f'nova-{A}/schemata', f'MB:0={value}\n')

            self.heal()

            self.assertEqual(60, self.get_own(A, 'MB'))

    def test_a_limit_within_its_bounds_is_left_alone(self) -> None:
        self.limit(A, 20, 60)
        self.kernel.write(f'nova-{A}/schemata', 'MB:0=30\n')

        self.heal()

        self.assertEqual(30, self.get_own(A, 'MB'))

    def test_bandwidth_is_moved_in_steps_of_the_hardware(self) -> None:
        self.limit(A, 20, 100)
        self.limit(B, 20, 100)

        for a, b, values in (
            (75, 20, [70, 20]),
            (20, 80, [20, 80]),
            (80, 20, [80, 20]),
        ):
            self.share(a=a, b=b)
            self.assertEqual(
                values, [self.get_own(one, 'MB') for one in (A, B)]
            )
        self.heal()

    def test_ways_and_bandwidth_of_a_pool_come_together(self) -> None:
        self.host.close()
        self.host = self.make_resctrl_host(burst_ways=6)

        self.start_with(
            A,
            {'L3_0': {classes.BURST: 2, classes.PERCENT: 20}},
            cpus=CPUS[A],
            thread_policy='isolate',
        )

        self.assertEqual(0x03F, self.get_own(A))
        self.assertEqual(20, self.get_own(A, 'MB'))
        self.assertEqual(2, len(self.find_all()))

    def find_all(self) -> list[str]:
        return [one.resource_class for one in self.enforcer.list_tunables()]


class AbsoluteBandwidthTest(PoolsTestCase):
    """AMD counts in eighths of GB/s."""

    SHAPE = 'epyc16'
    OPTIONS = {'memory_bandwidth': 40000}  # noqa: RUF012

    def test_more_is_had_while_it_is_free(self) -> None:
        self.take(A, classes.MBPS, 1000, 30000)

        self.assertEqual(240, self.get_own(A, 'MB'))
        self.take(B, classes.MBPS, 20000, 30000)
        self.assertEqual(
            (84, 236),
            tuple(self.get_own(one, 'MB') for one in (A, B)),
        )
        self.heal()


class MegabytesTest(PoolsTestCase):
    """The kernel counts in MB/s."""

    SHAPE = 'mbps'
    OPTIONS = {'memory_bandwidth': 60000}  # noqa: RUF012

    def test_more_is_had_while_it_is_free(self) -> None:
        self.take(A, classes.MBPS, 1005, 2000)
        self.take(B, classes.MBPS, 50000, 60000)

        self.assertEqual(2000, self.get_own(A, 'MB'))
        self.assertEqual(58000, self.get_own(B, 'MB'))
        self.heal()

    def test_what_may_be_moved_is_done_as_it_is_said(self) -> None:
        self.take(A, classes.MBPS, 1005, 40000)
        self.take(B, classes.MBPS, 1005, 40000)
        a, b = sorted(
            self.enforcer.list_tunables(),
            key=lambda one: one.consumer_uuid != A,
        )
        moved = [
            dataclasses.replace(a, amount=a.amount + 3 * a.step),
            dataclasses.replace(b, amount=b.amount - 3 * b.step),
        ]

        self.enforcer.set_tunables(moved)

        self.assertGreater(a.step, 1)
        self.assertCountEqual(moved, self.enforcer.list_tunables())


class SharedTest(PoolsTestCase):
    """Three of eleven ways are the pool's: 0x007. The host keeps 0x600."""

    OPTIONS = {'shared_ways': 3, 'shared_servers': 2}  # noqa: RUF012
    POOL = 'nova-shared'

    def setUp(self) -> None:
        super().setUp()
        self.watch = watching.Watch(self.machine, 0x600)
        self.addCleanup(lambda: self.assertEqual([], self.watch.faults))

    def join(self, uuid: str, domain: int = 0) -> None:
        self.take(uuid, classes.SHARED, 1, domain=domain)

    def get_cpus(self) -> list[int]:
        cpus: list[int] = self.kernel.list_groups()[self.POOL]['cpus']
        return cpus

    def test_the_first_makes_the_group_and_the_last_takes_it_away(
        self,
    ) -> None:
        before = self.kernel.list_groups()
        self.join(A)
        self.assertEqual({'', self.POOL}, set(self.kernel.list_groups()))
        self.assertEqual({0: 0x7, 1: 0x7}, self.get_masks(self.POOL))
        self.assertEqual({0: 0x7F8, 1: 0x7F8}, self.get_masks(''))
        self.assertEqual([1], self.get_cpus())

        self.join(B)
        self.assertEqual([1, 2], self.get_cpus())
        self.heal()
        self.host.release(A)
        self.assertEqual([2], self.get_cpus())
        self.host.release(B)

        self.assertEqual(before, self.kernel.list_groups())
        self.heal()

    def test_one_that_moves_keeps_its_place_and_is_not_there(self) -> None:
        self.join(A)
        self.join(B)

        self.host.park(A, MIGRATION)

        self.assertEqual([2], self.get_cpus())
        self.assertRaises(exception.CapacityExceeded, self.join, C)
        self.heal()
        self.host.park(B, OTHER_MIGRATION)
        self.assertEqual({''}, set(self.kernel.list_groups()))
        self.heal()
        self.host.unpark(A, MIGRATION)
        self.host.unpark(B, OTHER_MIGRATION)
        self.assertEqual([1, 2], self.get_cpus())
        self.heal()

    def test_there_are_as_many_places_as_are_said(self) -> None:
        self.join(A)
        self.join(B)

        self.assertRaises(exception.CapacityExceeded, self.join, C)

    def test_it_takes_one_class_of_service_used_or_not(self) -> None:
        def find() -> tuple[int, int]:
            given = {
                one.name: one.inventories[classes.CLOS]
                for one in self.host.providers()
                if classes.CLOS in one.inventories
            }
            (one,) = given.values()
            return one.total, one.reserved

        self.assertEqual((8, 2), find())
        self.join(A)
        self.host.refresh()
        self.assertEqual((8, 2), find())

    def test_a_place_in_the_domain_of_its_cpus_is_taken(self) -> None:
        self.start_with(A, {'L3_0': {classes.SHARED: 1}}, cpus=frozenset({13}))

        (one,) = self.host.entries[A].assignments
        self.assertEqual('L3_1', one.rp_key)

    def test_ways_of_one_alone_are_not_the_pools(self) -> None:
        self.take(C, classes.WAYS, 3)
        self.join(A)

        self.assertEqual(0x038, self.get_own(C))
        self.assertEqual(0x007, self.get_masks(self.POOL)[0])
        self.assertEqual(0x7C0, self.get_masks('')[0])
        self.heal()

    def test_ways_sold_where_the_pool_lies_now_are_taken_elsewhere(
        self,
    ) -> None:
        self.reopen(shared_ways=0)
        self.take(C, classes.WAYS, 3)
        self.assertEqual(0x007, self.get_own(C))
        # As after a reboot of the host, with the pool in the options.
        self.kernel.remove_group(f'nova-{C}')
        self.reopen()
        self.join(A)

        self.heal()

        self.assertEqual(0x007, self.get_masks(self.POOL)[0])
        self.assertEqual(0x038, self.get_own(C))
        self.heal()

    def test_ways_that_a_server_has_where_the_pool_lies_stay(self) -> None:
        self.reopen(shared_ways=0)
        self.take(C, classes.WAYS, 3)
        self.reopen()

        self.host.apply(C)

        self.assertEqual(0x007, self.get_own(C))
        self.assertRaises(exception.CapacityExceeded, self.join, A)

    def test_own_ways_beside_a_place_are_refused_for_good(self) -> None:
        for other in ({classes.WAYS: 2}, {classes.PERCENT: 20}):
            err = self.assertRaises(
                exception.ConstraintsViolated,
                self.start_with,
                A,
                {'L3_0': {classes.SHARED: 1, **other}},
                cpus=CPUS[A],
            )

            self.assertIn('cannot give one server both', str(err))
            self.assertEqual({''}, set(self.kernel.list_groups()))

    def test_after_a_restart_all_is_as_it_was(self) -> None:
        self.join(A)
        self.join(B)
        before = self.kernel.list_groups()

        self.reopen()
        self.host.reconcile([A, B])

        self.assertEqual(before, self.kernel.list_groups())
        self.assertEqual((), self.host.problems)

    def test_who_is_gone_at_the_start_leaves_the_group(self) -> None:
        self.join(A)
        self.join(B)

        self.reopen()
        self.host.reconcile([B])

        self.assertEqual([2], self.get_cpus())
        self.assertEqual((), self.host.problems)

    def lose_ledger(self) -> None:
        self.host.close()
        for path in glob.glob(f'{self.ledger_path}*'):
            os.unlink(path)
        self.host = self.make_resctrl_host(**self.OPTIONS)

    def test_an_empty_group_that_nobody_knows_is_removed(self) -> None:
        before = self.kernel.list_groups()
        self.join(A)
        self.kernel.write(f'{self.POOL}/cpus_list', '\n')
        self.lose_ledger()

        self.host.reconcile([])

        self.assertEqual(before, self.kernel.list_groups())
        self.heal()

    def test_a_group_that_unknown_servers_may_be_in_is_an_alarm(self) -> None:
        self.join(A)
        self.lose_ledger()

        self.host.reconcile([A])

        self.assertEqual([1], self.get_cpus())
        self.assertEqual(
            {self.POOL}, {one.subject for one in self.host.problems}
        )
        self.assertIn('rmdir', str(self.host.problems[0]))
        self.kernel.remove_group(self.POOL)
        self.heal()

    def test_an_orphan_with_a_group_of_its_own_leaves_the_pool(self) -> None:
        self.join(A)
        self.take(B, classes.WAYS, 2)
        self.lose_ledger()

        self.host.reconcile([A])

        self.assertEqual({'', self.POOL}, set(self.kernel.list_groups()))
        self.assertEqual([1], self.get_cpus())
        self.kernel.remove_group(self.POOL)
        self.heal()

    def test_the_last_known_server_leaves_unknown_ones_in_the_pool(
        self,
    ) -> None:
        self.join(A)
        self.lose_ledger()
        self.join(B)
        self.kernel.write(f'{self.POOL}/cpus_list', '1-2\n')

        self.host.release(B)

        self.assertEqual([1], self.get_cpus())
        self.kernel.remove_group(self.POOL)
        self.heal()

    def test_all_who_go_at_once_leave_nothing_behind(self) -> None:
        before = self.kernel.list_groups()
        self.join(A)
        self.join(B)
        self.reopen()

        self.host.reconcile([])

        self.assertEqual(before, self.kernel.list_groups())
        self.assertEqual({}, self.read_rows())
        self.assertEqual((), self.host.problems)

    def test_a_removed_group_is_made_again(self) -> None:
        self.join(A)
        self.join(B)
        self.kernel.remove_group(self.POOL)

        self.heal()

        self.assertEqual([1, 2], self.get_cpus())
        self.assertEqual({0: 0x7, 1: 0x7}, self.get_masks(self.POOL))

    def test_changed_ways_and_cpus_are_put_right(self) -> None:
        self.join(A)
        self.join(B)
        for path, text in (
            ('schemata', 'L3:0=3\n'),
            ('cpus_list', '1\n'),
            ('cpus_list', '\n'),
        ):
            with self.subTest(path=path, text=text):
                self.kernel.write(f'{self.POOL}/{path}', text)

                self.heal()

                self.assertEqual([1, 2], self.get_cpus())
                self.assertEqual({0: 0x7, 1: 0x7}, self.get_masks(self.POOL))

    def test_cpus_that_go_offline_and_come_back_are_followed(self) -> None:
        self.join(A)
        self.join(B)
        self.kernel.set_offline('2')
        self.heal()
        self.host.release(A)

        self.join(A)

        self.assertEqual([1], self.get_cpus())
        self.kernel.set_online('2')
        self.heal()
        self.assertEqual([1, 2], self.get_cpus())

    def test_the_default_group_does_not_fill_the_pool(self) -> None:
        self.join(A)
        self.kernel.write('schemata', 'L3:0=7ff\n')

        self.heal()

        self.assertEqual(0x7F8, self.get_masks('')[0])
        self.watch.faults.clear()

    def test_others_in_the_pool_leave_it_the_rest(self) -> None:
        self.join(A)
        self.kernel.add_group('db', 'L3:0=1;1=400\n')

        self.heal()

        self.assertEqual(0x6, self.get_masks(self.POOL)[0])
        self.watch.faults.clear()

    def test_a_pool_that_others_have_is_an_alarm(self) -> None:
        self.join(A)
        self.kernel.add_group('db', 'L3:0=7;1=400\n')

        self.host.heal()

        (problem,) = self.host.problems
        self.assertEqual(alarm.NOT_APPLIED, problem.alarm)
        self.kernel.write(f'{self.POOL}/cpus_list', '\n')
        self.host.apply(A)
        self.assertEqual([1], self.get_cpus())
        self.kernel.remove_group('db')
        self.heal()
        self.watch.faults.clear()

    def test_without_a_class_of_service_the_server_is_refused(self) -> None:
        for number in range(7):
            self.kernel.add_group(f'db{number}', 'L3:0=400;1=400\n')

        err = self.assertRaises(exception.CapacityExceeded, self.join, A)

        self.assertIn('Out of CLOSIDs', str(err))
        self.assertEqual({}, self.read_rows())

    def test_whatever_fails_nothing_is_left_half_done(self) -> None:
        before = self.kernel.list_groups()
        for error in ('EIO', 'EINVAL', 'ENOSPC'):
            for number in range(14):
                with self.subTest(number=number, error=error):
                    self.check_failure_at(number, error)
                    self.assertEqual(before, self.kernel.list_groups())

    def check_failure_at(self, number: int, error: str) -> None:
        self.kernel.fail(skip=number, error=error)
        for uuid in (A, B):
            try:
                self.join(uuid)
            except exception.ExtResourcesError:
                self.assertNotEqual('applied', self.read_rows().get(uuid))
        self.kernel.stop_failing()
        self.heal()
        held = {uuid for uuid in (A, B) if uuid in self.host.entries}
        if held:
            self.assertEqual(
                sorted(min(CPUS[uuid]) for uuid in held), self.get_cpus()
            )
        for uuid in (A, B):
            self.host.release(uuid)

    def test_a_release_that_fails_anywhere_is_finished_later(self) -> None:
        before = self.kernel.list_groups()
        for number in range(8):
            self.join(A)
            self.join(B)
            for uuid in (A, B):
                self.kernel.fail(skip=number, error='EIO')
                try:
                    self.host.release(uuid)
                except exception.EnforcementFailed:
                    self.kernel.stop_failing()
                self.kernel.stop_failing()
                self.heal()
            self.assertEqual(before, self.kernel.list_groups())

    def test_all_three_kinds_of_ways_live_side_by_side(self) -> None:
        self.host.close()
        self.host = self.make_resctrl_host(shared_ways=2, burst_ways=4)
        self.join(A)
        self.take(B, classes.BURST, 1)
        self.take(C, classes.WAYS, 2)

        masks = [
            self.get_masks(name)[0]
            for name in (self.POOL, f'nova-{B}', f'nova-{C}', '')
        ]

        self.assertEqual([0x030, 0x00F, 0x0C0, 0x700], masks)
        self.assertEqual({A, B, C}, self.enforcer.list_applied())
        self.heal()


class FloatingSharedTest(PoolsTestCase):
    OPTIONS = {'shared_ways': 3}  # noqa: RUF012
    TASKS = 'proc'

    def run_guest(self, uuid: str) -> guests.Guest:
        return self.useFixture(guests.Guest(uuid, 3))

    def join(self, uuid: str, cpus: frozenset[int] | None = None) -> None:
        self.start_with(uuid, {'L3_0': {classes.SHARED: 1}}, cpus=cpus)

    def list_inside(self) -> set[int]:
        return set(self.kernel.list_groups()['nova-shared']['tasks'])

    def test_their_threads_are_in_the_group_together(self) -> None:
        a, b = self.run_guest(A), self.run_guest(B)
        self.join(A)
        self.join(B)
        self.join(C, frozenset({3}))

        self.assertEqual(
            a.list_threads() | b.list_threads(), self.list_inside()
        )
        self.heal()
        self.host.release(A)
        self.assertEqual(b.list_threads(), self.list_inside())
        self.host.release(B)
        self.assertEqual(set(), self.list_inside())
        self.heal()

    def test_a_thread_that_was_moved_out_is_brought_back(self) -> None:
        guest = self.run_guest(A)
        self.join(A)
        self.kernel.write('tasks', f'{max(guest.list_threads())}\n')

        self.heal()

        self.assertEqual(guest.list_threads(), self.list_inside())

    def notice(self, uuid: str) -> None:
        """Have the hypervisor run a server."""
        self.running[uuid] = guest_obj.Guest(name=f'vm-{uuid}', number=1)

    def test_of_two_that_run_only_the_unseen_one_is_a_problem(self) -> None:
        guest = self.run_guest(A)
        self.join(A)
        self.join(B)
        self.notice(A)
        self.notice(B)

        for _ in range(2):
            self.host.refresh()
            self.host.heal()

        self.assertEqual(
            [(alarm.NOT_APPLIED, B)],
            [(one.alarm, one.subject) for one in self.host.problems],
        )
        self.assertEqual(guest.list_threads(), self.list_inside())
        guest = self.run_guest(B)
        self.heal()

    def test_one_that_runs_unseen_does_not_join(self) -> None:
        guest = self.run_guest(A)
        self.join(A)
        self.notice(B)

        self.assertRaises(exception.EnforcementFailed, self.join, B)

        self.assertEqual({A}, set(self.host.entries))
        self.assertEqual(guest.list_threads(), self.list_inside())

    def test_a_server_that_is_off_has_its_place(self) -> None:
        self.join(A)

        self.heal()

        self.assertEqual(set(), self.list_inside())


class SuiteBesidePoolsTest(test_with_resctrl.ResctrlSuiteTest):
    """Six of eleven ways can be sold, and three are kept for pools."""

    LOWEST = 3
    KEPT_CLASSES = 2

    def make_backend_host(self) -> manager.HostManager:
        return self.make_resctrl_host(
            reserved_ways=2, burst_ways=2, shared_ways=1
        )

    def add_foreign(self, name: str, masks: dict[int, int]) -> None:
        above = {domain: mask << 3 for domain, mask in masks.items()}
        super().add_foreign(name, above)
