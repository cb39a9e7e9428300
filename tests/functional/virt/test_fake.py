# SPDX-License-Identifier: Apache-2.0

"""Nova's fake driver, with resources, starts guests as libvirt's does."""

from collections.abc import Callable
import pathlib
from typing import Any

from nova.compute import power_state
from nova import context

from nova_ext_resources.objects import alarm
from tests.functional.virt import base

_IMAGE = '155d900f-4e14-4e4c-a73d-069cbf4541e6'


class FakeDriverTest(base.NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.service = self.start_host('host1')
        self.host = self.service.driver._ext.host
        self.simulator = self.rmds['host1'].simulator
        self.server = self.boot(self.make_pinned_flavor(4))
        self.publish(self.service)

    def rebuild(self, state: str) -> None:
        self.api.post_server_action(
            self.server['id'], {'rebuild': {'imageRef': _IMAGE}}
        )
        self._wait_for_server_parameter(
            self.server, {'status': state, 'OS-EXT-STS:task_state': None}
        )

    def test_a_rebuild_after_one_that_failed(self) -> None:
        self.simulator.refuse_connections()
        self.rebuild('ERROR')
        self.simulator.accept_connections()

        self.rebuild('ACTIVE')

        self.assert_in_force(self.server, 4)

    def test_a_guest_that_starts_again_has_its_resources_again(self) -> None:
        for start in (
            self.reboot_hard,
            self.reboot_soft,
            self.stop_and_start,
            self.suspend_and_resume,
        ):
            with self.subTest(start.__name__):
                self.check_applied_again(start)

    def check_applied_again(self, start: Callable[[], Any]) -> None:
        self.simulator.restart(keep_database=False)
        self.assertEqual([], self.list_workloads('host1'))

        start()

        self.assert_in_force(self.server, 4)

    def reboot_hard(self) -> None:
        self._reboot_server(self.server, hard=True)

    def reboot_soft(self) -> None:
        self._reboot_server(self.server)

    def stop_and_start(self) -> None:
        self._stop_server(self.server)
        self._start_server(self.server)

    def suspend_and_resume(self) -> None:
        self._suspend_server(self.server)
        self._resume_server(self.server)

    def restart_process(self) -> None:
        """Have the driver forget its guests, as a new process does."""
        self.service.driver._ext.stop()
        self.service.driver.instances.clear()
        self.service = self.start_again(self.service)
        self.host = self.service.driver._ext.host

    def test_a_server_of_before_a_restart_is_started_by_a_hard_reboot(
        self,
    ) -> None:
        self.restart_process()

        self.reboot_hard()

        self.assert_in_force(self.server, 4)
        self.stop_and_start()
        self.assert_in_force(self.server, 4)

    def test_a_reboot_claims_what_the_ledger_has_lost(self) -> None:
        self.service.driver.instances.clear()
        self.host.release(self.server['id'])

        self.reboot_hard()

        self.assert_in_force(self.server, 4)

    def list_alarms(self) -> list[tuple[str, str]]:
        ext = self.service.driver._ext
        return [
            (one.name, one.subject) for one in ext.metrics.read_health().alarms
        ]

    def test_a_lost_ledger_comes_back_with_hard_reboots(self) -> None:
        path = self.host._ledger.path
        self.service.driver._ext.stop()
        for suffix in ('', '-wal', '-shm'):
            pathlib.Path(f'{path}{suffix}').unlink(missing_ok=True)
        self.restart_process()
        unknown = (alarm.UNKNOWN_SETTINGS, self.server['id'])
        self.wait_until(lambda: unknown in self.list_alarms())
        self.publish(self.service)
        self.assertEqual({}, self.host.entries)
        self.service.manager._sync_power_states(context.get_admin_context())
        server = self.api.get_server(self.server['id'])
        self.assertEqual('ACTIVE', server['status'])
        self.wait_until(
            lambda: (
                self.api.get_server(self.server['id'])[
                    'OS-EXT-STS:power_state'
                ]
                == power_state.NOSTATE
            )
        )

        self.reboot_hard()

        self.assert_in_force(self.server, 4)
        self.publish(self.service)
        self.assertNotIn(unknown, self.list_alarms())

    def test_what_cannot_be_applied_does_not_start(self) -> None:
        self._stop_server(self.server)
        self.simulator.refuse_connections()

        self.api.post_server_action(self.server['id'], {'os-start': None})

        self._wait_for_server_parameter(
            self.server, {'OS-EXT-STS:task_state': None}
        )
        self.assertEqual(
            'SHUTOFF', self.api.get_server(self.server['id'])['status']
        )
