# SPDX-License-Identifier: Apache-2.0

"""Tests of monitoring groups."""

from collections.abc import Callable

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import mon_groups
from nova_ext_resources.testing import resctrl
from tests import base

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

PATH = f'mon_groups/nova-{SERVER}'


class MonGroupsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.machine = self.useFixture(resctrl.ResctrlFixture())
        self.kernel = self.machine.kernel
        self.changer = mon_groups.MonGroups(self.machine.file_system)
        self.group = mon_groups.MonGroup(parent='', consumer_uuid=SERVER)

    def list_tasks(self, path: str) -> list[int]:
        tasks: list[int] = self.kernel.list_groups()[path]['tasks']
        return tasks

    def use_up_ids(self) -> None:
        for number in range(self.kernel.count_ids()['free']):
            self.machine.file_system.mkdir(f'mon_groups/other{number}')

    def test_a_bare_machine_has_the_default_group_alone(self) -> None:
        self.assertEqual(
            mon_groups.Listing(
                controls=frozenset(),
                mon_groups=frozenset(),
                num_controls=1,
                num_closids=8,
                num_rmids=1,
                total_rmids=192,
                has_shared=False,
                others={},
            ),
            self.changer.list_all(),
        )

    def test_groups_of_ours_are_told_from_others(self) -> None:
        mkdir = self.machine.file_system.mkdir
        for name in ('web', 'nova-shared', f'nova-{OTHER}', 'nova-x'):
            mkdir(name)
        for path in (
            PATH,
            f'nova-shared/mon_groups/nova-{OTHER}',
            'mon_groups/cron',
            f'web/mon_groups/nova-{SERVER}',
        ):
            mkdir(path)

        listing = self.changer.list_all()

        self.assertEqual({OTHER}, listing.controls)
        self.assertEqual(
            {
                self.group,
                mon_groups.MonGroup(parent='nova-shared', consumer_uuid=OTHER),
            },
            listing.mon_groups,
        )
        self.assertEqual(5, listing.num_controls)
        self.assertEqual(9, listing.num_rmids)
        self.assertTrue(listing.has_shared)

    def test_as_many_ids_are_counted_as_the_kernel_has_given(self) -> None:
        mkdir = self.machine.file_system.mkdir
        for path in ('web', 'web/mon_groups/a', 'web/mon_groups/b', PATH):
            mkdir(path)

        listing = self.changer.list_all()

        self.assertEqual(
            192 - self.kernel.count_ids()['free'], listing.num_rmids
        )

    def test_a_group_that_is_being_removed_hides_no_other(self) -> None:
        self.machine.file_system.mkdir(PATH)
        self.machine.file_system.mkdir('web')
        for error in ('ENOENT', 'ENODEV', 'ENOTDIR'):
            self.kernel.fail(
                operation='listdir', path='web/mon_groups', error=error
            )

            self.assertEqual({self.group}, self.changer.list_all().mon_groups)

    def test_a_group_that_the_kernel_has_closed_hides_no_other(self) -> None:
        """It is for a region that is locked into the cache."""
        self.machine.file_system.mkdir('web')
        self.machine.file_system.mkdir(PATH)
        self.kernel.fail(
            operation='listdir', path='web/mon_groups', error='EACCES'
        )

        found = self.changer.list_all()

        self.assertEqual({self.group}, found.mon_groups)

    def test_groups_of_ours_are_never_closed(self) -> None:
        self.machine.file_system.mkdir('nova-shared')
        path = 'nova-shared/mon_groups'
        self.kernel.fail(operation='listdir', path=path, error='EACCES')

        error = self.assertRaises(errors.ResctrlFailed, self.changer.list_all)

        self.assertIn(f'could not list {path}', str(error))

    def test_ids_that_cannot_be_counted_are_not_guessed(self) -> None:
        self.machine.file_system.mkdir('web')
        self.kernel.fail(
            operation='listdir', path='web/mon_groups', error='EIO'
        )

        err = self.assertRaises(errors.ResctrlFailed, self.changer.list_all)

        self.assertIn('web/mon_groups', str(err))

    def test_machines_that_control_nothing_have_no_classes(self) -> None:
        self.kernel.fail(
            operation='read',
            path='info/*/num_closids',
            error='ENOENT',
            count=None,
        )

        self.assertEqual(0, self.changer.list_all().num_closids)

    def test_threads_are_counted_in_the_group_that_they_join(self) -> None:
        pid = self.kernel.start_task()
        thread = self.kernel.clone_task(pid)

        self.changer.make(self.group)
        self.changer.join(self.group, [pid, thread])
        late = self.kernel.clone_task(thread)

        self.assertEqual({pid, thread, late}, set(self.list_tasks(PATH)))

    def test_only_who_is_not_there_yet_is_written(self) -> None:
        pid = self.kernel.start_task()
        self.changer.make(self.group)
        self.changer.join(self.group, [pid])
        self.kernel.forget_operations()

        self.changer.join(self.group, [pid])

        self.assertEqual(
            [['lock', 'True'], ['read', f'{PATH}/tasks']],
            self.kernel.list_operations(),
        )

    def test_who_exits_meanwhile_is_no_failure(self) -> None:
        pid = self.kernel.start_task()
        self.changer.make(self.group)

        self.changer.join(self.group, [pid - 1, pid])

        self.assertEqual([pid], self.list_tasks(PATH))

    def test_a_thread_of_another_control_group_is_refused(self) -> None:
        pid = self.kernel.start_task()
        self.kernel.add_group('web', tasks=[pid])
        self.changer.make(self.group)

        err = self.assertRaises(
            errors.ResctrlRefused, self.changer.join, self.group, [pid]
        )

        self.assertIn('different control group', str(err))

    def test_making_and_removing_twice_is_once(self) -> None:
        self.changer.make(self.group)
        self.changer.make(self.group)
        self.assertIn(PATH, self.kernel.list_groups())

        self.changer.remove(self.group)
        self.changer.remove(self.group)
        self.assertNotIn(PATH, self.kernel.list_groups())

    def test_ids_that_are_used_up_are_said(self) -> None:
        self.use_up_ids()

        err = self.assertRaises(
            errors.NoFreeRmid, self.changer.make, self.group
        )

        self.assertIn('in use', str(err))

    def test_ids_in_limbo_are_said_and_come_back(self) -> None:
        self.use_up_ids()
        self.kernel.set_occupancy('mon_groups/other0', 0, 1 << 24)
        self.machine.file_system.rmdir('mon_groups/other0')

        err = self.assertRaises(
            errors.NoFreeRmid, self.changer.make, self.group
        )
        self.assertIn('limbo', str(err))

        self.kernel.flush_caches()
        self.changer.make(self.group)
        self.assertIn(PATH, self.kernel.list_groups())

    def test_another_failure_is_another_error(self) -> None:
        self.kernel.fail(operation='mkdir', error='EACCES')

        err = self.assertRaises(
            errors.ResctrlFailed, self.changer.make, self.group
        )

        self.assertIn('CAP_DAC_OVERRIDE', str(err))

    def test_what_changes_is_done_under_the_lock(self) -> None:
        changes: list[Callable[[], None]] = [
            lambda: self.changer.make(self.group),
            lambda: self.changer.join(self.group, []),
            lambda: self.changer.remove(self.group),
        ]
        for change in changes:
            self.kernel.forget_operations()

            change()

            self.assertEqual(
                ['lock', 'True'], self.kernel.list_operations()[0]
            )

    def test_without_resctrl_there_is_nothing_to_remove(self) -> None:
        self.kernel.unmount()

        self.changer.remove_all()

    def test_all_groups_of_ours_can_be_removed(self) -> None:
        mkdir = self.machine.file_system.mkdir
        for path in (
            'nova-shared',
            PATH,
            f'nova-shared/mon_groups/nova-{OTHER}',
            'mon_groups/cron',
        ):
            mkdir(path)

        self.changer.remove_all()

        self.assertEqual(
            {'', 'nova-shared', 'mon_groups/cron'},
            set(self.kernel.list_groups()),
        )
