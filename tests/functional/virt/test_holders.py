# SPDX-License-Identifier: Apache-2.0

"""Which migrations of a server Nova may still go on with."""

import fixtures
from nova.compute import task_states
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.virt.facts import consumer_roles
from nova_ext_resources.virt.facts import servers
from tests.functional.virt import backends
from tests.functional.virt import moving


class FindMovesTest(backends.Static):
    """A server that has been migrated live to host2, or back to host1."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot(self.make_own_flavor(2), host='host1')
        self.uuid = self.server['id']
        self.migrate_live(self.server)
        self.migration = self.find_migration(self.server)

    def set_state(
        self, status: str, host: str | None, task_state: str | None = None
    ) -> None:
        self.migration.status = status
        self.migration.save()
        instance = moving.find_instance(self.uuid)
        instance.host = host
        instance.task_state = task_state
        instance.save()

    def may_go_on(self) -> bool:
        """Return whether it may, as host1 asks."""
        uuid = self.migration.uuid
        others = {uuid, self.uuid, uuidsentinel.other}
        found = consumer_roles.find_migrations('host1', self.uuid, others)
        self.assertEqual([uuid], [*found])
        return found[uuid]

    def test_only_one_of_this_server_that_is_asked_for(self) -> None:
        for server, uuids in (
            (self.uuid, {uuidsentinel.other}),
            (uuidsentinel.other, {self.migration.uuid}),
        ):
            self.assertEqual(
                {}, consumer_roles.find_migrations('host1', server, uuids)
            )

    def test_no_server_is_asked_for_without_one(self) -> None:
        """What others have left is there for long, and asked of again."""
        with fixtures.MockPatchObject(
            servers, 'find', side_effect=AssertionError
        ):
            consumer_roles.find_migrations(
                'host1', self.uuid, {uuidsentinel.other}
            )

    def test_not_with_one_that_has_ended_or_was_given_up(self) -> None:
        for status in (
            *('error', 'failed', 'cancelled', 'completed'),
            *('accepted', 'queued', 'preparing', 'post-migrating'),
        ):
            self.set_state(status, 'host1')
            self.assertFalse(self.may_go_on(), status)

    def test_while_the_server_has_a_task(self) -> None:
        for status in ('error', 'accepted', 'running'):
            self.set_state(status, 'host1', task_states.MIGRATING)
            self.assertTrue(self.may_go_on(), status)

    def test_while_a_guest_may_be_on_its_way(self) -> None:
        """Whatever an operator has set."""
        for status in ('running', 'running (post-copy)'):
            self.set_state(status, 'host1')
            self.assertTrue(self.may_go_on(), status)

    def test_while_the_server_is_elsewhere(self) -> None:
        for status in ('error', 'completed', 'running'):
            self.set_state(status, 'host2')
            self.assertTrue(self.may_go_on(), status)

    def test_cold_ones_as_well(self) -> None:
        self.migration.migration_type = 'resize'
        for status, expected in (
            ('migrating', False),
            ('error', False),
            ('reverted', False),
            ('finished', True),
            ('confirming', True),
        ):
            self.set_state(status, 'host1')
            self.assertIs(expected, self.may_go_on(), status)

    def test_of_a_deleted_server_nothing_is_known(self) -> None:
        moving.find_instance(self.uuid).destroy()

        self.assertTrue(self.may_go_on())

    def test_the_words_for_a_server_that_is_elsewhere(self) -> None:
        for host, expected in (
            ('host2', 'on host host2, and may need this allocation'),
            (None, 'on no host'),
        ):
            self.set_state('completed', host)
            words = f'the consumer is a server that Nova has {expected}'
            self.assertEqual(
                {self.uuid: words},
                consumer_roles.explain('host1', [self.uuid], ()),
            )
