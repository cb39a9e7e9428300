# SPDX-License-Identifier: Apache-2.0

"""Tests of the inventory provider ``cpu``, on trees of several shapes."""

import errno
import pathlib
import shutil
from typing import Any
from unittest import mock

import fixtures

from nova_ext_resources.conf.drivers import cpu as conf
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.cpu import inventory
from nova_ext_resources.drivers.cpu import sysfs
from nova_ext_resources.drivers.devices import files
from nova_ext_resources import exception
from nova_ext_resources.objects import host_provider
from nova_ext_resources.testing import cpu
from tests.unit.drivers import contract


class TestCpuInventory(contract.InventoryProviderContract):
    name = 'cpu'
    plugin_class = inventory.CpuInventory

    def setUp(self) -> None:
        super().setUp()
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.tree = cpu.Sysfs(str(folder / 'sys'))
        self.useFixture(
            fixtures.MockPatchObject(files, 'read_bytes', self.tree.read_bytes)
        )
        self.log = self.useFixture(fixtures.FakeLogger())

    def make_plugin(self, **power: Any) -> inventory.CpuInventory:
        self.conf.register_opts(conf.NOVA_OPTS['libvirt'], 'libvirt')
        for name, value in power.items():
            self.conf.set_override(name, value, 'libvirt')
        return inventory.CpuInventory(
            self.make_options(path=str(self.tree.path)),
            'host-1',
            nova={'libvirt': self.conf.libvirt},
        )

    def break_host(self, plugin: base.InventoryProvider) -> None:
        shutil.rmtree(self.tree.path)

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        """Return nothing: this plugin has no providers."""
        found = self.make_plugin().discover()
        self.assertEqual((), found)
        return found

    def list_traits(self, **power: Any) -> list[str]:
        """Return the ends of all traits."""
        plugin = self.make_plugin(**power)
        plugin.discover()
        for one in plugin.node_traits:
            self.assertEqual('', host_provider.find_trait_error(one))
        prefix = 'CUSTOM_CPU_'
        return sorted(one.removeprefix(prefix) for one in plugin.node_traits)

    # -- shapes ---------------------------------------------------------

    def test_a_xeon(self) -> None:
        self.tree.add_policies()
        self.tree.set_no_turbo(False)
        self.tree.add_idle_states()
        self.tree.set_smt(True)

        self.assertEqual(
            [
                'C_STATE_C1',
                'C_STATE_C1E',
                'C_STATE_C6',
                'EPP_BALANCE_PERFORMANCE',
                'GOVERNOR_POWERSAVE',
                'P_STATES',
                'SCALING_DRIVER_INTEL_PSTATE',
                'SMT',
                'TURBO',
            ],
            self.list_traits(),
        )
        self.assertEqual('', self.log.output)

    def test_an_epyc(self) -> None:
        self.tree.add_policies(
            'acpi-cpufreq', governor='schedutil', preference=''
        )
        self.tree.write('cpufreq/boost', 1)
        self.tree.add_idle_states(['POLL', 'C1', 'C2'])

        self.assertEqual(
            [
                'C_STATE_C1',
                'C_STATE_C2',
                'GOVERNOR_SCHEDUTIL',
                'P_STATES',
                'SCALING_DRIVER_ACPI_CPUFREQ',
                'TURBO',
            ],
            self.list_traits(),
        )

    def test_an_arm_server(self) -> None:
        self.tree.add_policies(
            'cppc_cpufreq', governor='performance', preference=''
        )
        self.tree.add_idle_states(['LPI-0', 'LPI-1'])

        self.assertEqual(
            [
                'C_STATE_LPI_0',
                'C_STATE_LPI_1',
                'GOVERNOR_PERFORMANCE',
                'P_STATES',
                'SCALING_DRIVER_CPPC_CPUFREQ',
            ],
            self.list_traits(),
        )

    def test_a_virtual_machine(self) -> None:
        self.assertEqual([], self.list_traits())

        self.tree.add_idle_states(['haltpoll idle'])

        self.assertEqual(['C_STATE_HALTPOLL_IDLE'], self.list_traits())

    # -- settings -------------------------------------------------------

    def test_turbo_that_is_off(self) -> None:
        self.tree.add_policies()
        self.tree.set_no_turbo(True)

        self.assertNotIn('TURBO', self.list_traits())

    def test_boost_that_some_policies_do_not_have(self) -> None:
        self.tree.add_policies('amd-pstate-epp')
        for one in range(4):
            self.tree.write(f'cpufreq/policy{one}/boost', 1)
        self.assertIn('TURBO', self.list_traits())

        self.tree.write('cpufreq/policy2/boost', 0)
        self.assertNotIn('TURBO', self.list_traits())

        # Nor does the switch for all help it.
        self.tree.write('cpufreq/boost', 1)
        self.assertNotIn('TURBO', self.list_traits())

    def test_the_switch_for_all_counts_more_than_that_of_each(self) -> None:
        self.tree.add_policies('amd-pstate-epp')
        for one in range(4):
            self.tree.write(f'cpufreq/policy{one}/boost', 1)
        self.tree.write('cpufreq/boost', 0)

        self.assertNotIn('TURBO', self.list_traits())

    def test_turbo_of_which_nothing_is_known(self) -> None:
        self.tree.add_policies()

        self.assertNotIn('TURBO', self.list_traits())

    def test_an_idle_state_counts_while_a_cpu_may_enter_it(self) -> None:
        self.tree.add_idle_states()
        self.tree.disable('C6', range(3))
        self.assertIn('C_STATE_C6', self.list_traits())

        self.tree.disable('C6', range(4))
        self.assertNotIn('C_STATE_C6', self.list_traits())
        self.assertIn('C_STATE_C1E', self.list_traits())

    def test_cpus_that_differ_have_no_common_trait(self) -> None:
        self.tree.add_policies()
        self.tree.set_governor('performance', [2, 3])
        plugin = self.make_plugin()

        plugin.discover()
        plugin.discover()

        self.assertFalse(
            [one for one in plugin.node_traits if 'GOVERNOR' in one]
        )
        self.assertIn('CUSTOM_CPU_P_STATES', plugin.node_traits)
        said = (
            'no trait CUSTOM_CPU_GOVERNOR_* is reported, because the values '
            'differ: performance on CPUs 2-3, powersave on CPUs 0-1'
        )
        self.assertEqual(1, self.log.output.count(said))

    def test_cpus_without_a_policy(self) -> None:
        self.tree.add_policies()
        shutil.rmtree(self.tree.folder / 'cpufreq/policy3')

        self.assertEqual([], self.list_traits())
        self.assertIn('CPUs 3 have no frequency scaling', self.log.output)

    def test_governors_that_nova_changes_are_left_out(self) -> None:
        self.tree.add_policies()

        found = self.list_traits(
            cpu_power_management=True,
            cpu_power_management_strategy='governor',
        )

        self.assertEqual(['P_STATES', 'SCALING_DRIVER_INTEL_PSTATE'], found)
        self.assertIn('Nova changes governors', self.log.output)

    def test_governors_stay_where_nova_takes_cpus_offline(self) -> None:
        self.tree.add_policies()

        found = self.list_traits(cpu_power_management=True)

        self.assertIn('GOVERNOR_POWERSAVE', found)

    def test_cpus_that_are_offline_do_not_count(self) -> None:
        self.tree.add_policies()
        self.tree.add_idle_states()
        self.tree.set_governor('performance', [3])
        self.tree.disable('C6', range(3))
        self.assertIn('C_STATE_C6', self.list_traits())

        self.tree.take_offline(3)

        found = self.list_traits()
        self.assertIn('GOVERNOR_POWERSAVE', found)
        self.assertNotIn('C_STATE_C6', found)

    def test_cpus_that_are_offline_on_kernels_before_5_19(self) -> None:
        self.tree.add_policies()
        self.tree.set_governor('performance', [3])

        self.tree.take_offline_before_5_19(3)

        self.assertIn('GOVERNOR_POWERSAVE', self.list_traits())

    def test_turbo_of_a_driver_that_is_off(self) -> None:
        # "off" in intel_pstate/status; acpi-cpufreq is there instead.
        self.tree.add_policies('acpi-cpufreq')
        self.tree.set_no_turbo(False)
        switch = self.tree.folder / 'intel_pstate/no_turbo'
        self.tree.errors[switch] = errno.EAGAIN

        self.assertNotIn('TURBO', self.list_traits())

        self.tree.write('cpufreq/boost', 1)
        self.assertIn('TURBO', self.list_traits())

    # -- what changes, or fails -----------------------------------------

    def test_what_changes_at_run_time(self) -> None:
        self.tree.add_policies()
        plugin = self.make_plugin()
        for is_off in (False, True, False):
            self.tree.set_no_turbo(is_off)
            plugin.discover()
            self.assertEqual(
                not is_off, 'CUSTOM_CPU_TURBO' in plugin.node_traits
            )

    def test_what_was_known_stays_when_the_host_cannot_be_read(self) -> None:
        self.tree.add_policies()
        plugin = self.make_plugin()
        plugin.discover()
        before = plugin.node_traits
        self.break_host(plugin)

        self.assertRaises(exception.DiscoveryFailed, plugin.discover)

        self.assertEqual(before, plugin.node_traits)

    def test_a_cpu_that_goes_offline_meanwhile(self) -> None:
        self.tree.add_policies()
        self.tree.add_idle_states()
        original = sysfs._read_turbo

        def take_offline(folder: str) -> bool | None:
            (self.tree.folder / 'cpu3/cpuidle/state1/name').unlink(
                missing_ok=True
            )
            self.tree.take_offline(3)
            return original(folder)

        with mock.patch.object(sysfs, '_read_turbo', take_offline):
            found = self.list_traits()

        self.assertIn('GOVERNOR_POWERSAVE', found)

    def test_what_a_cpu_answers_that_goes_offline_meanwhile(self) -> None:
        self.tree.add_policies()
        path = self.tree.folder / 'cpufreq/policy3/scaling_driver'
        codes = [errno.ENOENT, errno.EBUSY, errno.ENODEV]

        def read(folder: str, name: str, size: int) -> bytes:
            # It comes back each time, so that as many are online.
            if codes and pathlib.Path(folder, name) == path:
                raise OSError(codes.pop(), 'gone', str(path))
            return self.tree.read_bytes(folder, name, size)

        with mock.patch.object(files, 'read_bytes', read):
            found = self.list_traits()

        self.assertEqual([], codes)
        self.assertIn('GOVERNOR_POWERSAVE', found)

    def test_a_file_that_stays_busy_while_its_cpus_are_online(self) -> None:
        self.tree.add_policies()
        path = self.tree.folder / 'cpufreq/policy3/scaling_driver'
        self.tree.errors[path] = errno.EBUSY

        error = self.assertRaises(
            exception.DiscoveryFailed, self.make_plugin().discover
        )

        self.assertIn(str(path), str(error))

    def test_an_error_that_says_nothing_of_cpus(self) -> None:
        self.tree.add_policies()
        path = self.tree.folder / 'cpufreq/policy3/affected_cpus'
        self.tree.errors[path] = errno.EIO

        error = self.assertRaises(
            exception.DiscoveryFailed, self.make_plugin().discover
        )

        self.assertIn(str(path), str(error))

    def test_cpus_that_come_and_go_all_the_time(self) -> None:
        self.tree.add_policies()
        online = iter(f'0-{2 + turn % 2}' for turn in range(99))

        def change(_folder: str) -> None:
            self.tree.write('online', next(online))

        with mock.patch.object(sysfs, '_read_turbo', change):
            error = self.assertRaises(
                exception.DiscoveryFailed, self.make_plugin().discover
            )

        self.assertIn('all the time', str(error))

    def test_files_with_nonsense(self) -> None:
        for name, text in (
            ('online', 'x'),
            ('cpufreq/policy1/affected_cpus', 'x'),
            ('cpufreq/policy1/scaling_governor', 'a\nb'),
            ('cpufreq/policy1/scaling_governor', ''),
            ('cpufreq/policy1/scaling_driver', '../x'),
            ('cpufreq/policy1/energy_performance_preference', '\x1b[31m'),
            ('cpufreq/policy1/scaling_driver', 'x' * 300),
            ('cpu1/cpuidle/state1/name', 'C\u0661'),
        ):
            with self.subTest(name=name, text=text):
                self.tree = cpu.Sysfs(self.useFixture(fixtures.TempDir()).path)
                self.tree.add_policies()
                self.tree.add_idle_states()
                self.tree.write(name, text)

                error = self.assertRaises(
                    exception.DiscoveryFailed, self.make_plugin().discover
                )

                self.assertTrue(str(error).isascii())
                self.assertTrue(str(error).isprintable())

    def test_a_file_that_is_missing_is_told(self) -> None:
        self.tree.add_idle_states()
        (self.tree.folder / 'cpu1/cpuidle/state1/disable').unlink()

        error = self.assertRaises(
            exception.DiscoveryFailed, self.make_plugin().discover
        )

        self.assertIn('cpu1/cpuidle/state1/disable', str(error))
