# SPDX-License-Identifier: Apache-2.0

"""The audit of a cloud with two cells, both of which answer."""

from collections.abc import Mapping
from typing import Any, ClassVar

from nova import context as nova_context
from nova import objects
from oslo_utils.fixture import uuidsentinel as uuids

from tests.functional.virt import audits
from tests.functional.virt import cells
from tests.functional.virt import pools
from tests.functional.virt import test_audit_seeds

SEAT, GB = pools.SEAT, pools.CLASS
RACK1 = audits.RACK1.rp_uuid


class TwoCellsTestCase(cells.CellsTestCase, audits.AuditTestCase):
    """host1 is in cell1, host2 and host3 in cell2."""

    CELLS: ClassVar[Mapping[str, str]] = {
        'host1': 'cell1',
        'host2': 'cell2',
        'host3': 'cell2',
    }

    def move(self, server: Any, host: str) -> Any:
        """Migrate a server, which waits for its confirmation there."""
        self.act(server, 'migrate', host=host)
        moved = self._wait_for_state_change(server, 'VERIFY_RESIZE')
        self.assertEqual(host, moved['OS-EXT-SRV-ATTR:host'])
        return moved


class HealthyCellsTest(TwoCellsTestCase):
    """Servers of both cells, and between them, of which none is wrong."""

    def make_servers(self) -> None:
        flavor = self.make_pool_flavor(2)
        for host in self.HOSTS:
            self.boot(flavor, host=host)
        self._stop_server(self.boot(flavor, host='host2'))
        for host in ('host1', 'host2'):
            self._shelve_server(self.boot(flavor, host=host))
        # Between cells: not confirmed, in both directions; and ended.
        self.move(self.boot(flavor, host='host1'), 'host2')
        self.move(self.boot(flavor, host='host2'), 'host1')
        self.confirm(self.move(self.boot(flavor, host='host1'), 'host2'))
        self.revert(self.move(self.boot(flavor, host='host2'), 'host1'))
        # Within one.
        self.move(self.boot(flavor, host='host2'), 'host3')

    def list_cells(self) -> set[str]:
        """Return the cells that have servers, by name."""
        context = nova_context.get_admin_context()
        return {
            objects.InstanceMapping.get_by_instance_uuid(
                context, one['id']
            ).cell_mapping.name
            for one in self.admin_api.get_servers()
        }

    def test_nothing_is_found(self) -> None:
        self.make_servers()
        self.assertEqual({'cell1', 'cell2'}, self.list_cells())

        self.assert_left_alone()


class CellsSeedsTest(TwoCellsTestCase, test_audit_seeds.SeedsTestCase):
    """``self.server`` is in cell1, and ``self.other`` in cell2."""

    def setUp(self) -> None:
        super().setUp()
        self.other = self.boot(self.flavor, host='host2')
        self.healthy = self.read_placement()
        # Both are named alike on their hosts.
        [self.seat_key] = {self.name(one) for one in self.seats.values()}

    def test_what_each_cell_has_too_much(self) -> None:
        kind = 'allocation_here_server_elsewhere'
        self.allocate(self.uuid, {self.seats['host2']: {SEAT: 3}})
        self.allocate(self.other['id'], {self.seats['host1']: {SEAT: 4}})

        self.check(
            'of a server of the other cell',
            repaired=tuple((kind, self.seat_key, SEAT, n) for n in (3, 4)),
        )

        self.assert_healthy()

    def test_what_a_server_of_each_cell_lacks(self) -> None:
        self.allocate(self.uuid, {self.seats['host1']: {SEAT: 0}})
        self.allocate(self.other['id'], {RACK1: {GB: 0}})

        self.check(
            'lost',
            repaired=(
                ('not_allocated', self.seat_key, SEAT, 1),
                ('not_allocated', 'POOL_rack1', GB, 2),
            ),
        )

        self.assert_healthy()

    def test_deleted_servers_of_each_cell(self) -> None:
        gone = [self.boot(self.flavor, host=one) for one in self.CELLS]
        for server in gone:
            self._delete_server(server)
        for number, (server, host) in enumerate(
            zip(gone, self.CELLS, strict=True), start=1
        ):
            self.allocate(server['id'], {self.seats[host]: {SEAT: number}})
        self.allocate(uuids.nobody, {self.seats['host1']: {SEAT: 4}})

        self.check(
            'of nobody',
            repaired=tuple(
                ('no_consumer', self.seat_key, SEAT, n) for n in (1, 2, 3, 4)
            ),
        )

        self.assert_healthy()

    def test_moves_between_cells_that_have_ended(self) -> None:
        self.confirm(self.move(self.server, 'host2'))
        self.revert(self.move(self.other, 'host1'))
        self.healthy = self.read_placement()
        for number, server in enumerate((self.server, self.other), start=1):
            move = self.find_migration(server).uuid
            self.allocate(move, {self.seats['host3']: {SEAT: number}})

        self.check(
            'ended',
            repaired=tuple(
                ('migration_ended', self.seat_key, SEAT, n) for n in (1, 2)
            ),
        )

        self.assert_healthy()
