# SPDX-License-Identifier: Apache-2.0

"""The ledger was lost, and a definition of a resource is broken."""

import dataclasses
import os
import pathlib

from nova_ext_resources.host import manager
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources import plugins
from tests.unit import builders
from tests.unit.host.reconcile import test_rebuild_entries
from tests.unit.host import test_manager_static as static
from tests.unit.host import with_host
from tests.unit.host import with_resctrl

SERVER = test_rebuild_entries.SERVER

COUNTED = {static.STATIC: {static.SEATS: 2}}
BOTH = {with_host.DOMAINS[0]: {with_host.WAYS: 3}, **COUNTED}


class BrokenDefinitionTest(with_resctrl.ResctrlHostTestCase):
    """A server with what is left out is not restored without it."""

    def setUp(self) -> None:
        super().setUp()
        folder = os.path.dirname(self.ledger_path)
        self.definitions = pathlib.Path(folder, 'definitions.yaml')

    def write(self, text: str) -> None:
        self.definitions.write_text(text)
        self.writes = getattr(self, 'writes', 0) + 1
        os.utime(self.definitions, (self.writes, self.writes))

    def make_host(self) -> manager.HostManager:
        def list_entries() -> dict[str, assignment.Entry]:
            return dict(host.entries)

        namespace = plugins.INVENTORY_PROVIDERS
        host: manager.HostManager = with_host.make_host(
            {
                **self.load_resctrl(namespace, entries=list_entries),
                **self.load(
                    namespace,
                    'static',
                    definitions_file=str(self.definitions),
                    entries=list_entries,
                ),
            },
            self.load_resctrl(plugins.ENFORCERS, entries=list_entries),
            self.open_ledger(),
        )
        host.refresh()
        return host

    def lose(self, allocated: dict[str, dict[str, int]]) -> None:
        """Build a server, and lose its ledger and the definitions."""
        self.write(static.GOOD)
        self.host = self.make_host()
        amounts = {k: v for one in allocated.values() for k, v in one.items()}
        request = assignment.ClaimRequest(
            consumer_uuid=SERVER,
            allocations=allocated,
            cpus=test_rebuild_entries.CPUS[SERVER],
            requirement=builders.make_requirement(_=amounts),
        )
        self.host.claim(request)
        self.host.apply(SERVER)
        self.before = self.host.entries[SERVER]
        self.host.close()
        self.ledger_path += '.new'
        self.write(static.BAD)
        self.host = self.make_host()
        self.restore = test_rebuild_entries.make_restore(
            self.host,
            lambda _uuid: allocated,
            {SERVER: dataclasses.replace(request, allocations={})},
        )
        self.run_round()

    def run_round(self) -> None:
        self.host.refresh()
        self.host.heal(self.restore.waiting)
        self.restore.run()

    def assert_waits(self) -> None:
        self.assertEqual({}, self.host.entries)
        (problem,) = self.restore.problems
        self.assertEqual(alarm.NOT_RECORDED, problem.alarm)
        self.assertIn(static.SEATS, problem.text)
        self.assertEqual((), self.host.problems)

    def assert_restored(self) -> None:
        self.write(static.GOOD)
        self.run_round()
        self.assertEqual((), self.restore.problems)
        self.assertEqual(
            test_rebuild_entries.list_held(self.before),
            test_rebuild_entries.list_held(self.host.entries[SERVER]),
        )
        place = static.STATIC, static.SEATS
        self.assertEqual(3, self.host.view.tracked[place].state.free)

    def test_what_is_applied_waits_for_what_is_counted(self) -> None:
        self.lose(BOTH)
        self.assert_waits()
        self.assert_restored()

    def test_what_is_counted_waits_for_its_definition(self) -> None:
        self.lose(COUNTED)
        self.assert_waits()
        self.assert_restored()
