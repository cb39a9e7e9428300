# SPDX-License-Identifier: Apache-2.0

"""What a host takes Nova's servers and migrations for."""

from typing import Any

import fixtures
from nova.compute import task_states

from nova_ext_resources.objects import role
from nova_ext_resources.virt import roles
from tests.functional.virt import backends
from tests.functional.virt import moving

Role = role.Role


class RolesTest(backends.Static):
    """A server that waits for its confirmation on host2."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot(self.make_own_flavor(2), host='host1')
        self.uuid = self.server['id']
        self.resize(self.server, self.make_own_flavor(4))
        self.migration = self.find_migration(self.server)

    def list_roles(self, host: str) -> dict[str, Role]:
        """Return what Nova says, whatever the hypervisor has."""
        entries = self.get_host(host).entries
        return roles.list_roles(host, host, [], entries)

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
        instance.save()

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

        self.assertEqual(
            {self.migration.uuid: Role.RETURNED, self.uuid: Role.SERVER},
            self.list_roles('host1'),
        )
        self.assertEqual({self.uuid: Role.LEFT}, self.list_roles('host2'))

    def test_nothing_has_left_while_nova_goes_on(self) -> None:
        for host in ('host1', 'host2'):
            self.set_state(
                'error', host=host, task_state=task_states.RESIZE_MIGRATED
            )
            for one in ('host1', 'host2'):
                self.assertNotIn(Role.LEFT, self.list_roles(one).values())

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
        find = roles._find_instance

        def come(uuid: str) -> Any:
            self.set_state('finished')
            return find(uuid)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.virt.roles._find_instance', come
            )
        )

        self.assertEqual({self.uuid: Role.SERVER}, self.list_roles('host2'))
        self.assertIs(
            Role.SOURCE, self.list_roles('host1')[self.migration.uuid]
        )

    def test_a_revert_of_which_the_source_was_not_told(self) -> None:
        """It has that status before the source has its server again."""
        self.set_state('reverted')

        self.assertEqual(
            {self.migration.uuid: Role.SOURCE}, self.list_roles('host1')
        )

    def test_a_server_that_is_deleted_has_left_both(self) -> None:
        moving.find_instance(self.uuid).destroy()

        self.assertEqual(
            {self.migration.uuid: Role.LEFT}, self.list_roles('host1')
        )
        self.assertEqual({self.uuid: Role.LEFT}, self.list_roles('host2'))

    def test_of_a_server_that_never_moved_nothing_is_known(self) -> None:
        other = self.boot(self.make_own_flavor(1), host='host1')
        instance = moving.find_instance(other['id'])
        instance.host = 'host3'
        instance.save()

        self.assertNotIn(other['id'], self.list_roles('host1'))
