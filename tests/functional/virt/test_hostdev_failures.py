# SPDX-License-Identifier: Apache-2.0

"""Devices in guests of Nova's libvirt driver, where something fails."""

import dataclasses
import os
from typing import Any

import fixtures
from nova.compute import power_state
from nova import context as nova_context
from nova import objects
from nova.tests.fixtures import libvirt as fakelibvirt

from tests.functional.virt import emulated
from tests.functional.virt import test_hostdev


class LostLedgerTest(test_hostdev.HostdevTestCase):
    """The ledger is lost while guests run."""

    HOSTS = ('host1',)

    def lose_ledger(self) -> None:
        path = self.get_ext('host1')._ledger_path
        self.stop_compute(self.services['host1'])
        for suffix in ('', '-wal', '-shm'):
            if os.path.exists(f'{path}{suffix}'):
                os.unlink(f'{path}{suffix}')
        self.services['host1'] = self.start_again(self.services['host1'])

    def list_alarms(self) -> list[tuple[str, str]]:
        found = self.get_ext('host1').health.snapshot().alarms
        return [(one.name, one.text) for one in found]

    def test_a_server_has_what_its_guest_has(self) -> None:
        first = self.boot_on('host1')
        second = self.boot_on('host1')
        self._delete_server(first)
        passed = self.list_passed(second)

        self.lose_ledger()

        self.wait_until(lambda: self.list_held(second))
        self.assertEqual(passed, self.list_held(second))
        self.assertEqual([], self.list_alarms())
        third = self.boot_on('host1')
        self.assert_passed(third, 'host1')
        self.assertNotEqual(passed, self.list_passed(third))
        self.assertEqual(passed, self.list_passed(second))

    def test_no_other_server_has_it_before(self) -> None:
        self._delete_server(self.boot_on('host1'))
        server = self.boot_on('host1')
        passed = self.list_passed(server)
        # As long as nothing says whose it is.
        self.get_host('host1').release(server['id'])

        other = self._create_server(
            flavor_id=self.make_vf_flavor(),
            networks='none',
            host='host1',
            expected_state='ERROR',
        )

        self.assertEqual({}, self.list_passed(other))
        self.assertEqual(passed, self.list_passed(server))
        # Whose it is, and what, only the log says.
        self.assertIn(
            '(device) is in the guest of server (uuid)',
            ' '.join(self.list_reasons(other, 'ext_resources_apply:')),
        )


class SuspendTest(test_hostdev.HostdevTestCase):
    """A guest that could not be saved runs on, with its devices."""

    HOSTS = ('host1',)

    def refuse(self, *_args: Any) -> None:
        raise fakelibvirt.make_libvirtError(
            fakelibvirt.libvirtError, 'no space left'
        )

    def suspend(self, server: Any) -> None:
        self.act(server, 'suspend')
        self.wait_for_faults(server)

    def test_its_memory_cannot_be_saved(self) -> None:
        server = self.boot_on('host1')
        passed = self.list_passed(server)
        self.refuse_to_save()

        self.suspend(server)

        self.assertEqual(passed, self.list_passed(server))
        self.assertEqual(['libvirtError'], self.list_faults(server))

    def test_it_is_paused_without_its_devices(self) -> None:
        server = self.boot_on('host1')
        self.refuse_to_save()
        self.useFixture(
            fixtures.MockPatchObject(
                fakelibvirt.Domain, 'attachDeviceFlags', self.refuse
            )
        )

        self.suspend(server)

        [domain] = self.connections['host1'].listAllDomains(
            emulated.ALL_DOMAINS
        )
        self.assertEqual(fakelibvirt.VIR_DOMAIN_PAUSED, domain.info()[0])

    def refuse_to_save(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.virt.libvirt.guest.Guest.save_memory_state', self.refuse
            )
        )

    def test_the_second_device_does_not_go(self) -> None:
        server = self.boot(self.make_vf_flavor(2), host='host1')
        passed = self.list_passed(server)
        detach = fakelibvirt.Domain.detachDeviceFlags
        gone: list[str] = []

        def detach_one(domain: Any, xml: str, flags: int) -> None:
            if gone:
                self.refuse()
            gone.append(xml)
            detach(domain, xml, flags)

        self.useFixture(
            fixtures.MockPatchObject(
                fakelibvirt.Domain, 'detachDeviceFlags', detach_one
            )
        )

        self.suspend(server)

        self.assertEqual(1, len(gone))
        self.assertEqual(
            sorted(passed['host1']), sorted(self.list_passed(server)['host1'])
        )


class ResumeTest(test_hostdev.HostdevTestCase):
    """A part of Nova's own fails when the guest runs again."""

    HOSTS = ('host1',)

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot_on('host1')
        self.passed = self.list_passed(self.server)

    def fail(self) -> None:
        def fail(*_args: Any) -> None:
            raise RuntimeError('no port')

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.virt.libvirt.LibvirtDriver.'
                '_attach_direct_passthrough_ports',
                fail,
            )
        )

    def test_a_server_that_was_suspended(self) -> None:
        self._suspend_server(self.server)
        self.assertEqual({'host1': []}, self.list_passed(self.server))
        self.fail()

        self.act(self.server, 'resume')

        self.wait_for_faults(self.server)
        self.assertEqual(self.passed, self.list_passed(self.server))

    def test_a_server_of_which_a_snapshot_was_made(self) -> None:
        driver = self.services['host1'].driver
        context = nova_context.get_admin_context()
        instance = objects.Instance.get_by_uuid(context, self.server['id'])
        guest = driver._host.get_guest(instance)
        state = False, power_state.RUNNING, instance
        driver._suspend_guest_for_snapshot(context, *state)
        self.fail()

        self.assertRaises(
            RuntimeError,
            driver._resume_guest_after_snapshot,
            *(context, *state, guest),
        )

        self.assertEqual(self.passed, self.list_passed(self.server))


class DomainTest(test_hostdev.HostdevTestCase):
    """A domain that is older than what its server holds."""

    HOSTS = ('host1',)

    def hold_another(self, server: Any) -> None:
        """Have the server hold another function than its guest has."""
        [name] = self.list_held(server)['host1']
        [other] = {*self.names['host1']} - {name}
        host = self.get_host('host1')
        entry = host.find_entry(server['id'])
        host._transitions.record(
            dataclasses.replace(
                entry,
                assignments=tuple(
                    dataclasses.replace(one, units={'names': [other]})
                    for one in entry.assignments
                ),
            )
        )

    def test_no_guest_starts_with_it(self) -> None:
        server = self.boot_on('host1')
        # Makes the folder in which a rescue leaves the domain.
        self.reboot_hard(server)
        self.act(server, 'rescue')
        self._wait_for_state_change(server, 'RESCUE')
        self.hold_another(server)

        # Nova starts the domain that it had before.
        self.act(server, 'unrescue')

        self.wait_for_faults(server)
        self.assertEqual({}, self.list_passed(server))
        [message] = self.list_faults(server)
        self.assertIn('domain of the server was written before', message)
        self._wait_for_state_change(server, 'ERROR')
        self.reboot_hard(server)
        self.assert_passed(server, 'host1')
