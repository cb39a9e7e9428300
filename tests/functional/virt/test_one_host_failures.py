# SPDX-License-Identifier: Apache-2.0

"""Resizes on one host that do not end as they should."""

import threading
from typing import Any

import fixtures
from nova import objects

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from tests.functional.virt import base
from tests.functional.virt import breaking
from tests.functional.virt import moving

State = assignment.State


class OneHostTest(breaking.BreakingTestCase):
    """The same where both entries are on one host."""

    HOSTS = ('host1',)

    def setUp(self) -> None:
        super().setUp()
        self.flags(allow_resize_to_same_host=True)

    def make_named_flavor(self, seats: int) -> str:
        return str(
            self._create_flavor(
                id=f'seated-{seats}',
                name='seated',
                vcpu=2,
                memory_mb=64,
                disk=0,
                extra_spec={'resources:CUSTOM_SEAT': str(seats)},
            )
        )

    def test_a_guest_that_cannot_be_powered_off(self) -> None:
        with moving.failing('migrate_disk_and_power_off'):
            self.begin(self.large)
            self.wait_for_error()

        self.compare('host1')

        self.assert_only_on('host1')

    def test_so_with_a_flavor_that_has_the_same_name(self) -> None:
        self._delete_server(self.server)
        old = self.make_named_flavor(2)
        self.server = self.boot(old)
        self.uuid = self.server['id']
        # Or the next one gets its number.
        self.make_flavor()
        self._delete_flavor(old)
        with moving.failing('migrate_disk_and_power_off'):
            self.begin(self.make_named_flavor(4))
            self.wait_for_error()

        self.compare('host1')

        self.assert_only_on('host1')

    def test_a_failure_after_that(self) -> None:
        self.break_manager(
            'host1', '_terminate_volume_connections', RuntimeError('?')
        )
        self.begin(self.large)
        self.wait_for_error()

        self.compare('host1')

        self.assert_only_on('host1')

    def test_so_it_is_after_a_guest_that_did_not_start(self) -> None:
        """Nova then still has the old flavor of the first resize."""
        with moving.failing('spawn'):
            self.begin(self.large)
            self.wait_for_error()
        self.compare('host1')
        self.act(self.server, 'reboot', type='HARD')
        self._wait_for_state_change(self.server, 'ACTIVE')
        # Or the scheduler counts what the first resize had kept.
        self.publish(self.services['host1'])
        before = dict(self.get_host('host1').entries)
        self.assertEqual([self.uuid], [*before])
        self.break_manager(
            'host1', '_terminate_volume_connections', RuntimeError('?')
        )
        self.begin(self.make_own_flavor(1))
        self.wait_for_error()

        self.compare('host1')

        entries = dict(self.get_host('host1').entries)
        self.assertEqual(before, entries)
        self._assert_placement('host1', entries)
        self.assert_no_difference('host1')

    def test_placement_is_not_changed_on_the_way(self) -> None:
        plain = self.make_flavor()
        for flavor in (self.large, plain, self.small):
            move = breaking.WaitingMove()
            with move:
                self.begin(flavor)
                self.assertTrue(move.began.wait(base.SECONDS))
                self.assert_no_difference('host1')
                move.go.set()
                self._wait_for_state_change(self.server, 'VERIFY_RESIZE')
            self.confirm(self.server)
        self.assert_only_on('host1')

    def test_what_was_not_exchanged_is_before_the_guest_starts(self) -> None:
        for flavor, ours in ((self.large, True), (self.make_flavor(), False)):
            with self.subTest(flavor=flavor):
                self.fail_to_park(times=1)

                self.resize(self.server, flavor)

                own = {self.uuid: State.APPLIED} if ours else {}
                kept = {self.find_migration(self.server).uuid: State.PARKED}
                self.assert_agreement(host1={**own, **kept})
                self.revert(self.server)
                self.assert_only_on('host1')

    def test_so_it_is_where_the_conductor_was_away(self) -> None:
        find, left = objects.Migration.get_by_id, [TimeoutError('no answer')]

        def fail(*args: Any) -> Any:
            if left:
                raise left.pop()
            return find(*args)

        self.useFixture(
            fixtures.MonkeyPatch('nova.objects.Migration.get_by_id', fail)
        )

        self.resize(self.server, self.large)

        self.assertEqual([], left)
        self.assert_agreement(
            host1={
                self.find_migration(self.server).uuid: State.PARKED,
                self.uuid: State.APPLIED,
            }
        )

    def test_no_guest_starts_with_what_it_had_before(self) -> None:
        self.fail_to_park(times=2)
        self.begin(self.large)
        server = self.wait_for_error()

        self.assertIn('it is full', server['fault']['message'])
        self.compare('host1')
        (entry,) = self.get_host('host1').entries.values()
        self.assertEqual(self.uuid, entry.consumer_uuid)
        self.assertEqual([2], [one.amount for one in entry.assignments])

    def test_a_host_that_is_killed_before_the_guest_is_off(self) -> None:
        move = self.useFixture(breaking.WaitingMove())
        move.is_killed = True
        self.begin(self.large)
        self.assertTrue(move.began.wait(base.SECONDS))
        before = self.get_host('host1').entries[self.uuid]
        move.go.set()

        self.restart('host1')

        # Nova leaves the migration in progress, with the allocations of both.
        self.compare('host1')
        self.assertEqual(
            {self.uuid: before}, dict(self.get_host('host1').entries)
        )
        (found,) = self.list_unheld('host1')
        self.assertNotIn(found.subject, (self.uuid, ''))
        self.assertIn('status "migrating" of server', found.text)
        (told,) = self.list_differences('host1')
        self.assertEqual(
            (alarm.NOT_RECORDED, self.uuid), (told.alarm, told.subject)
        )
        self.assertIn(f'its migration {found.subject}', told.text)

    def prepare(self, error: BaseException) -> None:
        """Begin a resize that ends with an error before the host claims."""
        asked = threading.Event()

        def fail(*_args: Any, **_kwargs: Any) -> None:
            asked.set()
            raise error

        with fixtures.MockPatchObject(
            self.services['host1'].manager, '_prep_resize', fail
        ):
            self.begin(self.make_own_flavor(3))
            self.assertTrue(asked.wait(base.SECONDS))

    def test_a_migration_that_nova_takes_again(self) -> None:
        """It then has what the server was to get, and none what it holds."""
        self.prepare(base.Killed())
        self.restart('host1')
        self.act(self.server, 'os-resetState', state='active')
        migration = self.find_migration(self.server).uuid

        self.prepare(RuntimeError('it fails'))
        self._wait_for_migration_status(self.server, ['error'])
        self._wait_for_server_parameter(
            self.server, {'OS-EXT-STS:task_state': None}
        )

        self.assertEqual(migration, self.find_migration(self.server).uuid)
        self.assertEqual({}, self._get_allocations_by_server_uuid(migration))
        (told,) = self.list_differences('host1')
        self.assertEqual(
            (alarm.NOT_RECORDED, self.uuid), (told.alarm, told.subject)
        )
        self.assertNotIn('its migration', told.text)

    def test_a_guest_that_does_not_start(self) -> None:
        with moving.failing('spawn'):
            self.begin(self.large)
            self.wait_for_error()

        self.compare('host1')

        # Of the server, Nova has the former flavor and the new allocation.
        (entry,) = self.get_host('host1').entries.values()
        self.assertEqual(self.uuid, entry.consumer_uuid)
        self.assertEqual([4], [one.amount for one in entry.assignments])
        self._assert_placement('host1', {self.uuid: entry})

    def test_a_server_that_is_deleted(self) -> None:
        move = self.useFixture(breaking.WaitingMove())
        self.begin(self.large)
        self.assertTrue(move.began.wait(base.SECONDS))

        self._delete_server(self.server)
        move.go.set()
        self.assert_gone(self.server)
