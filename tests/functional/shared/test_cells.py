# SPDX-License-Identifier: Apache-2.0

"""Databases of cells, between which several threads change."""

import threading

from nova import context as nova_context
from nova.tests import fixtures as nova_fixtures

from tests import base
from tests.functional import shared

#: Seconds after which a thread waits for ever.
WAIT = 30.0


class CellsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        shared.install()
        self.cells = nova_fixtures.CellDatabases()
        self.cells._last_ctxt_mgr = 'cell1'

    def find(self, context: nova_context.RequestContext) -> list[object]:
        """Look up, in a thread of its own; return what it found in time."""
        found: list[object] = []
        thread = threading.Thread(
            target=lambda: found.append(
                self.cells._wrap_get_context_manager(context)
            ),
            daemon=True,
        )
        thread.start()
        thread.join(WAIT)
        return found

    def test_a_thread_without_a_cell_waits_for_no_other(self) -> None:
        context = nova_context.get_admin_context()

        with self.cells._cell_lock.write_lock():
            self.assertEqual(['cell1'], self.find(context))

    def test_one_with_a_cell_has_its_own(self) -> None:
        context = nova_context.get_admin_context()
        context.db_connection = 'cell2'

        self.assertEqual(['cell2'], self.find(context))
