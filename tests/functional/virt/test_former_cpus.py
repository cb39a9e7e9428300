# SPDX-License-Identifier: Apache-2.0

"""Guests that Nova would start again on CPUs that it gives to others."""

from typing import Any

from nova.compute import power_state
from nova import context as nova_context
from nova import exception as nova_exc

from nova_ext_resources.objects import event
from nova_ext_resources.virt.driver import errors

from tests.functional.virt import emulated
from tests.functional.virt import test_moves


class FormerCpusTestCase(emulated.EmulatedTestCase):
    """Nova's record names other CPUs, as after a move that broke off."""

    HOSTS = ('host1',)

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot(self.make_own_flavor(2), host='host1')
        self.uuid = self.server['id']
        self.former = self.read_cpus()
        self.other = max(set(range(2, 8)) - self.former)
        self.pin_otherwise()

    def pin_otherwise(self) -> None:
        instance = test_moves.find_instance(self.server)
        topology = instance.numa_topology
        [cell] = topology.cells
        cell.cpu_pinning = dict.fromkeys(cell.pcpuset, self.other)
        instance.numa_topology = topology
        instance.save()

    def read_cpus(self) -> set[int]:
        return self.list_guests('host1')[self.uuid][1]

    def read_entry(self) -> Any:
        return self.get_host('host1').find_entry(self.uuid)

    def reboot(self, kind: str) -> None:
        self.act(self.server, 'reboot', type=kind)
        self._wait_for_server_parameter(
            self.server, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
        )


class EnforcedTest(FormerCpusTestCase):
    enforcers = 'noop'

    def test_a_soft_reboot_is_refused(self) -> None:
        entry = self.read_entry()

        self.reboot('SOFT')

        self.assertEqual(entry, self.read_entry())
        self.assertEqual(self.former, self.read_cpus())
        [reason] = self.list_reasons(self.server, event.APPLY, 'reboot')
        self.assertIn('reboot server', reason)

    def test_a_snapshot_that_suspends_the_guest_is_refused(self) -> None:
        entry = self.read_entry()
        driver = self.services['host1'].driver
        instance = test_moves.find_instance(self.server)
        self.patch(
            driver, '_needs_suspend_resume_for_snapshot', lambda *_: True
        )

        err = self.assertRaises(
            errors.HostRefused,
            driver._suspend_guest_for_snapshot,
            nova_context.get_admin_context(),
            False,
            power_state.RUNNING,
            instance,
        )

        self.assertIn('reboot server', str(err))
        self.assertEqual(entry, self.read_entry())

    def test_one_that_is_off_is_booted_on_the_others(self) -> None:
        self.flags(wait_soft_reboot_seconds=1, group='libvirt')
        self.connections['host1'].lookupByUUIDString(self.uuid).destroy()

        self.reboot('SOFT')

        self.assertEqual({self.other}, self.read_cpus())
        self.assertEqual({self.other}, set(self.read_entry().cpus))

    def test_a_former_domain_is_not_started(self) -> None:
        """As that of a guest before its rescue."""
        connection = self.connections['host1']
        xml = connection.lookupByUUIDString(self.uuid).XMLDesc(0)
        self.reboot('HARD')

        err = self.assertRaises(
            nova_exc.NovaException,
            self.services['host1'].driver._create_guest,
            nova_context.get_admin_context(),
            xml,
            test_moves.find_instance(self.server),
        )

        self.assertIn(f'is pinned to CPUs {min(self.former)}', str(err))
        self.assertEqual({self.other}, set(self.read_entry().cpus))

    def test_a_hard_reboot_starts_it_on_the_others(self) -> None:
        self.reboot('HARD')

        self.assertEqual({self.other}, self.read_cpus())
        self.assertEqual({self.other}, set(self.read_entry().cpus))


class CountedTest(FormerCpusTestCase):
    """Nothing is applied for it: licences serve all CPUs."""

    def test_a_soft_reboot_is_not_refused(self) -> None:
        self.reboot('SOFT')

        reasons = self.list_reasons(self.server, event.APPLY, 'reboot')
        self.assertNotIn('reboot server', str(reasons))
        self.assertEqual({self.other}, set(self.read_entry().cpus))
