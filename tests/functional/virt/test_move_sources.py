# SPDX-License-Identifier: Apache-2.0

"""Resizes and cold migrations that fail on the source."""

import pathlib
from typing import Any

import fixtures
from nova.compute import task_states
from nova import context as nova_context

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.virt.driver import request
from tests.functional.virt import backends
from tests.functional.virt import base
from tests.functional.virt import breaking
from tests.functional.virt import moving

State = assignment.State


class SourceTest(breaking.BreakingTestCase):
    def test_nova_is_asked_nothing_of_a_server_without_resources(
        self,
    ) -> None:
        server = self.boot(self.make_flavor(), host='host1')
        with fixtures.MockPatch('nova.objects.Migration.get_by_id') as patch:
            self.migrate(server)

        patch.mock.assert_not_called()

    def test_a_guest_that_cannot_be_powered_off_keeps_what_it_has(
        self,
    ) -> None:
        with moving.failing('migrate_disk_and_power_off'):
            self.begin(self.large)
            self.wait_for_error()
        self.assertEqual(
            {self.uuid: State.PARKED},
            {u: e.state for u, e in self.get_host('host2').entries.items()},
        )

        self.compare('host2')

        self.assert_only_on('host1')
        # Nova writes it with whatever changes next on the host.
        self.assertEqual(
            self.get_host('host2').stats(), self.read_view('host2')
        )

    def test_so_when_nova_compute_is_killed_as_it_gives_up(self) -> None:
        with moving.failing('migrate_disk_and_power_off'):
            self.begin(self.large)
            self.wait_for_error()
        instance = moving.find_instance(self.uuid)
        instance.task_state = task_states.RESIZE_MIGRATING
        instance.save()

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

    def test_a_move_before_the_comparison_keeps_it(self) -> None:
        """The state of the server was set by hand."""
        with self.failing('', '_terminate_volume_connections'):
            self.begin(self.large)
            self.wait_for_error()
        self.act(self.server, 'os-resetState', state='active')

        server = self.migrate(self.server)
        self.compare('host1')

        self.assert_agreement(
            host1={self.find_migration(server).uuid: State.PARKED},
            host2={self.uuid: State.APPLIED},
        )
        self.revert(server)
        self.assert_only_on('host1')

    def test_so_does_a_start_of_the_guest_before(self) -> None:
        self.break_manager(
            'host1', '_terminate_volume_connections', RuntimeError('?')
        )
        self.begin(self.large)
        self.wait_for_error()

        self.services['host1'].driver._ext_claims.restore(
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


class RebuiltTest(backends.Rmd, moving.MovesTestCase):
    """Nova leaves a server the CPUs that it was to get on the other host."""

    def start_host(self, host: str, **settings: Any) -> Any:
        # Of one cache only, so that the first servers of both get the same.
        self.flags(
            cpu_dedicated_set='1-3,25-27',
            cpu_shared_set='0,24',
            group='compute',
        )
        return super().start_host(host, **settings)

    def find_cpus(self, server: Any) -> frozenset[int] | None:
        return request.find_cpus(moving.find_instance(server['id']))

    def test_a_server_whose_move_failed_keeps_its_own(self) -> None:
        flavor = self.make_own_flavor(1)
        servers = [self.boot(flavor, host='host1') for _ in range(2)]
        before = [self.find_cpus(one) for one in servers]
        with moving.failing('migrate_disk_and_power_off'):
            self.act(servers[1], 'migrate')
            self._wait_for_migration_status(servers[1], ['error'])
            self._wait_for_server_parameter(
                servers[1], {'status': 'ERROR', 'OS-EXT-STS:task_state': None}
            )

        self.act(servers[1], 'rebuild', imageRef=servers[1]['image']['id'])
        self._wait_for_state_change(servers[1], 'ACTIVE')

        self.assertEqual(before, [self.find_cpus(one) for one in servers])
        entries = self.get_host('host1').entries
        self.assertEqual(before, [entries[one['id']].cpus for one in servers])


class KilledTest(breaking.BreakingTestCase):
    """Nova leaves the migration in progress, with the former allocations."""

    def setUp(self) -> None:
        super().setUp()
        self.flags(shelved_offload_time=0)
        with self.failing('', '_terminate_volume_connections', base.Killed()):
            self.begin(self.large)
            self.wait_until(
                lambda: self.uuid not in self.get_host('host1').entries
            )
        self.stop_compute(self.services['host1'])
        self.migration = self.find_migration(self.server).uuid

    def start_host1(self) -> None:
        self.services['host1'] = self.start_again(self.services['host1'])
        self.publish(self.services['host1'])
        self.compare('host2')

    def assert_told(self) -> None:
        """The server has what it had; placement does not say so."""
        self.assertEqual(
            [{self.uuid: State.APPLIED}, {}],
            [
                {u: e.state for u, e in self.get_host(one).entries.items()}
                for one in self.HOSTS
            ],
        )
        self.assert_named('host1', self.server, self.migration)
        self.assertEqual((), self.list_differences('host2'))
        (left,) = self.list_unheld('host2')
        self.assertEqual(
            (alarm.STALE_ALLOCATION, self.uuid), (left.alarm, left.subject)
        )

    def test_the_source_has_the_server_again_and_tells(self) -> None:
        self.start_host1()

        self.assert_told()

    def test_so_it_does_when_its_ledger_is_lost(self) -> None:
        path = pathlib.Path(self.get_ext('host1')._ledger_path)
        for one in path.parent.glob(f'{path.name}*'):
            one.unlink()

        self.start_host1()
        self.wait_until(lambda: self.uuid in self.get_host('host1').entries)

        self.assert_told()

    def test_the_remedy_of_the_alarm(self) -> None:
        self.start_host1()

        self.set_by_hand(self.migration)

        self.assert_only_on('host1')
