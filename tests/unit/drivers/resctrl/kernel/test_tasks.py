# SPDX-License-Identifier: Apache-2.0

from collections.abc import Iterable
from typing import Any

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.resctrl.guest import threads
from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import group_files
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import tasks as tasks_mod
from nova_ext_resources.drivers.resctrl import writer
from nova_ext_resources.testing import resctrl
from tests import base

SERVER = uuidsentinel.server

_TASKS = 'nova-*/tasks'


class MadeUpServer(threads.Server):
    """One whose threads are numbers in the test kernel."""

    def __init__(self, kernel: Any, pid: int) -> None:
        self.kernel = kernel
        self.pid = pid

    def list_threads(self) -> frozenset[int]:
        return frozenset(self.kernel.list_threads(self.pid))

    def list_foreign(self, tids: Iterable[int]) -> frozenset[int]:
        return frozenset(tids) - self.list_threads()


class MembersTest(base.TestCase):
    """The threads are made up, and start and end when the test wants."""

    def setUp(self) -> None:
        super().setUp()
        machine = self.useFixture(resctrl.ResctrlFixture('skylake2'))
        self.kernel = machine.kernel
        self.files = machine.file_system
        self.group_files = group_files.GroupFiles(self.files)
        self.name = self.group_files.make(groups.make_name(SERVER)).name
        self.pid = self.kernel.start_task()
        self.server = MadeUpServer(self.kernel, self.pid)
        for _ in range(3):
            self.kernel.clone_task(self.pid)

    def settle(self, *, is_new: bool = True) -> None:
        writer.settle(self.group_files, self.name, self.server, is_new=is_new)

    def list_inside(self) -> set[int]:
        return set(self.kernel.list_groups()[self.name]['tasks'])

    def read_group(self) -> tasks_mod.Membership:
        def read(uuids: Iterable[str]) -> dict[str, frozenset[int]]:
            return {
                uuid: self.group_files.read_tasks(self.name) for uuid in uuids
            }

        return tasks_mod.read({SERVER: self.server}, read)[SERVER]

    def assert_settled(self) -> None:
        self.assertEqual(self.server.list_threads(), self.list_inside())
        self.assertEqual('', self.read_group().fault)

    def test_all_threads_go_into_the_group_and_are_read_back(self) -> None:
        self.kernel.forget_operations()

        self.settle()

        tasks = f'{self.name}/tasks'
        expected = [['write', tasks]] * 4 + [['read', tasks]]
        self.assertEqual(expected, self.kernel.list_operations())
        self.assert_settled()

    def add_low(self) -> None:
        self.kernel.add_group('low')
        for tid in self.server.list_threads():
            self.kernel.write('low/tasks', f'{tid}\n')

    def take_back(self) -> None:
        writer.take_back(self.group_files, 'low', self.server)

    def test_threads_are_taken_back_from_others(self) -> None:
        self.add_low()
        stranger = self.kernel.start_task()
        self.kernel.write('low/tasks', f'{stranger}\n')

        self.take_back()

        self.assertEqual([stranger], self.kernel.list_groups()['low']['tasks'])

    def test_those_that_start_meanwhile_are_taken_back_as_well(self) -> None:
        self.add_low()
        self.kernel.fail(
            operation='read',
            path='low/tasks',
            error=None,
            do=('clone_task', self.pid),
        )

        self.take_back()

        self.assertEqual([], self.kernel.list_groups()['low']['tasks'])

    def test_a_group_that_is_gone_has_none(self) -> None:
        self.take_back()

    def test_what_others_hold_on_to_is_not_fought_for_without_end(
        self,
    ) -> None:
        self.add_low()
        self.patch(self.group_files, 'write_tasks', lambda *_words: None)

        err = self.assertRaises(errors.NotApplied, self.take_back)

        self.assertIn(f'{self.pid}', str(err))
        self.assertIn('leave these threads out', str(err))

    def test_nothing_is_done_for_a_server_that_is_off(self) -> None:
        self.kernel.exit_task(self.pid)
        self.kernel.forget_operations()

        self.settle()

        self.assertEqual([], self.kernel.list_operations())

    def test_who_is_inside_already_is_not_written_again(self) -> None:
        self.settle()
        self.kernel.forget_operations()

        self.settle(is_new=False)

        operations = self.kernel.list_operations()
        self.assertEqual([['read', f'{self.name}/tasks']], operations)

    def test_threads_that_start_meanwhile_are_moved_too(self) -> None:
        # When the first is written, and again when that one is.
        for skip in (0, 4):
            self.kernel.fail(
                operation='*',
                path=_TASKS,
                error=None,
                skip=skip,
                do=('clone_task', self.pid),
            )

        self.settle()

        self.assertEqual(6, len(self.server.list_threads()))
        self.assert_settled()

    def test_threads_that_end_meanwhile_do_not_matter(self) -> None:
        late = self.kernel.clone_task(self.pid)
        self.kernel.fail(
            operation='write', path=_TASKS, error=None, do=('exit_task', late)
        )

        self.settle()

        self.assert_settled()

    def test_a_server_that_ends_meanwhile_is_a_success(self) -> None:
        for skip in range(5):
            with self.subTest(skip=skip):
                self.pid = self.server.pid = self.kernel.start_task()
                self.kernel.clone_task(self.pid)
                self.kernel.fail(
                    path=_TASKS,
                    error=None,
                    skip=skip,
                    do=('exit_task', self.pid),
                )

                self.settle()
                self.kernel.stop_failing()

    def test_threads_that_are_moved_away_all_the_time_are_named(self) -> None:
        self.kernel.fail(
            operation='read',
            path=_TASKS,
            error=None,
            count=None,
            do=('write', 'tasks', f'{self.pid}\n'),
        )

        err = self.assertRaises(errors.NotApplied, self.settle)

        self.assertIn(f'{self.pid} are still outside', str(err))

    def test_strangers_go_to_the_default_group(self) -> None:
        self.settle()
        stranger = self.kernel.start_task()
        self.kernel.write(f'{self.name}/tasks', f'{stranger}\n')
        self.assertIn(
            f'of other processes are in the group of the server: {stranger}',
            self.read_group().fault,
        )

        self.settle(is_new=False)

        self.assert_settled()

    def test_each_error_of_the_kernel_is_told(self) -> None:
        for error, expected in (
            ('EIO', errors.ResctrlFailed),
            ('EBUSY', errors.ResctrlBusy),
            ('ENOSPC', errors.NoFreeClosid),
            ('EINVAL', errors.ResctrlRefused),
            ('EPERM', errors.ResctrlFailed),
            ('ENODEV', errors.GroupGone),
        ):
            for operation in ('write', 'read'):
                with self.subTest(error=error, operation=operation):
                    self.kernel.fail(
                        operation=operation, path=_TASKS, error=error
                    )
                    self.assertRaises(expected, self.settle)

    def test_what_is_outside_is_counted_and_named(self) -> None:
        self.settle()
        self.kernel.write('tasks', f'{self.pid}\n')

        self.assertIn(
            f'1 of 4 threads of the server run outside its group: {self.pid}',
            self.read_group().fault,
        )

    def test_a_thread_that_was_born_while_this_read_is_no_fault(
        self,
    ) -> None:
        self.settle()
        self.kernel.fail(
            operation='read',
            path=_TASKS,
            error=None,
            do=('clone_task', self.pid),
        )

        self.assertEqual('', self.read_group().fault)

    def test_many_threads_are_not_all_named(self) -> None:
        for _ in range(20):
            self.kernel.clone_task(self.pid)

        self.assertTrue(self.read_group().fault.endswith(', ...'))
