# SPDX-License-Identifier: Apache-2.0

from collections.abc import Callable, Iterable
import dataclasses
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl import enforcer as enforcer_mod
from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from tests.unit import builders
from tests.unit.host import backend
from tests.unit.host import with_host
from tests.unit.host import with_resctrl

WAYS = with_host.WAYS
CLOS = with_host.CLOS
DOMAINS = with_host.DOMAINS
RDT = with_host.RDT
PERCENT = 'CUSTOM_MEMORY_BANDWIDTH_PERCENT'

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other
THIRD = uuidsentinel.third

_CHANGES = ('write', 'mkdir', 'rmdir')


class ResctrlSuiteTest(backend.BackendSuite, with_resctrl.ResctrlHostTestCase):
    """Six of eleven ways can be sold, as with the other backends."""

    BACKEND = 'resctrl'

    #: Classes of service that are not sold at all.
    KEPT_CLASSES = 1

    def make_backend_host(self) -> manager.HostManager:
        return self.make_resctrl_host(reserved_ways=5)

    def add_foreign(self, name: str, masks: dict[int, int]) -> None:
        values = {0: 0x400, 1: 0x400, **masks}
        text = ';'.join(f'{n}={mask:x}' for n, mask in values.items())
        self.kernel.add_group(name, f'L3:{text}\n')

    def remove_foreign(self, name: str) -> None:
        self.kernel.remove_group(name)

    def break_backend(self) -> None:
        self.kernel.fail(error='EIO', count=None)

    def mend_backend(self) -> None:
        self.kernel.stop_failing()

    def lose_everything(self) -> None:
        self.kernel.remount()

    def count_changes(self) -> int:
        return sum(
            one in _CHANGES for one, _path in self.kernel.list_operations()
        )

    def test_nothing_leaks_whichever_operation_of_a_start_fails(
        self,
    ) -> None:
        for error in ('EIO', 'ENOSPC', 'EBUSY', 'EINVAL', 'ENOENT'):
            for number in range(16):
                with self.subTest(number=number, error=error):
                    self.check_failure_at(number, error)

    def check_failure_at(self, number: int, error: str) -> None:
        self.kernel.fail(skip=number, error=error)
        try:
            self.start(self.host, SERVER)
        except exception.ExtResourcesError:
            self.kernel.stop_failing()
            self.host.heal()
            self.assertEqual({}, self.read_rows())
            self.assertEqual({}, self.list_ours())
        self.kernel.stop_failing()
        self.assert_agreement(self.host)
        self.host.release(SERVER)
        self.assert_agreement(self.host)
        self.assertEqual({0: 0x7FF, 1: 0x7FF}, self.get_masks(''))

    def test_half_a_write_of_schemata_is_noticed_and_undone(self) -> None:
        self.kernel.fail(operation='write', path='nova-*/schemata', half=True)

        self.assertRaises(
            exception.EnforcementFailed, self.start, self.host, SERVER
        )

        self.assertEqual({}, self.list_ours())
        self.assertEqual({0: 0x7FF, 1: 0x7FF}, self.get_masks(''))
        self.assert_agreement(self.host)

    def test_a_write_of_which_the_kernel_forgets_half_is_noticed(
        self,
    ) -> None:
        self.kernel.fail(
            operation='write', path='nova-*/schemata', half=True, error=None
        )

        err = self.assertRaises(
            exception.EnforcementFailed, self.start, self.host, SERVER
        )

        self.assertIn('is expected, but the kernel shows', str(err))
        self.assertEqual({}, self.list_ours())

    def test_running_out_of_classes_is_a_lack_of_capacity(self) -> None:
        for number in range(7):
            self.kernel.add_group(f'db{number}', 'L3:0=400;1=400\n')

        err = self.assertRaises(
            exception.CapacityExceeded, self.start, self.host, SERVER
        )

        self.assertIn('Out of CLOSIDs', str(err))
        self.assert_agreement(self.host)

    def put_an_id_into_limbo(self, pause: Callable[[float], None]) -> None:
        """Leave no other monitoring id; ``pause`` stands for a wait."""
        # That of the group for the trial, of which the cache holds nothing.
        self.kernel.look_at_limbo()
        for number in range(self.kernel.count_ids()['free']):
            self.machine.file_system.mkdir(f'mon_groups/other{number}')
        self.kernel.set_occupancy('mon_groups/other0', 0, 1 << 24)
        self.machine.file_system.rmdir('mon_groups/other0')
        self.useFixture(
            fixtures.MockPatchObject(enforcer_mod.RETRYING, 'sleep', pause)
        )

    def test_monitoring_ids_in_limbo_are_waited_for(self) -> None:
        self.put_an_id_into_limbo(lambda _: self.kernel.flush_caches())

        self.start(self.host, SERVER)

        self.assertIn(SERVER, self.list_ours())
        self.assert_agreement(self.host)

    def test_monitoring_ids_that_stay_in_limbo_are_a_lack_of_capacity(
        self,
    ) -> None:
        pauses: list[float] = []
        self.put_an_id_into_limbo(pauses.append)

        err = self.assertRaises(
            exception.CapacityExceeded, self.start, self.host, SERVER
        )

        self.assertIn('still in limbo', str(err))
        self.assertEqual([0.5] * 5, pauses)
        self.assertEqual({}, self.list_ours())
        self.assert_agreement(self.host)

    def test_a_class_of_others_is_reserved(self) -> None:
        before = backend.find_inventory(self.host, RDT, CLOS)
        self.kernel.add_group('db', 'L3:0=400;1=400\n')

        self.host.refresh()

        after = backend.find_inventory(self.host, RDT, CLOS)
        kept = self.KEPT_CLASSES
        self.assertEqual((8, kept), (before.total, before.reserved))
        self.assertEqual((8, kept + 1), (after.total, after.reserved))


class ResctrlHostTest(with_resctrl.ResctrlHostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = self.make_resctrl_host()

    def heal(self) -> tuple[alarm.Problem, ...]:
        self.host.refresh()
        self.host.heal()
        return self.host.problems

    def test_the_default_group_gives_up_what_is_sold_and_gets_it_back(
        self,
    ) -> None:
        self.start(self.host, SERVER, 4)

        self.assertEqual({0: 0x7F0, 1: 0x7FF}, self.get_masks(''))
        self.host.release(SERVER)
        self.assertEqual({0: 0x7FF, 1: 0x7FF}, self.get_masks(''))
        self.assertEqual({}, self.list_ours())

    def test_ways_that_were_cut_off_come_back_with_the_last_server(
        self,
    ) -> None:
        for uuid, ways, cpu in ((SERVER, 4, 1), (OTHER, 2, 2)):
            self.start(self.host, uuid, ways, cpus=frozenset({cpu}))

        self.host.release(SERVER)
        self.assertEqual({0: 0x7C0, 1: 0x7FF}, self.get_masks(''))
        self.assert_agreement(self.host)
        self.host.release(OTHER)

        self.assertEqual({0: 0x7FF, 1: 0x7FF}, self.get_masks(''))

    def test_a_server_cannot_fill_the_ways_of_others_elsewhere(self) -> None:
        self.start(self.host, SERVER, 4)
        self.start(self.host, OTHER, 3, domain=1, cpus=frozenset({13}))

        self.assertEqual({0: 0x600, 1: 0x7}, self.get_masks(f'nova-{OTHER}'))
        self.assertEqual({0: 0xF, 1: 0x600}, self.get_masks(f'nova-{SERVER}'))
        self.assert_agreement(self.host)

    def test_all_the_ways_that_can_be_sold_can_be_had(self) -> None:
        self.start(self.host, SERVER, 9)

        self.assertEqual({0: 0x600, 1: 0x7FF}, self.get_masks(''))
        self.assert_agreement(self.host)

    def test_groups_of_others_are_not_touched(self) -> None:
        self.kernel.add_group('db', 'L3:0=3;1=7ff\nMB:0=50\n', cpus='5')
        before = self.kernel.list_groups()['db']
        self.host.refresh()

        self.start(self.host, SERVER, 4)
        self.host.release(SERVER)
        self.heal()

        self.assertEqual(before, self.kernel.list_groups()['db'])
        self.assertEqual({0: 0x7FF, 1: 0x7FF}, self.get_masks(''))

    def test_cpus_of_others_are_not_taken_away(self) -> None:
        self.kernel.add_group('db', 'L3:0=400;1=400\n', cpus='2')

        err = self.assertRaises(
            exception.CapacityExceeded, self.start, self.host, SERVER
        )

        self.assertIn('group db', str(err))
        self.assertEqual([2], self.kernel.list_groups()['db']['cpus'])
        self.assertEqual({}, self.list_ours())

    def test_who_has_taken_the_ways_is_named(self) -> None:
        self.kernel.add_group('db', 'L3:0=7f;1=400\n')
        self.kernel.add_group('web', 'L3:0=400;1=400\n')

        err = self.assertRaises(
            exception.CapacityExceeded, self.start, self.host, SERVER, 4
        )

        self.assertIn('(control groups: db, web)', str(err))

    def test_the_default_group_does_not_grow_into_others(self) -> None:
        self.kernel.write('schemata', 'L3:0=7f0\n')
        self.kernel.add_group('db', 'L3:0=f;1=0\n'.replace('1=0', '1=400'))
        self.host.refresh()

        self.start(self.host, SERVER, 2)
        self.host.release(SERVER)

        self.assertEqual(0x7F0, self.get_masks('')[0])

    def test_a_group_that_was_removed_is_made_again(self) -> None:
        self.start(self.host, SERVER, 4)
        self.kernel.remove_group(f'nova-{SERVER}')

        self.assertEqual((), self.heal())

        self.assert_agreement(self.host)

    def test_ways_that_the_default_group_got_back_are_taken_again(
        self,
    ) -> None:
        self.start(self.host, SERVER, 4)
        self.start(self.host, OTHER, 3, cpus=frozenset({3}))
        self.kernel.write('schemata', 'L3:0=7ff\n')

        self.assertEqual((), self.heal())

        self.assert_agreement(self.host)

    def test_a_server_that_leaves_then_takes_nothing_from_the_rest(
        self,
    ) -> None:
        self.start(self.host, SERVER, 4)
        self.start(self.host, OTHER, 3, cpus=frozenset({3}))
        self.kernel.write('schemata', 'L3:0=7ff\n')

        self.host.release(OTHER)

        self.assert_agreement(self.host)

    def test_whatever_fails_while_looking_is_a_problem_and_no_crash(
        self,
    ) -> None:
        self.start(self.host, SERVER, 4)
        for error in ('EIO', 'ENOSPC', 'EBUSY', 'EINVAL', 'ENOENT', 'EPERM'):
            with self.subTest(error=error):
                self.kernel.fail(error=error, count=None)
                self.assertEqual(1, len(self.heal()))
                self.kernel.stop_failing()

        self.assertEqual((), self.heal())
        self.assert_agreement(self.host)

    def test_changed_schemata_are_put_right(self) -> None:
        self.start(self.host, SERVER, 4)
        self.kernel.write(f'nova-{SERVER}/schemata', 'L3:0=3\n')

        self.assertEqual((), self.heal())

        self.assert_agreement(self.host)

    def test_cpus_that_were_taken_away_are_put_back(self) -> None:
        self.start(self.host, SERVER, 4)
        self.kernel.write(f'nova-{SERVER}/cpus_list', '1\n')

        self.assertEqual((), self.heal())

        self.assert_agreement(self.host)

    def test_others_that_come_into_sold_ways_are_evaded(self) -> None:
        entry = self.start(self.host, SERVER, 4)
        self.kernel.add_group('db', 'L3:0=f;1=400\n')

        self.assertEqual((), self.heal())

        self.assert_agreement(self.host)
        self.assertNotEqual(entry, self.host.entries[SERVER])

    def test_others_that_cannot_be_evaded_are_an_alarm(self) -> None:
        self.start(self.host, SERVER, 4)
        self.kernel.add_group('db', 'L3:0=7ff;1=7ff\n')

        (problem,) = self.heal()

        self.assertEqual(
            (alarm.NOT_APPLIED, SERVER), (problem.alarm, problem.subject)
        )
        self.kernel.remove_group('db')
        self.assertEqual((), self.heal())
        self.assert_agreement(self.host)

    def test_a_server_that_others_came_upon_can_be_started_again(self) -> None:
        entry = self.start(self.host, SERVER, 4)
        # The kernel gives it all ways, as to every new group.
        self.machine.file_system.mkdir('COS1')
        self.kernel.write(f'nova-{SERVER}/cpus_list', '9\n')

        self.host.apply(SERVER)

        self.assertEqual(entry, self.host.entries[SERVER])
        self.assert_put_back(entry)
        self.assertRaises(
            exception.CapacityExceeded, self.start, self.host, OTHER, 1
        )

    def test_who_came_upon_a_server_stays_an_alarm(self) -> None:
        entry = self.start(self.host, SERVER, 4)
        self.machine.file_system.mkdir('COS1')
        for _ in range(2):
            self.kernel.write(f'nova-{SERVER}/cpus_list', '9\n')

            (problem,) = self.heal()

            self.assertEqual(
                (alarm.NOT_APPLIED, SERVER), (problem.alarm, problem.subject)
            )
            self.assertIn('COS1 may fill ways', str(problem))
            self.assert_put_back(entry)
        self.kernel.remove_group('COS1')
        self.assertEqual((), self.heal())
        self.assert_agreement(self.host)

    def test_after_a_reboot_with_others_a_server_has_its_ways(self) -> None:
        entry = self.start(self.host, SERVER, 4)
        self.kernel.remove_group(f'nova-{SERVER}')
        self.machine.file_system.mkdir('COS1')

        self.host.apply(SERVER)

        self.assertEqual(entry, self.host.entries[SERVER])
        self.assert_put_back(entry)

    def test_after_a_reboot_with_others_no_server_loses_anothers_ways(
        self,
    ) -> None:
        """Wherever other software is, who is not hit keeps its ways."""
        uuids = (SERVER, OTHER, THIRD)
        for cpu, uuid in enumerate(uuids, 1):
            self.start(self.host, uuid, 2, cpus=frozenset({cpu}))
        before = self.find_masks(uuids)
        entries = list(self.host.entries.values())
        for start in range(9):
            for length in (1, 2, 3):
                foreign = bitmask.make_run(start, length)
                with self.subTest(foreign=f'{foreign:x}'):
                    self.check_reboot(entries, before, foreign)

    def check_reboot(
        self,
        entries: list[assignment.Entry],
        before: dict[str, int],
        foreign: int,
    ) -> None:
        self.host.close()
        ledger = self.open_ledger()
        for entry in entries:
            ledger.put(entry)
        ledger.close()
        self.kernel.remount()
        self.kernel.add_group('db', f'L3:0={foreign:x};1=400\n')
        self.host = self.make_resctrl_host()

        self.host.reconcile(before)

        after = self.find_masks(before)
        for uuid, mask in before.items():
            if not mask & foreign:
                self.assertEqual(mask, after[uuid])

    def find_masks(self, uuids: Iterable[str]) -> dict[str, int]:
        return {uuid: self.get_masks(f'nova-{uuid}')[0] for uuid in uuids}

    def assert_put_back(self, entry: assignment.Entry) -> None:
        """A server has its CPUs and its ways, whoever else may fill these."""
        group = self.list_ours()[entry.consumer_uuid]
        self.assertEqual(entry.cpus, set(group['cpus']))
        (one,) = classes.pick(entry.assignments, WAYS)
        domain = int(one.rp_key.removeprefix('L3_'))
        mask = self.list_in_force()[entry.consumer_uuid][domain]
        self.assertEqual(one.units['mask'], f'{mask:x}')

    def test_a_mount_that_is_gone_is_an_alarm_and_keeps_the_inventory(
        self,
    ) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        self.start(self.host, SERVER, 4)
        before = self.host.providers()
        self.kernel.unmount()

        (problem,) = self.heal()

        self.assertEqual(alarm.RESCTRL_MISSING, problem.alarm)
        self.assertIn('mount -t resctrl', str(problem))
        self.assertEqual(before, self.host.providers())
        self.assertNotIn('alarm cleared', log.output)
        self.kernel.remount()
        self.assertEqual((), self.heal())
        self.assertIn(f'alarm cleared: {alarm.RESCTRL_MISSING}', log.output)
        self.assert_agreement(self.host)

    def test_mounted_anew_with_cdp_all_is_restored_for_code_and_data(
        self,
    ) -> None:
        self.start(self.host, SERVER, 4)
        self.kernel.remount(['cdp'])

        self.assertEqual((), self.heal())

        self.assert_agreement(self.host)
        masks = [
            self.get_masks(f'nova-{SERVER}', control)[0]
            for control in ('L3CODE', 'L3DATA')
        ]
        self.assertEqual([0xF, 0xF], masks)

    def test_a_claim_between_a_remount_and_its_discovery_works(self) -> None:
        self.start(self.host, SERVER, 4)
        self.kernel.remount(['cdp'])

        self.start(self.host, OTHER, 3, cpus=frozenset({3}))

        self.heal()
        self.assert_agreement(self.host)

    def test_cpus_that_go_offline_and_come_back_are_followed(self) -> None:
        self.start(self.host, SERVER, 4)
        self.kernel.set_offline('2')

        self.assertEqual((), self.heal())
        self.assertEqual([1], self.list_ours()[SERVER]['cpus'])
        self.kernel.set_online('2')
        self.assertEqual((), self.heal())

        self.assert_agreement(self.host)

    def test_a_floating_server_that_is_off_has_its_group(self) -> None:
        self.start(self.host, SERVER, cpus=None)

        self.assertEqual((), self.heal())
        self.assertEqual([], self.list_ours()[SERVER]['cpus'])
        self.assert_agreement(self.host)

    def test_a_restart_checks_what_is_in_force(self) -> None:
        self.start(self.host, SERVER, 4)
        self.host.close()
        self.kernel.write(f'nova-{SERVER}/schemata', 'L3:0=7ff\n')
        self.host = self.make_resctrl_host()

        self.host.reconcile([SERVER])

        self.assertEqual((), self.host.problems)
        self.assert_agreement(self.host)

    def start_on_bandwidth(
        self, consumer_uuid: str, cpu: int, domain: int = 0
    ) -> None:
        self.start(
            self.host,
            consumer_uuid,
            cpus=frozenset({cpu}),
            allocations={DOMAINS[domain]: {PERCENT: 30}},
            requirement=builders.make_requirement(_={PERCENT: 30}),
        )

    def test_siblings_do_not_share_a_limit(self) -> None:
        """CPUs 1 and 25 are threads of one core, which has one limit."""
        asked = {'L3_0': {PERCENT: 10}}
        for cpus, policy in (({1}, ''), ({1, 25, 2}, 'require'), (None, '')):
            err = self.assertRaises(
                exception.ConstraintsViolated,
                self.start_with,
                SERVER,
                asked,
                cpus=cpus and frozenset(cpus),
                thread_policy=policy,
            )
            self.assertIn('hw:cpu_thread_policy=require on', str(err))

        self.start_with(
            SERVER, asked, cpus=frozenset({1, 25}), thread_policy='require'
        )
        self.start_with(
            OTHER, asked, cpus=frozenset({2}), thread_policy='isolate'
        )

    def test_the_highest_ways_can_be_a_servers_too(self) -> None:
        """It came from a backend that gives out these first."""
        entry = self.start(self.host, SERVER, 2)
        held = tuple(
            dataclasses.replace(one, units={'mask': '600'})
            if one.resource_class == WAYS
            else one
            for one in entry.assignments
        )
        self.host.close()
        ledger = self.open_ledger()
        ledger.put(dataclasses.replace(entry, assignments=held))
        ledger.close()
        self.kernel.remount()
        self.host = self.make_resctrl_host()
        self.host.reconcile([SERVER])

        for uuid, cpu in ((OTHER, 3), (THIRD, 4)):
            self.start_on_bandwidth(uuid, cpu)
            self.heal()

        for name in ('', f'nova-{OTHER}', f'nova-{THIRD}'):
            self.assertEqual(0x1FF, self.get_masks(name)[0])
        self.assert_agreement(self.host)
        state = self.host.view.tracked[DOMAINS[0], WAYS].state
        self.assertEqual({'w': '6ff', 't': '600'}, state.to_dict())

    def test_a_cache_that_was_offline_is_not_open_to_whom_it_was_sold_next(
        self,
    ) -> None:
        cpus = '12-23,36-47'
        self.start(self.host, SERVER, 4, domain=1, cpus=frozenset({13}))
        self.kernel.set_offline(cpus)
        self.kernel.set_online(cpus)

        self.start(self.host, OTHER, 4, domain=1, cpus=frozenset({14}))

        self.assert_exclusive(self.host)
        self.assertEqual((), self.heal())
        self.assert_agreement(self.host)

    def test_a_server_starts_while_its_cpus_are_switched_off(self) -> None:
        """Nova switches them off and on ([libvirt] cpu_power_management)."""
        for cpus in ('1,2', '0-11,24-35'):
            with self.subTest(cpus=cpus):
                self.start(self.host, SERVER, 4)
                self.kernel.set_offline(cpus)

                self.host.apply(SERVER)
                self.assertEqual([], self.list_ours()[SERVER]['cpus'])
                self.assertEqual((), self.heal())
                self.kernel.set_online(cpus)
                self.apply_again()

                self.assert_agreement(self.host)
                self.host.release(SERVER)

    def test_healing_adds_cpus_that_come_back(self) -> None:
        for cpus in ('1,2', '0-11,24-35'):
            with self.subTest(cpus=cpus):
                self.kernel.set_offline(cpus)
                self.host.refresh()
                self.start(self.host, SERVER, 4)
                self.kernel.set_online(cpus)

                self.assertEqual((), self.heal())

                self.assert_agreement(self.host)
                self.host.release(SERVER)

    def test_a_cache_that_is_switched_off_is_sold_as_before(self) -> None:
        cpus = '12-23,36-47'
        self.start(self.host, OTHER, 3, domain=1, cpus=frozenset({14}))
        before = self.host.providers()
        self.kernel.set_offline(cpus)
        self.host.refresh()

        self.assertEqual(before, self.host.providers())
        self.assertTrue(self.host.found.is_complete)
        self.start_limited(
            {WAYS: 4, PERCENT: 30}, cpus=frozenset({13}), domain=1
        )
        self.kernel.set_online(cpus)
        self.apply_again()
        self.host.apply(OTHER, must_hold=True)

        group = f'nova-{SERVER}'
        self.assertEqual(30, self.get_masks(group, 'MB')[1])
        self.assert_agreement(self.host)

    def test_servers_leave_while_their_cache_is_switched_off(self) -> None:
        cpus = '12-23,36-47'
        self.start_limited(
            {WAYS: 4, PERCENT: 30}, cpus=frozenset({13}), domain=1
        )
        self.start_on_bandwidth(OTHER, 14, domain=1)
        self.kernel.set_offline(cpus)

        self.host.release(SERVER)

        self.assertEqual((), self.heal())
        self.kernel.set_online(cpus)
        self.assertEqual((), self.heal())
        self.assertEqual({0: 0x7FF, 1: 0x7FF}, self.get_masks(''))
        self.assertEqual(30, self.get_masks(f'nova-{OTHER}', 'MB')[1])
        self.assert_agreement(self.host)

    def apply_again(self) -> None:
        self.host.apply(SERVER, must_hold=True)

    def test_cpus_that_were_away_between_two_starts_are_put_back(
        self,
    ) -> None:
        self.start(self.host, SERVER, 4)
        self.kernel.set_offline('1,2')
        self.kernel.set_online('1,2')

        self.apply_again()

        self.assert_agreement(self.host)

    def test_a_server_that_starts_again_gets_its_ways_back(self) -> None:
        self.start(self.host, SERVER, 4)
        self.kernel.write(f'nova-{SERVER}/schemata', 'L3:0=7ff\n')

        self.apply_again()

        self.assert_agreement(self.host)

    def test_a_group_that_was_removed_is_there_when_its_server_starts(
        self,
    ) -> None:
        self.start(self.host, SERVER, 4)
        self.kernel.remove_group(f'nova-{SERVER}')

        self.apply_again()

        self.assert_agreement(self.host)

    def test_a_release_gives_the_host_nothing_that_others_have_taken(
        self,
    ) -> None:
        self.start(self.host, SERVER, 4)
        self.start(self.host, OTHER, 2, cpus=frozenset({3}))
        self.kernel.write('schemata', 'L3:0=600\n')
        self.kernel.add_group('db', 'L3:0=1c0;1=400\n')

        self.host.release(OTHER)

        self.assertEqual(0, self.get_masks('')[0] & 0x1C0)
        self.assertEqual(0x1C0, self.get_masks('db')[0])

    def test_others_that_have_widened_their_group_are_evaded_at_once(
        self,
    ) -> None:
        self.kernel.add_group('db', 'L3:0=1;1=400\n')
        self.kernel.write('schemata', 'L3:0=7fe\n')
        self.heal()
        self.start(self.host, SERVER, 2)
        self.host.release(SERVER)
        for default in ('7fe', '7c0'):
            with self.subTest(default=default):
                self.kernel.write('schemata', f'L3:0={default}\n')
                self.kernel.write('db/schemata', 'L3:0=3f\n')

                self.start(self.host, SERVER, 3)

                self.assertEqual(0x1C0, self.get_masks(f'nova-{SERVER}')[0])
                self.assert_exclusive(self.host)
                self.host.release(SERVER)
                self.kernel.write('db/schemata', 'L3:0=1\n')

    def test_a_dry_run_lists_the_steps_and_changes_nothing(self) -> None:
        self.host.claim(with_host.make_claim(SERVER, 4))
        enforcer = self.host.enforcement._enforcers['resctrl']
        assert isinstance(enforcer, enforcer_mod.ResctrlEnforcer)
        before = self.kernel.list_groups()

        steps = list(map(str, enforcer.plan(self.host.entries[SERVER])))

        self.assertEqual(before, self.kernel.list_groups())
        self.assertEqual(
            [
                f'make group nova-{SERVER}',
                'narrow the default group to L3:0=7f0',
                f'fill nova-{SERVER} with L3:0=f;1=600',
                f'put 1-2 into nova-{SERVER}',
            ],
            steps,
        )

    def test_few_file_operations_are_needed(self) -> None:
        self.start(self.host, SERVER)
        self.kernel.forget_operations()

        self.start(self.host, OTHER, 3, cpus=frozenset({3}))
        self.host.release(OTHER)

        operations = [
            one for one in self.kernel.list_operations() if one[0] != 'lock'
        ]
        self.assertLessEqual(len(operations), 12, operations)

    def start_limited(
        self,
        resources: dict[str, int],
        *,
        cpus: frozenset[int] = frozenset({1, 2}),
        domain: int = 0,
    ) -> assignment.Entry:
        fields: dict[str, Any] = {
            'cpus': cpus,
            'allocations': {DOMAINS[domain]: resources},
            'requirement': builders.make_requirement(_=resources),
        }
        return self.start(self.host, SERVER, **fields)

    def test_bandwidth_alone_takes_a_class_and_no_ways(self) -> None:
        self.start(self.host, OTHER, 4, cpus=frozenset({3}))

        self.start_limited({PERCENT: 30})

        group = f'nova-{SERVER}'
        self.assertEqual({0: 30, 1: 100}, self.get_masks(group, 'MB'))
        self.assertEqual(self.get_masks('')[0], self.get_masks(group)[0])
        self.assertEqual(2, self.host.view.tracked[RDT, CLOS].state.used)
        self.assert_exclusive(self.host)

    def test_who_has_no_ways_shares_what_is_left_at_all_times(self) -> None:
        self.start_limited({PERCENT: 30})
        group = f'nova-{SERVER}'

        self.start(self.host, OTHER, 4, cpus=frozenset({3}))
        self.assertEqual(0x7F0, self.get_masks(group)[0])
        self.assert_exclusive(self.host)
        self.host.release(OTHER)

        self.assertEqual(0x7FF, self.get_masks(group)[0])

    def test_ways_and_bandwidth_come_together(self) -> None:
        entry = self.start_limited({WAYS: 4, PERCENT: 30})

        group = f'nova-{SERVER}'
        self.assertEqual(30, self.get_masks(group, 'MB')[0])
        self.assertEqual(0xF, self.get_masks(group)[0])
        self.assertEqual(3, len(entry.assignments))
        self.assert_agreement(self.host)

    def test_ways_and_bandwidth_go_together_to_the_domain_of_the_cpus(
        self,
    ) -> None:
        entry = self.start_limited(
            {WAYS: 4, PERCENT: 30}, cpus=frozenset({13})
        )

        self.assertEqual(
            {DOMAINS[1], RDT}, {one.rp_uuid for one in entry.assignments}
        )
        self.assert_agreement(self.host)

    def test_bandwidth_of_another_domain_is_no_use(self) -> None:
        resources = {WAYS: 4, PERCENT: 30}

        self.assertRaises(
            exception.CapacityExceeded,
            self.start,
            self.host,
            SERVER,
            cpus=frozenset({1, 13}),
            allocations={DOMAINS[0]: {WAYS: 4}, DOMAINS[1]: {PERCENT: 30}},
            requirement=builders.make_requirement(_=resources),
        )

    def test_a_limit_that_was_lifted_is_set_again(self) -> None:
        self.start_limited({PERCENT: 30})
        self.kernel.write(f'nova-{SERVER}/schemata', 'MB:0=100\n')

        self.assertEqual((), self.heal())

        self.assertEqual(30, self.get_masks(f'nova-{SERVER}', 'MB')[0])

    def test_bandwidth_is_sold_once(self) -> None:
        self.start_limited({PERCENT: 80})

        resources = {PERCENT: 30}
        self.assertRaises(
            exception.CapacityExceeded,
            self.start,
            self.host,
            OTHER,
            cpus=frozenset({3}),
            allocations={DOMAINS[0]: resources},
            requirement=builders.make_requirement(_=resources),
        )

    def test_a_percentage_that_the_hardware_lacks_is_refused(self) -> None:
        self.assertRaises(
            exception.ConstraintsViolated, self.start_limited, {PERCENT: 15}
        )


class HiddenProcessesTest(with_resctrl.ResctrlHostTestCase):
    def test_a_pinned_server_starts_where_processes_are_hidden(self) -> None:
        def refuse(_processes: object) -> None:
            raise errors.ResctrlFailed(action='scan', reason='hidepid')

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.drivers.resctrl.guest.processes.'
                'Processes.scan',
                refuse,
            )
        )

        self.host = self.make_resctrl_host()
        self.start(self.host, SERVER)

        self.assertIn(SERVER, self.list_ours())
