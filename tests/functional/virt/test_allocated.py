# SPDX-License-Identifier: Apache-2.0

"""Placement loses, or never had, what a server holds."""

from typing import Any

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.objects import alarm
from nova_ext_resources.placement import allocations
from tests.functional.virt import test_failures
from tests.functional.virt import test_lost_ledger

_IMAGE = '155d900f-4e14-4e4c-a73d-069cbf4541e6'
_WAYS = 'CUSTOM_LLC_WAYS'


class AllocatedTestCase(test_lost_ledger.LostLedgerTestCase):
    """A pinned server, on a host that compares when a test says so."""

    def setUp(self) -> None:
        super().setUp()
        self.flags(shelved_offload_time=0)
        self.server = self.boot(self.make_pinned_flavor(4))
        entry = self.host.find_entry(self.server['id'])
        (self.rp_uuid,) = (
            one.rp_uuid
            for one in entry.assignments
            if one.resource_class == _WAYS
        )
        self.reserved = self.count_reserved()

    def count_reserved(self) -> int:
        found = self._get_provider_inventory(self.rp_uuid)[_WAYS]
        return int(found['reserved'])

    def compare(self) -> list[tuple[str, str]]:
        """Have two comparisons published; return the alarms."""
        self.ext.missing_allocations._debounce._age = 0.0
        for _ in range(2):
            self.ext.missing_allocations.run_round()
        self.publish(self.service)
        return self.list_alarms()

    def list_allocated(self) -> dict[str, Any]:
        found: dict[str, Any] = self._get_allocations_by_server_uuid(
            self.server['id']
        )
        return found

    def assert_agreement(self) -> None:
        self.assertEqual([], self.compare())
        self.assert_in_force(self.server, 4)
        self.assert_allocated_as_held(self.server)
        self.assertEqual(self.reserved, self.count_reserved())


class FailedRebuildTest(AllocatedTestCase):
    """Nova deletes all allocations of a server that stays where it is."""

    def setUp(self) -> None:
        super().setUp()
        self.assertEqual([], self.compare())
        with test_failures.BrokenGuest():
            self.api.post_server_action(
                self.server['id'], {'rebuild': {'imageRef': _IMAGE}}
            )
            self._wait_for_state_change(self.server, 'ERROR')
        self.assertEqual({}, self.list_allocated())

    def assert_reported(self) -> None:
        found = self.compare()
        self.assertEqual([(alarm.NOT_IN_PLACEMENT, self.server['id'])], found)
        self.assertEqual(self.reserved + 4, self.count_reserved())

    def test_it_is_reported_until_the_server_was_shelved_and_unshelved(
        self,
    ) -> None:
        self.assert_reported()
        # Nothing else brings allocations back.
        self._reboot_server(self.server, hard=True)
        self.assert_reported()
        for action, state in (('os-stop', 'SHUTOFF'), ('os-start', 'ACTIVE')):
            self.admin_api.post_server_action(
                self.server['id'], {action: None}
            )
            self._wait_for_state_change(self.server, state)
            self.assert_reported()
        self.api.post_server_action(
            self.server['id'], {'rebuild': {'imageRef': _IMAGE}}
        )
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assert_reported()

        self._shelve_server(self.server)
        self._unshelve_server(self.server)

        self.assert_agreement()

    def test_it_ends_when_the_server_is_deleted(self) -> None:
        self.assert_reported()

        self._delete_server(self.server)

        self.assertEqual([], self.compare())
        self.assertEqual(self.reserved, self.count_reserved())

    def test_a_ledger_that_is_lost_then_is_not_forgotten(self) -> None:
        self._reboot_server(self.server, hard=True)

        self.lose_ledger()

        expected = (alarm.NOT_RECORDED, self.server['id'])
        self.wait_until(lambda: expected in self.list_alarms())
        self._shelve_server(self.server)
        self.wait_until(lambda: expected not in self.list_alarms())
        self.wait_until(lambda: not self.list_workloads('host1'))
        self.publish(self.service)
        self._unshelve_server(self.server)
        self.assert_agreement()


class OtherConsumerTest(AllocatedTestCase):
    """A consumer that Nova does not know has what the server holds."""

    def test_what_the_server_lacks_is_told_all_the_same(self) -> None:
        self._delete_server_allocations(self.server['id'])
        self.placement.put(
            f'/allocations/{uuidsentinel.other}',
            {
                'allocations': {self.rp_uuid: {'resources': {_WAYS: 4}}},
                'project_id': uuidsentinel.project,
                'user_id': uuidsentinel.user,
                'consumer_generation': None,
            },
            version='1.28',
        )

        self.assertEqual(
            [(alarm.NOT_IN_PLACEMENT, self.server['id'])], self.compare()
        )


class WrongProviderTest(AllocatedTestCase):
    """The host chose another domain, and died before it could say so."""

    def test_placement_follows(self) -> None:
        (other,) = (
            rp_uuid
            for rp_uuid, name in self.host.view.tracked
            if name == _WAYS and rp_uuid != self.rp_uuid
        )
        allocations.move_allocations(
            self.ext._placement,
            self.server['id'],
            from_rp_uuid=self.rp_uuid,
            to_rp_uuid=other,
            resource_classes={_WAYS},
        )
        self.assertIn(other, self.list_allocated())

        self.assert_agreement()

        self.assertNotIn(other, self.list_allocated())
