# SPDX-License-Identifier: Apache-2.0

"""What a host does, whichever backend puts its cache ways into force.

The test class of a backend inherits ``BackendSuite`` and says how a host with
it is made, broken and looked at.
"""

import abc
import dataclasses

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.reservation import publication
from tests.unit.host import with_host

WAYS = with_host.WAYS
DOMAINS = with_host.DOMAINS

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other
THIRD = uuidsentinel.third


def find_inventory(
    host: manager.HostManager, rp_uuid: str, resource_class: str
) -> class_inventory.Inventory:
    tree = {one.rp_uuid: one for one in host.providers()}
    return tree[rp_uuid].inventories[resource_class]


class BackendSuite(with_host.BackendTestCase):
    """Six ways of each of two domains can be sold.

    Masks of other software are relative to the lowest of them.
    """

    #: Name of its entry points.
    BACKEND: str

    #: The lowest way that can be sold.
    LOWEST = 0

    def to_relative(self, mask: int) -> int:
        return mask >> self.LOWEST

    @abc.abstractmethod
    def make_backend_host(self) -> manager.HostManager:
        """Make a host that has looked at the backend."""

    @abc.abstractmethod
    def add_foreign(self, name: str, masks: dict[int, int]) -> None:
        """Let other software use ways."""

    @abc.abstractmethod
    def remove_foreign(self, name: str) -> None:
        """Let it go again."""

    @abc.abstractmethod
    def break_backend(self) -> None:
        """Nothing that is asked of it succeeds from now on."""

    @abc.abstractmethod
    def mend_backend(self) -> None:
        """All is well again."""

    @abc.abstractmethod
    def lose_everything(self) -> None:
        """Nothing is in force any more, as after a reboot."""

    @abc.abstractmethod
    def count_changes(self) -> int:
        """Tell how often something was changed up to now."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.host = self.make_backend_host()

    def reopen(self) -> manager.HostManager:
        """Restart the service."""
        self.host.close()
        return self.make_backend_host()

    def test_claimed_ways_come_into_force(self) -> None:
        entry = self.start(self.host, SERVER, 4)

        self.assertEqual(assignment.State.APPLIED, entry.state)
        self.assert_agreement(self.host)

    def test_released_ways_are_free_for_the_next_server(self) -> None:
        for _ in range(3):
            self.start(self.host, SERVER, 6)
            self.host.release(SERVER)

        self.assertEqual({}, self.list_in_force())
        self.assert_agreement(self.host)

    def test_discovery_while_servers_run_reserves_nothing_for_them(
        self,
    ) -> None:
        before = find_inventory(self.host, DOMAINS[0], WAYS)
        self.start(self.host, SERVER, 4)

        self.host.refresh()

        self.assertEqual(before, find_inventory(self.host, DOMAINS[0], WAYS))
        self.assert_agreement(self.host)
        self.host.release(SERVER)
        self.host.refresh()
        self.assertEqual(before, find_inventory(self.host, DOMAINS[0], WAYS))

    def test_two_servers_get_ways_of_their_own(self) -> None:
        self.start(self.host, SERVER, 4)
        self.start(self.host, OTHER, 2, cpus=frozenset({3}))

        self.assert_agreement(self.host)

    def test_ways_that_the_host_gave_in_another_order_are_known_exactly(
        self,
    ) -> None:
        # A backend may choose by itself, in the order of its calls.
        for uuid, cpu in ((SERVER, 1), (OTHER, 2), (THIRD, 3)):
            self.host.claim(
                with_host.make_claim(uuid, 2, cpus=frozenset({cpu}))
            )
        for uuid in (OTHER, THIRD):
            self.host.apply(uuid)
            self.assert_consistent(self.host)

        self.host.apply(SERVER)

        self.assert_agreement(self.host)
        self.host.release(OTHER)
        self.assert_agreement(self.host)

    def test_ways_of_other_software_are_reserved(self) -> None:
        before = find_inventory(self.host, DOMAINS[0], WAYS)
        self.add_foreign('db', {0: 0b11})

        self.host.refresh()

        after = find_inventory(self.host, DOMAINS[0], WAYS)
        self.assertEqual(before.total, after.total)
        self.assertEqual(before.reserved + 2, after.reserved)
        self.remove_foreign('db')
        self.host.refresh()
        self.assertEqual(before, find_inventory(self.host, DOMAINS[0], WAYS))

    def test_a_foreign_use_that_nobody_has_seen_yet_refuses_the_claim(
        self,
    ) -> None:
        self.add_foreign('db', {0: 0b111111})

        err = self.assertRaises(
            exception.CapacityExceeded, self.start, self.host, SERVER, 4
        )

        self.assertIn(
            'other software on the host uses this resource', str(err)
        )
        self.assertEqual({}, self.list_in_force())
        self.assert_agreement(self.host)

    def test_a_failed_look_keeps_the_last_inventory(self) -> None:
        before = self.host.providers()
        view = self.host.view
        self.break_backend()

        self.host.refresh()

        self.assertEqual(before, self.host.providers())
        self.assertEqual(view, self.host.view)
        self.assertIn(self.BACKEND, self.host.found.failures)
        self.assertTrue(self.host.found.is_complete)

    def read_refused(self) -> dict[str, str]:
        """Return what readers of the host's document see."""
        published = publication.Publication(
            host='host1', document=self.host.stats()
        )
        return dict(published.refused)

    def test_what_it_cannot_apply_now_it_does_not_offer(self) -> None:
        before = self.host.providers()
        self.assertEqual({}, self.read_refused())

        self.break_backend()
        self.host.refresh()
        self.host.heal()

        [problem] = self.host.problems
        refused = self.read_refused()
        self.assertEqual(problem.alarm, refused[WAYS])
        self.assertEqual(problem.alarm, refused[with_host.CLOS])
        self.assertEqual(before, self.host.providers())
        free, _used = (stats.decode_totals(self.host.stats()) or {})[WAYS]
        self.assertEqual(0, free)

        self.mend_backend()
        self.host.refresh()
        self.host.heal()
        self.assertEqual({}, self.read_refused())
        self.start(self.host, SERVER)

    def test_what_is_not_found_after_a_start_is_not_offered(self) -> None:
        self.break_backend()
        self.host = self.reopen()

        self.assertEqual(alarm.DISCOVERY_FAILED, self.read_refused()[WAYS])

        self.mend_backend()
        self.host.refresh()
        self.host.heal()
        self.assertEqual({}, self.read_refused())

    def test_nothing_leaks_when_the_backend_is_down_at_apply(self) -> None:
        self.host.claim(with_host.make_claim(SERVER))
        self.break_backend()

        self.assertRaises(exception.EnforcementFailed, self.host.apply, SERVER)
        if self.host.holds(SERVER):
            # It was applied at its claim, and the driver releases it.
            self.assertRaises(
                exception.EnforcementFailed, self.host.release, SERVER
            )
        self.assertEqual({SERVER: 'releasing'}, self.read_rows())
        self.host.heal()
        self.assertTrue(self.host.problems)

        self.mend_backend()
        self.host.heal()
        self.assertEqual((), self.host.problems)
        self.assertEqual({}, self.read_rows())
        self.assert_agreement(self.host)

    def test_a_release_that_failed_is_finished_later(self) -> None:
        self.start(self.host, SERVER)
        self.break_backend()
        self.assertRaises(
            exception.EnforcementFailed, self.host.release, SERVER
        )
        self.assert_consistent(self.host)
        self.mend_backend()

        self.host.heal()

        self.assertEqual({}, self.read_rows())
        self.assert_agreement(self.host)

    def test_a_release_that_failed_is_finished_after_a_restart(self) -> None:
        self.start(self.host, SERVER)
        self.break_backend()
        self.assertRaises(
            exception.EnforcementFailed, self.host.release, SERVER
        )
        self.mend_backend()
        again = self.reopen()

        again.reconcile([SERVER])

        self.assertEqual({}, self.read_rows())
        self.assert_agreement(again)

    def test_what_the_backend_lost_in_a_reboot_is_restored_for_everybody(
        self,
    ) -> None:
        entries = [
            self.start(self.host, uuid, ways, cpus=frozenset({cpu}))
            for uuid, ways, cpu in ((SERVER, 2, 1), (OTHER, 1, 2))
        ]
        self.lose_everything()
        self.assertEqual({}, self.list_in_force())

        self.host.refresh()
        self.host.heal()

        self.assertEqual(
            entries, [self.host.entries[u] for u in (SERVER, OTHER)]
        )
        self.assert_agreement(self.host)

    def test_the_ledger_follows_the_ways_that_are_then_chooses(self) -> None:
        for uuid, cpu in ((SERVER, 1), (OTHER, 2)):
            self.start(self.host, uuid, 2, cpus=frozenset({cpu}))
        before = with_host.masks_of(self.host.entries)
        self.lose_everything()
        low = min(before[DOMAINS[0]])
        self.add_foreign('db', {0: self.to_relative(low)})

        self.host.heal()

        self.assertNotEqual(before, with_host.masks_of(self.host.entries))
        self.assert_agreement(self.host)

    def test_who_cannot_be_restored_stays_on_record_and_is_reported(
        self,
    ) -> None:
        for uuid, cpu in ((SERVER, 1), (OTHER, 2)):
            self.start(self.host, uuid, 3, cpus=frozenset({cpu}))
        self.lose_everything()
        self.add_foreign('db', {0: 0b111})

        for _ in range(2):
            self.host.heal()

        self.assertEqual(
            {SERVER: 'applied', OTHER: 'applied'}, self.read_rows()
        )
        (problem,) = self.host.problems
        self.assertEqual(alarm.NOT_APPLIED, problem.alarm)
        self.assertEqual(1, self.log.output.count(str(problem)))
        self.remove_foreign('db')
        self.host.heal()
        self.assertEqual((), self.host.problems)
        self.assert_agreement(self.host)

    def test_strangers_that_nova_has_are_reported_and_left_alone(self) -> None:
        self.start(self.host, SERVER)
        self.host.close()
        self.ledger_path += '.new'
        again = self.make_backend_host()

        for _ in range(2):
            again.reconcile([SERVER])
            again.heal()

        (problem,) = again.problems
        self.assertEqual(
            (alarm.UNKNOWN_SETTINGS, SERVER),
            (problem.alarm, problem.subject),
        )
        self.assertEqual(1, self.log.output.count(str(problem)))
        self.assertIn(SERVER, self.list_in_force())
        self.assertEqual({}, again.entries)

    def test_strangers_that_nova_does_not_have_go_at_the_start(self) -> None:
        self.start(self.host, SERVER)
        self.host.close()
        self.ledger_path += '.new'
        again = self.make_backend_host()

        again.reconcile([OTHER])

        self.assertEqual((), again.problems)
        self.assertEqual({}, self.list_in_force())
        self.assertIn(f'{SERVER}, which has no claim', self.log.output)

    def test_servers_that_are_gone_are_released_at_the_start(self) -> None:
        for uuid, cpu in ((SERVER, 1), (OTHER, 2)):
            self.start(self.host, uuid, 2, cpus=frozenset({cpu}))
        again = self.reopen()

        again.reconcile([OTHER])

        self.assertEqual({OTHER: 'applied'}, self.read_rows())
        self.assert_agreement(again)

    def test_a_start_while_the_backend_is_down_is_mended_later(self) -> None:
        self.start(self.host, SERVER)
        self.start(self.host, OTHER, cpus=frozenset({3}))
        self.break_backend()
        again = self.reopen()

        again.reconcile([OTHER])
        self.assertTrue(again.problems)

        self.mend_backend()
        again.refresh()
        again.heal()
        self.assertEqual({OTHER: 'applied'}, self.read_rows())
        self.assert_agreement(again)

    def test_what_is_in_force_is_not_touched_by_healing(self) -> None:
        self.start(self.host, SERVER)
        before = self.count_changes()

        self.host.heal()
        self.host.apply(SERVER)

        self.assertEqual(before, self.count_changes())

    def make_overlap(self) -> manager.HostManager:
        """Give two servers the same ways in the ledger, and restart."""
        first = self.start(self.host, SERVER, 2, cpus=frozenset({1}))
        entry = self.start(self.host, OTHER, 2, cpus=frozenset({2}))
        ways, *others = entry.assignments
        self.host._ledger.put(
            dataclasses.replace(
                entry,
                assignments=(
                    dataclasses.replace(
                        ways, units=first.assignments[0].units
                    ),
                    *others,
                ),
            )
        )
        return self.reopen()

    def test_of_two_servers_with_the_same_ways_one_gets_others(self) -> None:
        host = self.make_overlap()

        host.heal()

        self.assertEqual((), host.problems)
        self.assert_agreement(host)

    def test_a_crash_between_backend_and_the_ledger_is_made_good(self) -> None:
        self.host.claim(with_host.make_claim(SERVER, 2))
        entry = self.host.entries[SERVER]
        # The host has it, and the process ends before it is written down.
        self.host.enforcement.apply(entry)
        again = self.reopen()

        again.reconcile([SERVER])

        self.assertEqual({SERVER: 'applied'}, self.read_rows())
        self.assert_agreement(again)

    def test_a_crash_between_release_and_ledger_is_made_good(self) -> None:
        entry = self.start(self.host, SERVER)
        self.host._ledger.set_state([SERVER], assignment.State.RELEASING)
        self.host.enforcement.release_all([entry])
        again = self.reopen()

        again.reconcile([SERVER])

        self.assertEqual({}, self.read_rows())
        self.assert_agreement(again)
