# SPDX-License-Identifier: Apache-2.0

"""The audit of a cloud in which nothing is wrong, and of its races."""

from collections.abc import Callable
import json
import pkgutil
from typing import Any

import fixtures
from nova.cmd import manage
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.objects import planned_hold
from nova_ext_resources.placement.api import responses
from tests.functional.virt import audits
from tests.functional.virt import base
from tests.functional.virt import breaking
from tests.functional.virt import pools
from tests.unit.cmd.osc import shells

_OSC = 'nova_ext_resources.cmd.osc'
_NOVA = f'{_OSC}.nova.Nova'
_READING = f'{_OSC}.audit.sources.AuditReader'
_REPAIR = f'{_OSC}.audit.repair.AllocationRepair'


class HealthyCloudTest(audits.AuditTestCase):
    """Servers in every state, of which none is wrong."""

    def make_servers(self) -> Any:
        flavor, large = self.make_pool_flavor(2), self.make_pool_flavor(3)
        self.boot(flavor, host='host1')
        self._stop_server(self.boot(flavor, host='host2'))
        self.boot(self.make_flavor(), host='host3')
        self.resize(self.boot(flavor, host='host1'), large)
        self._shelve_server(self.boot(flavor, host='host2'))
        self.migrate_live(self.boot(flavor, host='host1'), 'host3')
        self.confirm(self.migrate(self.boot(flavor, host='host2')))
        self.revert(self.resize(self.boot(flavor, host='host2'), large))
        self.flags(reclaim_instance_interval=3600)
        deleted = self.boot(flavor, host='host3')
        self.admin_api.delete_server(deleted['id'])
        self._wait_for_server_parameter(deleted, {'status': 'SOFT_DELETED'})
        too_large = self.make_pool_flavor(audits.TOTAL)
        self.boot(too_large, state='ERROR', host='host1')
        self.reserve()
        guest = self.useFixture(breaking.WaitingGuest())
        self.boot(flavor, state='BUILD', host='host3')
        self.assertTrue(guest.began.wait(base.SECONDS))
        return guest

    def reserve(self) -> None:
        """Have a consumer hold room for a reserved server to come."""
        self.client.put_allocations(
            responses.Allocations(
                consumer_uuid=planned_hold.make_consumer('night 1'),
                resources={self.find_seats('host1'): {pools.SEAT: 5}},
                project_id=planned_hold.PROJECT,
                user_id='user',
                consumer_type=planned_hold.CONSUMER_TYPE,
            )
        )

    def test_nothing_is_found(self) -> None:
        self.make_servers()
        states = {one['status'] for one in self.admin_api.get_servers()}
        self.assertLessEqual(
            {'ACTIVE', 'BUILD', 'ERROR', 'SHUTOFF', 'SHELVED_OFFLOADED'}
            | {'VERIFY_RESIZE'},
            states,
        )

        self.assert_left_alone()


class NovaManageTest(audits.AuditTestCase):
    """``nova-manage placement audit --delete`` beside ours."""

    def test_each_deletes_what_is_its_own(self) -> None:
        """As the pages of alarms and of lost hosts say."""
        seats, node = self.find_seats('host1'), self.find_node('host1')
        self.allocate(
            uuids.gone, {seats: {pools.SEAT: 2}, node: {'MEMORY_MB': 512}}
        )
        nova = manage.PlacementCommands()

        self.assertEqual(4, nova.audit(delete=True))
        self.assertEqual(0, nova.audit())

        left = self.client.get_allocations(uuids.gone).resources
        self.assertEqual({seats: {pools.SEAT: 2}}, left)
        status, _rows = self.audit(
            '--repair', '--journal', str(self.folder / 'journal')
        )
        self.assertEqual(0, status)
        left = self.client.get_allocations(uuids.gone).resources
        self.assertEqual({}, left)


class RacesTest(audits.AuditTestCase):
    """Nova goes on while the command reads, and before it repairs."""

    def setUp(self) -> None:
        super().setUp()
        self.flavor = self.make_pool_flavor(2)
        self.server = self.boot(self.flavor, host='host1')
        self.uuid = self.server['id']
        self.stale = self.find_seats('host2')
        self.journal = self.folder / 'journal'

    def repair(self) -> tuple[int, list[Any]]:
        return self.audit('--repair', '--journal', str(self.journal))

    def before(self, place: str, act: Callable[[], Any]) -> None:
        """Have something happen before a method is called, once."""
        name, _dot, method = place.rpartition('.')
        owner = pkgutil.resolve_name(name)
        original = getattr(owner, method)
        pending = [act]

        def call(*args: Any, **kwargs: Any) -> Any:
            while pending:
                pending.pop()()
            return original(*args, **kwargs)

        self.useFixture(fixtures.MonkeyPatch(place, call))

    def test_servers_come_and_go_while_nova_is_asked(self) -> None:
        leaving = self.boot(self.flavor, host='host2')

        def act() -> None:
            self._delete_server(leaving)
            self.boot(self.flavor, host='host3')
            self.server = self.migrate_live(self.server, 'host2')

        self.before(f'{_NOVA}.list_servers', act)

        self.assertEqual((0, []), self.repair())
        self.assertEqual((0, []), self.audit('--in-progress'))

    def test_a_server_moves_to_where_it_has_a_stale_part(self) -> None:
        """It needs that part as soon as it is there."""
        self.allocate(self.uuid, {self.stale: {pools.SEAT: 1}})

        def act() -> None:
            self.allocate(self.uuid, {self.stale: {pools.SEAT: 0}})
            self.migrate_live(self.server, 'host2')

        self.before(f'{_READING}.read_again', act)

        self.assertEqual((0, []), self.repair())
        self.assertEqual(
            {pools.SEAT: 1},
            self.client.get_allocations(self.uuid).resources[self.stale],
        )

    def test_migrations_that_nova_does_not_list_are_left(self) -> None:
        """It says nothing of a cell whose migrations it cannot read."""
        self.resize(self.server, self.make_pool_flavor(3))
        before = self.read_records()
        self.useFixture(
            fixtures.MockPatch(
                'nova.db.main.api.migration_get_all_by_filters',
                side_effect=RuntimeError('no such table'),
            )
        )

        status, rows = self.repair()

        self.assertEqual((0, []), (status, rows))
        self.assertEqual(before, self.read_records())

    def test_a_user_to_whom_nova_shows_no_single_server(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(f'{_NOVA}.find_server', lambda *_: None)
        )

        status, output, errors = shells.run(
            ['extended', 'resource', 'audit', '-f', 'json']
        )

        self.assertEqual((2, ''), (status, output))
        self.assertIn('context_is_admin', errors)

    def test_what_has_changed_since_is_left(self) -> None:
        self.allocate(self.uuid, {self.stale: {pools.SEAT: 1}})
        self.before(
            f'{_REPAIR}.run',
            lambda: self.allocate(self.uuid, {self.stale: {pools.SEAT: 2}}),
        )

        status, [row] = self.repair()

        self.assertEqual(1, status)
        self.assertIn('have changed meanwhile', row['What To Do'])
        self.assertEqual(
            {pools.SEAT: 2},
            self.client.get_allocations(self.uuid).resources[self.stale],
        )
        states = [
            json.loads(one)['state']
            for one in self.journal.read_text().splitlines()
        ]
        self.assertEqual(['begun', 'failed'], states)

        status, [row] = self.repair()
        self.assertEqual((0, 'deleted'), (status, row['What To Do']))
        self.assertEqual((0, []), self.repair())
