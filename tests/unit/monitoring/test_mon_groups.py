# SPDX-License-Identifier: Apache-2.0

"""Tests of who gets a monitoring group, and who does not."""

from collections.abc import Callable
import contextlib
import errno

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.resctrl.guest import processes
from nova_ext_resources.drivers.resctrl.kernel import mon_groups
from nova_ext_resources.monitoring import mon_groups as mon_groups_mod
from nova_ext_resources.monitoring import sample
from tests import base
from tests.unit.monitoring import with_sweeper

MIB = with_sweeper.MIB

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

PATH = f'mon_groups/nova-{SERVER}'
POOLED = f'nova-shared/{PATH}'


class UpkeepTest(with_sweeper.SweeperTestCase):
    def list_paths(self) -> set[str]:
        return set(self.kernel.list_groups()) - {''}

    def list_tasks(self, path: str) -> set[int]:
        return set(self.kernel.list_groups()[path]['tasks'])

    def test_all_threads_of_a_server_are_counted_apart(self) -> None:
        self.start(SERVER)

        swept = self.sweep()

        self.assertEqual(set(self.threads[SERVER]), self.list_tasks(PATH))
        self.assertEqual({SERVER}, set(swept.servers))

    def test_who_has_a_control_group_needs_no_other(self) -> None:
        self.start(SERVER, holds=True)
        self.sweep()
        name = self.add_control_group(SERVER, cpus='1-2')
        self.kernel.add_traffic(name, 0, MIB)

        swept = self.sweep()

        self.assertEqual({name}, self.list_paths())
        self.assertEqual(MIB, swept.servers[SERVER].domains[0].counters.total)

    def test_who_loses_its_control_group_gets_another(self) -> None:
        self.start(SERVER, holds=True)
        name = self.add_control_group(SERVER)
        self.sweep()
        self.kernel.remove_group(name)

        self.sweep()

        self.assertEqual({PATH}, self.list_paths())

    def test_a_floating_server_of_the_pool_is_counted_below_it(self) -> None:
        pid = self.start(SERVER, holds=True, is_shared=True)
        self.kernel.add_group('nova-shared', tasks=self.threads[SERVER])

        swept = self.sweep()

        self.assertEqual({'nova-shared', POOLED}, self.list_paths())
        self.assertIn(pid, self.list_tasks(POOLED))
        self.assertEqual({SERVER}, set(swept.servers))

    def test_a_pinned_server_of_the_pool_is_in_it_by_its_cpus(self) -> None:
        self.kernel.add_group('nova-shared', cpus='1-2')
        self.start(SERVER, holds=True, is_shared=True, cpus=frozenset({1, 2}))

        swept = self.sweep()

        self.assertEqual({'nova-shared', PATH}, self.list_paths())
        self.assertEqual({}, swept.problems)

    def test_who_is_not_in_the_pool_yet_is_tried_again(self) -> None:
        self.start(SERVER, holds=True, is_shared=True)
        self.kernel.add_group('nova-shared')

        swept = self.sweep()
        self.assertIn('different control group', swept.problems[SERVER])

        for thread in self.threads[SERVER]:
            self.kernel.write('nova-shared/tasks', f'{thread}\n')
        swept = self.sweep(mon_groups_mod.ROUND)
        self.assertEqual({}, swept.problems)
        self.assertEqual(set(self.threads[SERVER]), self.list_tasks(POOLED))

    def test_who_enters_the_pool_is_counted_below_it(self) -> None:
        self.start(SERVER, holds=True, is_shared=True)
        self.sweep()
        self.assertEqual({PATH}, self.list_paths())

        self.kernel.add_group('nova-shared', tasks=self.threads[SERVER])
        self.sweep()

        self.assertEqual({'nova-shared', POOLED}, self.list_paths())
        self.assertEqual(set(self.threads[SERVER]), self.list_tasks(POOLED))

    def test_groups_of_servers_that_have_gone_are_removed(self) -> None:
        self.start(SERVER)
        self.sweep()
        del self.servers[SERVER]

        swept = self.sweep()

        self.assertEqual(set(), self.list_paths())
        self.assertEqual({}, swept.servers)

    def test_left_over_groups_are_removed_and_those_of_others_not(
        self,
    ) -> None:
        self.machine.file_system.mkdir(PATH)
        self.machine.file_system.mkdir('mon_groups/cron')

        self.sweep()

        self.assertEqual({'mon_groups/cron'}, self.list_paths())

    def test_who_is_off_takes_no_id(self) -> None:
        self.start(SERVER)
        self.sweep()
        self.threads[SERVER] = []

        swept = self.sweep(mon_groups_mod.ROUND)

        self.assertEqual(set(), self.list_paths())
        self.assertEqual({}, swept.problems)

    def test_who_starts_again_is_counted_again(self) -> None:
        self.start(SERVER)
        self.sweep()
        self.start(SERVER)

        self.sweep(mon_groups_mod.ROUND)

        self.assertLessEqual(set(self.threads[SERVER]), self.list_tasks(PATH))

    def test_processes_are_looked_at_once_a_round(self) -> None:
        self.start(SERVER)
        self.sweep()
        self.sweep(mon_groups_mod.ROUND / 3)
        self.sweep(mon_groups_mod.ROUND / 3)
        self.assertEqual(1, self.scans)

        self.sweep(mon_groups_mod.ROUND / 3)
        self.assertEqual(2, self.scans)

        # Except for somebody new, also who was here before.
        for scans in (3, 4):
            self.start(OTHER)
            self.sweep(1)
            self.assertEqual(scans, self.scans)
            del self.servers[OTHER]
            self.sweep(1)
            self.assertEqual(scans, self.scans)

    def test_nobody_is_looked_for_where_all_have_control_groups(self) -> None:
        self.add_control_group(SERVER)

        self.sweep()

        self.assertEqual(0, self.scans)

    def test_threads_that_cannot_be_listed_are_said(self) -> None:
        self.start(SERVER)
        self.sweep()
        self.is_proc_hidden = True
        swept = self.sweep(mon_groups_mod.ROUND)

        self.assertIn('hidepid', swept.problems[SERVER])
        self.assertEqual({SERVER}, set(swept.servers))

    def test_a_group_that_cannot_be_removed_is_tried_again(self) -> None:
        self.start(SERVER)
        self.sweep()
        del self.servers[SERVER]
        self.kernel.fail(operation='rmdir', error='EIO')

        self.assertEqual({}, self.sweep().servers)
        self.assertEqual({PATH}, self.list_paths())

        self.sweep()
        self.assertEqual(set(), self.list_paths())


class IdsTest(with_sweeper.SweeperTestCase):
    """Of 56 ids, the default group has one and 15 are kept."""

    SHAPE = 'no_mba'
    LEFT = 40

    def start_many(self, number: int) -> list[str]:
        uuids = [getattr(uuidsentinel, f'many{n}') for n in range(number)]
        for uuid in uuids:
            self.start(uuid)
        return uuids

    def test_ids_are_kept_for_servers_with_classes_of_their_own(self) -> None:
        self.start_many(self.LEFT + 3)

        swept = self.sweep()

        self.assertEqual(self.LEFT, len(swept.servers))
        self.assertEqual(3, len(swept.problems))
        self.assertIn('15 are kept', next(iter(swept.problems.values())))
        for number in range(15):
            self.kernel.add_group(f'web{number}')

    def test_control_groups_do_not_drive_others_out(self) -> None:
        self.start_many(self.LEFT)
        self.sweep()
        for number in range(15):
            self.kernel.add_group(f'web{number}')

        swept = self.sweep(mon_groups_mod.ROUND)

        self.assertEqual(self.LEFT, len(swept.servers))

    def test_other_software_is_made_room_for(self) -> None:
        self.start_many(self.LEFT)
        self.sweep()
        for number in range(5):
            self.machine.file_system.mkdir(f'mon_groups/cron{number}')

        swept = self.sweep(mon_groups_mod.ROUND)

        self.assertEqual(self.LEFT - 5, len(swept.servers))
        self.assertEqual(5, len(swept.problems))

    def test_where_others_have_all_ids_nobody_is_tried(self) -> None:
        for number in range(self.LEFT + 2):
            self.machine.file_system.mkdir(f'mon_groups/cron{number}')
        uuids = self.start_many(5)
        self.kernel.forget_operations()

        swept = self.sweep()

        self.assertEqual(set(uuids), set(swept.problems))
        self.assertNotIn(
            'mkdir', {name for name, _ in self.kernel.list_operations()}
        )

    def test_who_has_gone_is_no_problem_any_more(self) -> None:
        self.start_many(self.LEFT + 1)
        left_out = next(iter(self.sweep().problems))
        del self.servers[left_out]

        self.assertEqual({}, self.sweep().problems)

    def test_who_holds_something_comes_first(self) -> None:
        self.start_many(self.LEFT)
        self.sweep()
        self.start(SERVER, holds=True)
        self.start(OTHER)

        swept = self.sweep()

        self.assertIn(SERVER, swept.servers)
        self.assertNotIn(OTHER, swept.servers)
        self.assertEqual(self.LEFT, len(swept.servers))

    def test_who_has_a_group_keeps_it(self) -> None:
        self.start_many(self.LEFT)
        before = set(self.sweep().servers)
        for number in range(20):
            self.start(getattr(uuidsentinel, f'late{number}'))

        self.assertEqual(before, set(self.sweep().servers))

    def test_ids_that_are_free_again_are_used(self) -> None:
        uuids = self.start_many(self.LEFT + 1)
        left_out = set(uuids) - set(self.sweep().servers)
        gone = next(uuid for uuid in uuids if uuid not in left_out)
        del self.servers[gone]
        self.sweep()
        self.kernel.look_at_limbo()

        swept = self.sweep(mon_groups_mod.LIMBO)

        self.assertEqual(set(uuids) - {gone}, set(swept.servers))
        self.assertEqual({}, swept.problems)

    def test_ids_in_limbo_are_not_taken_from_those_that_are_kept(
        self,
    ) -> None:
        for uuid in self.start_many(self.LEFT)[:15]:
            self.sweep()
            self.kernel.set_occupancy(f'mon_groups/nova-{uuid}', 0, 10 * MIB)
            del self.servers[uuid]
            self.start(f'{uuid[:-12]}{"0" * 12}')

        for _ in range(4):
            swept = self.sweep(mon_groups_mod.ROUND)

        self.assertEqual(self.LEFT - 15, len(swept.servers))
        self.assertIn('15 were released', next(iter(swept.problems.values())))
        for number in range(15):
            self.kernel.add_group(f'web{number}')

    def test_what_others_have_given_back_is_in_limbo_too(self) -> None:
        for number in range(5):
            self.machine.file_system.mkdir(f'mon_groups/cron{number}')
        self.start_many(self.LEFT)
        self.sweep()
        for number in range(5):
            self.machine.file_system.rmdir(f'mon_groups/cron{number}')

        swept = self.sweep(mon_groups_mod.ROUND)
        self.assertEqual(self.LEFT - 5, len(swept.servers))

        swept = self.sweep(mon_groups_mod.LIMBO)
        self.assertEqual(self.LEFT, len(swept.servers))

    def test_none_is_given_back_for_those_in_limbo(self) -> None:
        uuids = self.start_many(self.LEFT)
        self.sweep()
        del self.servers[uuids[0]]
        self.sweep()

        swept = self.sweep(mon_groups_mod.ROUND)

        self.assertEqual(set(uuids[1:]), set(swept.servers))


class LockedTest(with_sweeper.SweeperTestCase):
    """Somebody has the lock of the mount, and reads."""

    def setUp(self) -> None:
        super().setUp()
        self.waits = 0
        self.is_locked = False
        lock: Callable[[bool], contextlib.AbstractContextManager[None]]
        lock = self.machine.file_system.lock

        def wait(exclusive: bool) -> contextlib.AbstractContextManager[None]:
            if exclusive and self.is_locked:
                self.waits += 1
                raise OSError(errno.EBUSY, 'another program holds the lock')
            return lock(exclusive)

        self.patch(self.machine.file_system, 'lock', wait)

    def test_it_is_waited_for_once_and_not_for_each_server(self) -> None:
        uuids = [getattr(uuidsentinel, f'many{n}') for n in range(6)]
        for uuid in uuids[:3]:
            self.start(uuid)
        self.sweep()
        self.is_locked = True
        for uuid in uuids[3:]:
            self.start(uuid)

        swept = self.sweep()

        self.assertEqual(1, self.waits)
        self.assertEqual(set(uuids), set(swept.problems))
        self.assertEqual(set(uuids[:3]), set(swept.servers))
        self.is_locked = False
        self.assertEqual({}, self.sweep(mon_groups_mod.ROUND).problems)

    def test_nor_for_each_that_has_gone(self) -> None:
        for number in range(3):
            self.start(getattr(uuidsentinel, f'many{number}'))
        self.sweep()
        self.servers.clear()
        self.is_locked = True

        self.sweep()

        self.assertEqual(1, self.waits)


class BackOffTest(with_sweeper.SweeperTestCase):
    def count_attempts(self) -> int:
        return sum(n == 'mkdir' for n, _ in self.kernel.list_operations())

    def test_ids_in_limbo_are_waited_for_longer_and_longer(self) -> None:
        self.start(SERVER)
        self.kernel.fail(operation='mkdir', error='EBUSY', count=None)
        tried_at = []
        before = 0
        for minute in range(30):
            swept = self.sweep(mon_groups_mod.ROUND)
            self.assertIn('monitoring id', swept.problems[SERVER])
            if self.count_attempts() > before:
                before = self.count_attempts()
                tried_at.append(minute)

        self.assertEqual([0, 1, 3, 7, 15, 25], tried_at)

    def test_success_ends_the_waiting(self) -> None:
        self.start(SERVER)
        self.kernel.fail(operation='mkdir', error='ENOSPC', count=2)
        self.sweep()
        self.sweep(mon_groups_mod.ROUND)
        self.assertIn(SERVER, self.sweep(3 * mon_groups_mod.ROUND).servers)
        self.start(OTHER)
        self.kernel.fail(operation='mkdir', error='ENOSPC')
        self.sweep()

        self.assertIn(OTHER, self.sweep(mon_groups_mod.ROUND).servers)

    def test_one_attempt_tells_enough(self) -> None:
        for number in range(5):
            self.start(getattr(uuidsentinel, f'many{number}'))
        self.kernel.fail(operation='mkdir', error='EBUSY', count=None)

        swept = self.sweep()

        self.assertEqual(1, self.count_attempts())
        self.assertEqual(5, len(swept.problems))


class BudgetTest(base.TestCase):
    def make(self, num_rmids: int, num_closids: int) -> sample.RmidBudget:
        listing = mon_groups.Listing(
            controls=frozenset(),
            mon_groups=frozenset(),
            num_controls=3,
            num_closids=num_closids,
            num_rmids=54,
            total_rmids=num_rmids,
            has_shared=False,
            others={},
        )
        return mon_groups_mod.make_budget(listing)

    def test_what_is_spare_can_be_less_than_nothing(self) -> None:
        self.assertEqual(-3, self.make(56, 8).left)
        self.assertEqual(97, self.make(156, 8).left)

    def test_where_nothing_is_controlled_nothing_is_kept(self) -> None:
        self.assertEqual(2, self.make(56, 0).left)


class FindThreadsTest(with_sweeper.SweeperTestCase):
    def test_who_does_not_run_has_none(self) -> None:
        found = mon_groups_mod.find_threads(processes.Processes(), [SERVER])

        self.assertEqual({SERVER: frozenset()}, found)
