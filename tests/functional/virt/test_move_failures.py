# SPDX-License-Identifier: Apache-2.0

"""Resizes and cold migrations that do not end as they should."""

from collections.abc import Callable
import threading
from typing import Any

import fixtures
from nova import context as nova_context
from nova import exception as nova_exc
from nova import objects
from nova.tests.functional.api import client as api_client
from nova.virt import fake as nova_fake

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from tests.functional.virt import backends
from tests.functional.virt import base
from tests.functional.virt import moving

State = assignment.State

LEDGER_IS_FULL = exception.LedgerError(path='x', reason='it is full')


class WaitingMove(fixtures.Fixture):
    """The source does not power a guest off before ``go``.

    :ivar is_killed: whether it never does
    """

    def _setUp(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.is_killed = False
        self.addCleanup(self.go.set)

        def wait(*_args: Any, **_kwargs: Any) -> str:
            self.began.set()
            self.go.wait(base.SECONDS)
            if self.is_killed:
                raise SystemExit
            return ''

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.virt.fake.FakeDriver.migrate_disk_and_power_off', wait
            )
        )


class FailureTestCase(backends.Static):
    """A server on host1, with two of six seats."""

    def setUp(self) -> None:
        super().setUp()
        self.small = self.make_own_flavor(2)
        self.large = self.make_own_flavor(4)
        self.server = self.boot(self.small, host='host1')
        self.uuid = self.server['id']

    def break_manager(
        self, host: str, method: str, error: BaseException
    ) -> None:
        """Let a method of a compute manager fail from now on."""

        def fail(*_args: Any, **_kwargs: Any) -> None:
            raise error

        self.useFixture(
            fixtures.MockPatchObject(self.services[host].manager, method, fail)
        )

    def begin(self, flavor: str = '') -> None:
        if flavor:
            self.act(self.server, 'resize', flavorRef=flavor)
        else:
            self.act(self.server, 'migrate')

    def wait_for_error(self) -> Any:
        self._wait_for_migration_status(self.server, ['error'])
        return self._wait_for_state_change(self.server, 'ERROR')

    def fail_to_hold(self, times: int) -> None:
        """Let host1 not keep what servers hold that are powered off."""
        host = self.get_host('host1')
        hold, left = host.hold, [LEDGER_IS_FULL] * times

        def fail(*args: Any) -> None:
            if left:
                raise left.pop()
            hold(*args)

        self.useFixture(fixtures.MockPatchObject(host, 'hold', fail))

    def assert_gone(self) -> None:
        """Make sure that a server deleted on its way leaves nothing behind.

        But for what Nova leaves in placement, under the migration's uuid: it
        gives that back to a server that it has deleted. Then
        ``nova-manage placement audit`` finds the allocation.
        """
        uuids = {self.uuid, self.find_migration(self.server).uuid}
        self.wait_until(self.has_source_failed)
        for host in self.HOSTS:
            self.compare(host)
            self.assertEqual({}, self.get_host(host).entries)
            self._assert_view(host, {})
            self._assert_no_alarm(host)
            node = self._get_provider_uuid_by_host(host)
            for rp_uuid in self.get_host(host).view.keys:
                left = self._get_allocations_by_provider_uuid(rp_uuid)
                own = self._get_allocations_by_provider_uuid(node)
                self.assertLessEqual(left.keys(), own.keys() & uuids)

    def has_source_failed(self) -> bool:
        return str(self.find_migration(self.server).status) == 'error'

    def assert_only_on(self, host: str, state: State = State.APPLIED) -> None:
        self.assert_agreement(**{host: {self.uuid: state}})


class DestinationTest(FailureTestCase):
    """Nova's claim on the destination fails, and another host is tried."""

    HOSTS = ('host1', 'host2', 'host3')

    def refuse(self, hosts: list[str], times: int) -> list[str]:
        """Let the next claims for moves be refused; return by which hosts."""
        refused: list[str] = []

        def wrap(name: str, claim: Callable[..., Any]) -> Callable[..., Any]:
            def refuse(request: Any, *, is_move: bool = False) -> Any:
                if not is_move or len(refused) >= times:
                    return claim(request, is_move=is_move)
                refused.append(name)
                raise exception.CapacityExceeded(
                    host=name,
                    consumer_uuid=request.consumer_uuid,
                    shortfalls=[
                        exception.Shortfall(
                            rp_uuid='',
                            resource_class='CUSTOM_SEAT',
                            requested=4,
                            available=1,
                            reason='somebody sits there',
                        )
                    ],
                )

            return refuse

        for name in hosts:
            host = self.get_host(name)
            self.useFixture(
                fixtures.MockPatchObject(host, 'claim', wrap(name, host.claim))
            )
        return refused

    def assert_nothing_is_open(self) -> None:
        """Nova counts nothing on the hosts that have refused."""
        for host in self.HOSTS:
            manager = self.services[host].manager
            self.assertEqual({}, manager._pending_dest_resizes)
            self.assertEqual({}, manager.rt.tracked_migrations)

    def test_another_host_is_tried(self) -> None:
        refused = self.refuse(['host2', 'host3'], times=1)

        server = self.resize(self.server, self.large)

        (first,) = refused
        (second,) = {'host2', 'host3'} - {first}
        self.assertEqual(second, server['OS-EXT-SRV-ATTR:host'])
        self.assert_agreement(
            **{
                'host1': {self.find_migration(server).uuid: State.HELD},
                second: {self.uuid: State.APPLIED},
            }
        )

    def test_without_another_host_the_server_stays_as_it_is(self) -> None:
        refused = self.refuse(['host2', 'host3'], times=2)

        self.begin(self.large)
        self._wait_for_migration_status(self.server, ['error'])
        server = self._wait_for_state_change(self.server, 'ACTIVE')

        self.assertEqual({'host2', 'host3'}, set(refused))
        self.assertEqual('host1', server['OS-EXT-SRV-ATTR:host'])
        self.assertEqual(self.server['flavor'], server['flavor'])
        self.assert_nothing_is_open()
        self.assert_only_on('host1')
        instance = moving.find_instance(self.uuid)
        self.assertIsNone(instance.migration_context)
        reasons = [
            one.message
            for one in objects.InstanceFaultList.get_by_instance_uuids(
                nova_context.get_admin_context(), [self.uuid]
            )
            if 'somebody sits there' in one.message
        ]
        self.assertEqual(2, len(reasons), reasons)
        told = self.list_reasons(self.server, 'ext_resources_claim:')
        self.assertEqual(2, len(told))
        for reason in told:
            self.assertIn('This host cannot now serve', reason)
            self.assertIn('somebody sits there', reason)

    def test_a_source_that_cannot_be_told_takes_the_claim_back(self) -> None:
        for host in ('host2', 'host3'):
            rpc = self.services[host].manager.compute_rpcapi

            def fail(*_args: Any, **_kwargs: Any) -> None:
                raise RuntimeError('no message bus')

            self.useFixture(
                fixtures.MockPatchObject(rpc, 'resize_instance', fail)
            )

        self.begin(self.large)
        self._wait_for_migration_status(self.server, ['error'])
        # Whether Nova calls it ACTIVE or ERROR.
        self._wait_for_server_parameter(
            self.server, {'OS-EXT-STS:task_state': None}
        )

        self.assert_only_on('host1')
        self.assert_nothing_is_open()


class SourceTest(FailureTestCase):
    def test_a_guest_that_cannot_be_powered_off_keeps_what_it_has(
        self,
    ) -> None:
        with moving.failing('migrate_disk_and_power_off'):
            self.begin(self.large)
            self.wait_for_error()
        self.assertEqual(
            {self.uuid: State.HELD},
            {u: e.state for u, e in self.get_host('host2').entries.items()},
        )

        self.compare('host2')

        self.assert_only_on('host1')

    def test_a_failure_after_that_gives_it_back(self) -> None:
        self.break_manager(
            'host1', '_terminate_volume_connections', RuntimeError('?')
        )
        self.begin(self.large)
        self.wait_for_error()
        migration = self.find_migration(self.server).uuid
        self.assertEqual([migration], [*self.get_host('host1').entries])

        for host in self.HOSTS:
            self.compare(host)

        self.assert_only_on('host1')

    def test_so_does_a_start_of_the_guest_before(self) -> None:
        self.break_manager(
            'host1', '_terminate_volume_connections', RuntimeError('?')
        )
        self.begin(self.large)
        self.wait_for_error()

        self.services['host1'].driver._restore_claim(
            nova_context.get_admin_context(), moving.find_instance(self.uuid)
        )

        self.compare('host2')
        self.assert_only_on('host1')

    def test_who_is_deleted_then_leaves_nothing_behind(self) -> None:
        self.break_manager(
            'host1', '_terminate_volume_connections', RuntimeError('?')
        )
        self.begin(self.large)
        self.wait_for_error()

        self._delete_server(self.server)

        self.assertEqual({}, self.get_host('host1').entries)
        self.compare('host2')
        self.assert_agreement()

    def test_a_restart_of_both_hosts_as_well(self) -> None:
        self.break_manager(
            'host1', '_terminate_volume_connections', RuntimeError('?')
        )
        self.begin(self.large)
        self.wait_for_error()

        for host in self.HOSTS:
            self.restart(host)

        self.assert_only_on('host1')

    def test_a_source_that_is_killed_has_the_server_again(self) -> None:
        self.break_manager(
            'host1', '_terminate_volume_connections', SystemExit()
        )
        self.begin(self.large)
        self.wait_until(
            lambda: self.uuid not in self.get_host('host1').entries
        )

        self.restart('host1')

        # Nova leaves the migration in progress, with the allocations of both.
        self.compare('host2')
        self.assertEqual(
            [{self.uuid: State.APPLIED}, {}],
            [
                {u: e.state for u, e in self.get_host(one).entries.items()}
                for one in self.HOSTS
            ],
        )
        self.assert_no_difference(*self.HOSTS)


class FinishTest(FailureTestCase):
    """Nova leaves a server on the destination whose guest does not start."""

    def test_the_destination_holds_and_the_source_does_not(self) -> None:
        with moving.failing('spawn'):
            self.begin()
            self.wait_for_error()
        migration = self.find_migration(self.server).uuid
        self.assertEqual([migration], [*self.get_host('host1').entries])

        self.compare('host1')

        self.assert_only_on('host2')

    def test_so_it_does_after_a_restart_of_both(self) -> None:
        with moving.failing('spawn'):
            self.begin()
            self.wait_for_error()

        for host in self.HOSTS:
            self.restart(host)

        self.assert_only_on('host2')

    def test_a_later_move_of_that_server_can_be_reverted(self) -> None:
        """Nova has reset its flavor, not what is allocated to it."""
        with moving.failing('spawn'):
            self.begin(self.large)
            self.wait_for_error()
        for host in self.HOSTS:
            self.compare(host)
        self.act(self.server, 'reboot', type='HARD')
        self._wait_for_state_change(self.server, 'ACTIVE')
        before = self.get_host('host2').entries[self.uuid]
        self.assertEqual([4], [one.amount for one in before.assignments])

        self.migrate(self.server)
        self.revert(self.server)

        self.assertEqual({}, self.get_host('host1').entries)
        entries = self.get_host('host2').entries
        self.assertEqual({self.uuid: before}, dict(entries))
        self._assert_placement('host2', entries)


class OtherFlavorTest(FailureTestCase):
    """Nova resets the flavor of a server whose guest does not start.

    What it has allocated stays that of the new flavor.
    """

    def fail_to(self, flavor: str) -> None:
        with moving.failing('spawn'):
            self.begin(flavor)
            self.wait_for_error()
        for host in self.HOSTS:
            self.compare(host)

    def set_active(self) -> None:
        self.admin_api.post_server_action(
            self.uuid, {'os-resetState': {'state': 'active'}}
        )

    def test_one_that_has_lost_its_resources_is_not_started(self) -> None:
        self.fail_to(self.make_flavor())
        self.assert_held({})

        self.act(self.server, 'reboot', type='HARD')
        self._wait_for_state_change(self.server, 'ERROR')

        self.assert_held({})

    def test_it_is_resized_again(self) -> None:
        plain = self.make_flavor()
        self.fail_to(plain)
        self.set_active()

        self.resize(self.server, plain)
        self.confirm(self.server)

        self.assert_held({})
        self.assert_agreement()

    def test_or_migrated_which_allocates_for_its_former_flavor(self) -> None:
        self.fail_to(self.make_flavor())
        self.set_active()

        server = self.migrate(self.server)
        self.confirm(self.server)

        self.assert_only_on(server['OS-EXT-SRV-ATTR:host'])

    def test_one_that_has_got_more_is_started_with_it(self) -> None:
        self.fail_to(self.large)

        self.act(self.server, 'reboot', type='HARD')
        self._wait_for_state_change(self.server, 'ACTIVE')

        self.assert_held({'host2': 4})
        self.resize(self.server, self.large)
        self.confirm(self.server)
        (host,) = (h for h in self.HOSTS if self.get_host(h).entries)
        self.assert_only_on(host)

    def test_one_that_was_to_get_its_first_as_well(self) -> None:
        self._delete_server(self.server)
        self.server = self.boot(self.make_flavor(), host='host1')
        self.uuid = self.server['id']
        self.fail_to(self.small)

        self.act(self.server, 'reboot', type='HARD')
        self._wait_for_state_change(self.server, 'ACTIVE')

        self.assert_held({'host2': 2})

    def assert_held(self, expected: dict[str, int]) -> None:
        """Compare how many seats the server has on which host."""
        held = {
            host: one.amount
            for host in self.HOSTS
            for entry in self.get_host(host).entries.values()
            for one in entry.assignments
        }
        self.assertEqual(expected, held)
        self.assert_no_difference(*self.HOSTS)


class MeanwhileTest(FailureTestCase):
    """What may happen while a server is on its way."""

    def test_either_host_restarts_before_it_is_confirmed(self) -> None:
        self.resize(self.server, self.large)
        migration = self.find_migration(self.server).uuid

        for host in self.HOSTS:
            self.restart(host)
            self.compare(host)

        self.assert_agreement(
            host1={migration: State.HELD}, host2={self.uuid: State.APPLIED}
        )
        self.revert(self.server)
        self.assert_only_on('host1')

    def test_what_could_not_be_kept_is_there_for_the_way_back(self) -> None:
        self.fail_to_hold(times=1)
        self.resize(self.server, self.large)

        self.restart('host1')

        self.assertEqual([self.uuid], [*self.get_host('host1').entries])
        self.revert(self.server)
        self.assert_only_on('host1')

    def test_a_server_that_is_off_moves_with_what_it_has(self) -> None:
        self._stop_server(self.server)

        self.resize(self.server, self.large)

        self.assert_agreement(
            host1={self.find_migration(self.server).uuid: State.HELD},
            host2={self.uuid: State.APPLIED},
        )
        self.act(self.server, 'confirmResize')
        self._wait_for_state_change(self.server, 'SHUTOFF')
        self.assert_only_on('host2')

    def test_the_destination_restarts_before_the_guest_comes(self) -> None:
        move = self.useFixture(WaitingMove())
        self.begin(self.large)
        self.assertTrue(move.began.wait(base.SECONDS))

        self.assert_no_difference(*self.HOSTS)
        self.restart('host2')
        self.compare('host2')
        self.assertEqual([self.uuid], [*self.get_host('host2').entries])
        self.assert_no_difference(*self.HOSTS)

        move.go.set()
        self._wait_for_state_change(self.server, 'VERIFY_RESIZE')
        self.assert_agreement(
            host1={self.find_migration(self.server).uuid: State.HELD},
            host2={self.uuid: State.APPLIED},
        )

    def test_a_destination_that_is_killed_releases_what_it_claimed(
        self,
    ) -> None:
        """Before it told the source: Nova leaves the server its task."""
        told = threading.Event()

        def die(*_args: Any, **_kwargs: Any) -> None:
            told.set()
            raise SystemExit

        rpc = self.services['host2'].manager.compute_rpcapi
        self.useFixture(fixtures.MockPatchObject(rpc, 'resize_instance', die))
        # Nor does the process take its claim back.
        self.useFixture(
            fixtures.MockPatchObject(self.get_ext('host2'), 'release')
        )
        self.begin(self.large)
        self.assertTrue(told.wait(base.SECONDS))
        self.compare('host2')
        self.assertEqual([self.uuid], [*self.get_host('host2').entries])

        self.restart('host1')
        self.compare('host2')

        self.assertEqual({}, self.get_host('host2').entries)
        self.assertEqual([self.uuid], [*self.get_host('host1').entries])

    def test_a_server_that_is_deleted_leaves_nothing_behind(self) -> None:
        move = self.useFixture(WaitingMove())
        self.begin(self.large)
        self.assertTrue(move.began.wait(base.SECONDS))

        self._delete_server(self.server)
        move.go.set()
        self.assert_gone()

    def test_nova_refuses_to_reboot_it_before_it_is_confirmed(self) -> None:
        self.resize(self.server, self.large)

        for kind in ('SOFT', 'HARD'):
            err = self.assertRaises(
                api_client.OpenStackApiException,
                self.act,
                self.server,
                'reboot',
                type=kind,
            )
            self.assertEqual(409, err.response.status_code)

        self.assert_agreement(
            host1={self.find_migration(self.server).uuid: State.HELD},
            host2={self.uuid: State.APPLIED},
        )

    def test_a_lost_ledger_is_no_obstacle_to_a_revert(self) -> None:
        self.resize(self.server, self.large)
        host = self.get_host('host1')
        host.release(self.find_migration(self.server).uuid)

        self.revert(self.server)

        self.assert_only_on('host1')


class OneHostTest(FailureTestCase):
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

    def test_placement_is_not_changed_on_the_way(self) -> None:
        plain = self.make_flavor()
        for flavor in (self.large, plain, self.small):
            move = WaitingMove()
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
                self.fail_to_hold(times=1)

                self.resize(self.server, flavor)

                own = {self.uuid: State.APPLIED} if ours else {}
                kept = {self.find_migration(self.server).uuid: State.HELD}
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
                self.find_migration(self.server).uuid: State.HELD,
                self.uuid: State.APPLIED,
            }
        )

    def test_no_guest_starts_with_what_it_had_before(self) -> None:
        self.fail_to_hold(times=2)
        self.begin(self.large)
        server = self.wait_for_error()

        self.assertIn('it is full', server['fault']['message'])
        self.compare('host1')
        (entry,) = self.get_host('host1').entries.values()
        self.assertEqual(self.uuid, entry.consumer_uuid)
        self.assertEqual([2], [one.amount for one in entry.assignments])

    def test_a_host_that_is_killed_before_the_guest_is_off(self) -> None:
        move = self.useFixture(WaitingMove())
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
        move = self.useFixture(WaitingMove())
        self.begin(self.large)
        self.assertTrue(move.began.wait(base.SECONDS))

        self._delete_server(self.server)
        move.go.set()
        self.assert_gone()


class RefusedTest(FailureTestCase):
    """Moves that this version does not carry out."""

    def test_a_live_migration(self) -> None:
        self.act(
            self.server, 'os-migrateLive', host=None, block_migration='auto'
        )
        self._wait_for_migration_status(self.server, ['error'])
        self._wait_for_state_change(self.server, 'ACTIVE')

        self.assert_only_on('host1')

    def test_a_resize_to_another_cell(self) -> None:
        instance = moving.find_instance(self.uuid)
        plain = instance.obj_clone()
        plain.flavor = objects.Flavor(extra_specs={})
        migration = objects.Migration(cross_cell_move=True)
        driver = self.services['host2'].driver

        for moved in (instance, plain):
            err = self.assertRaises(
                nova_exc.InstanceFaultRollback,
                driver._claim_move,
                nova_context.get_admin_context(),
                moved,
                instance,
                migration,
                None,
            )
            self.assertIn('cold within its cell', str(err))
        self.assert_only_on('host1')


class ResctrlTest(backends.Resctrl):
    """Settings that cannot be applied when the guest comes."""

    def test_the_destination_holds_what_it_cannot_apply(self) -> None:
        flavor = self.make_own_flavor(2)
        server = self.boot(flavor, host='host1')
        uuid = server['id']
        kernel = self.machines['host2'].kernel
        original = nova_fake.FakeDriver.migrate_disk_and_power_off

        def power_off(*args: Any, **kwargs: Any) -> Any:
            kernel.fail(error='EIO', count=None)
            return original(*args, **kwargs)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.virt.fake.FakeDriver.migrate_disk_and_power_off',
                power_off,
            )
        )

        self.act(server, 'migrate')
        self._wait_for_migration_status(server, ['error'])
        server = self._wait_for_state_change(server, 'ERROR')

        self.assertIn('resctrl', server['fault']['message'])
        kernel.stop_failing()
        self.compare('host1')
        self.assert_agreement(host2={uuid: State.HELD})
        # So does a start of the guest.
        self.services['host2'].driver._apply(
            nova_context.get_admin_context(), moving.find_instance(uuid)
        )
        self.assert_agreement(host2={uuid: State.APPLIED})
