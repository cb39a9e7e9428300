# SPDX-License-Identifier: Apache-2.0

"""Tests of what is read of the kernel's counters."""

import pathlib

import fixtures
from hypothesis import given
from hypothesis import strategies as st

from nova_ext_resources.drivers.resctrl.kernel import counters as counters_mod
from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources.testing import resctrl
from nova_ext_resources.testing.resctrl import shapes
from tests import base
from tests.unit import strategies  # noqa: F401  (the profile)

GIB = 1 << 30

L3_0 = counters_mod.Domain(cache=0)
L3_1 = counters_mod.Domain(cache=1)


def make_reader(machine: resctrl.ResctrlFixture) -> counters_mod.CounterReader:
    files = machine.file_system
    info = counters_mod.read_info(files)
    assert info is not None
    return counters_mod.CounterReader(
        files, counters_mod.list_domains(files), info.events
    )


class InfoTest(base.TestCase):
    def test_what_can_be_monitored_is_told_of_every_machine(self) -> None:
        for name, shape in shapes.SHAPES.items():
            with self.subTest(shape=name):
                files = self.useFixture(
                    resctrl.ResctrlFixture(name)
                ).file_system

                info = counters_mod.read_info(files)

                if shape.monitoring is None:
                    self.assertIsNone(info)
                else:
                    assert info is not None
                    self.assertEqual(counters_mod.EVENTS, info.events)

    def test_machines_that_count_occupancy_only_exist(self) -> None:
        machine = self.useFixture(resctrl.ResctrlFixture())
        files = machine.file_system
        files.read = lambda _path: 'llc_occupancy\n'

        self.assertEqual(
            counters_mod.MonitoringInfo(events=(counters_mod.OCCUPANCY,)),
            counters_mod.read_info(files),
        )

    def test_what_is_not_mounted_is_said(self) -> None:
        machine = self.useFixture(resctrl.ResctrlFixture())
        machine.kernel.unmount()

        err = self.assertRaises(
            errors.ResctrlMissing, counters_mod.read_info, machine.file_system
        )

        self.assertIn(f'could not read {machine.file_system.root}', str(err))


class CountTest(base.TestCase):
    def test_words_are_no_numbers(self) -> None:
        for text in (
            'Unavailable\n',
            'Error\n',
            'Unassigned\n',
            '',
            '\n',
            '-1\n',
            '1 2\n',
            '0x10\n',
            '٣\n',
            '9' * 30,
        ):
            with self.subTest(text=text):
                self.assertIsNone(counters_mod.parse_count(text))

    @given(st.integers(min_value=0, max_value=(1 << 64) - 1))
    def test_any_counter_of_the_kernel_is_read(self, value: int) -> None:
        self.assertEqual(value, counters_mod.parse_count(f'{value}\n'))

    @given(st.text(max_size=40))
    def test_no_text_is_an_error(self, text: str) -> None:
        found = counters_mod.parse_count(text)

        self.assertTrue(found is None or found >= 0)


class ReaderTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.machine = self.useFixture(resctrl.ResctrlFixture())
        self.kernel = self.machine.kernel
        self.kernel.add_group('web')

    def read(self, group: str = 'web') -> counters_mod.GroupCounters:
        return make_reader(self.machine).read(group)

    def test_every_number_is_in_its_place(self) -> None:
        self.kernel.set_occupancy('web', 0, 3 * 65536)
        self.kernel.add_traffic('web', 1, 5 * 65536, 2 * 65536)

        found = self.read()

        self.assertEqual(
            {
                L3_0: counters_mod.Counters(
                    occupancy=196608, total=0, local=0
                ),
                L3_1: counters_mod.Counters(
                    occupancy=0, total=327680, local=131072
                ),
            },
            found.domains,
        )
        self.assertEqual('', found.failure)

    def test_all_machines_can_be_read(self) -> None:
        for name, shape in shapes.SHAPES.items():
            if shape.monitoring is None:
                continue
            with self.subTest(shape=name):
                machine = self.useFixture(resctrl.ResctrlFixture(name))
                machine.kernel.add_group('web')
                for one in shape.monitoring.domains:
                    machine.kernel.add_traffic('web', one.id, GIB)

                found = make_reader(machine).read('web')

                self.assertEqual(
                    GIB * len(shape.monitoring.domains),
                    sum(
                        counters.total or 0
                        for domain, counters in found.domains.items()
                        if domain.node is None
                    ),
                )

    def test_ids_may_be_as_long_as_those_of_arm(self) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        path = 'mon_data/mon_L3_4026531840/mon_sub_L3_18446744073709551615'
        (folder / path).mkdir(parents=True)

        found = counters_mod.list_domains(
            file_system.RealFileSystem(str(folder))
        )

        self.assertEqual(
            [(4026531840, None), (4026531840, 2**64 - 1)],
            [(one.cache, one.node) for one in found],
        )

    def test_what_is_of_no_l3_cache_is_named_once(self) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        log = self.useFixture(fixtures.FakeLogger())
        for name in ('mon_L3_01', 'mon_MB_77', 'mon_L3_MAX_01'):
            (folder / 'mon_data' / name).mkdir(parents=True)

        for _ in range(2):
            found = counters_mod.list_domains(
                file_system.RealFileSystem(str(folder))
            )

        self.assertEqual([L3_1], [*found])
        for name, count in (('mon_MB_77', 1), ('mon_L3_01', 0)):
            line = f'{name} is not read: it does not belong to an L3'
            self.assertEqual(count, log.output.count(line))

    def test_clusters_come_after_the_cache_that_they_are_in(self) -> None:
        machine = self.useFixture(resctrl.ResctrlFixture('icelake_snc'))
        machine.kernel.add_traffic('', 2, GIB)
        machine.kernel.add_traffic('', 3, 2 * GIB)

        found = make_reader(machine).read('').domains

        self.assertEqual(
            [
                (0, None, 0),
                (0, 0, 0),
                (0, 1, 0),
                (1, None, 3 * GIB),
                (1, 2, GIB),
                (1, 3, 2 * GIB),
            ],
            [(one.cache, one.node, c.total) for one, c in found.items()],
        )

    def test_events_that_are_not_counted_are_not_looked_for(self) -> None:
        files = self.machine.file_system
        reader = counters_mod.CounterReader(
            files, counters_mod.list_domains(files), [counters_mod.TOTAL]
        )
        self.kernel.forget_operations()

        found = reader.read('web')

        self.assertIsNone(found.domains[L3_0].occupancy)
        self.assertEqual(0, found.domains[L3_0].total)
        self.assertEqual(2, len(self.kernel.list_operations()))

    def test_no_number_is_not_nought(self) -> None:
        for word in ('Unavailable', 'Error'):
            self.kernel.set_reading('web', 0, 'mbm_total_bytes', word)

            found = self.read()

            self.assertIsNone(found.domains[L3_0].total)
            self.assertEqual(0, found.domains[L3_1].total)
            self.assertIn(f'{word!r} is not a number', found.failure)

    def test_a_domain_that_goes_offline_has_no_numbers(self) -> None:
        reader = make_reader(self.machine)
        self.kernel.set_offline('24-47')
        self.kernel.set_offline('0-23')

        found = reader.read('web')

        self.assertEqual(counters_mod.Counters(), found.domains[L3_0])
        self.assertEqual('', found.failure)

    def test_a_file_that_fails_leaves_the_others(self) -> None:
        self.kernel.fail(operation='read', path='*/mon_L3_01/llc_occupancy')

        found = self.read()

        self.assertIsNone(found.domains[L3_1].occupancy)
        self.assertEqual(0, found.domains[L3_1].total)
        self.assertIn('mon_L3_01/llc_occupancy: on demand', found.failure)

    def test_a_group_that_has_gone_is_gone(self) -> None:
        self.assertRaises(errors.GroupGone, self.read, 'nobody')

    def test_a_group_made_anew_while_it_is_read_is_not_mixed(self) -> None:
        self.kernel.fail(
            operation='read',
            path='web/mon_data/mon_L3_01/*',
            error=None,
            do=('remove_group', 'web'),
        )
        self.kernel.fail(
            operation='read',
            path='web/mon_data/mon_L3_01/*',
            error=None,
            do=('add_group', 'web'),
        )

        self.assertRaises(errors.GroupGone, self.read)

    def test_a_group_made_anew_is_another_one(self) -> None:
        before = self.read()
        self.kernel.remove_group('web')
        self.kernel.add_group('web')

        after = self.read()

        self.assertNotEqual(before.inode, after.inode)
        self.assertEqual(after.inode, self.read().inode)
