# SPDX-License-Identifier: Apache-2.0

"""Live migrations that do not end as they should."""

import contextlib
import pathlib
import threading
from typing import Any

import fixtures
from nova.compute import rpcapi
from nova.compute import task_states
from nova.conductor.tasks import live_migrate
from nova.virt import fake as nova_fake

from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.testing import fake_clock
from nova_ext_resources.virt.driver import fake
from tests.functional.virt import backends
from tests.functional.virt import base
from tests.functional.virt import live
from tests.functional.virt import moving
from tests.functional.virt import transfers

Purpose = assignment.Purpose

_FAKE = nova_fake.FakeDriver


class PreparationTest(backends.Resctrl, live.LiveFailureTestCase):
    """The destination fails before the guest is transferred."""

    def test_a_destination_that_is_killed_before_it_answers(self) -> None:
        rpc = self.get_manager('host1').compute_rpcapi
        original = rpc.pre_live_migration

        def kill(*args: Any, **kwargs: Any) -> None:
            original(*args, **kwargs)
            self.restart('host2')
            raise live_migrate.messaging.MessagingTimeout

        self.useFixture(
            fixtures.MockPatchObject(rpc, 'pre_live_migration', kill)
        )

        self.begin()
        self.wait_for_end('error', 'failed')
        self.compare('host2')

        self.assert_still_on_host1()

    def test_one_that_is_killed_after_its_claim_has_it_still(self) -> None:
        original = live_migrate.LiveMigrationTask._call_livem_checks_on_host

        def kill(*args: Any) -> None:
            original(*args)
            self.restart('host2')

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.conductor.tasks.live_migrate.LiveMigrationTask.'
                '_call_livem_checks_on_host',
                kill,
            )
        )

        self.migrate_live(self.server)

        self.assert_only_on('host2')

    def test_what_cannot_be_applied_does_not_come(self) -> None:
        kernel = self.machines['host2'].kernel
        transfer = self.useFixture(live.Transfer())
        kernel.fail(error='EIO', count=None)

        self.begin()

        self.wait_for_end('error', 'failed')
        kernel.stop_failing()
        self.assertFalse(transfer.began.is_set())
        (told,) = self.list_reasons(self.server, 'ext_resources_apply:')
        self.assertIn('resctrl', told)
        self.compare('host2')
        self.assert_still_on_host1()

    def test_a_former_one_that_fails_late_releases_nothing(self) -> None:
        """Nova's source waits a limited time for the destination."""
        began, may_fail = threading.Event(), threading.Event()
        self.addCleanup(may_fail.set)
        first: list[threading.Thread] = []
        rpc = self.get_manager('host1').compute_rpcapi
        called, prepared = rpc.pre_live_migration, _FAKE.pre_live_migration

        def fail(args: Any, kwargs: Any) -> None:
            with contextlib.suppress(Exception):
                called(*args, **kwargs)

        def call(*args: Any, **kwargs: Any) -> Any:
            if first:
                return called(*args, **kwargs)
            first.append(threading.Thread(target=fail, args=(args, kwargs)))
            first[0].start()
            self.assertTrue(began.wait(base.SECONDS))
            raise live_migrate.messaging.MessagingTimeout

        def prepare(*args: Any, **kwargs: Any) -> Any:
            if began.is_set():
                return prepared(*args, **kwargs)
            began.set()
            may_fail.wait(base.SECONDS)
            raise RuntimeError('no network')

        self.useFixture(
            fixtures.MockPatchObject(rpc, 'pre_live_migration', call)
        )
        self.useFixture(
            fixtures.MockPatchObject(_FAKE, 'pre_live_migration', prepare)
        )
        self.begin()
        self.wait_for_end('error', 'failed')
        transfer = self.begin_transfer()

        may_fail.set()
        first[0].join(base.SECONDS)

        self.assert_only_entry('host2', Purpose.MIGRATION_DEST)
        transfer.go.set()
        self.wait_for_end('completed')
        self.assert_only_on('host2')

    def test_what_was_released_meanwhile(self) -> None:
        original = nova_fake.FakeDriver.pre_live_migration

        def release(driver: Any, *args: Any, **kwargs: Any) -> Any:
            driver._ext.host.release(self.uuid)
            return original(driver, *args, **kwargs)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.virt.fake.FakeDriver.pre_live_migration', release
            )
        )

        self.begin()

        self.assert_still_on_host1()
        (told,) = self.list_reasons(self.server, 'ext_resources_apply:')
        self.assertIn('migrate the server again', told)


class StaticTransferTest(backends.Static, transfers.TransferSuite):
    pass


class PinnedTransferTest(backends.Rmd, transfers.TransferSuite):
    pass


class KilledSourceTest(backends.Static, live.LiveFailureTestCase):
    def test_a_lost_ledger_is_made_anew_from_the_migration(self) -> None:
        self.lose_the_source()

        self.assert_only_entry('host1', Purpose.OWN)
        migration = self.find_migration(self.server).uuid
        self.assert_named('host1', self.server, migration)

    def test_so_it_is_when_placement_was_away(self) -> None:
        read = placement_client.Client.get_allocations
        uuids: list[str] = []

        def fail_once(made: placement_client.Client, uuid: str) -> Any:
            uuids.append(uuid)
            if uuids.count(uuid) == 1:
                raise exception.PlacementUnavailable(
                    action='ask', detail='away'
                )
            return read(made, uuid)

        self.useFixture(
            fixtures.MockPatchObject(
                placement_client.Client, 'get_allocations', fail_once
            )
        )

        self.lose_the_source()

        self.assertIn(self.find_migration(self.server).uuid, uuids)

    def lose_the_source(self) -> None:
        """Kill host1 in the transfer, and lose its ledger; start it again."""
        transfer = self.begin_transfer()
        transfer.is_killed = True
        transfer.go.set()
        self.stop_compute(self.services['host1'])
        path = pathlib.Path(self.get_ext('host1')._ledger_path)
        for one in path.parent.glob(f'{path.name}*'):
            one.unlink()

        self.services['host1'] = self.start_again(self.services['host1'])
        self.publish(self.services['host1'])

        self.wait_until(lambda: self.uuid in self.get_host('host1').entries)

    def kill_the_source(self) -> str:
        """Kill host1 in the transfer, start it again; return the migration."""
        transfer = self.begin_transfer()
        self.assert_no_difference('host1')
        transfer.is_killed = True
        transfer.go.set()
        self.restart('host1')
        self.wait_for_end('error')
        self.compare('host2')
        return str(self.find_migration(self.server).uuid)

    def test_the_former_host_names_the_migration(self) -> None:
        migration = self.kill_the_source()

        self.assert_named('host1', self.server, migration)
        # The server does something else.
        instance = moving.find_instance(self.uuid)
        instance.task_state = task_states.IMAGE_SNAPSHOT
        instance.save()
        made = self.get_ext('host1').missing_allocations
        problems = made.problems
        with fixtures.MockPatchObject(
            made._debounce,
            '_clock',
            fake_clock.FakeClock(lambda: float('inf')),
        ):
            made.run_round()
        self.assertEqual(problems, made.problems)

    def test_a_transfer_goes_on_though_the_state_was_set(self) -> None:
        """An operator does so when it takes long."""
        transfer = self.begin_transfer()
        self.act(self.server, 'os-resetState', state='active')
        self.wait_until(
            lambda: moving.find_instance(self.uuid).task_state is None
        )

        self.assertEqual((), self.list_differences('host1'))

        transfer.go.set()
        self.assertTrue(transfer.ended.wait(base.SECONDS))

    def test_setting_its_allocations_by_hand_mends_them(self) -> None:
        """As the page of troubleshooting says."""
        self.set_by_hand(self.kill_the_source())

        self.assert_only_on('host1')

    def lose_the_allocations(self) -> None:
        """Leave the server, which is on host1, with those of host2 only."""
        migration = self.kill_the_source()
        self.placement.delete(f'/allocations/{migration}')

    def test_a_server_that_placement_has_elsewhere_is_reported(self) -> None:
        self.lose_the_allocations()
        for _ in range(2):
            (told,) = self.list_differences('host1')
            self.assertEqual(
                (alarm.NOT_IN_PLACEMENT, self.uuid), (told.alarm, told.subject)
            )
            self.assertIn('allocations only on other hosts', told.text)
            self.assertNotIn('rebuild', told.text)
            self.assertEqual(
                [self.uuid], [*self.get_host('host1').state.unallocated]
            )
            # Neither host nor Nova changes anything of it then.
            self._reboot_server(self.server, hard=True)
        (left,) = self.list_unheld('host2')
        self.assertEqual(self.uuid, left.subject)

    def test_so_it_is_until_it_was_shelved_and_unshelved(self) -> None:
        """As the alarm says."""
        self.lose_the_allocations()
        self.assertEqual(1, len(self.list_differences('host1')))

        self.act(self.server, 'shelve')
        self._wait_for_state_change(self.server, 'SHELVED_OFFLOADED')
        self.act(self.server, 'unshelve')
        server = self._wait_for_state_change(self.server, 'ACTIVE')

        self.assert_only_on(server['OS-EXT-SRV-ATTR:host'])

    def test_both_hosts_say_what_is_lost_to_placement(self) -> None:
        migration = self.kill_the_source()

        (former,) = self.list_unheld('host1')
        (latter,) = self.list_unheld('host2')

        self.assertEqual(
            (migration, self.uuid), (former.subject, latter.subject)
        )
        for one in (former, latter):
            self.assertEqual(alarm.STALE_ALLOCATION, one.alarm)
            self.assertIn('that Nova has on host host1', one.text)
        self.assertIn(f'status "error" of server {self.uuid}', former.text)

    def test_so_does_the_former_one_after_the_guest_has_come(self) -> None:
        is_killed = threading.Event()

        def kill(*_args: Any, **_kwargs: Any) -> None:
            is_killed.set()
            raise base.Killed

        manager = self.get_manager('host1')
        self.useFixture(
            fixtures.MockPatchObject(
                manager, '_update_scheduler_instance_info', kill
            )
        )
        self.begin()
        self.assertTrue(is_killed.wait(base.SECONDS))
        migration = self.find_migration(self.server).uuid

        self.restart('host1')
        self.compare('host1')

        (found,) = self.list_unheld('host1')
        self.assertEqual(migration, found.subject)
        self.assertIn('status "running" of server', found.text)
        self.assertIn('that Nova has on host host2', found.text)

    def test_shelving_and_unshelving_mends_its_allocations(self) -> None:
        """As the page of troubleshooting says."""
        migration = self.kill_the_source()

        self.act(self.server, 'shelve')
        self._wait_for_state_change(self.server, 'SHELVED_OFFLOADED')
        self.act(self.server, 'unshelve')
        server = self._wait_for_state_change(self.server, 'ACTIVE')
        self.placement.delete(f'/allocations/{migration}')

        self.assert_only_on(server['OS-EXT-SRV-ATTR:host'])


class LateCheckTest(backends.Static, live.LiveFailureTestCase):
    """Nova gives a check of host2 up, which goes on after the next one."""

    def setUp(self) -> None:
        super().setUp()
        self.began, self.may_end = threading.Event(), threading.Event()
        self.addCleanup(self.may_end.set)
        self.late: list[threading.Thread] = []
        self.checked = rpcapi.ComputeAPI.check_can_live_migrate_destination
        self.answered = fake.FakeDriver.check_can_live_migrate_source
        for target, name, method in (
            (
                rpcapi.ComputeAPI,
                'check_can_live_migrate_destination',
                lambda *args, **kwargs: self.check(args, kwargs),
            ),
            (
                fake.FakeDriver,
                'check_can_live_migrate_source',
                lambda *args, **kwargs: self.answer(args, kwargs),
            ),
        ):
            self.useFixture(fixtures.MockPatchObject(target, name, method))

    def check(self, args: Any, kwargs: Any) -> Any:
        """Ask as Nova's conductor does, but wait for no first answer."""
        if self.late:
            return self.checked(*args, **kwargs)
        self.late.append(
            threading.Thread(target=self.go_on, args=(args, kwargs))
        )
        self.late[0].start()
        self.assertTrue(self.began.wait(base.SECONDS))
        raise live_migrate.messaging.MessagingTimeout

    def go_on(self, args: Any, kwargs: Any) -> None:
        with contextlib.suppress(Exception):
            self.checked(*args, **kwargs)

    def answer(self, args: Any, kwargs: Any) -> Any:
        """Answer as the source does, at first late."""
        if not self.began.is_set():
            self.began.set()
            self.may_end.wait(base.SECONDS)
        return self.answered(*args, **kwargs)

    def end(self) -> None:
        self.may_end.set()
        self.late[0].join(base.SECONDS)

    def begin_twice(self) -> live.Transfer:
        """Return when the guest of the second one is transferred."""
        self.begin(host='host2')
        self.wait_for_end('error', 'failed')
        return self.begin_transfer(host='host2')

    def test_what_the_next_one_has_claimed_stays(self) -> None:
        transfer = self.begin_twice()
        entry = self.get_host('host2').entries[self.uuid]

        self.end()

        self.assertEqual(entry, self.get_host('host2').entries[self.uuid])
        transfer.go.set()
        self.wait_for_end('completed')
        self.assert_only_on('host2')

    def test_what_the_server_has_that_has_come_stays(self) -> None:
        self.begin_twice().go.set()
        self.wait_for_end('completed')
        entry = self.get_host('host2').entries[self.uuid]

        self.end()

        self.assertEqual(entry, self.get_host('host2').entries[self.uuid])
        self.assert_only_on('host2')

    def test_so_if_the_hypervisor_cannot_be_asked_then(self) -> None:
        self.begin_twice().go.set()
        self.wait_for_end('completed')
        entry = self.get_host('host2').entries[self.uuid]

        with fixtures.MockPatchObject(
            self.services['host2'].driver,
            'list_instance_uuids',
            side_effect=RuntimeError('no libvirt'),
        ):
            self.end()

        self.assertEqual(entry, self.get_host('host2').entries[self.uuid])
        self.assert_only_on('host2')


class ArrivalTest(backends.Static, live.LiveFailureTestCase):
    """The guest runs on the destination, and a host does not hear of it."""

    def test_the_destination_is_not_told(self) -> None:
        self.break_method(
            self.get_manager('host1').compute_rpcapi,
            'post_live_migration_at_destination',
            RuntimeError('no message bus'),
        )
        self.begin()
        self.wait_for_end('error', state='ERROR')
        self.assert_only_entry('host2', Purpose.MIGRATION_DEST)

        self.compare('host2')

        # Nova leaves the allocations of the source.
        self.assertEqual({}, self.list_states('host1'))
        self.assert_only_entry('host2', Purpose.OWN)

    def test_the_source_fails_to_clean_up(self) -> None:
        self.break_method(
            self.get_manager('host1'),
            '_post_live_migration_remove_source_vol_connections',
            RuntimeError('no volumes'),
        )
        self.begin()
        self.wait_for_end('error', state='ERROR')
        self.assert_only_entry('host1', Purpose.OWN)

        for host in self.HOSTS:
            self.compare(host)

        self.assertEqual({}, self.list_states('host1'))
        self.assert_only_entry('host2', Purpose.OWN)

    def test_a_release_that_fails_does_not_stop_nova(self) -> None:
        """Nova would set the server to ERROR, and finish nothing."""
        host = self.get_host('host1')
        with (
            fixtures.MockPatchObject(
                host, 'release', side_effect=KeyError('plugin')
            ),
            fixtures.MockPatchObject(
                host, 'stats', side_effect=KeyError('tracker')
            ),
        ):
            self.migrate_live(self.server)
        self.assertIn(self.uuid, host.entries)

        self.compare('host1')

        self.assert_only_on('host2')

    def test_what_cannot_be_recorded_is_later(self) -> None:
        for source, failed in (
            ('host1', exception.LedgerError(path='x', reason='it is full')),
            ('host2', KeyError('plugin')),
        ):
            (target,) = {*self.HOSTS} - {source}
            host = self.get_host(target)
            with fixtures.MockPatchObject(host, 'apply', side_effect=failed):
                self.migrate_live(self.server)

            self.compare(target)

            self.assert_only_on(target)
