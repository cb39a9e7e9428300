# SPDX-License-Identifier: Apache-2.0

"""A scheduler notes what hosts have published."""

import itertools
import json
from typing import Any

import fixtures
from nova import context as nova_context
from nova import objects
from nova.scheduler import manager
from oslo_db import exception as db_exc
from oslo_utils import timeutils

from nova_ext_resources.objects import holders
from nova_ext_resources.objects import stats
from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.reservation.store import publications
from nova_ext_resources.scheduler import noting
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


class NotingTest(reserving.ReservingTestCase):
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
        self.run_periodic(60.0)

    def run_periodic(self, pause: float | None) -> None:
        """Do so in what Nova calls, which returns when to call again."""
        periodic_tasks = noting._note_too(lambda *_args: pause)
        self.assertEqual(
            pause, periodic_tasks(None, nova_context.get_admin_context())
        )

    def read(self) -> dict[str, str]:
        found = publications.read(self.database, int(timeutils.utcnow_ts()))
        return {name: one.document for name, one in found.items()}

    def test_nova_calls_it(self) -> None:
        called = manager.SchedulerManager.periodic_tasks

        self.assertEqual(noting.__name__, called.__globals__['__name__'])

    def test_nova_stops(self) -> None:
        self.run_periodic(None)

        self.assertEqual({}, self.read())

    def test_all_hosts_of_all_cells_are_noted(self) -> None:
        self.note()

        self.assertEqual({'a': '{}', 'b': '{}'}, self.read())
        self.assertNotIn('cannot be noted', self.log.output)

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
        self.patch(noting, 'PAGE', 3)
        names = {f'host{number}' for number in range(7)}
        self.cells[1].nodes = [make_node(one) for one in sorted(names)]

        self.note()

        self.assertEqual(names | {'b'}, {*self.read()})

    def test_a_moment_later_there_is_nothing_to_do(self) -> None:
        self.note()
        self.cells[1].nodes = [make_node('a', '[]')]
        self.set_time(self.hour + 0.01)

        for one in noting._CURRENT:
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
        [one] = noting._CURRENT
        before = one._followed.database
        one._followed.database = loading.open_database('sqlite:////nowhere/x')

        self.note()
        self.note()

        self.assertEqual(1, self.log.output.count('cannot be noted'))
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

        self.assertIn('cannot be noted', self.log.output)
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
                self.assertNotIn('cannot be noted', self.log.output)

    def test_the_cells_of_a_host(self) -> None:
        host = scheduling.make_host(pinned=(0, 1))
        topology = host.numa_topology._to_json()

        found = noting.make_publication(make_node('a', numa_topology=topology))

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
