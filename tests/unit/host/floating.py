# SPDX-License-Identifier: Apache-2.0

"""Servers whose CPUs float: real processes in the test kernel's groups."""

import os
import signal
import threading
import time

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.resctrl.guest import procfs
from nova_ext_resources import exception
from nova_ext_resources.facts import guest as guest_obj
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from tests.unit import builders
from tests.unit import guests
from tests.unit.host import with_host
from tests.unit.host import with_resctrl

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

#: By which the hypervisor knows the server. Tests of other workers run at the
#: same time, and see the processes of each other.
NAME = f'instance-{os.getpid():08x}'

#: A user of this machine.
STRANGER = 54321

#: Seconds for a thread to end.
PATIENCE = 60.0

_CHANGES = ('write', 'mkdir', 'rmdir')


class FloatingCases(with_resctrl.ResctrlHostTestCase):
    """What holds in process and on a mount."""

    TASKS = 'proc'

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.host = self.make_resctrl_host()

    def run_guest(self, uuid: str = SERVER, threads: int = 4) -> guests.Guest:
        return self.useFixture(guests.Guest(uuid, threads))

    def start_floating(
        self, uuid: str = SERVER, ways: int = 4, **fields: object
    ) -> assignment.Entry:
        return self.start(self.host, uuid, ways, cpus=None, **fields)

    def list_inside(self, uuid: str = SERVER) -> set[int]:
        return set(self.list_ours()[uuid]['tasks'])

    def heal(self) -> tuple[alarm.Problem, ...]:
        self.host.refresh()
        self.host.heal()
        return self.host.problems

    def assert_inside(self, guest: guests.Guest, uuid: str = SERVER) -> None:
        # A thread that was told to end is there for a moment yet.
        deadline = time.monotonic() + PATIENCE
        while guest.list_threads() != self.list_inside(uuid):
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        self.assertEqual(guest.list_threads(), self.list_inside(uuid))
        self.assert_agreement(self.host)

    def test_all_threads_have_the_ways_and_nobody_else(self) -> None:
        guest, other = self.run_guest(threads=16), self.run_guest(OTHER)

        self.start_floating()
        self.start_floating(OTHER, 3)

        self.assert_inside(guest)
        self.assert_inside(other, OTHER)
        self.assertEqual(16, len(self.list_inside()))

    def test_ways_of_two_domains_are_had_on_both(self) -> None:
        guest = self.run_guest()
        resources = {with_host.WAYS: 3}

        self.start_floating(
            allocations=dict.fromkeys(with_host.DOMAINS, resources),
            requirement=builders.make_requirement(_a=resources, _b=resources),
        )

        masks = self.get_masks(f'nova-{SERVER}')
        self.assertEqual((7, 7), (masks[0], masks[1]))
        self.assert_inside(guest)
        self.host.release(SERVER)
        self.start_floating(ways=3)
        masks = self.get_masks(f'nova-{SERVER}')
        self.assertEqual((7, self.get_masks('')[1]), (masks[0], masks[1]))

    def test_threads_that_start_later_have_the_ways_too(self) -> None:
        guest = self.run_guest()
        self.start_floating()

        for _ in range(3):
            guest.do('clone')
        guest.do('end')

        self.assert_inside(guest)
        self.assertEqual((), self.heal())

    def test_threads_that_come_and_go_all_the_time_are_no_trouble(
        self,
    ) -> None:
        guest = self.run_guest()
        guest.do('churn')

        self.start_floating()

        self.assertLessEqual(4, len(self.list_inside()))
        self.assertEqual((), self.heal())

    def test_who_ends_while_he_is_moved_is_a_success(self) -> None:
        for pause in (0, 1, 2, 5, 10):
            with self.subTest(pause=pause):
                guest = guests.Guest(SERVER, 32)
                guest.setUp()
                timer = end_after(pause / 1000, guest.pid)

                self.start_floating()

                timer.join()
                guest.end()
                self.host.release(SERVER)

    def test_threads_that_end_while_they_are_moved_are_passed_over(
        self,
    ) -> None:
        guest = self.run_guest()
        self.kernel.fail(
            operation='write',
            path='nova-*/tasks',
            error='ESRCH',
            skip=1,
            count=2,
        )

        self.start_floating()

        self.assert_inside(guest)

    def test_a_server_that_starts_gets_its_threads_moved(self) -> None:
        self.start_floating()
        guest = self.run_guest()

        self.host.apply(SERVER)

        self.assert_inside(guest)

    def test_a_server_that_starts_unnoticed_is_found_by_healing(self) -> None:
        self.start_floating()
        guest = self.run_guest()

        self.assertEqual((), self.heal())

        self.assert_inside(guest)
        self.assertIn(
            '4 of 4 threads of the server run outside its group',
            self.log.output,
        )

    # -- servers that run, as the hypervisor says ----------------------

    def notice(self, number: int = 1) -> None:
        """Have the hypervisor run the server."""
        self.running[SERVER] = guest_obj.Guest(name=NAME, number=number)

    def assert_absent(self, err: object) -> None:
        self.assertIn(
            f'The hypervisor runs the server as {NAME}, but no trusted',
            str(err),
        )

    def test_a_server_that_runs_and_is_not_found_does_not_start(self) -> None:
        self.notice()

        err = self.assertRaises(
            exception.EnforcementFailed, self.start_floating
        )

        self.assert_absent(err)
        self.assertEqual({}, self.list_ours())
        self.assertEqual({}, self.read_rows())
        self.assert_agreement(self.host)

    def test_a_server_that_starts_again_and_is_not_found_keeps_its_ways(
        self,
    ) -> None:
        self.start_floating()
        self.notice()

        err = self.assertRaises(
            exception.EnforcementFailed,
            self.host.apply,
            SERVER,
            must_hold=True,
        )

        self.assert_absent(err)
        self.assert_agreement(self.host)
        self.running.clear()
        self.host.apply(SERVER, must_hold=True)

    def test_a_server_that_runs_unseen_is_a_problem_until_it_is_found(
        self,
    ) -> None:
        self.start_floating()
        self.notice()

        # It may just be about to start.
        self.assertEqual((), self.heal())
        for _ in range(2):
            (problem,) = self.heal()

            self.assertEqual(
                (alarm.NOT_APPLIED, SERVER), (problem.alarm, problem.subject)
            )
            self.assert_absent(problem.text)
            self.assert_agreement(self.host)

        guest = self.run_guest()
        self.assertEqual((), self.heal())
        self.assert_inside(guest)

    def test_a_server_that_runs_unseen_gets_its_ways_back(self) -> None:
        self.start_floating()
        self.notice()
        self.heal()
        self.kernel.remount()

        self.assertEqual(1, len(self.heal()))

        self.assert_agreement(self.host)
        self.running.clear()
        self.assertEqual((), self.heal())

    def test_what_is_changed_of_one_that_runs_unseen_is_restored(self) -> None:
        self.start_floating()
        self.notice()
        self.heal()
        self.kernel.write(f'nova-{SERVER}/schemata', 'L3:0=1\n')

        self.assertEqual(1, len(self.heal()))

        self.assert_agreement(self.host)

    def test_a_server_that_was_powered_off_is_no_problem(self) -> None:
        guest = self.run_guest()
        self.notice()
        self.start_floating()
        self.assert_inside(guest)
        guest.end()

        self.running.clear()

        self.assertEqual((), self.heal())

    def test_a_server_that_was_powered_off_meanwhile_is_no_problem(
        self,
    ) -> None:
        self.start_floating()
        self.notice()
        self.heal()
        # Still running when the audit begins, and no longer when it ends.
        self.answers = [dict(self.running)]
        self.running.clear()

        self.assertEqual((), self.heal())

        self.assertEqual([], self.answers)
        self.assertNotIn('does not get', self.log.output)

    def test_a_server_that_is_about_to_start_is_no_problem(self) -> None:
        self.start_floating()
        for number in (1, 2):
            # The hypervisor has it in its list before there is a process.
            self.notice(number)

            self.assertEqual((), self.heal())
        self.assertNotIn('does not get', self.log.output)

    def test_a_server_of_a_user_that_is_not_known_is_a_problem(self) -> None:
        guest = self.useFixture(guests.Guest(SERVER, 6, user=STRANGER))
        self.start_floating()
        self.assertEqual((), self.heal())
        self.notice()
        self.heal()

        (problem,) = self.heal()

        self.assertIn(f'user {STRANGER} of process {guest.pid}', problem.text)
        self.host.close()
        self.host = self.make_resctrl_host(qemu_users=[str(STRANGER)])
        self.host.reconcile([SERVER])
        self.assertEqual((), self.host.problems)
        self.assert_inside(guest)

    def test_a_server_without_uuid_is_found_by_its_name(self) -> None:
        guest = self.useFixture(guests.Guest(f'guest={NAME}', option='-name'))
        self.notice()

        self.start_floating()

        self.assert_inside(guest)

    def test_a_server_is_found_by_the_lock_of_its_pid_file(self) -> None:
        folder = self.make_folder()
        self.host.close()
        self.host = self.make_resctrl_host(pid_path=folder)
        self.notice()
        guest = self.useFixture(
            guests.Guest(f'{folder}/{NAME}.pid', option='-pidfile')
        )

        self.start_floating()

        self.assert_inside(guest)

    def test_a_thread_that_was_moved_away_is_brought_back(self) -> None:
        guest = self.run_guest()
        self.start_floating()
        late = guest.do('clone')
        self.kernel.write('tasks', f'{late}\n')

        self.assertEqual((), self.heal())

        self.assert_inside(guest)
        self.assertIn(
            f'1 of 5 threads of the server run outside its group: {late}',
            self.log.output,
        )

    def test_others_that_are_put_into_its_group_are_sent_away(self) -> None:
        guest, other = self.run_guest(), self.run_guest(OTHER)
        self.start_floating()
        self.kernel.write(f'nova-{SERVER}/tasks', f'{other.pid}\n')

        self.assertEqual((), self.heal())

        self.assert_inside(guest)
        self.assertIn(
            f'of other processes are in the group of the server: {other.pid}',
            self.log.output,
        )

    def test_what_the_server_starts_stays_in_its_group(self) -> None:
        guest = self.run_guest()
        self.start_floating()
        child = guest.do('child')
        self.kernel.write(f'nova-{SERVER}/tasks', f'{child}\n')

        self.assertEqual((), self.heal())

        self.assertEqual(guest.list_threads() | {child}, self.list_inside())
        self.assertNotIn('threads of other processes', self.log.output)

    def test_a_server_that_ended_leaves_an_empty_group(self) -> None:
        guest = self.run_guest()
        self.start_floating()

        guest.end()

        self.assertEqual((), self.heal())
        self.assertEqual(set(), self.list_inside())
        self.assert_agreement(self.host)

    def test_the_next_process_of_a_server_gets_in_as_well(self) -> None:
        old = self.run_guest()
        self.start_floating()
        old.end()
        new = self.run_guest()

        self.host.apply(SERVER)

        self.assert_inside(new)

    def test_both_processes_of_a_migration_within_the_host_are_in(
        self,
    ) -> None:
        old, new = self.run_guest(), self.run_guest()

        self.start_floating()

        self.assertEqual(
            old.list_threads() | new.list_threads(), self.list_inside()
        )

    def test_a_released_server_runs_on_in_the_default_group(self) -> None:
        guest = self.run_guest()
        self.start_floating()

        self.host.release(SERVER)

        self.assertEqual({}, self.list_ours())
        inside = set(map(int, self.machine.file_system.read('tasks').split()))
        self.assertLessEqual(guest.list_threads(), inside)

    def test_what_is_in_force_is_not_touched_again(self) -> None:
        self.run_guest()
        self.start_floating()
        self.kernel.forget_operations()

        self.heal()
        self.host.apply(SERVER)

        changes = [
            one for one in self.kernel.list_operations() if one[0] in _CHANGES
        ]
        self.assertEqual([], changes)

    def test_few_file_operations_are_needed_besides_the_task_list(
        self,
    ) -> None:
        self.run_guest(threads=32)
        self.start(self.host, OTHER, cpus=frozenset({3}))
        self.kernel.forget_operations()

        self.start_floating()
        self.host.release(SERVER)

        operations = [
            one
            for one in self.kernel.list_operations()
            if one[0] != 'lock' and not one[1].endswith('tasks')
        ]
        self.assertLessEqual(len(operations), 12, operations)

    def test_an_error_while_threads_are_moved_leaves_nothing(self) -> None:
        guest = self.run_guest()
        for error in ('EIO', 'EBUSY', 'ENOSPC', 'EINVAL', 'EPERM'):
            for operation, skip in (('write', 0), ('write', 2), ('read', 0)):
                with self.subTest(error=error, operation=operation):
                    self.kernel.fail(
                        operation=operation,
                        path='nova-*/tasks',
                        skip=skip,
                        error=error,
                    )
                    self.assertRaises(
                        exception.ExtResourcesError, self.start_floating
                    )
                    self.kernel.stop_failing()

                    self.assertEqual({}, self.list_ours())
                    self.assertEqual({}, self.read_rows())
                    self.assert_agreement(self.host)
        self.start_floating()
        self.assert_inside(guest)

    def test_an_error_while_looking_is_a_problem_until_it_is_gone(
        self,
    ) -> None:
        guest = self.run_guest()
        self.start_floating()
        self.kernel.fail(operation='read', path='*/tasks', count=None)

        self.assertEqual(1, len(self.heal()))

        self.kernel.stop_failing()
        self.assertEqual((), self.heal())
        self.assert_inside(guest)

    def test_a_restart_finds_who_is_outside(self) -> None:
        guest = self.run_guest()
        self.start_floating()
        self.host.close()
        self.kernel.write('tasks', f'{guest.pid}\n')
        self.host = self.make_resctrl_host()

        self.host.reconcile([SERVER])

        self.assertEqual((), self.host.problems)
        self.assert_inside(guest)

    def test_a_mount_that_was_renewed_gets_all_threads_again(self) -> None:
        guest = self.run_guest()
        self.start_floating()
        self.kernel.remount()

        self.assertEqual((), self.heal())

        self.assert_inside(guest)

    def test_from_floating_to_pinned_no_thread_is_left_behind(self) -> None:
        self.run_guest()
        self.start_floating()

        self.change_cpus(frozenset({1, 2}))

        self.assertEqual(set(), self.list_inside())
        self.assertEqual([1, 2], self.list_ours()[SERVER]['cpus'])

    def test_from_pinned_to_floating_no_cpu_is_left_behind(self) -> None:
        guest = self.run_guest()
        self.start(self.host, SERVER)
        self.assertEqual(set(), self.list_inside())

        self.change_cpus(None)

        self.assertEqual(guest.list_threads(), self.list_inside())
        self.assertEqual([], self.list_ours()[SERVER]['cpus'])

    def change_cpus(self, cpus: frozenset[int] | None) -> None:
        """Put the server into force as one with other CPUs."""
        entry = self.host.entries[SERVER]
        changed = assignment.Entry(
            consumer_uuid=SERVER,
            state=entry.state,
            assignments=entry.assignments,
            cpus=cpus,
        )
        self.assertEqual([SERVER], self.list_lost(changed))
        self.host.enforcement.apply(changed)
        self.assertEqual([], self.list_lost(changed))

    def list_lost(self, entry: assignment.Entry) -> list[str]:
        enforcement = self.host.enforcement
        applied, _problems = enforcement.list_applied()
        return list(enforcement.list_lost([entry], applied))

    def test_threads_in_the_group_of_a_pinned_server_are_sent_away(
        self,
    ) -> None:
        self.start(self.host, SERVER)
        self.kernel.write(f'nova-{SERVER}/tasks', f'{os.getpid()}\n')

        self.assertEqual((), self.heal())

        self.assertEqual(set(), self.list_inside())
        self.assert_agreement(self.host)

    def make_host_that_reads_pid_files(self) -> str:
        folder = self.make_folder()
        self.host.close()
        self.host = self.make_resctrl_host(pid_path=folder)
        self.notice()
        return f'{folder}/{NAME}.pid'

    def test_a_silent_hypervisor_takes_no_thread_away(self) -> None:
        path = self.make_host_that_reads_pid_files()
        guest = self.useFixture(guests.Guest(path, option='-pidfile'))
        self.start_floating()
        self.assert_inside(guest)

        self.is_silent = True
        for _ in range(2):
            self.heal()

            self.assert_inside(guest)
        (problem,) = self.host.problems
        self.assertEqual(alarm.NOT_APPLIED, problem.alarm)
        self.assertIn('does not report the running guests', problem.text)
        self.is_silent = False
        self.assertEqual((), self.heal())

    def test_no_server_starts_unseen_beside_a_silent_hypervisor(self) -> None:
        path = self.make_host_that_reads_pid_files()
        self.useFixture(guests.Guest(path, option='-pidfile'))
        self.is_silent = True

        err = self.assertRaises(
            exception.EnforcementFailed, self.start_floating
        )

        self.assertIn('restore the connection', str(err))

    def test_threads_stay_where_their_source_is_gone(self) -> None:
        guest = self.useFixture(guests.Guest(SERVER, 6, user=STRANGER))
        self.host.close()
        self.host = self.make_resctrl_host(qemu_users=[str(STRANGER)])
        self.notice()
        self.start_floating()
        self.assert_inside(guest)
        self.host.close()

        self.host = self.make_resctrl_host(qemu_users=['qemu'])
        self.host.reconcile([SERVER])

        self.assert_inside(guest)

    def test_a_cgroup_with_an_odd_name_stops_no_scan(self) -> None:
        read = procfs.ProcReader.read

        def read_odd(reader: procfs.ProcReader, path: str) -> bytes:
            if path.endswith('/cgroup'):
                return b'0::/user.slice/a\x0bb\nnothing\n'
            return read(reader, path)

        self.run_guest()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.drivers.resctrl.guest.procfs.ProcReader.read',
                read_odd,
            )
        )

        self.start_floating(OTHER)


def end_after(seconds: float, pid: int) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
    timer.start()
    return timer
