# SPDX-License-Identifier: Apache-2.0

"""Tests of how a server leaves its host."""

from nova_ext_resources.reservation import nova_server
from tests import base

Action = nova_server.Action


class StepTest(base.TestCase):
    def find(
        self, status: str, task_state: str = '', *, is_deleted: bool = False
    ) -> tuple[Action | None, bool]:
        """Return what is asked for, and whether anything is missing."""
        server = nova_server.NovaServer(
            uuid='x', status=status, task_state=task_state
        )
        step = nova_server.find_step(server, is_deleted=is_deleted)
        return step.action, bool(step.missing)

    def test_to_be_shelved(self) -> None:
        for status, task_state, wanted in (
            ('ACTIVE', '', (Action.SHELVE, True)),
            ('SHUTOFF', '', (Action.SHELVE, True)),
            ('PAUSED', '', (Action.SHELVE, True)),
            ('SUSPENDED', '', (Action.SHELVE, True)),
            ('ACTIVE', 'shelving', (None, True)),
            ('SHELVED', '', (Action.OFFLOAD, True)),
            ('SHELVED', 'shelving_offloading', (None, True)),
            ('SHELVED_OFFLOADED', '', (None, False)),
            ('SHELVED_OFFLOADED', 'spawning', (None, False)),
            ('ERROR', '', (None, True)),
            ('RESCUE', '', (Action.UNRESCUE, True)),
            ('VERIFY_RESIZE', '', (Action.CONFIRM, True)),
            ('DELETED', '', (None, False)),
        ):
            with self.subTest(status=status, task_state=task_state):
                self.assertEqual(wanted, self.find(status, task_state))

    def test_to_be_deleted(self) -> None:
        for status, task_state, wanted in (
            ('ACTIVE', '', (Action.DELETE, True)),
            ('ERROR', '', (Action.DELETE, True)),
            ('SHELVED_OFFLOADED', '', (Action.DELETE, True)),
            ('ACTIVE', 'deleting', (None, True)),
            ('SOFT_DELETED', '', (Action.FORCE_DELETE, True)),
            ('DELETED', '', (None, False)),
        ):
            with self.subTest(status=status, task_state=task_state):
                found = self.find(status, task_state, is_deleted=True)

                self.assertEqual(wanted, found)

    def test_a_server_that_is_gone(self) -> None:
        for is_deleted in (True, False):
            self.assertEqual(
                nova_server.Step(),
                nova_server.find_step(None, is_deleted=is_deleted),
            )
