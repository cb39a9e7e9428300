# SPDX-License-Identifier: Apache-2.0

"""What the audit finds of what was made wrong, and what it repairs."""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import json
import pathlib
from typing import Any, TypeAlias

import fixtures
from keystoneauth1 import exceptions as ks_exc
from nova import context as nova_context
from nova import objects
from nova.tests import fixtures as nova_fixtures
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.cmd.osc.audit import repair as repair_mod
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool as pool_obj
from tests.functional.virt import audits
from tests.functional.virt import moving
from tests.functional.virt import pools
from tests.unit.cmd.osc import shells

SEAT, GB = pools.SEAT, pools.CLASS
RACK1, RACK2 = audits.RACK1.rp_uuid, audits.RACK2.rp_uuid

#: What the command says of what it has repaired.
_DONE = ('deleted', 'allocated')

#: Kind, provider, resource class and amount of a finding.
_Found: TypeAlias = tuple[str, str, str, int]


class SeedsTestCase(audits.AuditTestCase):
    """Makes one thing wrong after the other in a cloud of a few servers.

    ``self.server`` is on host1, and has 1 seat and 2 GB of rack1.
    """

    def setUp(self) -> None:
        super().setUp()
        self.flavor = self.make_pool_flavor(2)
        self.server = self.boot(self.flavor, host='host1')
        self.uuid = self.server['id']
        self.seats = {one: self.find_seats(one) for one in self.HOSTS}
        self.journal = self.folder / 'journal'
        self.healthy = self.read_placement()
        self.assertEqual((0, []), self.audit())

    def check(
        self, name: str, *found: _Found, repaired: tuple[_Found, ...] = ()
    ) -> None:
        """Audit what is wrong now: find it, and repair all that can be.

        :param repaired: what can be
        """
        with self.subTest(name):
            before = self.read_records()
            status, rows = self.audit()
            self.assertEqual((1, {*found, *repaired}), (status, _read(rows)))
            self.assertEqual(len({*found, *repaired}), len(rows))
            self.assertEqual(before, self.read_records())

            status, rows = self.repair()
            self.assertEqual(
                (int(bool(found)), len(rows)), (status, len(rows))
            )
            done = [one for one in rows if one['What To Do'] in _DONE]
            self.assertEqual({*repaired}, _read(done))

            if not repaired:
                self.assertEqual(before, self.read_records())

    def repair(self) -> tuple[int, list[Any]]:
        return self.audit('--repair', '--journal', str(self.journal))

    def assert_healthy(self) -> None:
        """Placement has all that it had, and nothing else."""
        self.assertEqual(self.healthy, self.read_placement())
        self.assertEqual((0, []), self.audit())

    @contextlib.contextmanager
    def changed(self, consumer: str, resources: Any) -> Iterator[None]:
        """Set what a consumer has, and give it back what it had."""
        before = self.client.get_allocations(consumer)
        self.allocate(consumer, resources)
        yield
        now = self.client.get_allocations(consumer)
        if not before.resources:
            self.client.delete_allocations(consumer)
            return
        self.client.put_allocations(
            dataclasses.replace(before, generation=now.generation)
        )

    @contextlib.contextmanager
    def set_state(self, **fields: str) -> Iterator[None]:
        instance = moving.find_instance(self.uuid)
        before = {name: getattr(instance, name) for name in fields}
        for values in (fields, before):
            for name, value in values.items():
                setattr(instance, name, value)
            instance.save()
            if values is fields:
                yield

    def set(self, rp_uuid: str, noun: str, value: Any) -> None:
        write: Callable[..., Any] = getattr(self.client, f'set_{noun}')
        seen = self.client.get_provider(rp_uuid)
        write(rp_uuid, value, seen.generation)

    @contextlib.contextmanager
    def replaced(self, rp_uuid: str, noun: str, value: Any) -> Iterator[None]:
        before = getattr(self.client.get_provider(rp_uuid), noun)
        self.set(rp_uuid, noun, value)
        yield
        self.set(rp_uuid, noun, before)

    def check_repaired(
        self, name: str, kind: str, consumer: str, resources: Any
    ) -> None:
        """Allocate leftovers of our own, and have them taken away."""
        self.allocate(consumer, resources)
        self.check(
            name,
            repaired=tuple(
                (kind, self.name(rp_uuid), resource_class, amount)
                for rp_uuid, given in resources.items()
                for resource_class, amount in given.items()
            ),
        )
        self.assert_healthy()

    def name(self, rp_uuid: str) -> str:
        name: str = self.client.get_provider(rp_uuid).name
        for host in self.HOSTS:
            name = name.removeprefix(f'{host}_')
        return name


def _read(rows: list[Any]) -> set[_Found]:
    return {
        (one['Kind'], one['Provider'], one['Resource Class'], one['Amount'])
        for one in rows
    }


class LeftoversTest(SeedsTestCase):
    """Allocations of nobody, of ended migrations, and on the wrong host."""

    def test_consumers_of_nobody(self) -> None:
        one, kind = uuids.gone, 'no_consumer'
        seats = {self.seats['host1']: {SEAT: 3}}
        self.check_repaired('seats of nobody', kind, one, seats)
        self.check_repaired('a pool of nobody', kind, one, {RACK1: {GB: 7}})
        several = {**seats, self.seats['host2']: {SEAT: 1}, RACK2: {GB: 1}}
        self.check_repaired('of several hosts', kind, one, several)

        server = self.boot(self.flavor, host='host2')
        held = self.client.get_allocations(server['id']).resources
        self._delete_server(server)
        self.allocate(server['id'], held)
        self.check(
            'a deleted server',
            repaired=(
                (kind, self.name(self.seats['host2']), SEAT, 1),
                (kind, 'POOL_rack1', GB, 2),
            ),
        )
        # What is of Nova's own is left to Nova.
        left = self.client.get_allocations(server['id'])
        self.assertEqual([self.find_node('host2')], [*left.resources])
        self.assertEqual(
            held[self.find_node('host2')],
            left.resources[self.find_node('host2')],
        )
        self.client.delete_allocations(server['id'])
        self.assert_healthy()
        self.check_journal()

    def test_another_host(self) -> None:
        self.check_repaired(
            'another host',
            'allocation_here_server_elsewhere',
            self.uuid,
            {self.seats['host2']: {SEAT: 1}},
        )
        self.check_repaired(
            'two other hosts',
            'allocation_here_server_elsewhere',
            self.uuid,
            {self.seats['host2']: {SEAT: 4}, self.seats['host3']: {SEAT: 2}},
        )
        self.check_repaired(
            'another pool', 'pool_not_reached', self.uuid, {RACK2: {GB: 2}}
        )

    def test_a_server_that_is_offloaded(self) -> None:
        server = self.boot(self.flavor, host='host2')
        self._shelve_server(server)
        for name, kind, resources in (
            (
                'offloaded',
                'allocation_here_server_elsewhere',
                {self.seats['host2']: {SEAT: 1}},
            ),
            ('offloaded, a pool', 'pool_not_reached', {RACK1: {GB: 2}}),
        ):
            self.check_repaired(name, kind, server['id'], resources)
        self._delete_server(server)

    def test_migrations_that_have_ended(self) -> None:
        self.server = self.confirm(self.migrate(self.server))
        confirmed = self.find_migration(self.server)
        self.revert(self.migrate(self.server))
        reverted = self.find_migration(self.server)
        self.migrate_live(self.server, 'host1')
        completed = self.find_migration(self.server)
        self.healthy = self.read_placement()
        for move in (confirmed, reverted, completed):
            self.check_repaired(
                move.status,
                'migration_ended',
                move.uuid,
                {self.seats['host2']: {SEAT: 1}, RACK1: {GB: 2}},
            )
        for status in ('error', 'failed', 'cancelled'):
            completed.status = status
            completed.save()
            self.check_repaired(
                status,
                'migration_ended',
                completed.uuid,
                {self.seats['host2']: {SEAT: 1}},
            )
        self.check_deleted_softly(completed.uuid)
        self.check_repaired(
            'a live migration that has ended',
            'allocation_here_server_elsewhere',
            self.uuid,
            {self.seats['host2']: {SEAT: 1}},
        )

    def check_deleted_softly(self, move: str) -> None:
        """Nova lists no such server, but has it all the same."""
        self.flags(reclaim_instance_interval=3600)
        self.admin_api.delete_server(self.uuid)
        self._wait_for_server_parameter(
            self.server, {'status': 'SOFT_DELETED'}
        )
        self.check_repaired(
            'of a server that is deleted softly',
            'migration_ended',
            move,
            {self.seats['host2']: {SEAT: 1}},
        )
        self.act(self.server, 'restore')
        self._wait_for_state_change(self.server, 'ACTIVE')

    def test_an_evacuated_host(self) -> None:
        server = self.boot(self.flavor, host='host2')
        self.evacuate(server)
        self.wait_for_evacuation(server)
        # host2 deletes it itself when it comes back.
        self.assertEqual((0, []), self.audit())
        status, rows = self.audit('--in-progress')
        self.assertEqual(0, status)
        self.assertIn(
            (
                'allocation_here_server_elsewhere',
                self.name(self.seats['host2']),
                SEAT,
                1,
            ),
            _read(rows),
        )
        before = self.read_records()
        self.assertEqual((0, []), self.repair())
        self.assertEqual(before, self.read_records())

        self.bring_back('host2')
        self.wait_until(
            lambda: self.find_migration(server).status == 'completed'
        )
        # What Nova leaves of a pool that only the former host reaches.
        self.repair()
        self.healthy = self.read_placement()
        self.check_repaired(
            'evacuated',
            'allocation_here_server_elsewhere',
            server['id'],
            {self.seats['host2']: {SEAT: 1}},
        )

    def test_an_evacuated_host_that_is_gone_for_good(self) -> None:
        self.evacuate(self.server)
        self.wait_for_evacuation(self.server)
        seats = self.seats['host1']
        leftover = (
            'allocation_here_server_elsewhere',
            self.name(seats),
            SEAT,
            1,
        )
        gone = [
            ('host_gone', self.name(one), '', 0)
            for one in (seats, self.find_provider('host1', 'POOL_rack1'))
        ]
        service = self.services['host1'].service_ref.uuid
        # Nova deletes the host's tree, and goes on where it cannot.
        with fixtures.MockPatch(
            'nova.scheduler.client.report.SchedulerReportClient.'
            'delete_resource_provider',
            side_effect=ks_exc.ConnectFailure,
        ):
            self.admin_api.api_delete(f'/os-services/{service}')
        pools_left = self.list_pools_left()

        self.check('gone', *gone, repaired=(leftover, *pools_left))

        # The operator does what the command says.
        _status, rows = self.audit()
        for one in rows:
            command, rp_uuid = one['What To Do'].rsplit(' ', 1)
            self.assertTrue(command.endswith('resource provider delete'))
            self.client.delete_provider(rp_uuid)
        self.assertEqual((0, []), self.audit())

    def list_pools_left(self) -> tuple[_Found, ...]:
        """Return what an evacuation to a host with another pool leaves."""
        shown = self.admin_api.get_server(self.uuid)
        if shown['OS-EXT-SRV-ATTR:host'] == 'host3':
            return (('pool_not_reached', 'POOL_rack1', GB, 2),)
        return ()

    def check_journal(self) -> None:
        """Each change is there twice, with all that is needed to undo it."""
        lines = [
            json.loads(one)
            for one in pathlib.Path(self.journal).read_text().splitlines()
        ]
        states = [one['state'] for one in lines]
        self.assertEqual(states.count('begun'), states.count('done'))
        self.assertEqual({'begun', 'done'}, {*states})
        self.assertEqual(
            (uuids.gone, self.seats['host1'], SEAT, 3, 0),
            tuple(
                lines[0][key]
                for key in (
                    *('consumer', 'provider', 'resource_class'),
                    *('before', 'after'),
                )
            ),
        )


class MissingTest(SeedsTestCase):
    """Servers of which placement has lost something."""

    def setUp(self) -> None:
        super().setUp()
        self.own = self.seats['host1']
        self.lost = ('not_allocated', self.name(self.own), SEAT, 1)

    def lose(self) -> None:
        self.allocate(self.uuid, {self.own: {SEAT: 0}})

    def test_what_a_server_lacks_is_allocated(self) -> None:
        half = ('not_allocated', 'POOL_rack1', GB, 1)
        all_of_it = ('not_allocated', 'POOL_rack1', GB, 2)
        for name, resources, found in (
            ('seats', {self.own: {SEAT: 0}}, (self.lost,)),
            ('half a pool', {RACK1: {GB: 1}}, (half,)),
            ('a pool', {RACK1: {GB: 0}}, (all_of_it,)),
            (
                'both',
                {self.own: {SEAT: 0}, RACK1: {GB: 0}},
                (self.lost, all_of_it),
            ),
        ):
            self.allocate(self.uuid, resources)
            self.check(name, repaired=found)
            self.assert_healthy()
        line = json.loads(self.journal.read_text().splitlines()[0])
        self.assertEqual((0, 1), (line['before'], line['after']))

    def test_its_host_no_longer_keeps_it_from_others(self) -> None:
        self.lose()
        [problem] = self.list_differences('host1')
        self.assertEqual(self.uuid, problem.subject)
        self.publish(self.services['host1'])
        self.assertEqual(1, self.count_reserved())

        self.check('reserved by the host', repaired=(self.lost,))

        self.assert_no_difference('host1')
        self.publish(self.services['host1'])
        self.assertEqual(0, self.count_reserved())
        self.assert_healthy()

    def count_reserved(self) -> int:
        found = self.client.get_provider(self.own).inventories[SEAT]
        return int(found.reserved)

    def test_what_placement_has_no_room_for(self) -> None:
        self.lose()
        seats = self.client.get_provider(self.own).inventories[SEAT]
        full = dataclasses.replace(seats, reserved=seats.total)
        self.set(self.own, 'inventories', {SEAT: full})
        before = self.read_records()

        status, [row] = self.repair()

        self.assertEqual((1, {self.lost}), (status, _read([row])))
        self.assertIn('not allocated: ', row['What To Do'])
        self.assertEqual(before, self.read_records())

        self.set(self.own, 'inventories', {SEAT: seats})
        self.check('there is room again', repaired=(self.lost,))
        self.assert_healthy()

    def test_one_of_two_classes_has_no_room(self) -> None:
        lost = ('not_allocated', 'POOL_rack1', GB, 2)
        self.allocate(self.uuid, {self.own: {SEAT: 0}, RACK1: {GB: 0}})
        room = self.client.get_provider(RACK1).inventories[GB]
        full = dataclasses.replace(room, reserved=room.total)
        self.set(RACK1, 'inventories', {GB: full})

        status, rows = self.repair()

        self.assertEqual((1, {self.lost, lost}), (status, _read(rows)))
        texts = {one['Provider']: one['What To Do'] for one in rows}
        self.assertEqual('allocated', texts[self.name(self.own)])
        self.assertIn('not allocated: ', texts['POOL_rack1'])
        self.assertEqual(
            {SEAT: 1},
            self.client.get_allocations(self.uuid).resources[self.own],
        )
        self.set(RACK1, 'inventories', {GB: room})
        self.check('there is room again', repaired=(lost,))
        self.assert_healthy()

    def test_a_server_that_is_deleted_meanwhile(self) -> None:
        """Nothing is allocated to what Nova no longer has."""
        self.lose()
        run = repair_mod.AllocationRepair.run

        def delete_before(*args: Any) -> Any:
            self._delete_server(self.server)
            return run(*args)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.cmd.osc.audit.repair.AllocationRepair.run',
                delete_before,
            )
        )

        status, [row] = self.repair()

        self.assertEqual(1, status)
        self.assertIn('have changed meanwhile', row['What To Do'])
        self.assertEqual({}, self.client.get_allocations(self.uuid).resources)

    def test_while_nova_is_at_work_or_has_failed(self) -> None:
        self.lose()
        before = self.read_records()
        for fields in ({'task_state': 'migrating'}, {'vm_state': 'resized'}):
            with self.set_state(**fields):
                self.assertEqual((0, []), self.repair())
        with self.set_state(vm_state='error'):
            self.check('in an error', self.lost)
        self.assertEqual(before, self.read_records())

    def test_a_server_of_which_nova_has_nothing_there(self) -> None:
        """As after a rebuild that failed; only Nova allocates all of it."""
        held = self.client.get_allocations(self.uuid).resources
        node = self.find_node('host1')
        self.allocate(
            self.uuid,
            {
                node: dict.fromkeys(held[node], 0),
                self.own: {SEAT: 0},
            },
        )

        self.check('nothing of the node', self.lost)


class DoubtTest(SeedsTestCase):
    """What the audit finds, and leaves to the operator."""

    def check_left(self, name: str, resources: Any, *found: _Found) -> None:
        with self.changed(self.uuid, resources):
            self.check(name, *found)
        self.assert_healthy()

    def test_more_than_the_flavor_requests(self) -> None:
        own = self.seats['host1']
        seats = self.name(own)
        for name, resources, found in (
            ('more', {own: {SEAT: 3}}, ('too_much', seats, SEAT, 2)),
            (
                'a pool twice',
                {RACK1: {GB: 4}},
                ('too_much', 'POOL_rack1', GB, 2),
            ),
        ):
            self.check_left(name, resources, found)

    def test_what_a_server_may_need(self) -> None:
        own, other = self.seats['host1'], self.seats['host2']
        self.check_left(
            'all on another host',
            {own: {SEAT: 0}, other: {SEAT: 1}},
            ('allocation_here_server_elsewhere', self.name(other), SEAT, 1),
            ('not_allocated', self.name(own), SEAT, 1),
        )
        self.migrate_live(self.server, 'host2')
        self.migrate_live(self.server, 'host1')
        self.healthy = self.read_placement()
        move = self.find_migration(self.server).uuid
        with self.changed(move, {own: {SEAT: 1}}):
            with self.changed(self.uuid, {own: {SEAT: 0}}):
                self.check(
                    'a migration has it',
                    ('migration_ended', self.name(own), SEAT, 1),
                    ('not_allocated', self.name(own), SEAT, 1),
                )
                _status, rows = self.audit()
                self.assertIn(move, str(rows))
        self.assert_healthy()

    def test_nova_is_at_work(self) -> None:
        """Or was killed at work: nobody knows what it will do."""
        other = self.seats['host2']
        row = ('allocation_here_server_elsewhere', self.name(other), SEAT, 1)
        with self.changed(self.uuid, {other: {SEAT: 1}}):
            before = self.read_records()
            for fields in (
                {'task_state': 'migrating'},
                {'vm_state': 'building'},
                {'vm_state': 'resized'},
            ):
                with self.set_state(**fields):
                    self.assertEqual((0, []), self.repair())
                    status, rows = self.audit('--in-progress')
                    self.assertEqual((0, {row}), (status, _read(rows)))
            with self.set_state(vm_state='error'):
                self.check('in an error', row)
            self.assertEqual(before, self.read_records())
        self.assert_healthy()

    def test_a_cell_does_not_answer_in_time(self) -> None:
        """Its servers are not shown, and are somewhere all the same."""
        context = nova_context.get_admin_context()
        cells = objects.CellMappingList.get_all(context)
        before = self.read_records()
        target = nova_context.target_cell

        with (
            nova_fixtures.DownCellFixture(
                [one for one in cells if not one.is_cell0()]
            ),
            fixtures.MonkeyPatch('nova.context.target_cell', target),
        ):
            status, _output, errors = shells.run(
                [
                    *('extended', 'resource', 'audit', '--repair'),
                    *('--journal', str(self.journal)),
                ]
            )

        self.assertEqual(2, status)
        self.assertIn('A cell of Nova does not answer', errors)
        self.assertEqual(before, self.read_records())


class MendedTest(SeedsTestCase):
    """What the next round of a host brings back, and no command has to."""

    def test_marks_and_ties(self) -> None:
        tie = self.find_provider('host1', 'POOL_rack1')
        mark = frozenset({host_provider.OWNER_TRAIT})
        for name, kind, rp_uuid, noun, value in (
            ('no mark', 'not_marked', self.seats['host1'], 'traits', ()),
            ('no mark of a tie', 'not_marked', tie, 'traits', ()),
            ('no tie', 'tie_lost', tie, 'aggregates', ()),
            ('no aggregate', 'pool_untied', RACK1, 'aggregates', ()),
            ('not shared', 'pool_untied', RACK1, 'traits', mark),
        ):
            with self.subTest(name):
                self.set(rp_uuid, noun, value)
                _status, rows = self.audit()
                self.assertIn(kind, {one['Kind'] for one in rows})

                self.publish(self.services['host1'])

                self.assert_healthy()

    def test_a_pool_that_is_gone(self) -> None:
        self.client.delete_provider(RACK2)
        _status, [row] = self.audit()
        self.assertEqual('pool_gone', row['Kind'])

        self.publish(self.services['host3'])

        self.assert_healthy()


class ProvidersTest(SeedsTestCase):
    """Providers without a host, and pools that no server gets anything of."""

    def test_all_are_found_and_left(self) -> None:
        for check in (
            self.check_oversold,
            self.check_marks,
            self.check_root,
            self.check_pool,
            self.check_tie,
            self.check_new_providers,
        ):
            check()
            self.assert_healthy()

    def check_oversold(self) -> None:
        rp_uuid = self.seats['host1']
        own = self.client.get_provider(rp_uuid).inventories[SEAT]
        small = dataclasses.replace(own, reserved=own.total - 1)
        others = [self.boot(self.flavor, host='host1') for _ in range(2)]
        self.set(rp_uuid, 'inventories', {SEAT: small})
        self.check('oversold', ('oversold', self.name(rp_uuid), SEAT, 2))
        _status, [row] = self.audit()
        for one in (self.server, *others):
            self.assertIn(f'{one["name"]} ({one["id"]}) 1', row['What To Do'])
        self.set(rp_uuid, 'inventories', {SEAT: own})
        for one in others:
            self._delete_server(one)

    def check_marks(self) -> None:
        rp_uuid = self.seats['host1']
        with self.replaced(rp_uuid, 'traits', ()):
            self.check('no mark', ('not_marked', self.name(rp_uuid), '', 0))

    def check_root(self) -> None:
        """The root of a host is Nova's, whatever traits it has."""
        node = self.find_node('host1')
        traits = self.client.get_provider(node).traits
        self.allocate(uuids.gone, {node: {'VCPU': 1}})
        with self.replaced(
            node, 'traits', traits | {host_provider.OWNER_TRAIT}
        ):
            before = self.read_records()
            self.assertEqual((0, []), self.repair())
            self.assertEqual(before, self.read_records())
        self.client.delete_allocations(uuids.gone)

    def check_pool(self) -> None:
        with self.replaced(RACK1, 'aggregates', ()):
            self.check(
                'no aggregate',
                ('pool_untied', 'POOL_rack1', '', 0),
                ('pool_not_reached', 'POOL_rack1', GB, 2),
                ('not_allocated', '', GB, 2),
            )
        traits = {host_provider.OWNER_TRAIT}
        with self.replaced(RACK1, 'traits', traits):
            self.check('not shared', ('pool_untied', 'POOL_rack1', '', 0))

    def check_tie(self) -> None:
        tie = self.find_provider('host3', 'POOL_rack2')
        with self.replaced(tie, 'aggregates', ()):
            self.check(
                'not tied',
                ('tie_lost', 'POOL_rack2', '', 0),
                ('pool_unreached', 'POOL_rack2', '', 0),
            )

    def check_new_providers(self) -> None:
        self.client.ensure_provider(uuids.root, 'gone', None)
        pool = dataclasses.replace(audits.RACK1, name='rack9')
        key = pool.rp_name
        gone = host_provider.make_rp_uuid(uuids.root, 'L3_0')
        tie = self.find_provider('host1', key)
        node = self.find_node('host1')
        for name, rp_uuid, parent, found in (
            ('gone_L3_0', gone, uuids.root, ('host_gone', 'L3_0', '', 0)),
            ('alone', uuids.alone, None, ('no_host', 'alone', '', 0)),
            (f'host1_{key}', tie, node, ('pool_gone', key, '', 0)),
            (key, pool.rp_uuid, None, ('pool_unreached', key, '', 0)),
        ):
            self.client.ensure_provider(rp_uuid, name, parent)
            self.set(
                rp_uuid,
                'traits',
                pool.all_traits
                if name == key
                else {host_provider.OWNER_TRAIT},
            )
            if name == key:
                self.set(
                    rp_uuid,
                    'aggregates',
                    {pool_obj.make_aggregate_uuid(rp_uuid)},
                )
            self.check(name, found)
            if rp_uuid == gone:
                self.check_gone(rp_uuid, found)
            self.client.delete_provider(rp_uuid)
        self.client.delete_provider(uuids.root)

    def check_gone(self, rp_uuid: str, found: _Found) -> None:
        """What servers have of a host that is gone is taken away.

        What nobody has there may be of a server of another Nova.
        """
        seats = {SEAT: class_inventory.Inventory(total=5)}
        self.set(rp_uuid, 'inventories', seats)
        self.allocate(self.uuid, {rp_uuid: {SEAT: 2}})
        self.check(
            'held of a host that is gone',
            found,
            repaired=(('allocation_here_server_elsewhere', 'L3_0', SEAT, 2),),
        )
        self.allocate(uuids.gone, {rp_uuid: {SEAT: 2}})
        self.check(
            'held by nobody of a host that is gone',
            found,
            ('no_consumer', 'L3_0', SEAT, 2),
        )
        self.allocate(uuids.gone, {rp_uuid: {SEAT: 0}})
