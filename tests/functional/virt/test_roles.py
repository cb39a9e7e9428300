# SPDX-License-Identifier: Apache-2.0

"""What a host takes Nova's servers and migrations for."""

from collections.abc import Mapping, Sequence
import dataclasses
import itertools
from typing import Any

import fixtures
from nova.compute import task_states
from nova.compute import vm_states
from nova import context as nova_context
from nova import objects
from oslo_utils.fixture import uuidsentinel as uuids
from oslo_utils import timeutils

from nova_ext_resources import exception
from nova_ext_resources.facts import consumer_role
from nova_ext_resources.inspection.audit import compare
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.objects import assignment
from nova_ext_resources.virt.facts import consumer_roles
from nova_ext_resources.virt.facts import migrations
from nova_ext_resources.virt.facts import servers
from tests import base
from tests.functional.virt import backends
from tests.functional.virt import moving
from tests.unit.inspection.audit import clouds

Role = consumer_role.Role

#: Seconds for which a confirmation may take.
_PATIENCE = 1800

#: All that Nova writes.
_STATUSES = (
    *('accepted', 'queued', 'pre-migrating', 'preparing', 'migrating'),
    *('running', 'running (post-copy)', 'post-migrating', 'finished'),
    *('confirming', 'confirmed', 'reverting', 'reverted', 'completed'),
    *('done', 'error', 'failed', 'cancelled'),
)
_KINDS = ('migration', 'resize', 'live-migration', 'evacuation')


class PhasesTest(base.TestCase):
    """The host, and the audit of the cloud, agree about each migration."""

    def is_left(self, status: str, kind: str, instance: Any) -> bool:
        """Return whether a host says that Nova goes on no more."""
        migration = objects.Migration(
            uuid=uuids.move,
            instance_uuid=uuids.server,
            status=status,
            migration_type=kind,
            updated_at=timeutils.utcnow(),
        )
        with (
            fixtures.MockPatchObject(servers, 'find', return_value=instance),
            fixtures.MockPatchObject(
                objects.Migration, 'get_by_uuid', return_value=migration
            ),
        ):
            return migrations.is_abandoned(migration) or migrations.is_stuck(
                migration, -1
            )

    def audit(
        self, status: str, kind: str, instance: Any, *, is_old: bool
    ) -> set[finding.Remedy]:
        """Return who does something about what the migration holds."""
        cloud = clouds.allocate_all(clouds.make_cloud(), uuids.move)
        cloud = clouds.allocate_all(cloud, uuids.server, instance.host)
        is_resized = instance.vm_state == vm_states.RESIZED
        cloud = clouds.add_server(
            cloud,
            clouds.make_server(
                uuids.server,
                instance.host,
                status='VERIFY_RESIZE' if is_resized else 'ACTIVE',
                task_state=instance.task_state or '',
            ),
        )
        move = clouds.make_move(
            uuids.move,
            uuids.server,
            status,
            kind=kind,
            source='node1',
            is_old=is_old,
        )
        found = compare.compare(clouds.add_move(cloud, move))
        return {one.remedy for one in found if one.consumer == uuids.move}

    def test_of_all_combinations(self) -> None:
        left = 0
        for status, kind, task, host, vm_state in itertools.product(
            _STATUSES,
            _KINDS,
            (None, task_states.RESIZE_MIGRATING),
            ('node1', 'node2'),
            (vm_states.ACTIVE, vm_states.RESIZED),
        ):
            instance = objects.Instance(
                uuid=uuids.server,
                host=host,
                task_state=task,
                vm_state=vm_state,
            )
            is_left = self.is_left(status, kind, instance)
            left += is_left
            old, young = (
                self.audit(status, kind, instance, is_old=is_old)
                for is_old in (True, False)
            )
            case = status, kind, task, host, vm_state
            with self.subTest(case):
                if is_left:
                    self.assertEqual({finding.Remedy.OPERATOR}, old)
                    self.assertLessEqual(young, {finding.Remedy.WAIT})
                # Nothing is in progress for ever without a task, but what
                # waits for the user, or for a host that was evacuated.
                is_waiting = vm_state == vm_states.RESIZED or (
                    kind,
                    status,
                ) == ('evacuation', 'done')
                if not task and not is_waiting:
                    self.assertNotIn(finding.Remedy.WAIT, old)
        self.assertEqual(116, left)


class RolesTest(backends.Static):
    """A server that waits for its confirmation on host2."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot(self.make_own_flavor(2), host='host1')
        self.uuid = self.server['id']
        self.resize(self.server, self.make_own_flavor(4))
        self.migration = self.find_migration(self.server)
        self.patience = _PATIENCE

    def list_roles(self, host: str) -> dict[str, Role]:
        """Return what Nova says, whatever the hypervisor has."""
        return self.ask(host, self.get_host(host).entries)

    def ask(
        self,
        host: str,
        entries: Mapping[str, assignment.Entry],
        guests: Sequence[str] = (),
        running: Sequence[str] = (),
    ) -> dict[str, Role]:
        return consumer_roles.list_roles(
            host,
            host,
            guests,
            entries,
            self.services[host].driver._ext_claims.find_source_role,
            self.get_ext(host).allocation_writer.is_allocated,
            running,
            self.patience,
        )

    def set_state(
        self,
        status: str,
        *,
        host: str = 'host2',
        task_state: str | None = None,
    ) -> None:
        self.migration.status = status
        self.migration.save()
        instance = moving.find_instance(self.uuid)
        instance.host = host
        instance.task_state = task_state
        if host == 'host1':
            instance.flavor = instance.old_flavor
        instance.save()

    def give_back(self) -> None:
        """Give the server its former allocations, as Nova does."""
        self.services['host1'].manager.reportclient.move_allocations(
            nova_context.get_admin_context(), self.migration.uuid, self.uuid
        )

    def test_a_move_in_progress(self) -> None:
        # The source may have it by either uuid.
        self.assertEqual(
            {self.migration.uuid: Role.SOURCE, self.uuid: Role.SOURCE},
            self.list_roles('host1'),
        )
        self.assertEqual({self.uuid: Role.SERVER}, self.list_roles('host2'))
        self.set_state(
            'migrating', host='host1', task_state=task_states.RESIZE_MIGRATING
        )
        self.assertEqual(
            {self.migration.uuid: Role.SOURCE, self.uuid: Role.SERVER},
            self.list_roles('host1'),
        )
        self.assertEqual(
            {self.uuid: Role.DESTINATION}, self.list_roles('host2')
        )

    def test_one_that_failed_on_the_destination(self) -> None:
        self.set_state('error')

        self.assertEqual(
            {self.migration.uuid: Role.LEFT}, self.list_roles('host1')
        )
        self.assertEqual({self.uuid: Role.SERVER}, self.list_roles('host2'))

    def test_one_that_failed_on_the_source(self) -> None:
        self.set_state('error', host='host1')
        self.give_back()

        self.assertEqual(
            {self.migration.uuid: Role.RETURNED, self.uuid: Role.SERVER},
            self.list_roles('host1'),
        )
        self.assertEqual({self.uuid: Role.LEFT}, self.list_roles('host2'))

    def test_nothing_has_left_while_nova_goes_on(self) -> None:
        self.set_state('error', task_state=task_states.RESIZE_MIGRATED)

        for one in ('host1', 'host2'):
            self.assertNotIn(Role.LEFT, self.list_roles(one).values())

    def test_a_source_that_was_killed_as_it_gave_up(self) -> None:
        """The server then keeps its task for ever."""
        self.set_state(
            'error', host='host1', task_state=task_states.RESIZE_MIGRATING
        )
        self.give_back()

        self.assertEqual({self.uuid: Role.LEFT}, self.list_roles('host2'))
        self.assertNotIn(Role.LEFT, self.list_roles('host1').values())

    def test_one_on_its_own_host_that_was_killed_as_it_gave_up(self) -> None:
        """The server has what it had: what it was to get is not used."""
        (kept,) = self.get_host('host1').entries.values()
        self.migration.dest_compute = 'host1'
        migrating = task_states.RESIZE_MIGRATING
        reverting = task_states.RESIZE_REVERTING
        for status, purpose, task, expected in (
            ('error', assignment.Purpose.MIGRATION_DEST, migrating, Role.LEFT),
            (
                'error',
                assignment.Purpose.MIGRATION_SOURCE,
                migrating,
                Role.SOURCE,
            ),
            (
                'migrating',
                assignment.Purpose.MIGRATION_DEST,
                migrating,
                Role.SOURCE,
            ),
            (
                'reverted',
                assignment.Purpose.MIGRATION_DEST,
                reverting,
                Role.SOURCE,
            ),
        ):
            self.set_state(status, host='host1', task_state=task)
            entry = dataclasses.replace(kept, purpose=purpose)
            found = self.ask('host1', {self.migration.uuid: entry})
            self.assertIs(expected, found[self.migration.uuid])

    def test_a_server_that_is_to_be_elsewhere_after_one_that_failed(
        self,
    ) -> None:
        """It was shelved, and nova-compute killed as that was unshelved."""
        self.set_state('error', host='', task_state=task_states.SPAWNING)

        self.assertEqual({self.uuid: Role.LEFT}, self.list_roles('host2'))

    def test_one_that_nova_has_left_unfinished(self) -> None:
        for status in ('pre-migrating', 'migrating', 'post-migrating'):
            with self.subTest(status):
                self.set_state(status, host='host1')

                self.assertEqual(
                    {
                        self.migration.uuid: Role.RETURNED,
                        self.uuid: Role.SERVER,
                    },
                    self.list_roles('host1'),
                )
                self.assertEqual(
                    {self.uuid: Role.LEFT}, self.list_roles('host2')
                )

    def test_one_that_has_just_come_to_its_end(self) -> None:
        """Nova was asked for the migration before, and then for the server."""
        self.set_state('post-migrating')
        find = servers.find

        def come(uuid: str) -> Any:
            self.set_state('finished')
            return find(uuid)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.virt.facts.servers.find', come
            )
        )

        self.assertEqual({self.uuid: Role.SERVER}, self.list_roles('host2'))
        self.assertIs(
            Role.SOURCE, self.list_roles('host1')[self.migration.uuid]
        )

    def test_a_revert_has_its_status_before_the_source_has_its_server(
        self,
    ) -> None:
        self.set_state('reverted', task_state=task_states.RESIZE_REVERTING)
        self.assertEqual(
            {self.migration.uuid: Role.SOURCE}, self.list_roles('host1')
        )
        # The source was not told, and an operator has reset the state.
        self.set_state('reverted')
        self.assertEqual(
            {self.migration.uuid: Role.LEFT}, self.list_roles('host1')
        )

    def test_what_a_revert_has_left_on_the_destination(self) -> None:
        self.set_state('reverted', host='host1')

        self.assertEqual({self.uuid: Role.LEFT}, self.list_roles('host2'))

    def test_a_confirmation_may_take_long(self) -> None:
        """Nova gives the server no task in it."""
        self.set_state('confirming')

        for patience, expected in (
            (_PATIENCE, Role.SOURCE),
            (-1, Role.IN_DOUBT),
        ):
            self.patience = patience
            self.assertIs(
                expected, self.list_roles('host1')[self.migration.uuid]
            )

    def test_one_that_nova_knows_no_way_to_end(self) -> None:
        for status in ('finished', 'confirming', 'reverting'):
            self.patience = -1 if status == 'confirming' else _PATIENCE
            self.set_state(status)
            instance = moving.find_instance(self.uuid)
            instance.vm_state = vm_states.ACTIVE
            instance.save()

            self.assertIs(
                Role.IN_DOUBT, self.list_roles('host1')[self.migration.uuid]
            )

    def test_one_that_was_confirmed_is_over(self) -> None:
        """Whatever placement has allocated since the server came back."""
        self.set_state('confirmed', host='host1')
        self.give_back()

        self.assertEqual(
            {self.migration.uuid: Role.LEFT, self.uuid: Role.SERVER},
            self.list_roles('host1'),
        )

    def test_placement_does_not_answer(self) -> None:
        self.set_state('error', host='host1')
        self.useFixture(
            fixtures.MockPatchObject(
                self.get_ext('host1')._placement,
                'get_allocations',
                side_effect=exception.PlacementUnavailable(
                    action='ask', detail='it is away'
                ),
            )
        )

        self.assertIs(
            Role.IN_DOUBT, self.list_roles('host1')[self.migration.uuid]
        )

    def test_a_guest_that_was_powered_off_and_not_kept(self) -> None:
        """The hypervisor of the source knows it until a confirmation."""
        (kept,) = self.get_host('host1').entries.values()
        own = {self.uuid: dataclasses.replace(kept, consumer_uuid=self.uuid)}
        for status, expected in (
            ('finished', Role.SOURCE),
            ('error', Role.LEFT),
        ):
            self.set_state(status)
            found = self.ask('host1', own, guests=[self.uuid])
            self.assertIs(expected, found[self.uuid])
        found = self.ask('host1', own, [self.uuid], running=[self.uuid])
        self.assertIs(Role.ELSEWHERE, found[self.uuid])
        moving.find_instance(self.uuid).destroy()
        found = self.ask('host1', own, guests=[self.uuid])
        self.assertIs(Role.LEFT, found[self.uuid])

    def test_a_server_that_is_deleted_has_left_both(self) -> None:
        moving.find_instance(self.uuid).destroy()

        self.assertEqual(
            {self.migration.uuid: Role.LEFT}, self.list_roles('host1')
        )
        self.assertEqual({self.uuid: Role.LEFT}, self.list_roles('host2'))

    def test_a_server_that_was_deleted_while_its_host_counted_as_down(
        self,
    ) -> None:
        """Nova tells the host nothing, and there is no guest to destroy."""
        other = self.boot(self.make_own_flavor(1), host='host1')['id']
        self.compare('host1')
        ref = self.services['host1'].service_ref.uuid
        self.admin_api.put_service_force_down(ref, True)
        self.api.delete_server(other)
        host = self.get_host('host1')

        self.compare('host1')
        self.assertIn(other, host.entries)

        del self.services['host1'].driver.instances[other]
        with host.starting(other):
            self.compare('host1')
        self.assertIn(other, host.entries)

        self.compare('host1')
        self.assertNotIn(other, host.entries)

    def test_of_one_that_its_cell_has_no_record_of_placement_tells(
        self,
    ) -> None:
        """As after a move to or from another cell, or a restored database."""
        other = self.boot(self.make_own_flavor(1), host='host1')['id']
        moving.find_instance(other).destroy(hard_delete=True)
        self.assertNotIn(other, self.list_roles('host1'))
        self._delete_server_allocations(other)
        down = fixtures.MockPatchObject(
            self.get_ext('host1')._placement,
            'get_allocations',
            side_effect=exception.PlacementUnavailable(
                action='ask', detail='it is away'
            ),
        )

        with down:
            self.assertNotIn(other, self.list_roles('host1'))
        self.assertIs(Role.LEFT, self.list_roles('host1')[other])

    def test_a_server_that_can_be_restored_is_not_deleted(self) -> None:
        other = self.boot(self.make_own_flavor(1), host='host1')['id']
        instance = moving.find_instance(other)
        instance.host = None
        instance.vm_state = vm_states.SOFT_DELETED
        instance.save()

        self.assertNotIn(other, self.list_roles('host1'))

    def test_of_a_server_that_never_moved_nothing_is_known(self) -> None:
        other = self.boot(self.make_own_flavor(1), host='host1')
        instance = moving.find_instance(other['id'])
        instance.host = 'host3'
        instance.save()

        self.assertNotIn(other['id'], self.list_roles('host1'))


class LiveRolesTest(backends.Static):
    """A server that has been migrated live to host2."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot(self.make_own_flavor(2), host='host1')
        self.uuid = self.server['id']
        self.entry = self.get_host('host1').entries[self.uuid]
        self.migrate_live(self.server)
        self.migration = self.find_migration(self.server)

    def find_role(
        self,
        host: str,
        purpose: assignment.Purpose,
        *,
        guests: Sequence[str] = (),
        running: Sequence[str] = (),
    ) -> Role | None:
        return self.list_all(host, purpose, guests, running).get(self.uuid)

    def list_all(
        self,
        host: str,
        purpose: assignment.Purpose = assignment.Purpose.OWN,
        guests: Sequence[str] = (),
        running: Sequence[str] = (),
    ) -> dict[str, Role]:
        entry = dataclasses.replace(self.entry, purpose=purpose)
        return consumer_roles.list_roles(
            host,
            host,
            guests,
            {self.uuid: entry},
            self.services['host1'].driver._ext_claims.find_source_role,
            self.get_ext('host1').allocation_writer.is_allocated,
            running,
            _PATIENCE,
        )

    def set_state(
        self, status: str, host: str | None, task_state: str | None = None
    ) -> None:
        self.migration.status = status
        self.migration.save()
        instance = moving.find_instance(self.uuid)
        instance.host = host
        instance.task_state = task_state
        instance.save()

    def assert_roles(self, *expected: Role) -> None:
        """Of the former host and the new one."""
        self.assertEqual(
            expected,
            (
                self.find_role('host1', assignment.Purpose.OWN),
                self.find_role('host2', assignment.Purpose.MIGRATION_DEST),
            ),
        )

    def test_nothing_has_left_before_nova_has_ended_it(self) -> None:
        for status in ('accepted', 'preparing', 'running (post-copy)'):
            self.set_state(status, 'host1', task_states.MIGRATING)
            self.assert_roles(Role.SERVER, Role.DESTINATION)
            self.set_state(status, 'host2', task_states.MIGRATING)
            self.assert_roles(Role.SOURCE, Role.SERVER)

    def test_one_that_has_ended(self) -> None:
        for status in ('completed', 'error', 'failed', 'cancelled'):
            self.set_state(status, 'host1', task_states.MIGRATING)
            self.assert_roles(Role.SERVER, Role.DESTINATION)
            self.set_state(status, 'host1')
            self.assert_roles(Role.SERVER, Role.LEFT)
            self.set_state(status, 'host2')
            self.assert_roles(Role.LEFT, Role.ARRIVED)

    def test_one_that_nova_has_left_unfinished(self) -> None:
        for status in ('queued', 'preparing', 'running'):
            self.set_state(status, 'host1')
            self.assert_roles(Role.SERVER, Role.LEFT)

    def test_a_guest_that_is_still_there_keeps_what_it_has(self) -> None:
        """Paused or not: Nova has lost track of the migration."""
        own, incoming = (
            assignment.Purpose.OWN,
            assignment.Purpose.MIGRATION_DEST,
        )
        for running in ([], [self.uuid]):
            for status in ('completed', 'error', 'post-migrating'):
                for here, purpose, other in (
                    ('host1', own, 'host2'),
                    ('host2', incoming, 'host1'),
                ):
                    self.set_state(status, other)
                    found = self.find_role(
                        here, purpose, guests=[self.uuid], running=running
                    )
                    self.assertIs(Role.ELSEWHERE, found)

    def find_guest(self, host: str) -> Role | None:
        purpose = assignment.Purpose.OWN
        return self.find_role(host, purpose, guests=[self.uuid])

    def test_a_guest_may_be_on_its_way_though_the_state_was_set(self) -> None:
        for status in ('running', 'running (post-copy)'):
            self.set_state(status, 'host1')
            self.assertIs(Role.SERVER, self.find_guest('host2'))
            # The transfer does not go back.
            self.set_state(status, 'host2')
            self.assertIs(Role.ELSEWHERE, self.find_guest('host1'))

    def test_a_guest_may_be_evacuated(self) -> None:
        """Nova has the server on the next host before that has ended."""
        self.migration.migration_type = 'evacuation'
        for status, expected in (
            ('accepted', Role.SERVER),
            ('pre-migrating', Role.SERVER),
            ('done', Role.ELSEWHERE),
        ):
            self.set_state(status, 'host2', task_states.REBUILD_SPAWNING)
            self.assertIs(expected, self.find_guest('host1'))

    def test_a_move_between_others_does_not_explain_a_guest(self) -> None:
        self.set_state('running', 'host1', task_states.MIGRATING)
        self.assertIs(Role.ELSEWHERE, self.find_guest('host3'))

    def test_a_guest_of_a_server_on_no_host(self) -> None:
        for host in (None, ''):
            self.set_state('completed', host)
            self.assertIs(Role.SERVER, self.find_guest('host2'))

    def test_a_guest_of_a_server_that_is_deleted(self) -> None:
        """Nova destroys it by itself."""
        self.set_state('error', 'host1')
        moving.find_instance(self.uuid).destroy()

        self.assertIs(Role.SERVER, self.find_guest('host2'))

    def test_one_that_copies_for_hours_is_not_in_doubt(self) -> None:
        for status in ('running', 'running (post-copy)', 'post-migrating'):
            self.set_state(status, 'host1', task_states.MIGRATING)
            found = self.list_all('host1')
            self.assertIs(Role.SOURCE, found[self.migration.uuid])
            self.assertNotIn(Role.IN_DOUBT, found.values())

    def test_a_host_that_was_asked_before(self) -> None:
        incoming = assignment.Purpose.MIGRATION_DEST
        self.set_state('running', 'host1', task_states.MIGRATING)
        self.assertIs(Role.DESTINATION, self.find_role('host3', incoming))
        self.set_state('completed', 'host2')
        self.assertIs(Role.LEFT, self.find_role('host3', incoming))

    def test_a_deleted_server_has_left_both(self) -> None:
        moving.find_instance(self.uuid).destroy()

        self.assert_roles(Role.LEFT, Role.LEFT)
