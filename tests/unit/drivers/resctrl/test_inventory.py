# SPDX-License-Identifier: Apache-2.0

from collections.abc import Mapping
import dataclasses
import errno
import os
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl import inventory
from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources.drivers.resctrl.kernel import group_files
from nova_ext_resources import exception
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import reserved_units
from nova_ext_resources.testing import resctrl
from nova_ext_resources.testing.resctrl import shape
from tests.unit.drivers import contract

CLOS = classes.CLOS
WAYS = classes.WAYS
WAYS_2 = classes.L2_WAYS
PERCENT = classes.PERCENT
MBPS = classes.MBPS
Reserved = reserved_units.Reserved


class Lacking:
    """The files of a kernel that does not have one of them."""

    def __init__(self, files: Any, path: str) -> None:
        self._files = files
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def listdir(self, path: str) -> list[str]:
        names: list[str] = self._files.listdir(path)
        return [n for n in names if group_files.join(path, n) != self._path]

    def read(self, path: str) -> str:
        if path == self._path:
            raise FileNotFoundError(errno.ENOENT, 'No such file', path)
        return str(self._files.read(path))


class Showing(Lacking):
    """The files of a kernel that shows something else in one of them."""

    def __init__(self, files: Any, path: str, text: str) -> None:
        super().__init__(files, '')
        self._shown = path, text

    def read(self, path: str) -> str:
        shown, text = self._shown
        return text if path == shown else super().read(path)


class ResctrlTestCase(contract.InventoryProviderContract):
    name = 'resctrl'
    plugin_class = inventory.ResctrlInventory

    SHAPE: resctrl.Shape | str = 'skylake2'

    def setUp(self) -> None:
        super().setUp()
        self.machine = self.useFixture(resctrl.ResctrlFixture(self.SHAPE))
        self.kernel = self.machine.kernel

    def make_plugin(self, **values: Any) -> base.InventoryProvider:
        options = self.make_options(
            **{'cpu_path': self.machine.cpu_path, **values}
        )
        return self.make_with(options)

    def make_with(self, options: Any) -> inventory.ResctrlInventory:
        return inventory.ResctrlInventory(
            options, 'host-1', files=self.machine.file_system
        )

    def break_host(self, plugin: base.InventoryProvider) -> None:
        self.kernel.fail(error='EIO', count=None)

    def find(self, **values: Any) -> dict[str, host_provider.HostProvider]:
        found = self.make_plugin(**values).discover()
        return {one.key: one for one in found}

    def test_a_restart_finds_the_same(self) -> None:
        plugin = self.make_plugin()
        again = self.make_with(plugin.options)

        self.assertEqual(plugin.discover(), again.discover())


class SkylakeTest(ResctrlTestCase):
    def test_classes_are_those_of_the_scarcer_control(self) -> None:
        found = self.find()['RDT']

        given = found.inventories[CLOS]
        self.assertEqual(
            (8, 1, 1), (given.total, given.reserved, given.max_unit)
        )
        self.assertEqual({CLOS: {'free': 7}}, found.units)

    def test_each_cache_has_its_ways_and_cpus(self) -> None:
        found = self.find()

        self.assertEqual({'RDT', 'L3_0', 'L3_1'}, set(found))
        self.assertEqual('0-11,24-35', found['L3_0'].cpus)
        self.assertEqual(11, found['L3_1'].inventories[WAYS].total)
        self.assertEqual({'free': '1ff'}, found['L3_1'].units[WAYS])

    def test_the_host_keeps_what_it_is_told_to_keep(self) -> None:
        found = self.find(reserved_ways=4)

        self.assertEqual({'free': '7f'}, found['L3_0'].units[WAYS])

    def test_what_others_hold_is_not_free(self) -> None:
        self.kernel.add_group('db', 'L3:0=3;1=600\n')

        found = self.find()

        self.assertEqual({'free': '1fc'}, found['L3_0'].units[WAYS])
        self.assertEqual({'free': 6}, found['RDT'].units[CLOS])

    def test_what_has_the_ways_that_are_not_free(self) -> None:
        self.kernel.add_group('db', 'L3:0=6;1=600\n')
        self.kernel.add_group(f'nova-{uuidsentinel.server}', 'L3:0=18;1=7ff\n')

        found = self.find(reserved_ways=2, burst_ways=2, shared_ways=1)

        self.assertEqual({'free': '1e0'}, found['L3_0'].units[WAYS])
        self.assertEqual(
            Reserved(host=0x600, other=0x006, pools=0x007),
            found['L3_0'].reserved[WAYS],
        )
        self.assertEqual(0x600, found['L3_1'].reserved[WAYS].other)

    def test_what_has_the_classes_that_are_not_free(self) -> None:
        for options, known in (
            ({}, Reserved(host=1)),
            ({'shared_ways': 2}, Reserved(host=1, pools=1)),
        ):
            self.assertEqual(known, self.find(**options)['RDT'].reserved[CLOS])
        for name in ('db', 'nova-shared', f'nova-{uuidsentinel.server}'):
            self.kernel.add_group(name, 'L3:0=3;1=3\n')

        self.assertEqual(
            Reserved(host=1, other=1, pools=1),
            self.find(shared_ways=0)['RDT'].reserved[CLOS],
        )

    def test_bandwidth_is_allocated_in_steps_of_the_hardware(self) -> None:
        given = self.find()['L3_0'].inventories[PERCENT]

        self.assertEqual(
            (100, 10, 10), (given.total, given.min_unit, given.step_size)
        )

    def test_the_providers_are_those_of_rmd(self) -> None:
        # A host may change its backend without new uuids in placement.
        found = self.find()

        self.assertEqual('RDT', found['L3_0'].parent_key)
        self.assertEqual(CLOS, found['L3_0'].implied[WAYS])

    def test_cpus_that_never_were_online_serve_nobody(self) -> None:
        self.kernel.set_offline('0,24')

        self.assertEqual('1-11,25-35', self.find()['L3_0'].cpus)

    def test_cpus_that_go_offline_stay_where_they_were(self) -> None:
        before = self.find()
        for cpus in ('0,24', '0-11,24-35'):
            with self.subTest(cpus=cpus):
                self.kernel.set_offline(cpus)

                self.assertEqual(before, self.find())

    def test_other_software_will_have_all_ways_of_a_cache_that_is_off(
        self,
    ) -> None:
        """The kernel opens a cache to all groups when it comes back."""
        self.kernel.add_group('dba', 'L3:0=3;1=3\n')
        online = self.find()
        cpus = online['L3_1'].cpus

        self.kernel.set_offline(cpus)

        found = self.find()
        self.assertEqual(online['L3_0'], found['L3_0'])
        self.assertEqual({'free': '0'}, found['L3_1'].units[WAYS])
        self.kernel.set_online(cpus)
        self.assertEqual(found['L3_1'].units, self.find()['L3_1'].units)
        self.kernel.write('dba/schemata', 'L3:1=3\n')
        self.assertEqual(online['L3_1'].units, self.find()['L3_1'].units)

    def test_a_cache_that_nobody_has_seen_is_not_taken_for_gone(
        self,
    ) -> None:
        plugin = self.make_plugin()
        self.kernel.set_offline('0-11,24-35')
        plugin.discover()
        self.assertEqual(
            {'caches of offline CPUs 0-11,24-35'}, plugin.left_out
        )

        self.kernel.set_online('0-11,24-35')
        plugin.discover()

        self.assertEqual(frozenset(), plugin.left_out)

    def test_caches_of_another_machine_are_told(self) -> None:
        epyc = self.useFixture(resctrl.ResctrlFixture('epyc16'))
        plugin = inventory.ResctrlInventory(
            self.make_options(cpu_path=self.machine.cpu_path),
            'host-1',
            files=epyc.file_system,
        )

        found = {one.key for one in plugin.discover()}

        self.assertEqual({'RDT', 'L3_0', 'L3_1'}, found)
        self.assertEqual(
            {
                f'L3 caches 2-15 ({self.machine.cpu_path} has no CPU of '
                'these caches)'
            },
            plugin.left_out,
        )

    def test_some_cpus_of_a_cache_that_is_known_are_not_missed(self) -> None:
        plugin = self.make_plugin()
        self.kernel.set_offline('0,24')

        plugin.discover()

        self.assertEqual(frozenset(), plugin.left_out)

    def test_without_hyper_threading_no_cache_is_missed(self) -> None:
        plugin = self.make_plugin()
        self.kernel.set_offline('24-47')
        folder = os.path.join(self.machine.cpu_path, 'smt')
        for control, count in (('on', 1), ('off', 0), ('forceoff', 0)):
            with self.subTest(control=control):
                with open(os.path.join(folder, 'control'), 'w') as file:
                    file.write(f'{control}\n')
                plugin.discover()

                self.assertEqual(count, len(plugin.left_out))

    def test_limits_that_threads_share_need_whole_cores(self) -> None:
        plugin = self.make_plugin()
        path = 'info/MB/thread_throttle_mode'
        for mode, control, needed in (
            ('max', 'on', True),
            # Before Linux 5.12 there is no such file.
            ('', 'on', True),
            ('max', 'notimplemented', False),
            ('per-thread', 'on', False),
            ('max', 'off', False),
        ):
            with self.subTest(mode=mode, control=control):
                self.show_smt(control)
                self.show({path: f'{mode}\n'})
                plugin.discover()

                self.assertEqual(needed, PERCENT in plugin.constraints)

    def test_threads_may_be_where_the_kernel_does_not_say(self) -> None:
        os.unlink(os.path.join(self.machine.cpu_path, 'smt', 'control'))
        plugin = self.make_plugin()

        plugin.discover()

        self.assertTrue(plugin.constraints[PERCENT].needs_cores)

    def show_smt(self, control: str) -> None:
        folder = os.path.join(self.machine.cpu_path, 'smt')
        for name, text in (('control', control), ('active', '0')):
            with open(os.path.join(folder, name), 'w') as file:
                file.write(f'{text}\n')

    def show(self, texts: Mapping[str, str]) -> None:
        """Have the kernel show these instead of what it has."""
        real = self.machine.file_system
        read = type(real).read
        real.read = lambda path: texts.get(path) or read(real, path)

    def test_it_is_told_when_resctrl_is_not_mounted(self) -> None:
        plugin = self.make_plugin()
        self.kernel.unmount()

        err = self.assertRaises(exception.DiscoveryFailed, plugin.discover)

        self.assertIn('mount -t resctrl', str(err))

    def test_half_a_file_is_not_believed(self) -> None:
        plugin = self.make_plugin()
        read = self.machine.file_system.read
        self.machine.file_system.read = lambda path: read(path)[:-3]

        err = self.assertRaises(exception.DiscoveryFailed, plugin.discover)

        self.assertIn('understand', str(err))

    def test_a_folder_that_is_not_there_is_told(self) -> None:
        options = self.make_options(path='/nowhere/resctrl')
        plugin = inventory.ResctrlInventory(options, 'host-1')

        err = self.assertRaises(exception.DiscoveryFailed, plugin.discover)

        self.assertIn('/nowhere/resctrl', str(err))


class BurstTest(ResctrlTestCase):
    def find_burst(self, **values: Any) -> Any:
        return self.find(**values)['L3_0'].inventories[classes.BURST]

    def test_the_pool_is_allocated_apart_from_the_other_ways(self) -> None:
        found = self.find(burst_ways=4)['L3_0']

        given = found.inventories[classes.BURST]
        self.assertEqual(
            (4, 0, 1), (given.total, given.reserved, given.min_unit)
        )
        self.assertEqual({'free': '1f0'}, found.units[WAYS])
        self.assertEqual(CLOS, found.implied[classes.BURST])

    def test_without_the_option_there_is_none(self) -> None:
        self.assertNotIn(classes.BURST, self.find()['L3_0'].inventories)

    def test_what_others_hold_of_it_is_reserved(self) -> None:
        self.kernel.add_group('db', 'L3:0=2;1=400\n')

        # One way on the other side of it is of no use to a run.
        self.assertEqual(2, self.find_burst(burst_ways=4).reserved)

    def test_pools_that_do_not_fit_are_told(self) -> None:
        plugin = self.make_plugin(burst_ways=10)

        err = self.assertRaises(exception.DiscoveryFailed, plugin.discover)

        self.assertIn('burst_ways is 10, but only 9 ways in a row', str(err))
        self.assertIn('L3_0', str(err))

    def test_a_pool_of_fewer_ways_than_the_cpu_gives_is_told(self) -> None:
        self.machine = self.useFixture(resctrl.ResctrlFixture('haswell'))
        plugin = self.make_plugin(burst_ways=1)

        err = self.assertRaises(exception.DiscoveryFailed, plugin.discover)

        self.assertIn('needs at least 2 ways', str(err))


class KernelTest(ResctrlTestCase):
    """Kernels that lack monitoring ids, or files."""

    def use_up(self, *, left: int = 0) -> None:
        for number in range(self.kernel.count_ids()['free'] - left):
            self.machine.file_system.mkdir(f'mon_groups/pqos-{left}{number}')

    def test_only_classes_that_can_get_an_id_are_offered(self) -> None:
        for left in (3, 0):
            self.use_up(left=left)
            plugin = self.make_plugin()
            with self.subTest(left=left):
                found = {one.key: one for one in plugin.discover()}['RDT']

                self.assertEqual({CLOS: {'free': left}}, found.units)
                self.assertEqual(
                    Reserved(host=1, other=7 - left, pools=0),
                    found.reserved[CLOS],
                )
                [problem] = plugin.problems
                self.assertEqual('monitoring ids', problem.subject)
                self.assertIn(
                    f'{7 - left} of 7 free classes of service are not '
                    'offered: each class needs a monitoring id, and '
                    f'{192 - left} of 192 ids are in use',
                    problem.text,
                )
                self.assertIn('software (mon_groups/pqos-', problem.text)

    def test_the_alarm_is_over_when_ids_are_free(self) -> None:
        self.use_up()
        plugin = self.make_plugin()
        plugin.discover()
        for number in range(7):
            self.machine.file_system.rmdir(f'mon_groups/pqos-0{number}')

        found = {one.key: one for one in plugin.discover()}['RDT']

        self.assertEqual({CLOS: {'free': 7}}, found.units)
        self.assertEqual((), plugin.problems)

    def test_the_pool_has_places_while_its_group_has_an_id(self) -> None:
        def count_reserved() -> int:
            found = self.find(shared_ways=3, shared_servers=5)['L3_0']
            return found.inventories[classes.SHARED].reserved

        self.kernel.add_group('nova-shared', 'L3:0=7;1=7\n')
        self.use_up()
        self.assertEqual(0, count_reserved())

        self.kernel.remove_group('nova-shared')
        self.kernel.flush_caches()
        self.machine.file_system.mkdir('mon_groups/pqos')
        self.assertEqual(5, count_reserved())

    def test_fewer_ids_than_classes_are_those_of_one_group(self) -> None:
        files = self.machine.file_system
        self.machine.file_system = Showing(files, 'info/L3_MON/num_rmids', '1')
        plugin = self.make_plugin()

        found = {one.key: one for one in plugin.discover()}['RDT']

        self.assertEqual({CLOS: {'free': 7}}, found.units)
        self.assertEqual((), plugin.problems)

    # -- kernels that lack files ----------------------------------------

    def test_a_kernel_that_is_too_old_offers_nothing(self) -> None:
        old = dataclasses.replace(self.machine.shape, kernel=(4, 18))
        self.machine = self.useFixture(resctrl.ResctrlFixture(old))

        err = self.assertRaises(
            exception.DiscoveryFailed, self.make_plugin().discover
        )

        self.assertIn('could not read mode', str(err))
        self.assertIn('to Linux 4.19 or later', str(err))

    def test_a_group_has_not_gone_because_one_of_its_files_has(self) -> None:
        ours = f'nova-{uuidsentinel.one}'
        self.kernel.add_group('db', 'L3:0=3;1=3\n')
        self.kernel.add_group(ours, 'L3:0=c;1=c\n')
        files = self.machine.file_system
        usual = {key: one.units for key, one in self.find().items()}
        refused = []
        # What has no file "schemata" is no group, but for those of ours.
        paths = [f'{ours}/schemata'] + [
            group_files.join(group, name)
            for group in ('', 'db', ours)
            for name in files.listdir(group)
            if name not in ('db', ours, 'info', 'schemata')
        ]
        for path in paths:
            self.machine.file_system = Lacking(files, path)
            with self.subTest(path=path):
                try:
                    found = self.find()
                except exception.DiscoveryFailed as err:
                    refused.append(path)
                    self.assertIn('the kernel has no such file', str(err))
                else:
                    self.assertEqual(
                        usual, {key: one.units for key, one in found.items()}
                    )
        self.assertEqual([f'{ours}/schemata', 'mode'], refused)

    def test_a_group_that_has_gone_meanwhile_is_none(self) -> None:
        usual = {key: one.units for key, one in self.find().items()}
        self.kernel.add_group('db', 'L3:0=3;1=3\n')
        files = self.machine.file_system

        class Vanishing(Lacking):
            def read(inner, path: str) -> str:
                if path == 'db/mode':
                    self.kernel.remove_group('db')
                return str(files.read(path))

        self.machine.file_system = Vanishing(files, '')

        found = self.find()

        self.assertEqual(usual, {key: one.units for key, one in found.items()})


class SharedTest(ResctrlTestCase):
    def test_places_are_allocated_and_take_no_class_each(self) -> None:
        found = self.find(shared_ways=3, shared_servers=5)['L3_0']

        given = found.inventories[classes.SHARED]
        self.assertEqual(
            (5, 0, 1), (given.total, given.reserved, given.max_unit)
        )
        self.assertNotIn(classes.SHARED, found.implied)
        self.assertEqual({'free': '1f8'}, found.units[WAYS])

    def test_without_the_option_there_are_none(self) -> None:
        self.assertNotIn(classes.SHARED, self.find()['L3_0'].inventories)

    def test_the_class_of_the_pool_is_kept(self) -> None:
        found = self.find(shared_ways=3)['RDT']

        self.assertEqual(2, found.inventories[CLOS].reserved)
        self.assertEqual({CLOS: {'free': 6}}, found.units)

    def test_a_pool_in_use_is_not_foreign(self) -> None:
        self.kernel.add_group('nova-shared', 'L3:0=7;1=7\n')

        found = self.find(shared_ways=3)

        self.assertEqual({CLOS: {'free': 6}}, found['RDT'].units)
        self.assertEqual({'free': '1f8'}, found['L3_0'].units[WAYS])

    def test_a_pool_that_others_have_has_no_places(self) -> None:
        self.kernel.add_group('db', 'L3:0=7;1=400\n')

        found = self.find(shared_ways=3, shared_servers=5)

        self.assertEqual(5, found['L3_0'].inventories[classes.SHARED].reserved)
        self.assertEqual(0, found['L3_1'].inventories[classes.SHARED].reserved)

    def test_too_few_ways_for_the_cpu_are_no_pool_either(self) -> None:
        self.machine = self.useFixture(resctrl.ResctrlFixture('haswell'))
        self.machine.kernel.add_group('db', 'L3:0=3\n')

        found = self.find(shared_ways=3, shared_servers=5)

        self.assertEqual(5, found['L3_0'].inventories[classes.SHARED].reserved)

    def test_pools_that_do_not_fit_together_are_told(self) -> None:
        plugin = self.make_plugin(burst_ways=6, shared_ways=4)

        err = self.assertRaises(exception.DiscoveryFailed, plugin.discover)

        self.assertIn('shared_ways is 4, but only 3 ways in a row', str(err))


class EpycTest(ResctrlTestCase):
    SHAPE = 'epyc16'

    def test_each_complex_is_a_domain(self) -> None:
        found = self.find()

        self.assertEqual(17, len(found))
        self.assertEqual(
            {'free': '7fff', 'sparse': 1}, found['L3_15'].units[WAYS]
        )

    def test_bandwidth_is_allocated_when_its_size_is_known(self) -> None:
        self.assertNotIn(MBPS, self.find()['L3_0'].inventories)

    def test_bandwidth_is_allocated_in_eighths_of_gb(self) -> None:
        given = self.find(memory_bandwidth=40000)['L3_0'].inventories[MBPS]

        self.assertEqual(
            (40000, 125, 125), (given.total, given.min_unit, given.step_size)
        )


def _change_caches(name: str, **fields: Any) -> resctrl.Shape:
    """Make a CPU whose caches differ in some fields."""
    shape = resctrl.SHAPES[name]
    caches = tuple(dataclasses.replace(one, **fields) for one in shape.caches)
    return dataclasses.replace(shape, caches=caches)


class TwoEndsTest(ResctrlTestCase):
    """I/O devices fill ways at both ends of the cache, as of a real CPU."""

    SHAPE = _change_caches('skylake2', ways=20, shareable_bits=0xC0001)

    def test_all_ways_between_them_are_free(self) -> None:
        self.assertEqual({'free': '3fffe'}, self.find()['L3_0'].units[WAYS])

    def test_both_ends_are_the_hosts(self) -> None:
        self.assertEqual(
            Reserved(host=0xC0001), self.find()['L3_0'].reserved[WAYS]
        )


class LockedTest(ResctrlTestCase):
    """Other software locks a region into a cache."""

    SHAPE = 'no_mba'

    def setUp(self) -> None:
        super().setUp()
        self.kernel.write('schemata', 'L3:0=ffffc;1=ffffc\n')
        self.kernel.add_group('web', 'L3:0=3;1=3\n')
        self.kernel.write('web/mode', 'pseudo-locksetup\n')

    def test_while_it_is_set_up_no_way_is_taken(self) -> None:
        found = self.find()

        self.assertEqual({'free': '3ffff'}, found['L3_0'].units[WAYS])
        self.assertEqual(1, found['RDT'].reserved[CLOS].other)

    def test_its_ways_are_not_free(self) -> None:
        self.kernel.write('web/schemata', 'L3:0=3\n')

        found = self.find()

        self.assertEqual({'free': '3fffc'}, found['L3_0'].units[WAYS])
        self.assertEqual(0x3, found['L3_0'].reserved[WAYS].other)
        self.assertEqual({'free': '3ffff'}, found['L3_1'].units[WAYS])
        self.assertEqual(0, found['RDT'].reserved[CLOS].other)


class IoClassTest(ResctrlTestCase):
    """Newer kernels give I/O devices a class of service on AMD."""

    SHAPE = _change_caches('epyc16', io_ways=0x0F00)

    def test_its_ways_are_not_free(self) -> None:
        found = self.find()['L3_0'].units[WAYS]

        self.assertFalse(int(found['free'], 16) & 0x0F00)
        self.assertEqual({'free': 'f0ff', 'sparse': 1}, found)

    def test_its_ways_and_its_class_are_the_hosts(self) -> None:
        found = self.find()

        self.assertEqual(0x0F00, found['L3_0'].reserved[WAYS].host)
        self.assertEqual(2, found['RDT'].reserved[CLOS].host)

    def test_its_class_is_reserved(self) -> None:
        found = self.find()['RDT']

        given = found.inventories[CLOS]
        self.assertEqual((16, 2), (given.total, given.reserved))
        self.assertEqual({CLOS: {'free': 14}}, found.units)


class NoIoClassTest(ResctrlTestCase):
    """The kernel could give them one, and shows no ways of it."""

    SHAPE = _change_caches('epyc16', io_ways=0)

    def test_all_is_as_without(self) -> None:
        found = self.find()

        self.assertEqual('7fff', found['L3_0'].units[WAYS]['free'])
        self.assertEqual(1, found['RDT'].inventories[CLOS].reserved)


class FullIoTest(ResctrlTestCase):
    """I/O devices fill all ways, as when their class was just enabled."""

    SHAPE = _change_caches('epyc16', io_ways=0xFFFF)

    def test_it_is_reported_once(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        plugin = self.make_plugin()

        for _ in range(2):
            plugin.discover()

        self.assertEqual(1, log.output.count('no way of L3_0'))
        self.assertIn('I/O devices fill', log.output)
        self.assertNotIn('reserved_ways', log.output)
        self.assertEqual('0', self.find()['L3_0'].units[WAYS]['free'])


class OpenCacheTest(ResctrlTestCase):
    """Any device may fill any way, as on ARM (MPAM)."""

    SHAPE = _change_caches('epyc16', shareable_bits=0xFFFF)

    def test_ways_are_offered_and_it_is_said_once(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        plugin = self.make_plugin()

        for _ in range(2):
            found = {one.key: one for one in plugin.discover()}

        self.assertEqual('7fff', found['L3_0'].units[WAYS]['free'])
        self.assertEqual(0x8000, found['L3_0'].reserved[WAYS].host)
        self.assertEqual(1, log.output.count('any device may fill any way'))

    def test_an_option_keeps_some_for_the_host(self) -> None:
        found = self.find(reserved_ways=4)['L3_0']

        self.assertEqual('fff', found.units[WAYS]['free'])


class AllReservedTest(ResctrlTestCase):
    def test_it_is_the_option_that_is_named(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())

        self.find(reserved_ways=11)

        self.assertIn(
            'no way of L3_0, L3_1 can be allocated: [ext_resources_resctrl] '
            'reserved_ways = 11 reserves all',
            log.output,
        )
        self.assertNotIn('I/O', log.output)


class AssignedCountersTest(ResctrlTestCase):
    """The root has a file that is no group and has no name of old."""

    SHAPE = dataclasses.replace(
        resctrl.SHAPES['epyc16'], kernel=shape.ASSIGNED_COUNTERS
    )

    def test_it_takes_no_class(self) -> None:
        names = self.machine.file_system.listdir('')
        groups = group_files.GroupFiles(self.machine.file_system)

        self.assertIn('mbm_L3_assignments', names)
        self.assertEqual([], groups.list_names())
        self.kernel.add_group('db', '')
        self.assertEqual(['db'], groups.list_names())


class MonitoringOnlyTest(ResctrlTestCase):
    """The kernel counts, and controls nothing (``rdt=!l3cat,!mba``)."""

    def find_failure(self, *folders: str) -> str:
        root = self.useFixture(fixtures.TempDir()).path
        for folder in folders:
            os.makedirs(os.path.join(root, folder))
        plugin = inventory.ResctrlInventory(
            self.make_options(cpu_path=self.machine.cpu_path),
            'host-1',
            files=file_system.RealFileSystem(root),
        )
        return str(
            self.assertRaises(exception.DiscoveryFailed, plugin.discover)
        )

    def test_it_is_no_control_and_not_a_missing_mount(self) -> None:
        found = self.find_failure('info/L3_MON', 'mon_groups')

        self.assertIn('can only monitor', found)
        self.assertNotIn('not mounted', found)

    def test_a_folder_without_resctrl_is_a_missing_mount(self) -> None:
        self.assertIn('not mounted', self.find_failure())


class CdpTest(ResctrlTestCase):
    SHAPE = 'cdp'

    def test_ways_are_free_for_code_and_data_together(self) -> None:
        before = int(self.find()['L3_0'].units[WAYS]['free'], 16)
        self.kernel.add_group(
            'db', 'L3CODE:0=1\nL3DATA:0=6\nL3CODE:1=600\nL3DATA:1=600\n'
        )

        after = int(self.find()['L3_0'].units[WAYS]['free'], 16)

        self.assertEqual(before & ~0x7, after)

    def test_it_is_a_trait(self) -> None:
        self.assertIn(classes.CDP_TRAIT, self.find()['L3_0'].traits)

    def test_classes_are_half_as_many(self) -> None:
        self.assertEqual(8, self.find()['RDT'].inventories[CLOS].total)


class MegabytesTest(ResctrlTestCase):
    SHAPE = 'mbps'

    def test_bandwidth_is_allocated_in_megabytes(self) -> None:
        found = self.find(memory_bandwidth=60000)['L3_0']

        given = found.inventories[MBPS]
        self.assertEqual((60000, 1), (given.total, given.step_size))
        self.assertNotIn(PERCENT, found.inventories)


class NoBandwidthTest(ResctrlTestCase):
    SHAPE = 'no_mba'

    def test_ways_are_allocated_without_bandwidth(self) -> None:
        self.assertEqual({WAYS}, set(self.find()['L3_0'].inventories))


class ClustersTest(ResctrlTestCase):
    SHAPE = 'icelake_snc'

    def test_clusters_share_the_cache_of_their_socket(self) -> None:
        self.assertEqual({'RDT', 'L3_0', 'L3_1'}, set(self.find()))


class AtomTest(ResctrlTestCase):
    SHAPE = 'atom_l2'

    def test_ways_of_each_l2_are_allocated_where_there_is_no_l3(self) -> None:
        found = self.find()

        self.assertEqual(9, len(found))
        self.assertEqual({WAYS_2}, set(found['L2_7'].inventories))
        self.assertEqual({'free': '7f'}, found['L2_7'].units[WAYS_2])
        self.assertEqual('14-15', found['L2_7'].cpus)
        self.assertEqual(CLOS, found['L2_7'].implied[WAYS_2])
        self.assertEqual({classes.L2_CAT_TRAIT}, found['L2_7'].traits)
        self.assertEqual('RDT', found['L2_7'].parent_key)

    def test_ways_of_others_are_not_free(self) -> None:
        values = ';'.join(f'{n}=80' for n in range(8) if n != 3)
        self.kernel.add_group('db', f'L2:{values};3=3\n')

        found = self.find()

        self.assertEqual({'free': '7f'}, found['L2_2'].units[WAYS_2])
        self.assertEqual({'free': '7c'}, found['L2_3'].units[WAYS_2])
        self.assertEqual(
            Reserved(host=0x80, other=0x3), found['L2_3'].reserved[WAYS_2]
        )

    def test_pools_that_no_cache_can_have_are_told_once(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        plugin = self.make_plugin(burst_ways=2)

        for _ in range(2):
            plugin.discover()

        self.assertEqual(1, log.output.count('burst_ways have no effect'))
        self.assertIn('host-1', log.output)

    def test_no_pools_are_not_missed(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())

        self.find()

        self.assertNotIn('no effect', log.output)

    def test_caches_without_cpus_are_told(self) -> None:
        other = self.useFixture(resctrl.ResctrlFixture('no_mba'))
        plugin = self.make_plugin(cpu_path=other.cpu_path)

        err = self.assertRaises(exception.DiscoveryFailed, plugin.discover)

        self.assertIn('neither', str(err))


class BothLevelsTest(ResctrlTestCase):
    SHAPE = 'granite'

    def test_both_levels_are_sold(self) -> None:
        found = self.find()

        self.assertEqual(1 + 2 + 32, len(found))
        self.assertEqual({WAYS, PERCENT}, set(found['L3_1'].inventories))
        self.assertEqual({WAYS_2}, set(found['L2_31'].inventories))

    def test_classes_are_those_of_the_scarcer_level(self) -> None:
        self.assertEqual(8, self.find()['RDT'].inventories[CLOS].total)

    def test_code_and_data_of_a_level_are_a_trait_of_it(self) -> None:
        self.kernel.remount(['cdpl2'])

        found = self.find()

        self.assertEqual(
            {classes.L2_CAT_TRAIT, classes.L2_CDP_TRAIT}, found['L2_0'].traits
        )
        self.assertEqual({classes.CAT_TRAIT}, found['L3_0'].traits)
