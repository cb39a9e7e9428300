# SPDX-License-Identifier: Apache-2.0

"""Resize and cold migration to another cell."""

from collections.abc import Mapping
from typing import Any, ClassVar

from nova import objects

from nova_ext_resources.objects import assignment
from nova_ext_resources.virt.driver import request
from nova_ext_resources.virt.facts import migrations
from tests.functional.virt import backends
from tests.functional.virt import cells
from tests.functional.virt import moves
from tests.functional.virt import moving
from tests.functional.virt import test_wrong_cell


class StaticCellsTest(
    backends.Static, cells.CellsTestCase, moves.ResizesSuite
):
    pass


class PinnedStaticCellsTest(
    backends.PinnedStatic, cells.CellsTestCase, moves.ResizesSuite
):
    pass


class RmdCellsTest(backends.Rmd, cells.CellsTestCase, moves.ResizesSuite):
    pass


class ResctrlCellsTest(
    backends.Resctrl, cells.CellsTestCase, moves.ResizesSuite
):
    pass


class FloatingCellsTest(
    backends.Floating, cells.CellsTestCase, moves.ResizesSuite
):
    pass


class OtherCpusTest(backends.Rmd, cells.CellsTestCase):
    """Nova passes a server to its next host as it was on the former one."""

    def start_host(self, host: str, **settings: Any) -> Any:
        # Of one cache only, so that the first servers of both get the same.
        self.flags(
            cpu_dedicated_set='1-3,25-27',
            cpu_shared_set='0,24',
            group='compute',
        )
        return super().start_host(host, **settings)

    def list_pinned(self, host: str) -> set[int]:
        """Return the CPUs that Nova counts as used after its audit."""
        self._run_periodics()
        tracker = self.services[host].manager.rt
        found = tracker.compute_nodes[host].numa_topology
        topology = objects.NUMATopology.obj_from_db_obj(found)
        return {cpu for one in topology.cells for cpu in one.pinned_cpus}

    def find_cpus(self, server: Any) -> frozenset[int]:
        return request.find_cpus(moving.find_instance(server['id'])) or (
            frozenset()
        )

    def test_a_server_gets_those_that_are_free_there(self) -> None:
        small, large = self.make_own_flavor(1), self.make_own_flavor(2)
        first = self.boot(small, host='host1')
        other = self.boot(small, host='host2')
        self.assertEqual(self.find_cpus(first), self.find_cpus(other))

        self.migrate(first)
        self.assert_disjoint('host2', first, other)
        self.revert(first)
        self.resize(first, large)
        self.assert_disjoint('host2', first, other)
        self.confirm(first)

        self.assert_agreement(
            host2={
                one['id']: assignment.State.APPLIED for one in (first, other)
            }
        )

    def test_one_that_stays_and_is_rebuilt_keeps_its_own(self) -> None:
        """Nova leaves it those that it was to get there."""
        flavor = self.make_own_flavor(1)
        first, second = (self.boot(flavor, host='host1') for _ in range(2))
        cpus = self.find_cpus(second)
        # Which are those of the first one on this host.
        with moving.failing('power_off'):
            self.act(second, 'migrate')
            self._wait_for_migration_status(second, ['error'])
            self.wait_for_failure(second)
        self._wait_for_server_parameter(
            second, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
        )

        self.act(second, 'rebuild', imageRef=second['image']['id'])
        self._wait_for_state_change(second, 'ACTIVE')

        self.assertEqual(cpus, self.find_cpus(second))
        self.assert_disjoint('host1', first, second)

    def assert_disjoint(self, host: str, *servers: Any) -> None:
        """Each server of a host has CPUs of its own, also for Nova."""
        used = {one['id']: self.find_cpus(one) for one in servers}
        self.assertEqual(
            2 * len(servers), len(frozenset().union(*used.values()))
        )
        self.assertEqual(
            {*frozenset().union(*used.values())}, self.list_pinned(host)
        )
        entries = self.get_host(host).entries
        self.assertEqual(
            used, {uuid: one.cpus for uuid, one in entries.items()}
        )


class OrderTest(backends.Static, cells.CellsTestCase):
    """Nova copies the migrations of a server in the reverse order."""

    def test_the_last_move_is_the_one_in_progress(self) -> None:
        flavor = self.make_own_flavor(2)
        server = self.boot(flavor, host='host1')
        self.migrate(server)
        self.revert(server)
        self.migrate(server)
        entry = self.get_host('host2').entries[server['id']]

        with test_wrong_cell.InCell(self.cell_mappings['cell2']):
            found = migrations.find('host2', entry)

        self.assertEqual('finished', getattr(found, 'status', None))


class ThreeHostsTest(backends.Static, cells.CellsTestCase):
    """Nova copies what it knows of former moves, also of other cells."""

    HOSTS = ('host1', 'host2', 'host3')
    CELLS: ClassVar[Mapping[str, str]] = {
        'host1': 'cell1',
        'host2': 'cell2',
        'host3': 'cell2',
    }

    def test_a_server_that_moves_on_and_back(self) -> None:
        server = self.boot(self.make_own_flavor(2), host='host1')

        self.move(server, 'host2')
        self.confirm(server)
        self.assert_only_on('host2', server)
        self.move(server, 'host3')
        self.revert(server)
        self.assert_only_on('host2', server)
        self.move(server, 'host3')
        self.confirm(server)
        self.assert_only_on('host3', server)
        self.move(server, 'host1')
        self.revert(server)
        self.assert_only_on('host3', server)
        self.move(server, 'host1')
        self.confirm(server)
        self.assert_only_on('host1', server)

    def move(self, server: Any, host: str) -> None:
        former = self.admin_api.get_server(server['id'])
        self.act(server, 'migrate', host=host)
        self._wait_for_state_change(server, 'VERIFY_RESIZE')
        self.compare_all()
        self.assert_agreement(
            **{
                former['OS-EXT-SRV-ATTR:host']: {
                    self.find_migration(server).uuid: assignment.State.PARKED
                },
                host: {server['id']: assignment.State.APPLIED},
            }
        )

    def compare_all(self) -> None:
        for host in self.HOSTS:
            self.compare(host)

    def assert_only_on(self, host: str, server: Any) -> None:
        self.compare_all()
        self.assert_agreement(
            **{host: {server['id']: assignment.State.APPLIED}}
        )
