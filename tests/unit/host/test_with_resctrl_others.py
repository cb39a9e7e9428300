# SPDX-License-Identifier: Apache-2.0

"""What other software does to what runs already, on the kernel's side."""

from collections.abc import Iterable
import dataclasses

import fixtures
from oslo_utils.fixture import uuidsentinel
from oslo_utils import uuidutils

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.guest import processes
from nova_ext_resources.drivers.resctrl.kernel import group_files
from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.testing import resctrl
from tests import machines
from tests.unit import guests
from tests.unit.host import with_host
from tests.unit.host import with_resctrl

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

#: A group with little of everything.
LOW = 'low'


class AstrayTestCase(with_resctrl.ResctrlHostTestCase):
    """Threads of pinned servers are in a group of other software.

    They have its ways, whatever CPU they run on.
    """

    TASKS = 'proc'
    LOW_WAYS = 'L3:0=400;1=400\nMB:0=10;1=10\n'

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.add_others()
        self.host = self.make_resctrl_host(shared_ways=2)
        self.guest = self.useFixture(guests.Guest(SERVER, 4))
        self.start(self.host, SERVER, 4, cpus=frozenset({1}))

    def add_others(self) -> None:
        self.kernel.add_group(LOW, self.LOW_WAYS)

    def heal(self) -> tuple[alarm.Problem, ...]:
        self.host.refresh()
        self.host.heal()
        return self.host.problems

    def lose(self, *tids: int) -> None:
        for tid in tids:
            self.kernel.write(f'{LOW}/tasks', f'{tid}\n')

    def list_lost(self) -> list[int]:
        found: list[int] = self.kernel.list_groups()[LOW]['tasks']
        return found


class AstrayTest(AstrayTestCase):
    def test_they_are_taken_back(self) -> None:
        self.lose(*self.guest.list_threads())

        self.assertEqual((), self.heal())

        self.assertEqual([], self.list_lost())
        self.assertIn(
            '4 of 4 threads of the server are in the control group low',
            self.log.output,
        )
        self.assert_agreement(self.host)

    def test_so_is_a_single_one(self) -> None:
        self.lose(max(self.guest.list_threads()))

        self.assertEqual((), self.heal())

        self.assertEqual([], self.list_lost())

    def test_all_others_of_that_group_stay(self) -> None:
        stranger = self.useFixture(guests.Guest(OTHER, 2))
        self.lose(*stranger.list_threads(), min(self.guest.list_threads()))

        self.assertEqual((), self.heal())

        self.assertEqual(stranger.list_threads(), set(self.list_lost()))

    def test_one_in_the_shared_pool_is_taken_back_too(self) -> None:
        self.host.release(SERVER)
        self.start_with(SERVER, {'L3_0': {classes.SHARED: 1}})
        self.lose(*self.guest.list_threads())

        self.assertEqual((), self.heal())

        self.assertEqual([], self.list_lost())

    def test_without_such_a_group_no_process_is_read(self) -> None:
        self.assertEqual((), self.heal())
        scans: list[object] = []
        self.patch(processes.Processes, 'scan', scans.append)

        self.assertEqual((), self.heal())
        self.host.apply(SERVER)

        self.assertEqual([], scans)


class KeptTest(AstrayTestCase):
    """The other software puts them back at once."""

    def setUp(self) -> None:
        super().setUp()
        self.lose(*self.guest.list_threads())
        write = group_files.GroupFiles.write_tasks

        def keep(
            files: group_files.GroupFiles, name: str, tids: Iterable[int]
        ) -> None:
            kept = self.guest.list_threads()
            write(files, name, [tid for tid in tids if tid not in kept])

        self.patch(group_files.GroupFiles, 'write_tasks', keep)

    def check_alarm(self) -> None:
        [problem] = self.heal()
        self.assertEqual(
            (alarm.NOT_APPLIED, SERVER), (problem.alarm, problem.subject)
        )
        self.assertIn(
            f'take the threads of the server out of {LOW}', problem.text
        )

    def test_it_is_an_alarm(self) -> None:
        for _ in range(2):
            self.check_alarm()

        self.assertIn('configure the software of this group', self.log.output)
        self.assert_agreement(self.host)

    def test_all_else_of_the_server_is_restored(self) -> None:
        self.kernel.remove_group(f'nova-{SERVER}')

        self.check_alarm()

        self.assertEqual([1], self.list_ours()[SERVER]['cpus'])
        self.assert_agreement(self.host)

    def test_a_restart_with_other_threads_ends_it(self) -> None:
        self.check_alarm()

        # Nova ends the guest when the server has what it needs.
        self.host.apply(SERVER)
        self.guest.end()
        self.guest = self.useFixture(guests.Guest(SERVER, 4))
        self.host.apply(SERVER)

        self.assertEqual((), self.heal())
        # Nor is it an alarm when something else has to be restored.
        self.kernel.remove_group(f'nova-{SERVER}')
        self.assertEqual((), self.heal())


class RefusedTest(AstrayTestCase):
    """The other software has also taken the CPU of the server."""

    def test_its_threads_are_taken_back_nevertheless(self) -> None:
        self.lose(*self.guest.list_threads())
        self.kernel.write(f'{LOW}/cpus_list', '1\n')

        [problem] = self.heal()

        self.assertIn(
            f'CPUs 1 of the server are in the control group {LOW}',
            problem.text,
        )
        self.assertEqual([], self.list_lost())


class LockingTest(AstrayTest):
    """Other software sets up a region of a cache, to be locked into it.

    All is as without it.
    """

    SHAPE = 'no_mba'
    LOW_WAYS = 'L3:0=40000;1=40000\n'
    #: What it writes once it has set its group up.
    REGION = ''

    def add_others(self) -> None:
        super().add_others()
        self.kernel.write('schemata', 'L3:0=ffffc;1=ffffc\n')
        self.kernel.add_group('region', 'L3:0=3;1=3\n')
        self.kernel.write('region/mode', 'pseudo-locksetup\n')
        if self.REGION:
            self.kernel.write('region/schemata', self.REGION)

    def test_servers_start_on_all_cpus_of_that_cache(self) -> None:
        for number, cpu in enumerate((0, 9, 20, 29)):
            uuid = uuidutils.generate_uuid()
            self.start(self.host, uuid, 2, cpus=frozenset({cpu}))
            self.assertEqual(number + 2, len(self.host.entries))

        self.assertEqual((), self.heal())
        self.assert_agreement(self.host)


class LockedTest(LockingTest):
    """The region is locked."""

    REGION = 'L3:0=3\n'

    def test_no_server_has_its_ways(self) -> None:
        self.start(self.host, OTHER, 10, cpus=frozenset({2}))

        self.assertEqual((), self.heal())

        masks = [self.get_masks(f'nova-{uuid}')[0] for uuid in (SERVER, OTHER)]
        self.assertEqual([4, 10], [one.bit_count() for one in masks])
        self.assertEqual([0, 0], [one & 0x3 for one in masks])
        self.assert_agreement(self.host)


class RmidTest(with_resctrl.ResctrlHostTestCase):
    """Other software has all monitoring ids, and classes are free."""

    def test_who_needs_no_id_goes_on_and_others_are_refused(self) -> None:
        self.host = self.make_resctrl_host(shared_ways=2)
        self.start_with(SERVER, {'L3_0': {classes.SHARED: 1}})
        # That of the group for trials.
        self.kernel.flush_caches()
        for number in range(self.kernel.count_ids()['free']):
            self.machine.file_system.mkdir(f'mon_groups/pqos-51-{number}')
        self.host.refresh()

        self.start_with(OTHER, {'L3_0': {classes.SHARED: 1}})

        err = self.assertRaises(
            exception.CapacityExceeded,
            self.start_with,
            uuidutils.generate_uuid(),
            {'L3_0': {with_host.WAYS: 2}},
        )
        # By the claim, which the filter repeats, and not by the kernel.
        self.assertIn(classes.CLOS, str(err))
        self.assertEqual({SERVER, OTHER}, set(self.host.entries))
        self.host.heal()
        self.assertEqual((), self.host.problems)


class LimitTest(with_resctrl.ResctrlHostTestCase):
    """Servers that were sold ways alone have all the memory bandwidth."""

    def setUp(self) -> None:
        super().setUp()
        self.host = self.make_resctrl_host(shared_ways=2)

    def check(self, group: str) -> None:
        before = self.kernel.get_values(group, 'MB')
        self.kernel.write(f'{group}/schemata', 'MB:0=10;1=20\n')

        self.host.refresh()
        self.host.heal()

        self.assertEqual((), self.host.problems)
        self.assertEqual(before, self.kernel.get_values(group, 'MB'))

    def test_a_limit_on_a_server_is_lifted(self) -> None:
        self.start(self.host, SERVER, 4)

        self.check(f'nova-{SERVER}')

    def test_a_limit_on_the_shared_pool_is_lifted(self) -> None:
        self.start_with(SERVER, {'L3_0': {classes.SHARED: 1}})

        self.check('nova-shared')

    def test_bandwidth_that_was_sold_stays_a_limit(self) -> None:
        self.start_with(
            SERVER,
            {'L3_0': {with_host.WAYS: 2, classes.PERCENT: 30}},
            thread_policy='isolate',
        )

        self.check(f'nova-{SERVER}')

        limits = self.kernel.get_values(f'nova-{SERVER}', 'MB')
        self.assertEqual({'0': 30, '1': 100}, limits)

    def test_what_a_group_had_before_does_not_stay(self) -> None:
        """Its server has come down to a flavor without bandwidth."""
        self.start_with(
            SERVER,
            {'L3_0': {with_host.WAYS: 2, classes.PERCENT: 30}},
            thread_policy='isolate',
        )
        # The group could not be removed.
        group = self.kernel.list_groups()[f'nova-{SERVER}']
        self.host.release(SERVER)
        limits = ';'.join(f'{n}={v}' for n, v in group['values']['MB'].items())
        self.kernel.add_group(f'nova-{SERVER}', f'MB:{limits}\n', cpus='1')

        self.start_with(SERVER, {'L3_0': {with_host.WAYS: 2}})

        limits = self.kernel.get_values(f'nova-{SERVER}', 'MB')
        self.assertEqual({'0': 100, '1': 100}, limits)


class IoTest(with_resctrl.ResctrlHostTestCase):
    """The operator lets I/O devices into ways that were sold (io_alloc)."""

    IO_WAYS = 0x0F00

    def make_machine(self) -> resctrl.ResctrlFixture:
        if machines.is_kernel():
            self.skipTest('no stock kernel here has io_alloc')
        shape = resctrl.SHAPES['epyc16']
        caches = tuple(
            dataclasses.replace(one, io_ways=self.IO_WAYS)
            for one in shape.caches
        )
        made = machines.make(dataclasses.replace(shape, caches=caches))
        machine: resctrl.ResctrlFixture = self.useFixture(made)
        return machine

    def test_it_is_an_alarm_until_they_are_out(self) -> None:
        self.host = self.make_resctrl_host()
        self.start(self.host, SERVER, 4)
        self.host.refresh()
        self.host.heal()
        self.assertEqual((), self.host.problems)
        mask = self.get_masks(f'nova-{SERVER}')[0]
        self.assertEqual(0, mask & self.IO_WAYS)

        self.kernel.set_io_ways(self.IO_WAYS | mask & -mask)

        for _ in range(2):
            self.host.refresh()
            self.host.heal()
            [problem] = self.host.problems
            self.assertEqual(alarm.NOT_APPLIED, problem.alarm)
            self.assertIn(
                f'I/O devices may fill ways {mask & -mask:x} of L3_0',
                problem.text,
            )
            self.assertIn('io_alloc_cbm', problem.text)
        self.kernel.set_io_ways(self.IO_WAYS)
        self.host.refresh()
        self.host.heal()
        self.assertEqual((), self.host.problems)
