# SPDX-License-Identifier: Apache-2.0

"""Traps of RMD that were found later, with the real libpqos below it."""

import contextlib
import itertools
from typing import Any

import fixtures

from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import losses
from nova_ext_resources.drivers.rmd.api import odds
from nova_ext_resources.drivers.rmd.api import removal
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.drivers.rmd.api import verify
from nova_ext_resources.testing import fake_clock
from nova_ext_resources.testing.rmd_simulator import faults
from nova_ext_resources.testing.rmd_simulator import resctrl
from tests import base
from tests.unit.drivers.rmd.api import with_simulator


class LaterTrapTestCase(with_simulator.RmdTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.uuid = with_simulator.make_uuid()

    def place(self, *core_ids: int, **fields: Any) -> dict[int, int]:
        return verify.place_workload(
            self.client,
            with_simulator.make_request(
                with_simulator.make_uuid(), *core_ids, **fields
            ),
        )

    def count_classes(self) -> int:
        """Return how many classes of service RMD can still give."""
        return len(self.simulator.daemon.enforcement.classes.free)

    def list_lost(self) -> list[str]:
        """Return the classes that RMD is known to have lost."""
        return [one.cos_name for one in self.client.losses.list_all()]

    def release_one_cpu_only(self) -> None:
        """Let libpqos fail after it has moved the first CPU back."""
        associate = resctrl.Resctrl.associate_cpus

        def fail(made: resctrl.Resctrl, name: str, cpus: Any) -> bool:
            if name != resctrl.DEFAULT:
                return associate(made, name, cpus)
            associate(made, name, {min(cpus)})
            return False

        self.useFixture(
            fixtures.MockPatchObject(resctrl.Resctrl, 'associate_cpus', fail)
        )


class LibpqosTest(LaterTrapTestCase):
    def test_trap_17_a_class_is_lost_with_an_attempt_so_there_is_one(
        self,
    ) -> None:
        self.simulator.lie()

        err = self.assertRaises(errors.NotEnforced, self.place, 1)

        self.assertEqual(['POST', 'DELETE'], self.changes())
        self.assertEqual(5, self.count_classes())
        for words in ('cache 0 gave ways 0x0', 'libpqos', 'restart_needed'):
            self.assertIn(words, str(err))
        self.assertEqual(['COS2'], self.list_lost())

    def test_trap_17_cpus_that_stay_in_the_default_group_are_a_fault(
        self,
    ) -> None:
        # The mask is written, and then the CPUs cannot be moved.
        self.useFixture(
            fixtures.MockPatchObject(
                resctrl.Resctrl, 'associate_cpus', lambda *_arguments: False
            )
        )

        err = self.assertRaises(errors.NotEnforced, self.place, 1, 2)

        self.assertIn('CPUs 1-2 stay in the default group', str(err))
        # As its ways do not come back, it is not tried again.
        self.assertEqual(['POST', 'DELETE'], self.changes())
        self.assertEqual(['COS2'], self.list_lost())

    def test_trap_17_a_class_that_is_on_record_again_is_not_lost(self) -> None:
        self.simulator.lie()
        self.assertRaises(errors.NotEnforced, self.place, 1)
        self.simulator.lie(False)
        self.simulator.restart()

        self.place(1)
        self.client.list_workloads()

        self.assertEqual([], self.list_lost())

    def test_trap_17_an_rmd_that_was_away_has_lost_nothing(self) -> None:
        self.simulator.lie()
        self.assertRaises(errors.NotEnforced, self.place, 1)
        self.simulator.lie(False)
        # One that does not respond may run all the same.
        self.simulator.faults.add(faults.Fault(kind='drop', path='/v1/cache'))
        self.assertRaises(errors.RmdUnavailable, self.client.list_caches)
        self.simulator.faults.clear()
        self.assertEqual(['COS2'], self.list_lost())

        self.simulator.refuse_connections()
        self.assertRaises(errors.RmdUnavailable, self.client.list_caches)
        self.simulator.restart()

        self.assertEqual([], self.list_lost())

    def test_trap_17_so_are_those_of_the_shared_pool(self) -> None:
        self.client = self.make_client(shared_servers=2)
        self.simulator.lie()

        self.assertRaises(
            errors.NotEnforced, self.place, 1, max_ways=0, min_ways=0
        )

        self.assertEqual(['POST', 'DELETE'], self.changes())


class ReleaseTest(LaterTrapTestCase):
    def place_and_remove(self) -> None:
        self.place(1, 2)
        (record,) = self.client.list_workloads()
        removal.remove_workload(self.client, record.uuid)

    def test_what_was_released_is_not_lost(self) -> None:
        self.place_and_remove()

        self.assertEqual([], self.list_lost())

    def test_trap_21_a_delete_without_effect_loses_a_class(self) -> None:
        self.place(1, 2)
        (record,) = self.client.list_workloads()
        self.simulator.lie()

        removal.remove_workload(self.client, record.uuid)

        self.assertEqual((), self.client.list_workloads())
        self.assertEqual(['COS2'], self.list_lost())
        (loss,) = self.client.losses.list_all()
        for words in ('DELETE', record.uuid, 'CPUs 1-2'):
            self.assertIn(words, loss.text)

    def test_one_of_several_cpus_that_comes_back_is_no_effect(self) -> None:
        self.place(1, 2)
        (record,) = self.client.list_workloads()
        self.release_one_cpu_only()

        removal.remove_workload(self.client, record.uuid)

        self.assertEqual(5, self.count_classes())
        self.assertEqual(['COS2'], self.list_lost())

    def test_nor_is_it_where_they_were_in_another_group(self) -> None:
        self.place(1, 2)
        (record,) = self.client.list_workloads()
        self.simulator.lie()
        removal.remove_workload(self.client, record.uuid)
        self.simulator.on_change.append(lambda: self.simulator.lie(False))
        self.release_one_cpu_only()

        self.assertRaises(errors.NotEnforced, self.place, 1, 2)

        self.assertEqual(4, self.count_classes())
        self.assertEqual(['COS2', 'COS3'], self.list_lost())

    def test_what_the_kernel_did_not_have_is_lost_until_it_works(self) -> None:
        for is_lost in (False, True):
            self.place(1, 2)
            (record,) = self.client.list_workloads()
            if is_lost:
                self.simulator.remount()
            else:
                self.simulator.restart(keep_groups=False)

            removal.remove_workload(self.client, record.uuid)

            self.assertEqual([record.cos_name], self.list_lost())
            if not is_lost:
                self.place(1, 2)
                self.assertEqual([], self.list_lost())
                (record,) = self.client.list_workloads()
                removal.remove_workload(self.client, record.uuid)
        self.assertEqual(5, self.count_classes())

    def test_trap_28_a_mask_that_cannot_be_freed_loses_a_class(self) -> None:
        self.place(1, 2)
        (record,) = self.client.list_workloads()
        self.simulator.lie(calls={'free_mask'})

        removal.remove_workload(self.client, record.uuid)

        self.assertEqual(5, self.count_classes())
        self.assertEqual(['COS2'], self.list_lost())

    def test_trap_28_nor_one_of_a_workload_that_is_undone(self) -> None:
        self.simulator.lie(calls={'cpus', 'free_mask'})

        self.assertRaises(errors.NotEnforced, self.place, 1, 2)

        self.assertEqual(['POST', 'DELETE'], self.changes())
        self.assertEqual(5, self.count_classes())
        self.assertEqual(['COS2'], self.list_lost())

    def test_caches_that_cannot_be_read_keep_nothing_from_going(self) -> None:
        self.place(1, 2)
        (record,) = self.client.list_workloads()
        self.simulator.faults.add(
            faults.Fault(kind='status', path='/v1/cache')
        )

        removal.remove_workload(self.client, record.uuid)

        self.assertEqual((), self.client.list_workloads())
        self.assertEqual([], self.list_lost())

    def test_what_is_released_while_its_cpus_are_off_is_lost(self) -> None:
        """The kernel takes no CPU that is off; see ``NEEDS_ONLINE_CPUS``."""
        self.place(1, 2)
        (record,) = self.client.list_workloads()
        self.simulator.set_offline({1, 2})

        removal.remove_workload(self.client, record.uuid)

        self.assertEqual(5, self.count_classes())
        self.assertEqual(['COS2'], self.list_lost())
        self.assertNotEqual(0x7FF, self.simulator.groups['COS2'].ways[0])

    def test_cpus_that_an_earlier_one_kept_hide_no_other_loss(self) -> None:
        self.place(1, 2)
        (record,) = self.client.list_workloads()
        self.simulator.lie()
        removal.remove_workload(self.client, record.uuid)

        self.assertRaises(errors.NotEnforced, self.place, 1, 2)

        self.assertEqual(4, self.count_classes())
        self.assertEqual(['COS2', 'COS3'], self.list_lost())

    def test_nothing_is_requested_for_cpus_that_are_off(self) -> None:
        self.simulator.set_offline({1, 2})

        self.assertRaises(errors.InvalidWorkload, self.place, 1, 2)

        self.assertEqual([], self.changes())
        self.simulator.set_offline(())
        self.place(1, 2)


class OtherSoftwareTest(LaterTrapTestCase):
    """It takes ways between two readings of the cache pages."""

    def come_with_the_next_change(self, masks: dict[int, int]) -> None:
        def come() -> None:
            self.simulator.on_change.clear()
            self.simulator.add_foreign_group('db', masks)

        self.simulator.on_change.append(come)

    def test_a_post_that_is_refused_loses_nothing(self) -> None:
        for ways, error in ((7, errors.NotEnoughCache), (2, errors.CpusInUse)):
            with self.subTest(ways=ways):
                self.come_with_the_next_change({0: 0x6})

                self.assertRaises(error, self.place, 1, ways=ways)

                self.assertEqual((), self.client.losses.list_all())
                self.simulator.remove_foreign_group('db')
                if error is errors.NotEnoughCache:
                    self.place(1)

    def test_a_workload_that_is_placed_again_loses_nothing(self) -> None:
        self.come_with_the_next_change({1: 0x6})

        masks = self.place(1)

        self.assertEqual(['POST', 'DELETE', 'POST'], self.changes())
        self.assertEqual([], self.list_lost())
        self.assertEqual({0: 0x60}, masks)
        self.assertEqual(5, self.count_classes())

    def test_it_is_not_placed_again_while_some_of_its_cpus_stay(self) -> None:
        self.come_with_the_next_change({1: 0x6})
        self.release_one_cpu_only()

        self.assertRaises(errors.NotEnforced, self.place, 1, 2)

        self.assertEqual(['POST', 'DELETE'], self.changes())
        self.assertEqual(['COS2'], self.list_lost())

    def test_nor_while_it_is_unknown_what_stays(self) -> None:
        self.come_with_the_next_change({1: 0x6})
        reads = itertools.count(1)

        def fail_once() -> None:
            self.simulator.faults.clear()
            # After those before and after the POST.
            if next(reads) == 3:
                fault = faults.Fault(kind='status', path='/v1/cache')
                self.simulator.faults.add(fault)

        self.interrupt('list_caches', fail_once)

        self.assertRaises(errors.RmdUnavailable, self.place, 1)

        self.assertEqual(['POST', 'DELETE'], self.changes())
        self.assertEqual([], self.list_lost())
        self.assertEqual((), self.client.list_workloads())

    def test_trap_31_ways_that_are_wanting_are_no_miss(self) -> None:
        """RMD gives the ways of the pool, whoever has them."""
        add = self.useFixture(fixtures.MockPatchObject(odds.Odds, 'add')).mock
        self.client = self.make_client(shared_servers=2)
        self.simulator.add_foreign_group('db', {0: 0x400, 1: 0x200})

        err = self.assertRaises(
            errors.NotEnforced, self.place, 1, max_ways=0, min_ways=0
        )

        self.assertNotIn('mixed up', str(err))
        add.assert_not_called()
        self.simulator.remove_foreign_group('db')
        self.place(1, max_ways=0, min_ways=0)
        add.assert_called_once_with(values.SHARED, is_miss=False)

    def test_it_is_no_miss_of_rmd(self) -> None:
        add = self.useFixture(fixtures.MockPatchObject(odds.Odds, 'add')).mock
        self.come_with_the_next_change({1: 0x6})

        self.place(1)

        self.assertEqual(
            [{'is_miss': False}] * 2, [one.kwargs for one in add.mock_calls]
        )

    def test_a_failure_of_libpqos_is_noticed_all_the_same(self) -> None:
        self.simulator.lie()
        self.come_with_the_next_change({0: 0x60})

        self.assertRaises(errors.NotEnforced, self.place, 1)

        self.assertEqual(['COS2'], self.list_lost())
        self.assertEqual(5, self.count_classes())


class PluginTest(LaterTrapTestCase):
    SETTINGS = {'plugins': ('pstate',)}  # noqa: RUF012

    def test_trap_20_a_plugin_that_fails_costs_a_class(self) -> None:
        self.simulator.break_plugins()

        self.assertRaises(
            errors.RmdError,
            self.place,
            1,
            plugins={'pstate': {'ratio': 1.5}},
        )

        self.assertEqual((), self.client.list_workloads())
        self.assertEqual(5, self.count_classes())
        (loss,) = self.client.losses.list_all()
        self.assertTrue(loss.is_of_plugin)
        for words in ('ways 0x60 of L3_0', 'CPUs 1', 'POST'):
            self.assertIn(words, loss.text)

    def test_one_that_is_refused_in_time_costs_nothing(self) -> None:
        self.assertRaises(
            errors.RmdError,
            self.place,
            1,
            plugins={'pstate': {'ratio': 'much'}},
        )

        self.assertEqual([], self.list_lost())


class LossesTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.now = 1000.0
        self.losses = losses.Losses(
            clock=fake_clock.FakeClock(lambda: self.now)
        )

    def test_after_many_losses_there_is_a_pause(self) -> None:
        self.losses.add(losses.Loss(text='x'))
        self.assertFalse(self.losses.is_pausing)

        self.losses.add(losses.Loss(text='x'))
        self.assertTrue(self.losses.is_pausing)

        self.now += losses.PAUSE
        self.assertFalse(self.losses.is_pausing)

    def test_all_clients_of_one_rmd_know(self) -> None:
        first = losses.find_losses('http://localhost:1')

        self.assertIs(first, losses.find_losses('https://127.0.0.1:1/'))
        self.assertIsNot(first, losses.find_losses('http://localhost:2'))


class WrongCacheTest(LaterTrapTestCase):
    SETTINGS = {'has_cache_mixup': True, 'seed': 1}  # noqa: RUF012

    def test_trap_17_the_wrong_cache_is_tried_again_and_costs_nothing(
        self,
    ) -> None:
        for core in (1, 13, 2, 14, 3, 15):
            self.place(core, ways=1)

        self.assertIn('DELETE', self.changes())
        self.assertEqual(0, self.count_classes())

    def test_trap_18_the_wrong_cache_is_tried_twelve_times(self) -> None:
        self.simulator.daemon.resctrl.mixup_odds = 0.0

        self.assertRaises(errors.NotEnforced, self.place, 1)

        self.assertEqual(['POST', 'DELETE'] * 12, self.changes())
        self.assertEqual(6, self.count_classes())
        self.assertEqual([], self.list_lost())


class OddsTest(LaterTrapTestCase):
    """How often RMD is right is drawn for each pool when it starts."""

    SETTINGS = {'has_cache_mixup': True, 'seed': 1}  # noqa: RUF012

    def place_many(self, odds: float, count: int = 30) -> None:
        self.simulator.daemon.resctrl.mixup_odds = odds
        for number in range(count):
            uuid = with_simulator.make_uuid()
            # Twelve misses in a row are rare, but possible.
            with contextlib.suppress(errors.NotEnforced):
                verify.place_workload(
                    self.client,
                    with_simulator.make_request(uuid, 1 + number % 2),
                )
                self.client.delete_workload(uuid)

    def test_trap_18_a_bad_pool_is_noticed_until_it_is_better(self) -> None:
        self.place_many(0.72)
        self.assertEqual({}, self.client.odds.list_bad())

        self.place_many(0.27, 12)
        ((pool, (misses, tries)),) = self.client.odds.list_bad().items()
        self.assertEqual((values.GUARANTEED, 24), (pool, tries))
        self.assertGreater(misses, 14)

        self.place_many(0.72)
        self.assertEqual({}, self.client.odds.list_bad())


class SingleCacheTest(LaterTrapTestCase):
    SETTINGS = {'sockets': 1, 'cpus': 24}  # noqa: RUF012

    def test_trap_18_one_cache_has_no_odds(self) -> None:
        add = self.useFixture(fixtures.MockPatchObject(odds.Odds, 'add')).mock

        self.place(1)

        add.assert_not_called()

    def test_trap_17_what_others_disturb_is_tried_twice(self) -> None:
        """They take and return ways whenever RMD changes something."""

        def disturb() -> None:
            self.simulator.on_change.clear()
            if 'db' in self.simulator.groups:
                self.simulator.remove_foreign_group('db')
            else:
                self.simulator.add_foreign_group('db', {0: 0x6})
            self.simulator.on_change.append(disturb)

        self.simulator.on_change.append(disturb)

        self.assertRaises(errors.NotEnforced, self.place, 1)

        self.assertEqual(['POST', 'DELETE'] * 2, self.changes())
        self.assertEqual([], self.list_lost())


class MeasureTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.odds = odds.Odds()

    def add(self, misses: int, hits: int) -> None:
        for is_miss in [True] * misses + [False] * hits:
            self.odds.add('p', is_miss=is_miss)

    def test_fifteen_of_the_last_attempts_are_bad(self) -> None:
        self.add(14, 0)
        self.assertEqual({}, self.odds.list_bad())

        self.add(1, 0)
        self.assertEqual({'p': (15, 15)}, self.odds.list_bad())

    def test_what_was_long_ago_is_forgotten(self) -> None:
        self.add(15, 9)
        self.assertEqual({'p': (15, 24)}, self.odds.list_bad())

        self.add(0, 1)
        self.assertEqual({}, self.odds.list_bad())

    def test_an_rmd_that_was_away_draws_anew(self) -> None:
        self.add(15, 0)

        self.odds.forget()

        self.assertEqual({}, self.odds.list_bad())

    def test_pools_are_told_apart(self) -> None:
        self.add(14, 0)
        self.odds.add('q', is_miss=True)

        self.assertEqual({}, self.odds.list_bad())
