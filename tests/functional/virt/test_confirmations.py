# SPDX-License-Identifier: Apache-2.0

"""A confirmation in which nova-compute of the former host is killed."""

import contextlib
import threading
from typing import Any

import fixtures
from nova.compute import task_states
from nova import context as nova_context

from nova_ext_resources.objects import alarm
from tests.functional.virt import base
from tests.functional.virt import breaking
from tests.functional.virt import moving


class ConfirmationTest(breaking.BreakingTestCase):
    """A server that was resized from host1 to host2."""

    def setUp(self) -> None:
        super().setUp()
        self.resize(self.server, self.large)
        self.migration = self.find_migration(self.server)

    @contextlib.contextmanager
    def killing(self) -> Any:
        """Kill host1 when it has released what it kept.

        Nova would still delete the allocations of the migration, but for a
        kill.
        """
        is_killed = threading.Event()

        def kill(*_args: Any, **_kwargs: Any) -> None:
            is_killed.set()
            raise base.Killed

        manager = self.services['host1'].manager
        with (
            self.failing('rt', 'drop_move_claim_at_source', base.Killed()),
            fixtures.MockPatchObject(
                manager, '_delete_allocation_after_move', kill
            ),
        ):
            yield
            self.assertTrue(is_killed.wait(base.SECONDS))
        self.assertEqual({}, dict(self.get_host('host1').entries))

    def kill_in_deletion(self) -> None:
        """Nova's API confirms the move of a server that it deletes."""
        instance = moving.find_instance(self.uuid)
        instance.task_state = task_states.DELETING
        instance.save()
        with self.killing():
            self.assertRaises(
                base.Killed,
                self.services['host1'].manager.confirm_resize,
                nova_context.get_admin_context(),
                instance,
                self.migration,
            )
        self.restart('host1')

    def assert_told(self, status: str) -> None:
        (found,) = self.list_unheld('host1')
        self.assertEqual(
            (alarm.STALE_ALLOCATION, self.migration.uuid),
            (found.alarm, found.subject),
        )
        self.assertIn(
            f'status "{status}" of server {self.uuid} that Nova has on host '
            'host2. This host has released the resources that it kept',
            found.text,
        )
        self.assert_no_difference('host2')

    def test_what_nova_has_not_deleted_is_reported(self) -> None:
        with self.killing():
            self.act(self.server, 'confirmResize')
        self.restart('host1')
        self.compare('host1')

        self.assert_told('confirming')

        # As the page of alarms says.
        self.placement.delete(f'/allocations/{self.migration.uuid}')
        self.assertEqual((), self.list_unheld('host1'))

    def test_so_it_is_of_a_server_that_is_being_deleted(self) -> None:
        self.kill_in_deletion()

        self.assert_told('finished')

    def test_also_after_nova_has_recorded_that_it_is_confirmed(self) -> None:
        """It deletes the allocations later; the server is being deleted."""
        self.get_host('host1').release(self.migration.uuid)
        self.migration.status = 'confirmed'
        self.migration.save()
        instance = moving.find_instance(self.uuid)
        instance.task_state = task_states.DELETING
        instance.save()

        self.assert_told('confirmed')

    def test_another_deletion_leaves_it(self) -> None:
        """Nova confirms nothing of a server whose state was set."""
        self.kill_in_deletion()

        self.act(self.server, 'os-resetState', state='error')
        self._delete_server(self.server)

        (found,) = self.list_unheld('host1')
        self.assertIn(f'{self.uuid}, which is deleted', found.text)
        # As the page of alarms says.
        self.placement.delete(f'/allocations/{self.migration.uuid}')
        self.assert_agreement()

    def test_what_waits_for_the_user_is_not(self) -> None:
        """Though the host has lost what it kept."""
        self.get_host('host1').release(self.migration.uuid)

        self.assertEqual((), self.list_unheld('host1'))

    def test_nor_is_what_the_host_holds_by_the_uuid_of_the_server(
        self,
    ) -> None:
        host = self.get_host('host1')
        host.unpark(self.uuid, self.migration.uuid)
        self.migration.status = 'confirming'
        self.migration.save()

        self.assertEqual((), self.list_unheld('host1'))

        host.release(self.uuid)
        self.assert_told('confirming')

    def test_nor_what_the_next_host_has(self) -> None:
        """There, it is of another move."""
        self.migration.status = 'confirming'
        self.migration.source_compute = 'host3'
        self.migration.save()
        self.get_host('host1').release(self.migration.uuid)

        self.assertEqual((), self.list_unheld('host1'))
