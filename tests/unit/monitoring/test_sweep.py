# SPDX-License-Identifier: Apache-2.0

"""Sweeps over the servers of machines of all kinds."""

import dataclasses
import os

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.resctrl.kernel import counters
from nova_ext_resources.monitoring import sample
from nova_ext_resources.monitoring import sweep
from nova_ext_resources.testing.resctrl import shapes
from nova_ext_resources.tuning import target
from tests.unit.monitoring import with_sweeper

MIB = with_sweeper.MIB

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other


class SweepTest(with_sweeper.SweeperTestCase):
    def test_what_a_server_does_is_seen_per_cache(self) -> None:
        name = self.add_control_group(SERVER)
        self.sweep()
        self.kernel.set_occupancy(name, 0, 3 * MIB)
        self.kernel.add_traffic(name, 1, 80 * MIB, 20 * MIB)

        swept = self.sweep(10)

        first, second = swept.servers[SERVER].domains
        self.assertEqual(3 * MIB, first.counters.occupancy)
        self.assertEqual(0.0, first.total_rate)
        self.assertEqual(8.0 * MIB, second.total_rate)
        self.assertEqual(2.0 * MIB, second.local_rate)
        self.assertEqual({}, swept.problems)
        self.assertEqual('', swept.problem)
        self.assertEqual(
            sample.RmidBudget(total=192, used=2, reserved=6), swept.ids
        )

    def test_every_machine_is_swept(self) -> None:
        for name, shape in shapes.SHAPES.items():
            with self.subTest(shape=name):
                self.use(name)
                group = self.add_control_group(SERVER)
                self.start(OTHER, holds=True)
                self.sweep()
                if shape.monitoring is not None:
                    domain = shape.monitoring.domains[-1].id
                    self.kernel.add_traffic(group, domain, 640 * MIB)
                    self.kernel.add_traffic(
                        f'mon_groups/nova-{OTHER}', domain, 64 * MIB
                    )

                swept = self.sweep(10)

                if shape.monitoring is None:
                    self.assertEqual({}, swept.servers)
                    self.assertIn('has no counters', swept.problem)
                    self.assertIsNone(swept.ids)
                else:
                    self.assertEqual('', swept.problem)
                    self.assertEqual({}, swept.problems)
                    self.assertEqual(
                        {SERVER: 64.0 * MIB, OTHER: 6.4 * MIB},
                        {
                            u: with_sweeper.find_total_rate(s)
                            for u, s in swept.servers.items()
                        },
                    )

    def test_machines_that_count_none_of_our_events_are_told(self) -> None:
        shape = shapes.SHAPES['skylake2']
        assert shape.monitoring is not None
        self.use(
            dataclasses.replace(
                shape,
                monitoring=dataclasses.replace(
                    shape.monitoring, features=('mbm_other_bytes',)
                ),
            )
        )

        self.assertIn('has no counters', self.sweep().problem)

    def test_clusters_are_seen_on_their_own(self) -> None:
        self.use('icelake_snc')
        name = self.add_control_group(SERVER)
        self.sweep()
        self.kernel.add_traffic(name, 3, 80 * MIB)

        domains = self.sweep(10).servers[SERVER].domains

        self.assertEqual(
            {
                counters.Domain(cache=1): 8.0 * MIB,
                counters.Domain(cache=1, node=3): 8.0 * MIB,
            },
            {one.domain: one.total_rate for one in domains if one.total_rate},
        )

    def test_the_first_sweep_has_no_rates(self) -> None:
        name = self.add_control_group(SERVER)
        self.kernel.add_traffic(name, 0, MIB)

        one = self.sweep().servers[SERVER]

        self.assertEqual(MIB, one.domains[0].counters.total)
        self.assertIsNone(with_sweeper.find_total_rate(one))

    def test_a_group_made_anew_begins_anew(self) -> None:
        name = self.add_control_group(SERVER)
        self.sweep()
        self.kernel.remove_group(name)
        self.kernel.add_group(name)
        # More than before, so that nothing but the group tells.
        self.kernel.add_traffic(name, 0, 50 * MIB)

        self.assertIsNone(
            with_sweeper.find_total_rate(self.sweep().servers[SERVER])
        )
        self.assertEqual(
            0.0, with_sweeper.find_total_rate(self.sweep().servers[SERVER])
        )

    def test_a_counter_that_goes_back_has_no_rate(self) -> None:
        name = self.add_control_group(SERVER)
        self.kernel.add_traffic(name, 0, 50 * MIB)
        self.sweep()
        self.kernel.add_traffic(name, 0, -20 * MIB)

        one = self.sweep().servers[SERVER].domains[0]

        self.assertIsNone(one.total_rate)
        self.assertEqual(0.0, one.local_rate)

    def test_no_number_leaves_a_gap_and_no_spike(self) -> None:
        name = self.add_control_group(SERVER)
        self.sweep()
        self.kernel.add_traffic(name, 0, 50 * MIB)
        self.kernel.set_reading(name, 0, 'mbm_total_bytes', 'Unavailable')
        gap = self.sweep(10).servers[SERVER].domains[0]
        self.kernel.set_reading(name, 0, 'mbm_total_bytes', None)

        back = self.sweep(10).servers[SERVER].domains[0]
        self.kernel.add_traffic(name, 0, 10 * MIB)
        good = self.sweep(10).servers[SERVER].domains[0]

        self.assertIsNone(gap.counters.total)
        self.assertIsNone(gap.total_rate)
        self.assertEqual(0.0, gap.local_rate)
        self.assertIsNone(back.total_rate)
        self.assertEqual(1.0 * MIB, good.total_rate)

    def test_who_has_gone_is_forgotten(self) -> None:
        name = self.add_control_group(SERVER)
        self.sweep()
        self.kernel.remove_group(name)
        del self.servers[SERVER]

        self.assertEqual({}, self.sweep().servers)
        self.assertEqual(0, len(self.sweeper._before))

        self.add_control_group(SERVER)
        self.assertIsNone(
            with_sweeper.find_total_rate(self.sweep().servers[SERVER])
        )

    def test_a_group_removed_while_it_is_read_hides_no_other(self) -> None:
        name = self.add_control_group(SERVER)
        self.add_control_group(OTHER)
        self.kernel.fail(
            operation='read',
            path=f'{name}/mon_data/*',
            error=None,
            do=('remove_group', name),
        )

        swept = self.sweep()

        self.assertEqual({OTHER}, set(swept.servers))
        self.assertEqual(('', {}), (swept.problem, swept.problems))

    def test_a_counter_that_cannot_be_read_is_said(self) -> None:
        name = self.add_control_group(SERVER)
        self.add_control_group(OTHER)
        self.kernel.fail(
            operation='read', path=f'{name}/*mon_L3_00/llc_occupancy'
        )

        first, second = self.sweep().servers[SERVER].domains
        self.kernel.fail(
            operation='read',
            path=f'{name}/*mon_L3_00/llc_occupancy',
            count=None,
        )
        self.sweep(sweep.LONG / 2)
        swept = self.sweep(sweep.LONG / 2)

        self.assertIsNone(first.counters.occupancy)
        self.assertEqual(0, second.counters.occupancy)
        self.assertEqual({SERVER}, set(swept.problems))
        self.assertIn('mon_L3_00/llc_occupancy', swept.problems[SERVER])

    def test_a_counter_without_a_number_for_long_is_said(self) -> None:
        name = self.add_control_group(SERVER)
        self.add_control_group(OTHER)
        for word in ('Unavailable', 'Error', 'Unassigned'):
            self.kernel.set_reading(name, 1, 'mbm_total_bytes', None)
            self.assertEqual({}, self.sweep().problems)
            self.kernel.set_reading(name, 1, 'mbm_total_bytes', word)
            with self.subTest(word=word):
                for _round in range(11):
                    self.assertEqual({}, self.sweep(10).problems)

                swept = self.sweep(10)

                self.assertEqual({SERVER}, set(swept.problems))
                self.assertIn('for 120 s', swept.problems[SERVER])
                self.assertIn(f"'{word}'", swept.problems[SERVER])
                self.assertIsNone(swept.servers[SERVER].domains[1].total_rate)

    # -- other software that measures -----------------------------------

    def take(self, path: str, uuid: str) -> None:
        """Let a second monitor have the threads of a server."""
        for tid in self.threads[uuid]:
            self.kernel.write(f'{path}/tasks', f'{tid}\n')

    def assert_taken(self, swept: sample.Sweep, path: str) -> None:
        self.assertEqual({SERVER}, set(swept.problems))
        self.assertIn(
            f'the threads of the server into {path}', swept.problems[SERVER]
        )
        # Nobody can act on a 0 that says nothing.
        self.assertEqual({OTHER}, set(swept.servers))
        tuned = target.list_readings(swept)
        self.assertEqual({OTHER}, {one.consumer_uuid for one in tuned})

    def test_a_second_monitor_that_takes_threads_again_and_again(self) -> None:
        self.start(SERVER, holds=True)
        self.start(OTHER, holds=True)
        self.machine.file_system.mkdir('mon_groups/cadvisor-1')
        self.assertEqual({}, self.sweep().problems)
        # Also in the rounds that put them back.
        for _round in range(14):
            self.take('mon_groups/cadvisor-1', SERVER)

            self.assert_taken(self.sweep(10), 'mon_groups/cadvisor-1')

        while set(self.kernel.list_groups()['mon_groups/cadvisor-1']['tasks']):
            self.sweep(10)
        self.assertEqual({}, self.sweep(10).problems)

    def test_a_second_monitor_that_takes_a_pinned_servers_threads(
        self,
    ) -> None:
        # The group of a thread counts before that of its CPU.
        self.add_control_group(SERVER, cpus='1')
        self.add_control_group(OTHER, cpus='2')
        for uuid in (SERVER, OTHER):
            self.threads[uuid] = [self.kernel.start_task()]
        for path in ('mon_groups/pqos-0', 'web'):
            self.machine.file_system.mkdir(path)
            self.take(path, SERVER)
            with self.subTest(path=path):
                self.assert_taken(self.sweep(), path)

    def test_a_second_monitor_below_a_servers_own_group(self) -> None:
        # The kernel adds what is counted there.
        name = self.add_control_group(SERVER)
        self.threads[SERVER] = [self.kernel.start_task()]
        self.take(name, SERVER)
        self.machine.file_system.mkdir(f'{name}/mon_groups/cadvisor-1')
        self.take(f'{name}/mon_groups/cadvisor-1', SERVER)

        swept = self.sweep()

        self.assertEqual(({}, {SERVER}), (swept.problems, {*swept.servers}))

    def test_threads_that_cannot_be_seen_may_be_elsewhere(self) -> None:
        self.add_control_group(SERVER)
        self.add_control_group(OTHER)
        self.machine.file_system.mkdir('mon_groups/pqos-0')
        pid = self.kernel.start_task()
        self.is_proc_hidden = True
        self.assertEqual({}, self.sweep().problems)

        self.kernel.write('mon_groups/pqos-0/tasks', f'{pid}\n')

        swept = self.sweep()
        self.assertEqual({SERVER, OTHER}, set(swept.problems))
        self.assertEqual({}, swept.servers)

    def test_a_region_of_a_cache_has_no_threads(self) -> None:
        self.add_control_group(SERVER)
        self.machine.file_system.mkdir('region')
        self.kernel.fail(
            operation='read', path='region/tasks', error='EACCES', count=None
        )

        swept = self.sweep()

        self.assertEqual(('', {}), (swept.problem, swept.problems))

    def test_faults_never_stop_a_sweep(self) -> None:
        self.add_control_group(SERVER)
        self.start(OTHER, holds=True)
        for error in ('EIO', 'EACCES', 'EBUSY', 'ENOENT', 'ENOSPC', 'EINVAL'):
            for operation in ('read', 'listdir', 'mkdir', 'rmdir', 'write'):
                with self.subTest(error=error, operation=operation):
                    self.kernel.fail(
                        operation=operation, error=error, count=None
                    )

                    self.sweep(70)

                    self.kernel.stop_failing()
                    swept = self.sweep(700)
                    self.assertEqual('', swept.problem)
                    self.assertEqual({}, swept.problems)
                    self.assertEqual({SERVER, OTHER}, set(swept.servers))

    def test_an_empty_mount_is_said_and_comes_back(self) -> None:
        self.add_control_group(SERVER)
        self.kernel.unmount()

        self.assertIn('not mounted', self.sweep().problem)

        self.kernel.remount()
        self.add_control_group(SERVER)
        swept = self.sweep()
        self.assertEqual('', swept.problem)
        self.assertIsNone(with_sweeper.find_total_rate(swept.servers[SERVER]))

    def test_a_cache_that_goes_offline_is_left_out(self) -> None:
        self.add_control_group(SERVER)
        self.sweep()

        self.kernel.set_offline('12-23,36-47')
        gone = self.sweep().servers[SERVER]
        self.kernel.set_online('12-23,36-47')
        back = self.sweep().servers[SERVER]

        self.assertEqual([0], [one.domain.cache for one in gone.domains])
        self.assertEqual([0, 1], [one.domain.cache for one in back.domains])
        self.assertIsNone(back.domains[1].total_rate)

    def test_servers_that_are_not_known_keep_their_groups(self) -> None:
        self.add_control_group(SERVER)
        self.start(OTHER, holds=True)
        self.sweep()
        self.is_ledger_locked = True

        swept = self.sweep()

        self.assertEqual({SERVER, OTHER}, set(swept.servers))
        self.assertIn('it is locked', swept.problem)

    def test_the_lock_is_not_held_while_counters_are_read(self) -> None:
        self.add_control_group(SERVER)
        files = self.machine.file_system
        read = files.read
        held = []

        def look(path: str) -> str:
            if 'mon_data' in path:
                held.append(files._lock._readers)
            text: str = read(path)
            return text

        files.read = look
        self.sweep()

        self.assertEqual([0] * 6, held)

    def test_a_sweep_with_nothing_to_change_only_reads(self) -> None:
        self.add_control_group(SERVER)
        self.start(OTHER, holds=True)
        self.sweep()
        self.kernel.forget_operations()

        self.sweep()

        operations = self.kernel.list_operations()
        self.assertEqual(
            {'read', 'listdir', 'lock'}, {name for name, _path in operations}
        )
        self.assertNotIn(['lock', 'True'], operations)
        self.assertEqual(
            12, sum('nova-' in p and 'mon_data' in p for _n, p in operations)
        )

    def test_time_is_told(self) -> None:
        swept = self.sweep()

        self.assertEqual(self.clock.now, swept.finished_at)
        self.assertEqual(0.0, swept.duration)


class FrequencyTest(with_sweeper.SweeperTestCase):
    def write(self, cpu: int, khz: int) -> None:
        folder = os.path.join(self.cpu_path, f'cpu{cpu}', 'cpufreq')
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, 'scaling_cur_freq'), 'w') as file:
            file.write(f'{khz}\n')

    def test_the_mean_of_a_pinned_servers_cpus_is_told(self) -> None:
        self.write(1, 2_000_000)
        self.write(2, 3_000_000)
        self.write(3, 900_000)
        self.add_control_group(SERVER)
        self.servers[SERVER] = sample.MonitoredServer(
            cpus=frozenset({1, 2}), holds=True
        )

        self.assertEqual(2.5e9, self.sweep().servers[SERVER].frequency)

    def test_a_floating_server_has_none(self) -> None:
        self.write(1, 2_000_000)
        self.add_control_group(SERVER)

        self.assertIsNone(self.sweep().servers[SERVER].frequency)
