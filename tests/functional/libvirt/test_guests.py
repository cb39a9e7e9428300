# SPDX-License-Identifier: Apache-2.0

"""Guests of a real libvirt have their ways whenever they run."""

from collections.abc import Callable
import os
import time
from typing import Any, ClassVar

import testtools
from testtools import content

from tests import base
from tests.functional.libvirt import daemon
from tests.functional.libvirt import guest
from tests.functional.libvirt import site as sites

_OBSTACLE = daemon.find_obstacle()
_SECONDS = 120.0

#: Nothing that changes RMD takes effect.
_WRITES = ('POST', 'PATCH', 'PUT')


class NovaTestCase(base.TestCase):
    """Has a site, and asks its Nova."""

    SITE: ClassVar[type[sites.Site]] = sites.Site
    site: ClassVar[Any]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.site = cls.SITE()
        cls.site.__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.site.close()
        super().tearDownClass()

    def setUp(self) -> None:
        super().setUp()
        self.compute = self.site.cloud.sdk.compute
        self.addOnException(self.attach_log)

    def attach_log(self, _error: Any) -> None:
        log = self.site.cloud.folder.nova_log
        self.addDetail('nova.log', content.content_from_file(str(log)))

    # -- what is asked of Nova -----------------------------------------

    def ask(self) -> str:
        server = self.compute.create_server(
            name=self.id().rsplit('.')[-1],
            flavor_id=self.site.flavor_id,
            image_id=self.site.image_id,
            networks='none',
        )
        uuid = str(server.id)
        self.addCleanup(self.delete, uuid)
        return uuid

    def boot(self) -> str:
        uuid = self.ask()
        self.wait_status(uuid, 'ACTIVE')
        self.assert_runs(uuid)
        return uuid

    def delete(self, uuid: str) -> None:
        self.compute.delete_server(uuid)
        self.wait(lambda: self.show(uuid) is None)
        self.assert_gone(uuid)

    def reboot_hard(self, uuid: str) -> None:
        self.compute.reboot_server(uuid, 'HARD')
        self.wait_status(uuid, 'ACTIVE')

    def reboot_soft(self, uuid: str) -> None:
        self.compute.reboot_server(uuid, 'SOFT')
        self.wait_status(uuid, 'ACTIVE')

    def stop(self, uuid: str) -> None:
        self.compute.stop_server(uuid)
        self.wait_status(uuid, 'SHUTOFF')

    def start(self, uuid: str) -> None:
        self.compute.start_server(uuid)
        self.wait_status(uuid, 'ACTIVE')

    def suspend(self, uuid: str) -> None:
        self.compute.suspend_server(uuid)
        self.wait_status(uuid, 'SUSPENDED')

    def resume(self, uuid: str) -> None:
        self.compute.resume_server(uuid)
        self.wait_status(uuid, 'ACTIVE')

    def pause(self, uuid: str) -> None:
        self.compute.pause_server(uuid)
        self.wait_status(uuid, 'PAUSED')

    def unpause(self, uuid: str) -> None:
        self.compute.unpause_server(uuid)
        self.wait_status(uuid, 'ACTIVE')

    def rescue(self, uuid: str) -> None:
        self.compute.rescue_server(uuid)
        self.wait_status(uuid, 'RESCUE')

    def unrescue(self, uuid: str) -> None:
        self.compute.unrescue_server(uuid)
        self.wait_status(uuid, 'ACTIVE')

    def snapshot(self, uuid: str) -> None:
        image = self.compute.create_server_image(uuid, 'snapshot', wait=True)
        self.addCleanup(self.site.cloud.sdk.image.delete_image, image.id)
        self.wait_status(uuid, 'ACTIVE')

    # -- what is seen --------------------------------------------------

    def show(self, uuid: str) -> Any:
        return self.compute.find_server(uuid, ignore_missing=True)

    def fault(self, uuid: str) -> str:
        return str(self.compute.get_server(uuid).fault)

    def list_reasons(self, uuid: str) -> str:
        """Return what the events of the boot say."""
        events = self.list_events(uuid, -1)
        return ' '.join(str(event.get('details')) for event in events)

    def list_events(self, uuid: str, index: int) -> list[dict[str, Any]]:
        """Return the events of an action; the newest action is the first."""
        path = f'/servers/{uuid}/os-instance-actions'
        actions = self.compute.get(path).json()['instanceActions']
        action = self.compute.get(f'{path}/{actions[index]["request_id"]}')
        found = action.json()['instanceAction']
        return list(found['events'])

    def is_idle(self, uuid: str) -> bool:
        """Return whether Nova does nothing with the server.

        A failed action clears the task state once before it updates the
        host's resources and once after: the next action must come later.
        """
        events = self.list_events(uuid, 0)
        return self.show(uuid).task_state is None and all(
            event['finish_time'] for event in events
        )

    def is_paused(self, domain: Any) -> bool:
        import libvirt

        state, _reason = domain.state()
        return bool(state == libvirt.VIR_DOMAIN_PAUSED)

    def wait(self, find: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + _SECONDS
        while not (found := find()):
            self.assertLess(time.monotonic(), deadline, 'waited in vain')
            time.sleep(0.1)
        return found

    def wait_released(self, uuid: str) -> None:
        self.wait(lambda: not self.site.list_held(uuid))

    def wait_status(self, uuid: str, status: str) -> None:
        def is_there() -> bool:
            server = self.show(uuid)
            if server.status == 'ERROR' != status and self.is_idle(uuid):
                self.fail(f'{status} was expected: {self.fault(uuid)}')
            return bool(server.status == status and not server.task_state)

        self.wait(is_there)

    def assert_runs(self, uuid: str) -> None:
        self.wait(lambda: self.site.console(uuid) == guest.HELLO)

    def assert_gone(self, uuid: str) -> None:
        """Make sure that nothing at all is held or runs."""
        self.assertIsNone(self.site.find_pid(uuid))
        self.assertIsNone(self.site.find_domain(uuid))
        self.assertEqual({}, self.site.list_held(uuid))
        self.assertEqual({}, self.site.find_group(uuid))
        self.assertEqual({}, self.site.list_allocated(uuid))


@testtools.skipIf(bool(_OBSTACLE), _OBSTACLE)
class GuestTest(NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(self.site.starts.clear)
        self.site.refresh()

    # -- boot ----------------------------------------------------------

    def test_no_guest_is_defined_before_its_ways_are_granted(self) -> None:
        with self.site.rmd_fault(kind='slow', seconds=3, methods=['POST']):
            uuid = self.ask()
            self.wait(lambda: self.site.find_domain(uuid))
            # Until RMD has answered, it has no group.
            self.assertNotEqual({}, self.site.find_group(uuid))
            self.wait_status(uuid, 'ACTIVE')

        self.assert_runs(uuid)
        self.assert_in_force(uuid)
        self.assert_started_in_force(uuid)
        self.assert_pinned(uuid)

    def test_a_guest_waits_until_its_ways_are_verified(self) -> None:
        with self.site.rmd_fault(kind='slow', seconds=4, methods=['GET']):
            uuid = self.ask()
            domain = self.wait(lambda: self.site.find_domain(uuid))
            self.wait(lambda: self.is_paused(domain))
            time.sleep(0.5)
            self.assertTrue(self.is_paused(domain))
            self.assertEqual(b'', self.site.console(uuid))
            self.wait_status(uuid, 'ACTIVE')

        self.assert_runs(uuid)
        self.assert_in_force(uuid)

    def test_a_guest_whose_claim_fails_never_runs(self) -> None:
        for fault in (
            {'kind': 'status', 'status': 500},
            {'kind': 'drop'},
            {'kind': 'hang'},
        ):
            self.site.refresh()
            with (
                self.subTest(**fault),
                self.site.rmd_fault(methods=_WRITES, **fault),
            ):
                uuid = self.ask()
                self.wait_status(uuid, 'ERROR')

                self.assertIn('RMD', self.list_reasons(uuid))
                self.assertIsNone(self.site.find_pid(uuid))
                self.assertEqual([], self.site.starts)
            # An RMD that hung may do late what it was asked, so the host
            # lets go of the server only when that cannot be any more.
            self.wait_released(uuid)
            self.assert_gone(uuid)

    def test_a_guest_whose_cache_libvirt_controls_never_runs(self) -> None:
        with self.site.patched():
            uuid = self.ask()
            self.wait_status(uuid, 'ERROR')

        self.assertIn('<cachetune> in <cputune>', self.list_reasons(uuid))
        self.assertIsNone(self.site.find_pid(uuid))
        self.wait_released(uuid)
        self.assert_gone(uuid)

    # -- life ----------------------------------------------------------

    def test_every_start_of_a_process_finds_its_ways_in_force(self) -> None:
        uuid = self.boot()
        held = self.site.list_held(uuid)

        for name, down, up, is_new in (
            ('hard reboot', None, self.reboot_hard, True),
            ('soft reboot', None, self.reboot_soft, True),
            ('stop, start', self.stop, self.start, True),
            ('suspend, resume', self.suspend, self.resume, True),
            ('pause, unpause', self.pause, self.unpause, False),
            ('rescue', None, self.rescue, True),
            ('unrescue', None, self.unrescue, True),
            ('snapshot', None, self.snapshot, True),
        ):
            with self.subTest(name):
                pid = self.site.find_pid(uuid)
                if down:
                    down(uuid)
                    self.assertEqual(held, self.site.list_held(uuid))
                if is_new:
                    self.site.drop_workload(uuid)
                self.site.starts.clear()

                up(uuid)

                self.assert_started_in_force(uuid)
                self.assertEqual(is_new, pid != self.site.find_pid(uuid))
                self.assertEqual(held, self.site.list_held(uuid))
                self.assert_in_force(uuid)
                self.assert_reported_once(uuid)

    def test_what_cannot_be_had_takes_no_running_guest_down(self) -> None:
        uuid = self.boot()
        pid = self.site.find_pid(uuid)
        self.site.drop_workload(uuid)

        with self.site.rmd_fault(kind='drop', methods=_WRITES):
            for kind in ('HARD', 'SOFT'):
                with self.subTest(kind):
                    self.compute.reboot_server(uuid, kind)
                    self.wait(lambda: self.is_idle(uuid))

                    self.assertEqual('ACTIVE', self.show(uuid).status)
                    self.assertEqual(pid, self.site.find_pid(uuid))

        self.reboot_hard(uuid)
        self.assert_in_force(uuid)

    def test_what_cannot_be_had_keeps_what_is_off(self) -> None:
        uuid = self.boot()
        for down, up, status in (
            (self.suspend, self.compute.resume_server, 'SUSPENDED'),
            (self.stop, self.compute.start_server, 'SHUTOFF'),
        ):
            with self.subTest(status):
                down(uuid)
                self.site.drop_workload(uuid)
                self.site.starts.clear()

                with self.site.rmd_fault(kind='drop', methods=_WRITES):
                    up(uuid)
                    self.wait(lambda: self.is_idle(uuid))

                self.assertEqual(status, self.show(uuid).status)
                self.assertIsNone(self.site.find_pid(uuid))
                self.assertEqual([], self.site.starts)
                up(uuid)
                self.wait_status(uuid, 'ACTIVE')
                self.assert_started_in_force(uuid)
                self.assert_in_force(uuid)

    def test_a_rebuild_that_fails_leaves_no_guest_without_its_ways(
        self,
    ) -> None:
        uuid = self.boot()
        self.site.drop_workload(uuid)
        self.site.starts.clear()

        with self.site.rmd_fault(kind='drop', methods=_WRITES):
            self.compute.rebuild_server(uuid, image=self.site.image_id)
            self.wait_status(uuid, 'ERROR')
        self.assertIsNone(self.site.find_pid(uuid))
        self.assertEqual([], self.site.starts)

        # Its disk is gone. The host keeps its claim.
        self.compute.reboot_server(uuid, 'HARD')
        self.wait(lambda: self.is_idle(uuid))
        self.assertEqual('ERROR', self.show(uuid).status)
        self.assertEqual([], self.site.starts)
        self.assertNotEqual({}, self.site.list_held(uuid))

        self.compute.rebuild_server(uuid, image=self.site.image_id)
        self.wait_status(uuid, 'ACTIVE')
        # Nova has deleted its allocations, and does not make them again.
        *_, allocated = self.look(uuid)
        self.assertEqual({}, allocated)
        self.compute.shelve_server(uuid)
        self.wait_status(uuid, 'SHELVED_OFFLOADED')
        self.compute.unshelve_server(uuid)
        self.wait_status(uuid, 'ACTIVE')
        *_, allocated = self.look(uuid)
        self.assertEqual(sites.WAYS, allocated['CUSTOM_LLC_WAYS'])
        self.delete(uuid)

    # -- nova-compute --------------------------------------------------

    def test_a_restart_of_nova_compute_changes_nothing(self) -> None:
        uuid = self.boot()
        before = self.look(uuid)

        self.site.stop_compute()
        self.site.start_compute()

        self.assertEqual(before, self.look(uuid))
        self.assert_in_force(uuid)

    def test_a_lost_identity_is_refused_and_not_replaced(self) -> None:
        uuid = self.boot()
        before = self.look(uuid)
        identity = self.site.folder.lib / 'nova' / 'compute_id'
        text = identity.read_text()
        self.site.stop_compute()
        identity.unlink()

        err = self.assertRaises(RuntimeError, self.site.start_compute)

        self.assertIn('lost that state', str(err))
        self.assertFalse(identity.exists())
        self.assertEqual(before, self.look(uuid))
        identity.write_text(text)
        self.site.start_compute()
        self.assert_in_force(uuid)

    def test_a_server_that_the_ledger_lost_claims_again_when_it_starts(
        self,
    ) -> None:
        uuid = self.boot()
        for start in (self.reboot_hard, self.rescue):
            with self.subTest(start.__name__):
                self.site.stop_compute()
                self.site.lose_ledger()
                self.site.start_compute()
                self.assertEqual({}, self.site.list_held(uuid))
                self.site.starts.clear()

                start(uuid)

                self.assert_started_in_force(uuid)
                self.assert_in_force(uuid)

    def test_a_server_deleted_while_nova_compute_was_down_is_released(
        self,
    ) -> None:
        uuid = self.boot()
        service = next(iter(self.compute.services(binary='nova-compute')))
        self.site.stop_compute()
        self.compute.update_service_forced_down(service, forced=True)

        self.compute.delete_server(uuid)
        self.wait(lambda: self.show(uuid) is None)
        self.assertIsNotNone(self.site.find_pid(uuid))
        self.site.start_compute()
        self.compute.update_service_forced_down(service, forced=False)

        self.wait(lambda: self.site.find_domain(uuid) is None)
        self.wait_released(uuid)
        self.wait(lambda: not self.site.list_allocated(uuid))
        self.assert_gone(uuid)

    # -- what is seen --------------------------------------------------

    def look(self, uuid: str) -> tuple[Any, ...]:
        return (
            self.site.find_pid(uuid),
            self.site.list_held(uuid),
            self.site.find_group(uuid),
            self.site.list_allocated(uuid),
        )

    def assert_pinned(self, uuid: str) -> None:
        pid = self.site.find_pid(uuid)
        assert pid is not None
        self.assertEqual({self.site.cpu}, os.sched_getaffinity(pid))

    def assert_started_in_force(self, uuid: str) -> None:
        self.wait(lambda: self.site.starts)
        cpus = str(self.site.cpu)
        expected = [sites.Start(uuid=uuid, cpus=cpus)]
        self.assertEqual(expected, self.site.starts)

    def assert_reported_once(self, uuid: str) -> None:
        """Make sure that no event of the last action is left unfinished."""
        self.wait(lambda: self.is_idle(uuid))
        names = [event['event'] for event in self.list_events(uuid, 0)]
        self.assertEqual(sorted(set(names)), sorted(names))

    def assert_in_force(self, uuid: str) -> None:
        """Compare ledger, placement and RMD."""
        group = self.site.find_group(uuid)
        mask = self.site.list_held(uuid)['CUSTOM_LLC_WAYS']['mask']
        self.assertEqual(sites.WAYS, int(mask, 16).bit_count())
        self.assertEqual(int(mask, 16), int(group['schemata']['L3']['0'], 16))
        self.assertEqual(str(self.site.cpu), group['cpus'])
        allocated = self.site.list_allocated(uuid)
        self.assertEqual(sites.WAYS, allocated['CUSTOM_LLC_WAYS'])
