# SPDX-License-Identifier: Apache-2.0

"""Spawns that fail, of guests that the hypervisor cannot end."""

from collections.abc import Iterator
import contextlib
from typing import Any

import fixtures
from nova import context as nova_context
from nova import exception as nova_exc
from nova.tests.fixtures import libvirt as fakelibvirt

from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from tests.functional.virt import emulated

_DRIVER = 'nova.virt.libvirt.LibvirtDriver'


def fail_to_end(*_args: Any) -> None:
    """Fail as libvirt does when storage hangs."""
    raise fakelibvirt.make_libvirtError(
        fakelibvirt.libvirtError,
        'Failed to terminate process 42 with SIGKILL: Device or resource busy',
        error_code=fakelibvirt.VIR_ERR_SYSTEM_ERROR,
        int1=16,
    )


class GuestsTestCase(emulated.EmulatedTestCase):
    """A server takes all that its host has."""

    AMOUNT = 6

    def setUp(self) -> None:
        super().setUp()
        self.flavor = self.make_own_flavor(self.AMOUNT)

    def break_last_step(self) -> Any:
        """Have Nova's spawn fail after the guest runs."""
        return fixtures.MockPatch(
            f'{_DRIVER}._register_undefined_instance_details',
            side_effect=RuntimeError('the conductor does not answer'),
        )

    @contextlib.contextmanager
    def break_end(self) -> Iterator[None]:
        """Have no guest be ended, nor lost when it is undefined."""
        domain, connection = fakelibvirt.Domain, fakelibvirt.Connection
        with (
            fixtures.MockPatchObject(domain, 'destroy', fail_to_end),
            fixtures.MockPatchObject(connection, '_undefine'),
        ):
            yield

    @contextlib.contextmanager
    def hang(self) -> Iterator[None]:
        with self.break_last_step(), self.break_end():
            yield

    def end_guest(self, uuid: str, host: str = 'host1') -> None:
        """End it and forget it, as ``virsh destroy`` and ``undefine`` do."""
        domain = self.connections[host].lookupByUUIDString(uuid)
        domain.destroy()
        domain.undefine()

    def list_alarms(self, host: str = 'host1') -> list[tuple[str, str]]:
        for _ in range(2):
            self.compare(host)
        self.problems = self.get_ext(host).periodic._absent.problems
        return [(one.alarm, one.subject) for one in self.problems]

    def assert_left(self, uuid: str, host: str = 'host1') -> None:
        """A guest runs on, with what its server holds; an alarm names it."""
        is_running, _cpus = self.list_guests(host)[uuid]
        self.assertTrue(is_running)
        entry = self.get_host(host).find_entry(uuid)
        amounts = [one.amount for one in entry.assignments]
        self.assertEqual([self.AMOUNT], amounts)
        self.assertEqual(
            [(alarm.GUEST_HERE_SERVER_ELSEWHERE, uuid)], self.list_alarms(host)
        )
        self.assertEqual(entry, self.get_host(host).find_entry(uuid))

    def assert_free(self, host: str = 'host1') -> None:
        self.assertEqual({}, dict(self.get_host(host).entries))

    def refuse_others(self) -> None:
        self.publish(self.services['host1'])
        self.boot(self.flavor, 'ERROR', host='host1')


class UnshelveTestCase(GuestsTestCase):
    """Nova deletes the allocations at once, and destroys nothing."""

    HOSTS = ('host1',)

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot(self.flavor, host='host1')
        self.uuid = self.server['id']
        self._shelve_server(self.server)
        self.assert_free()

    def fail_to_unshelve(self) -> None:
        self.act(self.server, 'unshelve')
        self._wait_for_server_parameter(
            self.server,
            {
                'status': 'SHELVED_OFFLOADED',
                'OS-EXT-STS:task_state': None,
                'OS-EXT-SRV-ATTR:host': None,
            },
        )
        self.wait_until(
            lambda: not self._get_allocations_by_server_uuid(self.uuid)
        )


class UnshelveTest(UnshelveTestCase):
    def test_one_that_cannot_be_ended_keeps_what_it_has(self) -> None:
        with self.hang():
            self.fail_to_unshelve()

        self.assert_left(self.uuid)
        (told,) = self.problems
        for words in (f'server {self.uuid} is on host host1', 'on no host'):
            self.assertIn(words, told.text)
        self.assertIn(f'virsh destroy {self.uuid}', told.text)
        self.refuse_others()
        self.end_guest(self.uuid)
        self.assertEqual([], self.list_alarms())
        self.assert_free()
        self.publish(self.services['host1'])
        self.boot(self.flavor, host='host1')

    def test_one_of_which_the_hypervisor_says_nothing_keeps_it(self) -> None:
        host = self.services['host1'].driver._host
        with (
            self.break_last_step(),
            fixtures.MockPatchObject(
                host,
                'list_guests',
                side_effect=nova_exc.HypervisorUnavailable(),
            ),
        ):
            self.fail_to_unshelve()

        self.assertEqual({self.uuid}, {*self.get_host('host1').entries})
        self.end_guest(self.uuid)
        self.list_alarms()
        self.assert_free()

    def test_one_that_is_ended_leaves_nothing(self) -> None:
        with self.break_last_step():
            self.fail_to_unshelve()

        self.assert_free()
        self.assertFalse(self.list_guests('host1')[self.uuid][0])


class AgainTest(UnshelveTestCase):
    """There is room for what another attempt would claim."""

    AMOUNT = 2

    def test_another_attempt_takes_nothing_from_it(self) -> None:
        with self.hang():
            self.fail_to_unshelve()
        before = dict(self.get_host('host1').entries)

        self.fail_to_unshelve()

        self.assertIn(
            'may already have a guest', str(self.list_reasons(self.server, ''))
        )
        self.assertEqual(before, dict(self.get_host('host1').entries))
        self.assert_left(self.uuid)
        self.end_guest(self.uuid)
        self.list_alarms()
        self.act(self.server, 'unshelve')
        self._wait_for_state_change(self.server, 'ACTIVE')


class CreateTest(GuestsTestCase):
    """Nova tries once more to destroy the guest."""

    HOSTS = ('host1',)

    def build(self) -> str:
        server = self.boot(self.flavor, 'ERROR', host='host1')
        self._wait_for_server_parameter(
            server,
            {'OS-EXT-STS:task_state': None, 'OS-EXT-SRV-ATTR:host': None},
        )
        return str(server['id'])

    def test_one_that_cannot_be_ended_keeps_what_it_has(self) -> None:
        with self.hang():
            uuid = self.build()

        self.assert_left(uuid)
        self.refuse_others()
        self.admin_api.delete_server(uuid)
        self._wait_until_deleted({'id': uuid})
        self.compare('host1')
        self.assertEqual({uuid}, {*self.get_host('host1').entries})
        context = nova_context.get_admin_context()
        manager = self.services['host1'].manager
        manager._cleanup_running_deleted_instances(context)
        self.assert_free()

    def test_what_nova_destroys_after_all_is_free_at_once(self) -> None:
        ends: list[Any] = [fail_to_end, fakelibvirt.Domain.destroy]

        def end(domain: Any) -> None:
            ends.pop(0)(domain)

        with (
            self.break_last_step(),
            fixtures.MockPatchObject(fakelibvirt.Domain, 'destroy', end),
        ):
            self.build()

        self.assertEqual([], ends)
        self.assert_free()
        self.assertEqual({}, self.list_guests('host1'))

    def test_one_without_its_settings_is_ended_before_the_release(
        self,
    ) -> None:
        """A guest that waits for them may have devices."""
        enforcement = self.get_host('host1').enforcement
        with (
            self.break_end(),
            fixtures.MockPatchObject(
                enforcement,
                'apply',
                side_effect=exception.EnforcementFailed(
                    host='host1',
                    enforcer='e',
                    consumer_uuid='',
                    reason='it is away',
                ),
            ),
        ):
            uuid = self.build()

        # It applies what was claimed.
        self.get_ext('host1').periodic.run_round()
        self.assert_left(uuid)


class EvacuationTest(GuestsTestCase):
    def test_one_that_cannot_be_ended_keeps_what_it_has(self) -> None:
        server = self.boot(self.flavor, host='host2')
        uuid = server['id']
        former = self.services['host2']
        self.stop_compute(former)
        self.admin_api.put_service_force_down(former.service_ref.uuid, True)

        with self.hang():
            self._evacuate_server(
                server,
                expected_host='host2',
                expected_state='ERROR',
                expected_migration_status='failed',
            )

        self.assert_left(uuid)
        self.assertIn('Nova has the server on host host2', str(self.problems))
        self.end_guest(uuid)
        self.assertEqual([], self.list_alarms())
        self.assert_free()
