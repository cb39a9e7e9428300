# SPDX-License-Identifier: Apache-2.0

"""nova-compute starts with the configuration of another cell.

The database of that cell has none of the servers that run on the host.
"""

from typing import Any
from unittest import mock

import fixtures
from nova import context as nova_context
from nova import exception as nova_exc
from nova import objects

from tests.functional.virt import base


class InCell(fixtures.Fixture):
    """What nova-compute asks its conductor, a cell's database answers.

    Without this, threads of a service of another cell read the default one.
    """

    def __init__(self, cell: Any) -> None:
        self._cell = cell

    def _setUp(self) -> None:
        make = nova_context.get_admin_context

        def make_targeted(*args: Any, **kwargs: Any) -> Any:
            context = make(*args, **kwargs)
            nova_context.set_target_cell(context, self._cell)
            return context

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.context.get_admin_context', make_targeted
            )
        )


class WrongCellTest(base.NovaTestCase):
    NUMBER_OF_CELLS = 2

    # The file of the identity is real.
    STUB_COMPUTE_ID = False

    def setUp(self) -> None:
        super().setUp()
        self.service = self.start_host('host1')
        self.server = self.boot(self.make_pinned_flavor(4))
        self.identity = self.folder / 'compute_id'
        self.publish(self.service)
        self.stop_compute(self.service)
        self.before = self.read_all()
        self.assertTrue(self.identity.exists())

    @property
    def ext(self) -> Any:
        return self.service.driver._ext

    def read_all(self) -> dict[str, Any]:
        """Return what ledger, RMD and placement have."""
        providers = self._get_all_providers()
        return {
            'entries': dict(self.ext.host.entries),
            'workloads': self.list_workloads('host1'),
            'groups': self.rmds['host1'].simulator.list_groups(),
            'providers': sorted(one['name'] for one in providers),
            'inventories': {
                one['name']: self._get_provider_inventory(one['uuid'])
                for one in providers
            },
            'allocations': self._get_allocations_by_server_uuid(
                self.server['id']
            ),
        }

    def start_in(self, cell: str) -> None:
        """Start anew; the guests have run all the time."""
        with mock.patch('nova.virt.driver.load_compute_driver') as load:
            load.return_value = self.service.driver
            self.addCleanup(lambda: self.ext.stop())
            self.service = self._start_compute('host1', cell_name=cell)

    def refuse_in(self, cell: str) -> str:
        with InCell(self.cell_mappings[cell]):
            err = self.assertRaises(
                nova_exc.InvalidConfiguration, self.start_in, cell
            )
            self.assertEqual(self.before, self.read_all())
        return str(err)

    def know_host(self, cell: str) -> None:
        """Have a cell know a service of the host from former times."""
        context = nova_context.get_admin_context()
        with nova_context.target_cell(
            context, self.cell_mappings[cell]
        ) as targeted:
            objects.Service(
                context=targeted,
                host='host1',
                binary='nova-compute',
                topic='compute',
            ).create()

    def run_until_compared(self) -> None:
        self.wait_until(lambda: self.ext.host._repair._is_compared)
        self.ext.periodic.run_round()
        self.ext.publisher.run_round()

    def go_on(self) -> None:
        """Start in the right cell."""
        self.start_in('cell1')
        self.run_until_compared()
        self.assertEqual(self.before, self.read_all())
        self.assertEqual((), self.ext.metrics.read_health().alarms)

        self._delete_server(self.server)
        self.assertEqual({}, self.ext.host.entries)
        self.assertEqual([], self.list_workloads('host1'))

    def test_a_cell_that_has_never_seen_the_host_refuses_it(self) -> None:
        self.assertIn('existing instances', self.refuse_in('cell2'))

        self.go_on()

    def test_no_identity_is_made_up_for_a_cell_that_refuses(self) -> None:
        identity = self.identity.read_text()
        self.identity.unlink()

        self.assertIn('existing instances', self.refuse_in('cell2'))

        self.assertFalse(self.identity.exists())
        # Nor for the right one, which has lost sight of the node otherwise.
        self.assertIn('lost that state', self.refuse_in('cell1'))
        self.assertFalse(self.identity.exists())
        self.identity.write_text(identity)
        self.go_on()

    def test_a_cell_that_knows_the_host_takes_it_and_releases_nothing(
        self,
    ) -> None:
        self.know_host('cell2')

        # The second time, it knows the node, too.
        for _ in range(2):
            with InCell(self.cell_mappings['cell2']):
                self.start_in('cell2')
                self._run_periodics()
                self.run_until_compared()
                self.assertEqual(self.before, self.read_all())
                self.stop_compute(self.service)

        self.go_on()

    def test_a_cell_that_knows_the_host_misses_its_identity(self) -> None:
        self.know_host('cell2')
        identity = self.identity.read_text()
        self.identity.unlink()

        self.assertIn('lost that state', self.refuse_in('cell2'))

        self.assertFalse(self.identity.exists())
        self.identity.write_text(identity)
        self.go_on()
