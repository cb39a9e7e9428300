# SPDX-License-Identifier: Apache-2.0

"""Resizes and cold migrations whose guest does not start."""

from typing import Any

import fixtures
from nova import context as nova_context
from nova.virt import fake as nova_fake

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from tests.functional.virt import backends
from tests.functional.virt import breaking
from tests.functional.virt import moving

State = assignment.State


class FinishTest(breaking.BreakingTestCase):
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

    def test_one_that_never_had_its_resources_moves_on(self) -> None:
        host = self.get_host('host2')
        with fixtures.MockPatchObject(
            host, 'apply', side_effect=breaking.LEDGER_IS_FULL
        ):
            self.begin()
            self.wait_for_error()
        self.compare('host1')
        self.act(self.server, 'os-resetState', state='active')

        self.migrate(self.server)

        kept = self.find_migration(self.server).uuid
        self.assert_agreement(
            host1={self.uuid: State.APPLIED}, host2={kept: State.PARKED}
        )


class OtherFlavorTest(breaking.BreakingTestCase):
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

    def test_one_that_has_got_less_is_an_alarm_until_it_is_resized(
        self,
    ) -> None:
        self._delete_server(self.server)
        self.server = self.boot(self.large, host='host1')
        self.uuid = self.server['id']
        self.fail_to(self.small)
        self.act(self.server, 'reboot', type='HARD')
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assert_held({'host2': 2})

        for _ in range(2):
            self.compare('host2')

        [problem] = self.get_ext('host2')._restore.problems
        self.assertEqual(
            (alarm.NOT_RECORDED, self.uuid), (problem.alarm, problem.subject)
        )
        self.assertIn('has only 2 of 4 CUSTOM_SEAT', problem.text)
        self.assertIn('Resize the server to another flavor', problem.text)
        self.resize(self.server, self.small)
        self.confirm(self.server)
        for host in self.HOSTS:
            self.compare(host)
            self.assertEqual((), self.get_ext(host)._restore.problems)

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
        server = self._wait_for_server_parameter(
            server, {'status': 'ERROR', 'OS-EXT-STS:task_state': None}
        )

        self.assertIn('resctrl', server['fault']['message'])
        kernel.stop_failing()
        self.compare('host1')
        self.assert_agreement(host2={uuid: State.PARKED})
        # So does a start of the guest.
        self.services['host2'].driver._ext_claims.apply(
            nova_context.get_admin_context(), moving.find_instance(uuid)
        )
        self.assert_agreement(host2={uuid: State.APPLIED})
