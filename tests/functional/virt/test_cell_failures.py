# SPDX-License-Identifier: Apache-2.0

"""Resizes to another cell that fail, or in which a host is killed.

Nova leaves the server in its former cell until its guest runs in the next one.
"""

import threading
from typing import Any

import fixtures

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.virt.driver import mixin
from tests.functional.virt import base
from tests.functional.virt import breaking
from tests.functional.virt import cells
from tests.functional.virt import moving
from tests.functional.virt import test_move_refusals

State = assignment.State


def kill(*_args: Any, **_kwargs: Any) -> None:
    """End a thread of Nova as if its process had ended."""
    raise base.Killed


class CellFailuresTestCase(cells.CellsTestCase, breaking.BreakingTestCase):
    """A server on host1, in cell1."""

    def fail_to_resize(self, state: str = 'ERROR') -> None:
        """Begin a resize, and return when Nova has given it up."""
        self.begin(self.large)
        self._wait_for_migration_status(self.server, ['error'])
        self.wait_for_failure(self.server)
        self._wait_for_server_parameter(
            self.server, {'status': state, 'OS-EXT-STS:task_state': None}
        )

    def rebuild(self) -> None:
        self.act(self.server, 'rebuild', imageRef=self.server['image']['id'])
        self._wait_for_state_change(self.server, 'ACTIVE')

    def start_guest(self) -> None:
        self.act(self.server, 'reboot', type='HARD')
        self._wait_for_state_change(self.server, 'ACTIVE')

    def list_purposes(self, host: str) -> dict[str, str]:
        entries = self.get_host(host).entries
        return {uuid: str(one.purpose) for uuid, one in entries.items()}

    def assert_only_source_has_it(self) -> None:
        """Both hosts have found that, and the server can go on."""
        for host in self.HOSTS:
            self.compare(host)
        self.assert_only_on('host1')
        if self.api.get_server(self.uuid)['status'] == 'ERROR':
            self.start_guest()
        # The scheduler hears of it.
        self._run_periodics()
        self.resize(self.server, self.large)
        self.confirm(self.server)
        self.assert_only_on('host2')


class CellDestinationTest(CellFailuresTestCase):
    def test_a_refusal_leaves_the_server_as_it_is(self) -> None:
        """But for its task: Nova stumbles over its own copy of the server."""
        host = self.get_host('host2')
        with fixtures.MockPatchObject(
            host,
            'claim',
            side_effect=test_move_refusals.make_shortfall('host2'),
        ):
            self.begin(self.large)
            self._wait_for_migration_status(self.server, ['error'])
            self.wait_for_failure(self.server)

        self.assert_only_on('host1')
        tracker = self.services['host2'].manager.rt
        self.assertEqual({}, tracker.tracked_migrations)
        told = [one['details'] for one in self.list_events(self.server)]
        self.assertIn('Info cache', str(told))
        self.assertEqual('RESIZE', self.api.get_server(self.uuid)['status'])
        self.act(self.server, 'os-resetState', state='active')
        self.assert_only_source_has_it()

    def test_a_guest_that_does_not_start_leaves_nothing(self) -> None:
        with moving.failing('spawn'):
            self.fail_to_resize()

        self.assertEqual({}, self.get_host('host2').entries)
        self.start_guest()
        self.assert_only_source_has_it()

    def test_a_failure_before_that_is_found_by_comparing(self) -> None:
        with fixtures.MockPatchObject(
            self.services['host2'].manager,
            '_prep_block_device',
            side_effect=RuntimeError('no volumes'),
        ):
            self.fail_to_resize()
        self.assertEqual({self.uuid: 'incoming'}, self.list_purposes('host2'))

        self.assert_only_source_has_it()

    def test_so_is_one_after_a_restart(self) -> None:
        with fixtures.MockPatchObject(
            self.services['host2'].manager,
            '_prep_block_device',
            side_effect=RuntimeError('no volumes'),
        ):
            self.fail_to_resize()

        for host in self.HOSTS:
            self.restart(host)

        self.assert_only_source_has_it()

    def test_resources_that_cannot_be_applied(self) -> None:
        with fixtures.MockPatchObject(
            self.get_host('host2'),
            'apply',
            side_effect=breaking.LEDGER_IS_FULL,
        ):
            self.fail_to_resize()

        self.assertEqual({}, self.get_host('host2').entries)
        self.assert_only_source_has_it()

    def test_a_guest_that_nova_forgets_keeps_what_it_has(self) -> None:
        """Nova gives the move up without destroying it."""
        with fixtures.MockPatchObject(
            self.services['host2'].manager,
            '_update_instance_after_spawn',
            side_effect=RuntimeError('no conductor'),
        ):
            self.fail_to_resize()
        for host in self.HOSTS:
            self.compare(host)

        self.assertEqual({self.uuid: 'own'}, self.list_purposes('host2'))
        (told,) = self.list_differences('host2')
        self.assertEqual(self.uuid, told.subject)
        del self.services['host2'].driver.instances[self.uuid]
        self.assert_only_source_has_it()


class CellSourceTest(CellFailuresTestCase):
    def test_a_guest_that_cannot_be_powered_off(self) -> None:
        with moving.failing('power_off'):
            self.fail_to_resize('ACTIVE')

        self.assertEqual({self.uuid: 'own'}, self.list_purposes('host1'))
        self.assert_only_source_has_it()

    def test_an_image_that_cannot_be_made(self) -> None:
        with moving.failing('snapshot'):
            self.fail_to_resize('ACTIVE')

        self.assertEqual({self.uuid: 'own'}, self.list_purposes('host1'))
        self.assert_only_source_has_it()

    def test_a_guest_that_cannot_be_destroyed(self) -> None:
        with moving.failing('destroy'):
            self.fail_to_resize()

        self.assertEqual({self.uuid: 'own'}, self.list_purposes('host1'))
        self.start_guest()
        self.assert_only_source_has_it()

    def fail_late(self) -> str:
        with self.failing('', '_terminate_volume_connections'):
            self.fail_to_resize()
        migration = str(self.find_migration(self.server).uuid)
        self.assertEqual({migration: 'kept'}, self.list_purposes('host1'))
        return migration

    def test_a_failure_after_that_gives_it_back(self) -> None:
        self.fail_late()

        self.assert_only_source_has_it()

    def test_so_does_a_start_of_the_guest_before(self) -> None:
        self.fail_late()

        self.start_guest()

        self.assertEqual({self.uuid: 'own'}, self.list_purposes('host1'))
        self.assert_only_source_has_it()

    def test_so_does_a_rebuild(self) -> None:
        self.fail_late()

        self.rebuild()

        self.assertEqual({self.uuid: 'own'}, self.list_purposes('host1'))
        self.assert_only_source_has_it()

    def test_so_does_a_restart(self) -> None:
        self.fail_late()

        for host in self.HOSTS:
            self.restart(host)

        self.assert_only_source_has_it()

    def test_what_could_not_be_kept_stays_the_servers(self) -> None:
        self.fail_to_park(times=1)

        self.resize(self.server, self.large)

        self.assertEqual({self.uuid: 'own'}, self.list_purposes('host1'))
        for host in self.HOSTS:
            self.compare(host)
        self.revert(self.server)
        self.assert_only_on('host1')

    def test_so_it_is_released_by_a_confirmation(self) -> None:
        self.fail_to_park(times=1)
        self.resize(self.server, self.large)

        self.confirm(self.server)

        self.assert_only_on('host2')


class CellEndTest(CellFailuresTestCase):
    """A server that has arrived in cell2."""

    def setUp(self) -> None:
        super().setUp()
        self.resize(self.server, self.large)
        self.migration = str(self.find_migration(self.server).uuid)

    def assert_waiting(self) -> None:
        self.assert_agreement(
            host1={self.migration: State.PARKED},
            host2={self.uuid: State.APPLIED},
        )

    def test_nothing_changes_while_the_user_decides(self) -> None:
        for host in self.HOSTS:
            self.compare(host)
        self.assert_waiting()

        for host in self.HOSTS:
            self.restart(host)
            self.compare(host)

        self.assert_waiting()
        self.confirm(self.server)
        self.assert_only_on('host2')

    def test_disks_that_cannot_be_deleted(self) -> None:
        with moving.failing('cleanup'):
            self.act(self.server, 'confirmResize')
            self._wait_for_server_parameter(
                self.server, {'status': 'ERROR', 'OS-EXT-STS:task_state': None}
            )

        for host in self.HOSTS:
            self.compare(host)
        self.assert_only_on('host2')

    def fail_to_revert(self) -> None:
        self.act(self.server, 'revertResize')
        # The conductor clears the server's task once more, and tells.
        self.notifier.wait_for_versioned_notifications(
            'compute_task.migrate_server.error'
        )
        self._wait_for_server_parameter(
            self.server, {'status': 'ERROR', 'OS-EXT-STS:task_state': None}
        )

    def test_a_guest_that_does_not_start_again(self) -> None:
        with moving.failing('finish_revert_migration'):
            self.fail_to_revert()

        self.assert_only_on('host1')
        self.start_guest()
        self.assert_only_source_has_it()

    def test_a_guest_that_cannot_be_destroyed_again(self) -> None:
        with moving.failing('destroy'):
            self.fail_to_revert()

        for host in self.HOSTS:
            self.compare(host)
            self.assertEqual({self.uuid: 'own'}, self.list_purposes(host))
        self.assert_named('host1', self.server, self.migration)

    def test_a_source_that_is_killed_as_it_confirms(self) -> None:
        self.flags(rpc_response_timeout=5, long_rpc_timeout=10)
        manager = self.services['host1'].manager

        with (
            self.failing('rt', 'drop_move_claim_at_source', base.Killed()),
            fixtures.MockPatchObject(
                manager, '_delete_allocation_after_move', kill
            ),
        ):
            self.act(self.server, 'confirmResize')
            self._wait_for_server_parameter(
                self.server, {'status': 'ERROR', 'OS-EXT-STS:task_state': None}
            )
        self.restart('host1')

        self.assertEqual({}, self.get_host('host1').entries)
        (told,) = self.list_unheld('host1')
        self.assertEqual(
            (alarm.STALE_ALLOCATION, self.migration),
            (told.alarm, told.subject),
        )
        self.assertIn('has moved to another cell', told.text)
        self._delete_server_allocations(self.migration)
        self.assert_no_difference(*self.HOSTS)


class CellRestartTest(CellFailuresTestCase):
    """A host restarts, or is killed, in the middle."""

    def begin_slowly(self) -> Any:
        move = self.useFixture(breaking.WaitingMove(self.POWER_OFF))
        self.begin(self.large)
        self.assertTrue(move.began.wait(base.SECONDS))
        return move

    def test_the_destination_before_the_guest_is_off(self) -> None:
        move = self.begin_slowly()

        self.restart('host2')
        self.compare('host2')
        self.assertEqual({self.uuid: 'incoming'}, self.list_purposes('host2'))

        move.go.set()
        self._wait_for_state_change(self.server, 'VERIFY_RESIZE')
        self.assert_agreement(
            host1={self.find_migration(self.server).uuid: State.PARKED},
            host2={self.uuid: State.APPLIED},
        )

    def test_the_source_is_killed_after_its_guest(self) -> None:
        """Nova starts the guest again when the host comes back."""
        self.flags(rpc_response_timeout=5, long_rpc_timeout=10)
        with fixtures.MockPatchObject(
            self.services['host1'].manager,
            '_terminate_volume_connections',
            kill,
        ):
            self.begin(self.large)
            self.wait_until(
                lambda: 'kept' in self.list_purposes('host1').values()
            )

        self.restart('host1')

        self.assertEqual({self.uuid: 'own'}, self.list_purposes('host1'))
        self.wait_for_failure(self.server)
        self.assert_only_source_has_it()

    def test_the_destination_is_killed_before_its_guest(self) -> None:
        self.flags(rpc_response_timeout=5, long_rpc_timeout=10)
        is_killed = threading.Event()

        def kill_now(*_args: Any, **_kwargs: Any) -> None:
            is_killed.set()
            raise base.Killed

        with (
            fixtures.MonkeyPatch('nova.virt.fake.FakeDriver.spawn', kill),
            fixtures.MockPatchObject(
                self.services['host2'].driver, '_release', kill_now
            ),
        ):
            self.begin(self.large)
            self.assertTrue(is_killed.wait(base.SECONDS))

        self.restart('host2')

        self.assertEqual({self.uuid: 'own'}, self.list_purposes('host2'))
        self.wait_for_failure(self.server)
        self.assert_only_source_has_it()


class CellStoppedTest(CellFailuresTestCase):
    def test_a_server_that_is_off(self) -> None:
        self.act(self.server, 'os-stop')
        self._wait_for_state_change(self.server, 'SHUTOFF')
        # As that of libvirt, which applies only when a guest starts.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.virt.driver.fake.FakeDriver._building',
                mixin.ExtResourcesMixin._building,
            )
        )

        self.resize(self.server, self.large)

        migration = self.find_migration(self.server).uuid
        self.assert_agreement(
            host1={migration: State.PARKED}, host2={self.uuid: State.APPLIED}
        )
        self.revert(self.server, 'SHUTOFF')
        self.assert_only_on('host1')
