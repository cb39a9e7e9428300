# SPDX-License-Identifier: Apache-2.0

"""Live migrations: what all go through, and how they are stopped."""

from collections.abc import Iterator
import contextlib
import threading
from typing import Any

import fixtures
from nova.virt import fake as nova_fake

from nova_ext_resources.objects import assignment
from tests.functional.virt import base
from tests.functional.virt import moving

State = assignment.State
Purpose = assignment.Purpose

#: Of Nova's API; from here on it can abort what it has queued.
ABORTS_QUEUED = '2.65'


class Transfer(fixtures.Fixture):
    """Guests are not transferred before ``go``, nor where Nova aborts it.

    :ivar began: set when one is about to be
    :ivar ended: set when Nova has heard of it
    :ivar is_killed: whether the source ends then
    """

    def _setUp(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.ended = threading.Event()
        self.is_killed = self.is_aborted = False
        self.addCleanup(self.go.set)
        for name, method in (
            ('live_migration', self._transfer),
            ('live_migration_abort', self._abort),
            ('live_migration_force_complete', self._complete),
        ):
            self.useFixture(
                fixtures.MockPatchObject(nova_fake.FakeDriver, name, method)
            )

    def begin_again(self) -> None:
        """Stop the next guest as well."""
        self.is_killed = self.is_aborted = False
        self.began.clear()
        self.go.clear()

    def _transfer(
        self,
        context: Any,
        instance: Any,
        dest: str,
        post: Any,
        recover: Any,
        block_migration: bool,
        migrate_data: Any,
    ) -> None:
        self.began.set()
        self.go.wait(base.SECONDS)
        if self.is_killed:
            raise base.Killed
        try:
            if self.is_aborted:
                recover(context, instance, dest, migrate_data, 'cancelled')
            else:
                post(context, instance, dest, block_migration, migrate_data)
        finally:
            self.ended.set()

    def _abort(self, *_args: Any) -> None:
        self.is_aborted = True
        self.go.set()

    def _complete(self, *_args: Any) -> None:
        self.go.set()


class LiveTestCase(moving.MovesTestCase):
    """Migrations of a server on host1, with two units."""

    def boot_server(self) -> None:
        self.server = self.boot(self.make_own_flavor(2), host='host1')
        self.uuid = self.server['id']

    def begin(self, host: str | None = None, block: Any = 'auto') -> None:
        self.act(
            self.server, 'os-migrateLive', host=host, block_migration=block
        )

    def begin_transfer(self, **options: Any) -> Transfer:
        transfer: Transfer = self.useFixture(Transfer())
        self.begin(**options)
        self.assertTrue(transfer.began.wait(base.SECONDS))
        return transfer

    def abort(self) -> None:
        migration = self.find_migration(self.server)
        path = f'/servers/{self.uuid}/migrations/{migration.id}'
        self.admin_api.microversion = ABORTS_QUEUED
        self.admin_api.api_delete(path)

    def wait_for_end(self, *statuses: str, state: str = 'ACTIVE') -> Any:
        self._wait_for_migration_status(self.server, [*statuses])
        return self._wait_for_server_parameter(
            self.server, {'status': state, 'OS-EXT-STS:task_state': None}
        )

    def break_method(self, target: Any, name: str, error: Any) -> None:
        """Let a method fail from now on."""
        self.useFixture(
            fixtures.MockPatchObject(target, name, side_effect=error)
        )

    def get_manager(self, host: str) -> Any:
        return self.services[host].manager

    def list_states(self, host: str) -> dict[str, Any]:
        entries = self.get_host(host).entries
        return {u: (e.state, e.purpose) for u, e in entries.items()}

    def assert_only_entry(
        self, host: str, purpose: assignment.Purpose
    ) -> None:
        """A host has the server's entry, applied, and no other."""
        self.assertEqual(
            {self.uuid: (State.APPLIED, purpose)}, self.list_states(host)
        )

    def assert_only_on(self, host: str) -> None:
        self.assert_agreement(**{host: {self.uuid: State.APPLIED}})
        entry = self.get_host(host).entries[self.uuid]
        self.assertIs(Purpose.OWN, entry.purpose)

    def assert_still_on_host1(self) -> None:
        server = self.wait_for_end('failed', 'error', 'cancelled')
        self.assertEqual('host1', server['OS-EXT-SRV-ATTR:host'])
        self.assert_only_on('host1')


class LiveFailureTestCase(LiveTestCase):
    """The server is there when a test begins."""

    def setUp(self) -> None:
        super().setUp()
        self.boot_server()


class LiveSuite(LiveTestCase):
    """What every backend and kind of server goes through."""

    def test_live_migrations(self) -> None:
        self.tell(
            self.there_and_back,
            self.it_fails,
            self.it_is_aborted,
            self.nothing_is_released_however_long_it_takes,
            self.the_server_is_deleted,
        )

    @contextlib.contextmanager
    def watch_switch_over(self) -> Iterator[list[Any]]:
        """Give what the hosts have when the guest is about to leave."""
        seen: list[Any] = []
        original = nova_fake.FakeDriver.live_migration

        def look(*args: Any, **kwargs: Any) -> None:
            for host in self.HOSTS:
                entries = self.get_host(host).entries
                self._assert_ledger(host, entries)
                self._assert_applied(host, entries)
                self._assert_view(host, entries)
                self.assert_no_difference(host)
                one = entries[self.uuid]
                seen.append((host, one.state, one.purpose))
            original(*args, **kwargs)

        with fixtures.MonkeyPatch(
            'nova.virt.fake.FakeDriver.live_migration', look
        ):
            yield seen

    def there_and_back(self) -> None:
        self.boot_server()
        for source, target in (('host1', 'host2'), ('host2', 'host1')):
            with self.watch_switch_over() as seen:
                server = self.migrate_live(self.server)

            self.assertEqual(
                {
                    (source, State.APPLIED, Purpose.OWN),
                    (target, State.APPLIED, Purpose.MIGRATION_DEST),
                },
                set(seen),
            )
            self.assertEqual(target, server['OS-EXT-SRV-ATTR:host'])
            self.assert_agreement(**{target: {self.uuid: State.APPLIED}})
            entry = self.get_host(target).entries[self.uuid]
            self.assertIs(Purpose.OWN, entry.purpose)

    def it_fails(self) -> None:
        self.boot_server()
        with moving.failing('pre_live_migration'):
            self.begin()
            self.assert_still_on_host1()

    @contextlib.contextmanager
    def transferring(self, **options: Any) -> Iterator[Transfer]:
        with Transfer() as transfer:
            self.begin(**options)
            self.assertTrue(transfer.began.wait(base.SECONDS))
            yield transfer

    def it_is_aborted(self) -> None:
        self.boot_server()
        with self.transferring():
            self.abort()
            self.wait_for_end('cancelled')
        # Where Nova has told it nothing.
        self.compare('host2')
        self.assert_still_on_host1()

    def nothing_is_released_however_long_it_takes(self) -> None:
        self.boot_server()
        with self.transferring(host='host2') as transfer:
            migration = self.find_migration(self.server)
            for status in ('running', 'running (post-copy)'):
                migration.status = status
                migration.save()
                for host in self.HOSTS * 2:
                    self.compare(host)
                    self._assert_no_alarm(host)
                    self.assert_no_difference(host)
            self.assert_only_entry('host1', Purpose.OWN)
            self.assert_only_entry('host2', Purpose.MIGRATION_DEST)

            transfer.go.set()
            self.wait_for_end('completed')
        self.assert_only_on('host2')

    def the_server_is_deleted(self) -> None:
        self.boot_server()
        with self.transferring() as transfer:
            transfer.is_aborted = True
            self.admin_api.delete_server(self.uuid)
            self._wait_until_deleted(self.server)
            transfer.go.set()
            self.assertTrue(transfer.ended.wait(base.SECONDS))

        self.assertEqual({}, self.list_states('host1'))
        self.compare('host2')
        self.assertEqual({}, self.list_states('host2'))
        self.forget(self.server)
