# SPDX-License-Identifier: Apache-2.0

"""A scheduler notes what hosts have published."""

import itertools
import json
import threading
from typing import Any

import fixtures
from nova import context as nova_context
from nova import manager as nova_manager
from nova import objects
from nova.scheduler import manager
from oslo_db import exception as db_exc
from oslo_utils import timeutils

from nova_ext_resources.objects.documents import holders
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.reservation.store import publications
from nova_ext_resources.scheduler.reservation import inventory_snapshot
from tests.functional.scheduler import reserving
from tests.functional.scheduler import scheduling


_IDS = itertools.count(1)

#: Of a release of Nova that does not exist yet.
NEWER = json.dumps(
    {
        'nova_object.name': 'NUMATopology',
        'nova_object.namespace': 'nova',
        'nova_object.version': '99.0',
        'nova_object.data': {},
    }
)


class Cell:
    """A cell of Nova with these compute nodes, which answers or not."""

    def __init__(self, name: str, *nodes: Any) -> None:
        self.uuid = self.identity = name
        self.nodes = list(nodes)
        self.answers = True

    def is_cell0(self) -> bool:
        return self.uuid == 'cell0'


def make_node(host: str, document: str = '{}', **fields: Any) -> Any:
    told = {stats.KEY: document, holders.KEY: 'held'} if document else {}
    return objects.ComputeNode(
        **{
            'id': next(_IDS),
            'hypervisor_hostname': host,
            'stats': told,
            'numa_topology': None,
            **fields,
        }
    )


class InventorySnapshotTest(reserving.ReservingTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cells = [
            Cell('cell0', make_node('never')),
            Cell('one', make_node('a')),
            Cell('two', make_node('b'), make_node('plain', '')),
        ]
        self.hour = 0
        self.patch(
            objects.CellMappingList, 'get_all', lambda _context: self.cells
        )
        self.patch(nova_context, 'scatter_gather_cells', self.ask)
        self.patch(
            objects.ComputeNodeList, 'get_by_pagination', self.list_nodes
        )

    def ask(
        self, _context: Any, cells: Any, _timeout: int, fn: Any, *args: Any
    ) -> dict[str, Any]:
        return {
            one.uuid: fn(one, *args)
            if one.answers
            else nova_context.did_not_respond_sentinel
            for one in cells
        }

    def list_nodes(
        self, cell: Any, limit: int, marker: int | None
    ) -> list[Any]:
        rest = [one for one in cell.nodes if one.id > (marker or 0)]
        return rest[:limit]

    def note(self) -> None:
        """Do what Nova does from time to time, an hour later."""
        self.hour += 1
        self.set_time(self.hour)
        self.run_periodic(self.make_manager())

    def make_manager(self) -> Any:
        """Make a manager of Nova with its periodic tasks, and nothing else."""
        made = object.__new__(manager.SchedulerManager)
        made._shutdown_in_progress = threading.Event()
        nova_manager.PeriodicTasks.__init__(made)
        return made

    def run_periodic(self, made: Any) -> None:
        made.periodic_tasks(nova_context.get_admin_context())

    def read(self) -> dict[str, str]:
        found = publications.read(self.database, int(timeutils.utcnow_ts()))
        return {name: one.document for name, one in found.items()}

    def test_nova_calls_it_once_a_minute(self) -> None:
        names = [
            name for name, _task in manager.SchedulerManager._periodic_tasks
        ]
        spacing = manager.SchedulerManager._periodic_spacing

        self.assertEqual(1, names.count('note_published'))
        self.assertEqual(60, spacing['note_published'])

    def test_nova_stops(self) -> None:
        made = self.make_manager()
        if not hasattr(made, 'set_shutdown_in_progress'):
            self.skipTest('Nova before 34 stops its periodic tasks at once')
        made.set_shutdown_in_progress()

        self.run_periodic(made)

        self.assertEqual({}, self.read())

    def test_all_hosts_of_all_cells_are_noted(self) -> None:
        self.note()

        self.assertEqual({'a': '{}', 'b': '{}'}, self.read())
        self.assertNotIn('Cannot record', self.log.output)

    def test_what_has_changed_is_written(self) -> None:
        self.note()
        self.cells[1].nodes = [make_node('a', '[]')]
        self.cells[2].nodes = []
        written: list[str] = []
        write = publications.write

        def watch(database: Any, changed: Any) -> None:
            written.extend(one.host for one in changed)
            write(database, changed)

        with fixtures.MonkeyPatch(f'{publications.__name__}.write', watch):
            self.note()
            self.note()

        self.assertEqual(['a'], written)
        self.assertEqual({'a': '[]'}, self.read())

    def test_more_hosts_than_are_read_at_once(self) -> None:
        self.patch(inventory_snapshot, 'PAGE', 3)
        names = {f'host{number}' for number in range(7)}
        self.cells[1].nodes = [make_node(one) for one in sorted(names)]

        self.note()

        self.assertEqual(names | {'b'}, {*self.read()})

    def test_a_moment_later_there_is_nothing_to_do(self) -> None:
        self.note()
        self.cells[1].nodes = [make_node('a', '[]')]
        self.set_time(self.hour + 0.01)

        for one in inventory_snapshot._CURRENT:
            one.note(nova_context.get_admin_context())

        self.assertEqual('{}', self.read()['a'])

    def test_a_cell_does_not_answer(self) -> None:
        self.note()
        self.cells[1].answers = False
        self.cells[2].nodes = [make_node('b', '[]')]

        self.note()
        self.note()

        # The round is not complete: what it has is an hour old, and more.
        self.assertEqual({}, self.read())
        digests = publications.read_digests(self.database)
        self.assertEqual(['a', 'b'], sorted(digests))
        self.assertEqual(
            1, self.log.output.count('these cells do not answer: one')
        )
        self.cells[1].answers = True
        self.note()
        self.assertEqual({'a': '{}', 'b': '[]'}, self.read())

    def test_the_database_is_away(self) -> None:
        [one] = inventory_snapshot._CURRENT
        before = one._followed.database
        one._followed.database = loading.open_database('sqlite:////nowhere/x')

        self.note()
        self.note()

        self.assertEqual(1, self.log.output.count('Cannot record'))
        one._followed.database = before
        self.note()
        self.assertEqual({'a': '{}', 'b': '{}'}, self.read())

    def test_the_database_of_nova_is_away(self) -> None:
        def fail(_context: Any) -> Any:
            raise db_exc.DBConnectionError

        with fixtures.MonkeyPatch(
            'nova.objects.CellMappingList.get_all', fail
        ):
            self.note()

        self.assertIn('Cannot record', self.log.output)
        self.note()
        self.assertEqual({'a': '{}', 'b': '{}'}, self.read())

    def test_a_bug_does_not_stop_nova(self) -> None:
        def fail(_context: Any) -> Any:
            raise KeyError('bug')

        with fixtures.MonkeyPatch(
            'nova.objects.CellMappingList.get_all', fail
        ):
            self.note()
            self.note()

        self.assertEqual(1, self.log.output.count('report this bug'))

    def test_a_damaged_host_costs_no_other_one(self) -> None:
        damaged = (
            make_node('a', '\ud800'),
            make_node('a', '{}\x00'),
            make_node('a', stats={stats.KEY: '{}', holders.KEY: '\ud800'}),
            *(
                make_node('a', numa_topology=text)
                for text in ('{', '[]', '7', '[' * 9999, '{"a": 1}', NEWER)
            ),
        )
        for node in damaged:
            self.cells[2].nodes = [node, make_node('b')]
            with self.subTest(node=node):
                self.note()

                self.assertEqual('{}', self.read().get('b'))
                self.assertNotIn('Cannot record', self.log.output)

    def test_the_cells_of_a_host(self) -> None:
        host = scheduling.make_host(pinned=(0, 1))
        topology = host.numa_topology._to_json()

        found = inventory_snapshot.make_publication(
            make_node('a', numa_topology=topology)
        )

        assert found is not None
        cells = publication.read_cells(found.cells)
        assert cells is not None
        self.assertEqual(
            [
                (one.pcpuset, one.pcpuset - one.pinned_cpus)
                for one in host.numa_topology.cells
            ],
            [(set(one.cpus), set(one.free)) for one in cells],
        )
        self.assertEqual('held', found.holders)
