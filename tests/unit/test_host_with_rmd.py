# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

from collections.abc import Callable
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources import exception
from nova_ext_resources import host as host_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import inventory
from nova_ext_resources.plugins import loader
from nova_ext_resources.testing.rmd_simulator import faults
from tests.unit import with_host

WAYS = with_host.WAYS
CLOS = with_host.CLOS
DOMAINS = with_host.DOMAINS
RDT = with_host.RDT

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other
THIRD = uuidsentinel.third


def find_inventory(
    host: host_mod.HostResources, rp_uuid: str, resource_class: str
) -> inventory.Inventory:
    tree = {one.rp_uuid: one for one in host.providers()}
    return tree[rp_uuid].inventories[resource_class]


class RmdHostTest(with_host.RmdHostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.host = self.make_rmd_host()

    def reopen(self) -> host_mod.HostResources:
        """Restart the service."""
        self.host.close()
        return self.make_rmd_host()

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

    def test_ways_that_rmd_gave_in_another_order_are_known_exactly(
        self,
    ) -> None:
        # RMD gives from one end to whom is applied first.
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
        self.simulator.add_foreign_group('db', {0: 0b110, 1: 0b1110000000})

        self.host.refresh()

        after = find_inventory(self.host, DOMAINS[0], WAYS)
        self.assertEqual(before.total, after.total)
        self.assertEqual(before.reserved + 2, after.reserved)
        self.simulator.remove_foreign_group('db')
        self.host.refresh()
        self.assertEqual(before, find_inventory(self.host, DOMAINS[0], WAYS))

    def test_a_class_of_service_of_others_is_reserved(self) -> None:
        self.simulator.add_workload(
            {'core_ids': ['20'], 'policy': 'gold', 'uuid': OTHER}
        )

        self.host.refresh()

        self.assertEqual(3, find_inventory(self.host, RDT, CLOS).reserved)

    def test_a_foreign_use_that_nobody_has_seen_yet_refuses_the_claim(
        self,
    ) -> None:
        self.simulator.add_foreign_group('db', {0: 0b1111110})

        err = self.assertRaises(
            exception.CapacityExceeded, self.start, self.host, SERVER, 4
        )

        self.assertIn('something else on the host uses it', str(err))
        self.assertEqual({}, self.list_in_force())
        self.assert_agreement(self.host)

    def test_a_failed_look_keeps_the_last_inventory(self) -> None:
        before = self.host.providers()
        view = self.host.view
        self.simulator.refuse_connections()

        self.host.refresh()

        self.assertEqual(before, self.host.providers())
        self.assertEqual(view, self.host.view)
        self.assertIn('rmd', self.host.found.failures)
        self.assertTrue(self.host.found.is_complete)

    def test_a_failure_is_logged_once_until_it_changes(self) -> None:
        self.simulator.refuse_connections()
        for _ in range(3):
            self.host.refresh()
        self.assertEqual(1, self.log.output.count('could not discover'))

        self.simulator.accept_connections()
        self.simulator.faults.add(
            faults.Fault(kind='garbage', body='html', path='/v1/cache')
        )
        for _ in range(3):
            self.host.refresh()
        self.assertEqual(2, self.log.output.count('could not discover'))

        self.simulator.faults.clear()
        for _ in range(3):
            self.host.refresh()
        self.assertEqual(1, self.log.output.count('works again'))
        self.assertEqual({}, self.host.found.failures)

    def test_nothing_leaks_when_rmd_is_down_at_apply(self) -> None:
        self.host.claim(with_host.make_claim(SERVER))
        self.simulator.refuse_connections()

        self.assertRaises(exception.EnforcementFailed, self.host.apply, SERVER)
        self.assertEqual({SERVER: 'releasing'}, self.read_rows())
        self.host.heal()
        self.assertTrue(self.host.problems)

        self.simulator.accept_connections()
        self.host.heal()
        self.assertEqual((), self.host.problems)
        self.assertEqual({}, self.read_rows())
        self.assert_agreement(self.host)

    def test_nothing_leaks_whenever_a_request_of_a_start_fails(self) -> None:
        for number in range(1, 12):
            for kind in ('drop', 'status'):
                for when in ('before', 'after'):
                    self.check_failure_at(number, kind, when)

    def check_failure_at(
        self, number: int, kind: faults.Kind, when: faults.When
    ) -> None:
        if number > 1:
            self.simulator.faults.add(
                faults.Fault(kind='slow', seconds=0, count=number - 1)
            )
        self.simulator.faults.add(
            faults.Fault(kind=kind, when=when, count=1, body='?')
        )
        with self.subTest(number=number, kind=kind, when=when):
            try:
                self.start(self.host, SERVER)
            except exception.ExtResourcesError:
                self.simulator.faults.clear()
                self.host.heal()
                self.assertEqual({}, self.read_rows())
            self.simulator.faults.clear()
            self.assert_agreement(self.host)
        self.host.release(SERVER)
        self.assert_agreement(self.host)

    def test_a_hung_rmd_is_given_up_and_nothing_leaks(self) -> None:
        self.host.close()
        self.host = self.make_rmd_host(timeout=0.2)
        self.simulator.faults.add(
            faults.Fault(kind='hang', methods=('POST',), count=1)
        )

        err = self.assertRaises(
            exception.EnforcementFailed, self.start, self.host, SERVER
        )

        self.assertIn(SERVER, str(err))
        self.simulator.faults.clear()
        self.host.heal()
        self.assert_agreement(self.host)
        self.assertEqual({}, self.read_rows())

    def test_a_release_that_failed_is_finished_later(self) -> None:
        self.start(self.host, SERVER)
        self.simulator.refuse_connections()
        self.assertRaises(
            exception.EnforcementFailed, self.host.release, SERVER
        )
        self.assert_consistent(self.host)
        self.simulator.accept_connections()

        self.host.heal()

        self.assertEqual({}, self.read_rows())
        self.assert_agreement(self.host)

    def test_a_release_that_failed_is_finished_after_a_restart(self) -> None:
        self.start(self.host, SERVER)
        self.simulator.refuse_connections()
        self.assertRaises(
            exception.EnforcementFailed, self.host.release, SERVER
        )
        self.simulator.accept_connections()
        again = self.reopen()

        again.reconcile([SERVER])

        self.assertEqual({}, self.read_rows())
        self.assert_agreement(again)

    def test_what_rmd_lost_in_a_reboot_is_restored_for_everybody(
        self,
    ) -> None:
        entries = [
            self.start(self.host, uuid, ways, cpus=frozenset({cpu}))
            for uuid, ways, cpu in ((SERVER, 2, 1), (OTHER, 1, 2))
        ]
        self.simulator.restart(keep_database=False)
        self.assertEqual({}, self.list_in_force())

        self.host.refresh()
        self.host.heal()

        self.assertEqual(
            entries, [self.host.entries[u] for u in (SERVER, OTHER)]
        )
        self.assert_agreement(self.host)

    def test_the_ledger_follows_the_ways_that_rmd_then_chooses(self) -> None:
        for uuid, cpu in ((SERVER, 1), (OTHER, 2)):
            self.start(self.host, uuid, 2, cpus=frozenset({cpu}))
        before = with_host.masks_of(self.host.entries)
        self.simulator.restart(keep_database=False)
        low = min(before[DOMAINS[0]])
        self.simulator.add_foreign_group('db', {0: low})

        self.host.heal()

        self.assertNotEqual(before, with_host.masks_of(self.host.entries))
        self.assert_agreement(self.host)

    def test_who_cannot_be_restored_stays_on_record_and_is_reported(
        self,
    ) -> None:
        for uuid, cpu in ((SERVER, 1), (OTHER, 2)):
            self.start(self.host, uuid, 3, cpus=frozenset({cpu}))
        self.simulator.restart(keep_database=False)
        self.simulator.add_foreign_group('db', {0: 0b1110})

        for _ in range(2):
            self.host.heal()

        self.assertEqual(
            {SERVER: 'applied', OTHER: 'applied'}, self.read_rows()
        )
        (problem,) = self.host.problems
        self.assertEqual(1, self.log.output.count(problem))
        self.simulator.remove_foreign_group('db')
        self.host.heal()
        self.assertEqual((), self.host.problems)
        self.assert_agreement(self.host)

    def test_strangers_are_reported_once_and_left_alone(self) -> None:
        self.start(self.host, SERVER)
        self.host.close()
        self.ledger_path += '.new'
        again = self.make_rmd_host()

        for _ in range(2):
            again.reconcile([])

        (problem,) = again.problems
        self.assertIn(SERVER, problem)
        self.assertEqual(1, self.log.output.count(problem))
        self.assertIn(SERVER, self.list_in_force())
        self.assertEqual({}, again.entries)

    def test_servers_that_are_gone_are_released_at_the_start(self) -> None:
        for uuid, cpu in ((SERVER, 1), (OTHER, 2)):
            self.start(self.host, uuid, 2, cpus=frozenset({cpu}))
        again = self.reopen()

        again.reconcile([OTHER])

        self.assertEqual({OTHER: 'applied'}, self.read_rows())
        self.assert_agreement(again)

    def test_a_start_while_rmd_is_down_is_mended_later(self) -> None:
        self.start(self.host, SERVER)
        self.start(self.host, OTHER, cpus=frozenset({3}))
        self.simulator.refuse_connections()
        again = self.reopen()

        again.reconcile([OTHER])
        self.assertTrue(again.problems)

        self.simulator.accept_connections()
        again.refresh()
        again.heal()
        self.assertEqual({OTHER: 'applied'}, self.read_rows())
        self.assert_agreement(again)

    def test_what_is_in_force_is_not_touched_by_healing(self) -> None:
        self.start(self.host, SERVER)
        before = len(self.simulator.requests)

        self.host.heal()
        self.host.apply(SERVER)

        methods = {one for one, _ in self.simulator.requests[before:]}
        self.assertEqual({'GET'}, methods)

    def test_a_crash_between_rmd_and_the_ledger_is_made_good(self) -> None:
        self.host.claim(with_host.make_claim(SERVER, 2))
        entry = self.host.entries[SERVER]
        # RMD has it, and the process ends before it is written down.
        self.host._enforcement.apply(entry)
        again = self.reopen()

        again.reconcile([SERVER])

        self.assertEqual({SERVER: 'applied'}, self.read_rows())
        self.assert_agreement(again)

    def test_a_crash_between_release_and_ledger_is_made_good(self) -> None:
        entry = self.start(self.host, SERVER)
        self.host._ledger.set_state([SERVER], assignment.State.RELEASING)
        self.host._enforcement.release_all([entry])
        again = self.reopen()

        again.reconcile([SERVER])

        self.assertEqual({}, self.read_rows())
        self.assert_agreement(again)


class MeanwhileTest(with_host.RmdHostTestCase):
    """Something happens while the host is being looked at."""

    def setUp(self) -> None:
        super().setUp()
        for core in ('10', '20'):
            self.simulator.add_workload(
                {'core_ids': [core], 'policy': 'silver'}
            )
        inventories = self.load_rmd(loader.INVENTORY_PROVIDERS)
        self.enforcers = self.load_rmd(loader.ENFORCERS)
        self.host = with_host.make_host(
            {'rmd': self.interrupt(inventories['rmd'], 'discover')},
            {'rmd': self.interrupt(self.enforcers['rmd'], 'list_applied')},
            self.open_ledger(),
        )
        self.acts: list[Callable[[], object]] = []
        self.host.refresh()

    def interrupt(self, plugin: Any, method: str) -> Any:
        """Let what waits happen after it has looked at the host."""
        look = getattr(plugin, method)

        def act() -> Any:
            seen = look()
            while self.acts:
                self.acts.pop()()
            return seen

        setattr(plugin, method, act)
        return plugin

    def reserved(self) -> int:
        return find_inventory(self.host, RDT, CLOS).reserved

    def test_a_claim_that_is_not_in_force_hides_nobody_elses_use(
        self,
    ) -> None:
        self.assertEqual(4, self.reserved())
        self.host.claim(with_host.make_claim(SERVER))

        self.host.refresh()

        self.assertEqual(5, self.reserved())
        self.assert_consistent(self.host)

    def test_nor_does_a_server_that_starts_meanwhile(self) -> None:
        self.acts.append(lambda: self.start(self.host, SERVER))

        self.host.refresh()

        self.assertEqual(5, self.reserved())
        self.assert_consistent(self.host)
        self.host.refresh()
        self.assertEqual(5, self.reserved())

    def test_a_server_that_goes_meanwhile_is_gone(self) -> None:
        self.start(self.host, SERVER)
        self.acts.append(lambda: self.host.release(SERVER))

        self.host.refresh()

        self.assert_consistent(self.host)
        self.host.refresh()
        self.assertEqual(4, self.reserved())

    def test_a_server_that_starts_meanwhile_is_not_taken_for_lost(
        self,
    ) -> None:
        self.acts.append(lambda: self.start(self.host, SERVER))
        before = len(self.simulator.requests)

        self.host.heal()

        posts = [
            one for one in self.simulator.requests[before:] if one[0] != 'GET'
        ]
        self.assertEqual([('POST', '/v1/workloads')], posts)
        self.assertEqual(('GET', '/v1/cache/l3'), self.simulator.requests[-1])

    def test_a_server_that_goes_meanwhile_is_no_stranger(self) -> None:
        self.start(self.host, SERVER)
        self.acts.append(lambda: self.host.release(SERVER))

        self.host.heal()

        self.assertEqual((), self.host.problems)


class MixedUpHostTest(with_host.RmdHostTestCase):
    """RMD writes masks to the wrong cache in half of all cases."""

    SETTINGS = {'has_cache_mixup': True, 'seed': 7}  # noqa: RUF012

    def test_the_ledger_has_the_masks_that_are_in_force(self) -> None:
        host = self.make_rmd_host()

        self.start(host, SERVER, 2)
        self.start(host, OTHER, 3, domain=1, cpus=frozenset({13}))

        self.assert_agreement(host)

    def test_a_lie_is_not_believed(self) -> None:
        self.simulator.lie()
        host = self.make_rmd_host()

        err = self.assertRaises(
            exception.EnforcementFailed, self.start, host, SERVER
        )

        self.assertIn('did not enforce', str(err))
        self.assert_agreement(host)
