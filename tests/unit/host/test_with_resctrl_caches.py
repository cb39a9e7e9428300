# SPDX-License-Identifier: Apache-2.0

"""A host that gives out L2, or code and data apart."""

import dataclasses

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.objects import alarm
from nova_ext_resources.testing import resctrl
from tests.unit.host import with_resctrl

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

CODE = {classes.WAYS: {'code': '1'}}


def _make_many(number: int) -> resctrl.Shape:
    """Make a CPU with so many L2 caches, one for each of its CPUs."""
    few = resctrl.SHAPES['atom_l2']
    everybody = (frozenset(range(number)),)
    caches = dataclasses.replace(
        few.caches[0],
        is_cdp_capable=True,
        domains=tuple(
            dataclasses.replace(
                few.caches[0].domains[0], id=one, cpus=frozenset({one})
            )
            for one in range(number)
        ),
    )
    return dataclasses.replace(
        few,
        name='many',
        num_cpus=number,
        caches=(caches,),
        nodes=everybody,
        packages=everybody,
    ).with_options('cdpl2')


class CachesTestCase(with_resctrl.ResctrlHostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = self.make_resctrl_host()

    def get_group(self, uuid: str, control: str) -> dict[int, int]:
        return self.get_masks(f'nova-{uuid}', control)

    def heal(self, host: manager.HostManager) -> None:
        host.refresh()
        host.heal()
        self.assertEqual((), host.problems)


class ManyCachesTest(CachesTestCase):
    """340 L2 caches, code and data apart: more than a page of schemata."""

    SHAPE = _make_many(340)

    def test_a_server_gets_ways_and_all_others_leave_them_out(self) -> None:
        self.start_with(
            SERVER, {'L2_3': {classes.L2_WAYS: 2}}, cpus=frozenset({3})
        )

        own = self.get_group(SERVER, 'L2DATA')[3]
        self.assertEqual(2, own.bit_count())
        self.assertEqual(0, own & self.get_masks('', 'L2CODE')[3])
        self.heal(self.host)


class AtomTest(CachesTestCase):
    """Eight L2 caches of two CPUs each, and no L3."""

    SHAPE = 'atom_l2'

    def test_a_server_has_ways_of_the_l2_of_its_cpus(self) -> None:
        self.start_with(
            SERVER, {'L2_1': {classes.L2_WAYS: 3}}, cpus=frozenset({2, 3})
        )

        has = self.get_group(SERVER, 'L2')
        self.assertEqual((0x80, 0x07), (has[0], has[1]))
        self.assertEqual(0xF8, self.get_masks('', 'L2')[1])
        self.assertEqual(0xFF, self.get_masks('', 'L2')[0])
        self.heal(self.host)

    def test_ways_of_several_l2_are_one_class(self) -> None:
        self.start_with(
            SERVER,
            {'L2_1': {classes.L2_WAYS: 3}, 'L2_2': {classes.L2_WAYS: 2}},
            cpus=frozenset({2, 4}),
        )

        has = self.get_group(SERVER, 'L2')
        self.assertEqual((0x07, 0x03), (has[1], has[2]))
        self.assertEqual(2, len(self.kernel.list_groups()))

    def test_two_servers_have_ways_of_their_own(self) -> None:
        self.start_with(
            SERVER, {'L2_1': {classes.L2_WAYS: 3}}, cpus=frozenset({2})
        )
        self.start_with(
            OTHER, {'L2_1': {classes.L2_WAYS: 4}}, cpus=frozenset({3})
        )

        masks = [self.get_masks(name, 'L2')[1] for name in self.list_names()]
        self.assertEqual(sorted([0x80, 0x07, 0x78]), sorted(masks))
        self.heal(self.host)

    def list_names(self) -> list[str]:
        return list(self.kernel.list_groups())

    def test_a_release_gives_them_back(self) -> None:
        before = self.kernel.list_groups()
        self.start_with(
            SERVER, {'L2_1': {classes.L2_WAYS: 3}}, cpus=frozenset({2})
        )

        self.host.release(SERVER)

        self.assertEqual(before, self.kernel.list_groups())

    def test_changed_ways_are_put_right(self) -> None:
        self.start_with(
            SERVER, {'L2_1': {classes.L2_WAYS: 3}}, cpus=frozenset({2})
        )
        self.kernel.write(f'nova-{SERVER}/schemata', 'L2:1=1\n')

        self.heal(self.host)

        self.assertEqual(0x07, self.get_group(SERVER, 'L2')[1])

    def test_cpus_that_go_offline_and_come_back_are_followed(self) -> None:
        self.start_with(
            SERVER, {'L2_1': {classes.L2_WAYS: 3}}, cpus=frozenset({2, 3})
        )
        self.kernel.set_offline('3')

        self.heal(self.host)

        self.assertEqual([2], self.list_ours()[SERVER]['cpus'])


class BothLevelsTest(CachesTestCase):
    SHAPE = 'granite'

    def test_ways_of_both_levels_are_one_class(self) -> None:
        entry = self.start_with(
            SERVER, {'L3_0': {classes.WAYS: 4}, 'L2_1': {classes.L2_WAYS: 3}}
        )

        self.assertEqual(3, len(entry.assignments))
        self.assertEqual(0x000F, self.get_group(SERVER, 'L3')[0])
        self.assertEqual(0x8000, self.get_group(SERVER, 'L3')[1])
        self.assertEqual(0x0007, self.get_group(SERVER, 'L2')[1])
        self.assertEqual(0x8000, self.get_group(SERVER, 'L2')[0])
        # Masks may have holes on this machine.
        self.assertEqual(0xFFF0, self.get_masks('')[0])
        self.assertEqual(0xFFF8, self.get_masks('', 'L2')[1])
        self.heal(self.host)

    def test_who_has_ways_of_one_level_shares_the_rest_of_the_other(
        self,
    ) -> None:
        self.start_with(OTHER, {'L3_0': {classes.WAYS: 4}})

        self.start_with(
            SERVER, {'L2_2': {classes.L2_WAYS: 3}}, cpus=frozenset({2})
        )

        self.assertEqual(0xFFF0, self.get_group(SERVER, 'L3')[0])
        self.heal(self.host)

    def test_a_failure_half_way_leaves_nothing(self) -> None:
        before = self.kernel.list_groups()
        for number in range(12):
            self.kernel.fail(operation='write', skip=number)
            try:
                self.start_with(
                    SERVER,
                    {'L3_0': {classes.WAYS: 4}, 'L2_1': {classes.L2_WAYS: 3}},
                )
            except exception.EnforcementFailed:
                self.kernel.stop_failing()
                self.host.heal()
                self.assertEqual(before, self.kernel.list_groups())
            self.kernel.stop_failing()
            self.host.release(SERVER)
            self.assertEqual(before, self.kernel.list_groups())


class CdpTest(CachesTestCase):
    SHAPE = 'cdp'

    def test_code_and_data_have_ways_of_their_own(self) -> None:
        entry = self.start_with(
            SERVER, {'L3_0': {classes.WAYS: 4}}, attributes=CODE
        )

        (one,) = classes.pick(entry.assignments, classes.WAYS)
        self.assertEqual({'mask': 'f', 'code': 1}, one.units)
        self.assertEqual(0x1, self.get_group(SERVER, 'L3CODE')[0])
        self.assertEqual(0xE, self.get_group(SERVER, 'L3DATA')[0])
        for control in ('L3CODE', 'L3DATA'):
            self.assertEqual(0x7F0, self.get_masks('', control)[0])
        self.heal(self.host)

    def test_without_the_attribute_they_have_the_same(self) -> None:
        self.start_with(SERVER, {'L3_0': {classes.WAYS: 4}})

        for control in ('L3CODE', 'L3DATA'):
            self.assertEqual(0xF, self.get_group(SERVER, control)[0])

    def test_the_ways_of_a_split_server_are_its_own_after_a_restart(
        self,
    ) -> None:
        self.start_with(SERVER, {'L3_0': {classes.WAYS: 4}}, attributes=CODE)
        self.host.close()
        self.host = self.make_resctrl_host()

        self.start_with(
            OTHER, {'L3_0': {classes.WAYS: 3}}, cpus=frozenset({3})
        )
        self.host.release(OTHER)

        self.assertEqual(0x1, self.get_group(SERVER, 'L3CODE')[0])
        self.assertEqual(0xE, self.get_group(SERVER, 'L3DATA')[0])
        self.heal(self.host)

    def test_who_fills_the_ways_of_code_is_seen(self) -> None:
        self.start_with(SERVER, {'L3_0': {classes.WAYS: 4}}, attributes=CODE)
        self.kernel.write('schemata', 'L3DATA:0=7ff\n')

        self.heal(self.host)

        self.assertEqual(0x7F0, self.get_masks('', 'L3DATA')[0])

    def test_code_and_data_that_somebody_joined_are_split_again(self) -> None:
        self.start_with(SERVER, {'L3_0': {classes.WAYS: 4}}, attributes=CODE)
        self.kernel.write(f'nova-{SERVER}/schemata', 'L3CODE:0=f\n')

        self.heal(self.host)

        self.assertEqual(0x1, self.get_group(SERVER, 'L3CODE')[0])

    def test_a_kernel_that_no_longer_tells_them_apart_is_an_alarm(
        self,
    ) -> None:
        self.start_with(SERVER, {'L3_0': {classes.WAYS: 4}}, attributes=CODE)
        self.kernel.remount([])
        self.host.refresh()

        self.host.heal()

        (problem,) = self.host.problems
        self.assertEqual(alarm.NOT_APPLIED, problem.alarm)
        self.assertIn('trait:CUSTOM_RDT_L3_CDP=required', str(problem))
        self.kernel.remount(['cdp'])
        self.heal(self.host)
        self.assertEqual(0x1, self.get_group(SERVER, 'L3CODE')[0])


class NoCdpTest(CachesTestCase):
    def test_code_of_its_own_is_refused_for_good(self) -> None:
        err = self.assertRaises(
            exception.ConstraintsViolated,
            self.start_with,
            SERVER,
            {'L3_0': {classes.WAYS: 4}},
            attributes=CODE,
        )

        self.assertIn('cannot apply attribute code', str(err))
        self.assertEqual({}, self.list_ours())
        self.assertEqual({}, self.read_rows())


class CoarseCdpTest(CachesTestCase):
    """Two ways at least, of code and of data."""

    SHAPE = dataclasses.replace(
        resctrl.SHAPES['cdp'],
        caches=tuple(
            dataclasses.replace(one, min_cbm_bits=2)
            for one in resctrl.SHAPES['cdp'].caches
        ),
    )

    def test_fewer_ways_than_the_cpu_gives_are_refused_for_good(self) -> None:
        for code in ('1', '3'):
            err = self.assertRaises(
                exception.ConstraintsViolated,
                self.start_with,
                SERVER,
                {'L3_0': {classes.WAYS: 4}},
                attributes={classes.WAYS: {'code': code}},
            )

            self.assertIn('it must be 2 or more', str(err))

    def test_enough_of_both_is_had(self) -> None:
        self.start_with(
            SERVER,
            {'L3_0': {classes.WAYS: 4}},
            attributes={classes.WAYS: {'code': '2'}},
        )

        self.assertEqual(0x3, self.get_group(SERVER, 'L3CODE')[0])
        self.assertEqual(0xC, self.get_group(SERVER, 'L3DATA')[0])
