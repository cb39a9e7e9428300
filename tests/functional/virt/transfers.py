# SPDX-License-Identifier: Apache-2.0

"""Live migrations that are stopped while the guest is being transferred."""

from typing import Any

import fixtures
from nova.virt import fake as nova_fake

from nova_ext_resources.objects import assignment
from tests.functional.virt import base
from tests.functional.virt import live

Purpose = assignment.Purpose


class TransferSuite(live.LiveFailureTestCase):
    """The guest is being transferred."""

    def unshare(self) -> None:
        """Have no storage that both hosts see: Nova cleans up after it."""
        original = nova_fake.FakeDriver.check_can_live_migrate_destination

        def check(*args: Any, **kwargs: Any) -> Any:
            data = original(*args, **kwargs)
            data.is_shared_instance_path = False
            data.is_shared_block_storage = False
            return data

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.virt.fake.FakeDriver.check_can_live_migrate_destination',
                check,
            )
        )

    def test_it_is_aborted_without_shared_storage(self) -> None:
        self.unshare()
        self.begin_transfer(block=True)

        self.abort()

        self.wait_for_end('cancelled')
        self.wait_until(lambda: not self.list_states('host2'))
        self.assert_still_on_host1()

    def test_block_migration(self) -> None:
        self.unshare()

        self.begin_transfer(block=True).go.set()

        self.wait_for_end('completed')
        self.assert_only_on('host2')

    def test_it_is_forced_to_complete(self) -> None:
        self.begin_transfer()
        migration = self.find_migration(self.server)
        self.admin_api.microversion = live.ABORTS_QUEUED

        self.admin_api.api_post(
            f'/servers/{self.uuid}/migrations/{migration.id}/action',
            {'force_complete': None},
        )

        self.wait_for_end('completed')
        self.assert_only_on('host2')

    def test_what_was_released_on_its_way_is_claimed_again(self) -> None:
        """Nova's message of a former attempt may come late."""
        transfer = self.begin_transfer(host='host2')
        self.get_host('host2').release(self.uuid)

        transfer.go.set()

        self.wait_for_end('completed')
        self.assert_only_on('host2')

    def test_a_late_rollback_leaves_what_the_next_one_has_claimed(
        self,
    ) -> None:
        late: list[Any] = []
        manager = self.get_manager('host2')
        name = 'rollback_live_migration_at_destination'
        original = getattr(manager, name)
        self.unshare()
        with fixtures.MockPatchObject(
            manager, name, lambda *args, **kwargs: late.append((args, kwargs))
        ):
            transfer = self.begin_transfer(host='host2', block=True)
            self.abort()
            self.wait_for_end('cancelled')
            self.wait_until(lambda: bool(late))
        transfer.begin_again()
        self.begin(host='host2', block=True)
        self.assertTrue(transfer.began.wait(base.SECONDS))
        ((args, kwargs),) = late

        original(*args, **kwargs)

        self.assert_only_entry('host2', Purpose.MIGRATION_DEST)
        transfer.go.set()
        self.wait_for_end('completed')
        self.assert_only_on('host2')
        # Later still.
        original(*args, **kwargs)
        self.assert_only_on('host2')

    def test_a_rollback_that_fails_releases_later(self) -> None:
        self.unshare()
        self.break_method(
            nova_fake.FakeDriver,
            'rollback_live_migration_at_destination',
            RuntimeError('no libvirt'),
        )
        self.begin_transfer(block=True)
        self.abort()
        self.wait_for_end('cancelled')

        self.compare('host2')

        self.assert_still_on_host1()

    def test_a_server_whose_claim_cannot_be_restored_now_is_later(
        self,
    ) -> None:
        transfer = self.begin_transfer(host='host2')
        host = self.get_host('host2')
        host.release(self.uuid)
        with fixtures.MockPatchObject(
            host, 'claim', side_effect=KeyError('plugin')
        ):
            transfer.go.set()
            self.wait_for_end('completed')
        self.assertEqual({}, self.list_states('host2'))

        for _ in range(2):
            self.compare('host2')

        self.assert_only_on('host2')

    def test_the_destination_is_restarted(self) -> None:
        transfer = self.begin_transfer()
        self.restart('host2')
        self.assert_only_entry('host2', Purpose.MIGRATION_DEST)

        transfer.go.set()

        self.wait_for_end('completed')
        self.assert_only_on('host2')

    def test_the_source_is_killed(self) -> None:
        transfer = self.begin_transfer()
        transfer.is_killed = True
        transfer.go.set()

        self.restart('host1')

        self.wait_for_end('error')
        self.compare('host2')
        self.assert_only_entry('host1', Purpose.OWN)
        self.assertEqual({}, self.list_states('host2'))
        # Nova reverts nothing of them, see the page on operations.
        migration = self.find_migration(self.server)
        for uuid, host in ((self.uuid, 'host2'), (migration.uuid, 'host1')):
            self.assertIn(
                self._get_provider_uuid_by_host(host),
                self._get_allocations_by_server_uuid(uuid),
            )
