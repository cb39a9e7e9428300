# SPDX-License-Identifier: Apache-2.0

"""Whose the entry is that a move on one host has kept, when it has ended."""

import contextlib
from typing import Any

import fixtures

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from tests.functional.virt import breaking
from tests.functional.virt import moving

State = assignment.State


class EndsTestCase(breaking.BreakingTestCase):
    HOSTS = ('host1',)

    def setUp(self) -> None:
        super().setUp()
        self.flags(allow_resize_to_same_host=True)

    @contextlib.contextmanager
    def full_ledger(self) -> Any:
        def fail(*_args: Any) -> None:
            raise breaking.LEDGER_IS_FULL

        ledger = self.get_host('host1')._ledger
        with fixtures.MockPatchObject(ledger, 'set_state', fail):
            yield

    def reboot(self) -> None:
        self.act(self.server, 'reboot', type='HARD')
        self._wait_for_state_change(self.server, 'ACTIVE')
        # Or the scheduler counts what is released already.
        self.publish(self.services['host1'])

    def fail_to_start(self, flavor: str) -> None:
        """The guest does not start; then it does, with what it has got."""
        with moving.failing('spawn'):
            self.begin(flavor)
            self.wait_for_error()
        self.compare('host1')
        self.reboot()

    def assert_holds(self, *amounts: int, is_short: bool = False) -> None:
        """Only the server holds so many seats, as in placement.

        :param is_short: whether an alarm says that its flavor requests more
        """
        entries = self.get_host('host1').entries
        held = [
            one.amount
            for entry in entries.values()
            for one in entry.assignments
        ]
        self.assertEqual(list(amounts), held)
        self.assertLessEqual(entries.keys(), {self.uuid})
        self._assert_placement('host1', entries)
        self.assert_no_difference('host1')
        alarms = [
            (one.alarm, one.subject) for one in self.list_problems('host1')
        ]
        self.assertEqual([(alarm.NOT_RECORDED, self.uuid)] * is_short, alarms)


class ConfirmTest(EndsTestCase):
    """Nova deletes the former allocations, whatever fails."""

    def fail_to_confirm(self) -> None:
        with self.failing('network_api', 'setup_networks_on_host'):
            self.act(self.server, 'confirmResize')
            self.wait_for_error()

    def test_one_that_fails(self) -> None:
        self.resize(self.server, self.large)
        self.fail_to_confirm()
        before = self.get_host('host1').entries[self.uuid]

        self.compare('host1')

        self.assert_holds(4)
        self.assertEqual(before, self.get_host('host1').entries[self.uuid])

    def test_one_that_fails_to_a_flavor_without(self) -> None:
        self.resize(self.server, self.make_flavor())
        self.fail_to_confirm()

        self.compare('host1')

        self.assert_holds()

    def test_one_that_fails_with_as_many_seats_as_before(self) -> None:
        self.resize(self.server, self.make_own_flavor(2))
        self.fail_to_confirm()
        before = self.get_host('host1').entries[self.uuid]

        self.compare('host1')

        self.assert_holds(2)
        self.assertEqual(before, self.get_host('host1').entries[self.uuid])

    def test_a_release_that_fails_before_a_restart(self) -> None:
        self.resize(self.server, self.large)
        with self.full_ledger():
            self.confirm(self.server)
            self.stop_compute(self.services['host1'])
        self.services['host1'] = self.start_again(self.services['host1'])
        self.publish(self.services['host1'])

        self.compare('host1')

        self.assert_holds(4)


class SourceTest(EndsTestCase):
    """Nova gives the former allocations back."""

    def test_the_destination_is_not_told(self) -> None:
        """Nova has noted the former flavor by then."""
        with self.failing('compute_rpcapi', 'finish_resize'):
            self.begin(self.large)
            self.wait_for_error()

        self.compare('host1')

        self.assert_holds(2)

    def test_a_failure_after_a_guest_that_did_not_start(self) -> None:
        """Nova had given it its former flavor back, of two seats."""
        self.fail_to_start(self.make_own_flavor(1))
        with self.failing('', '_terminate_volume_connections'):
            self.begin(self.large)
            self.wait_for_error()

        # The first answer gives it back what it had; two find it short.
        for _answer in range(3):
            self.compare('host1')

        self.assert_holds(1, is_short=True)
        self.reboot()
        self.assert_holds(1, is_short=True)

    def reboot_after_failure(self, flavor: str) -> None:
        with self.failing('', '_terminate_volume_connections'):
            self.begin(flavor)
            self.wait_for_error()
        self.reboot()

    def test_a_hard_reboot_that_comes_before_the_comparison(self) -> None:
        self.reboot_after_failure(self.make_flavor())

        self.assert_holds(2)

    def test_it_starts_with_nothing_of_what_it_was_to_get(self) -> None:
        self.reboot_after_failure(self.large)

        self.assert_holds(2)


class RevertTest(EndsTestCase):
    def fail_to_revert(self, flavor: str) -> None:
        """Nova leaves both allocations, and the server with its new flavor."""
        self.resize(self.server, flavor)
        with self.failing('', '_terminate_volume_connections'):
            self.act(self.server, 'revertResize')
            self.wait_for_error()

    def test_a_hard_reboot_after_the_guest_was_removed(self) -> None:
        self.fail_to_revert(self.large)

        self.reboot()

        entry = self.get_host('host1').entries[self.uuid]
        self.assertEqual([4], [one.amount for one in entry.assignments])


class AgainTest(EndsTestCase):
    def assert_keeps(self, amount: int) -> None:
        """The last move keeps so many seats, and they come back."""
        kept = self.find_migration(self.server).uuid
        entries = self.get_host('host1').entries
        self.assertEqual({self.uuid, kept}, {*entries})
        self.assertEqual(
            [amount], [one.amount for one in entries[kept].assignments]
        )
        self._assert_placement('host1', entries)
        self.revert(self.server)
        self.compare('host1')
        self.assert_holds(amount)

    def test_a_resize_after_one_whose_guest_never_came(self) -> None:
        with self.failing('network_api', 'migrate_instance_finish'):
            self.begin(self.large)
            self.wait_for_error()
        self.compare('host1')
        self.act(self.server, 'os-resetState', state='active')
        self.publish(self.services['host1'])
        flavor = self.make_own_flavor(1)

        self.resize(self.server, flavor)

        self.assert_keeps(4)

    def test_a_resize_before_the_comparison_has_given_it_back(self) -> None:
        with self.failing('', '_terminate_volume_connections'):
            self.begin(self.make_own_flavor(3))
            self.wait_for_error()
        self.act(self.server, 'os-resetState', state='active')
        self.publish(self.services['host1'])

        self.resize(self.server, self.make_own_flavor(1))

        self.assert_keeps(2)
