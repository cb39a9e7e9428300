# SPDX-License-Identifier: Apache-2.0

from collections.abc import Callable
from concurrent import futures
import dataclasses
from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources import plugins
from nova_ext_resources.testing.rmd_simulator import faults
from tests.unit.host import backend
from tests.unit.host import late_rmd
from tests.unit.host import with_host

WAYS = with_host.WAYS
CLOS = with_host.CLOS
DOMAINS = with_host.DOMAINS
RDT = with_host.RDT

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other
THIRD = uuidsentinel.third


class RmdHostTest(backend.BackendSuite, with_host.RmdHostTestCase):
    BACKEND = 'rmd'
    LOWEST = 1

    def make_backend_host(self) -> manager.HostManager:
        return self.make_rmd_host()

    def add_foreign(self, name: str, masks: dict[int, int]) -> None:
        self.simulator.add_foreign_group(
            name, {number: mask << 1 for number, mask in masks.items()}
        )

    def remove_foreign(self, name: str) -> None:
        self.simulator.remove_foreign_group(name)

    def break_backend(self) -> None:
        self.simulator.refuse_connections()

    def mend_backend(self) -> None:
        self.simulator.accept_connections()

    def lose_everything(self) -> None:
        self.simulator.restart(keep_database=False)

    def count_changes(self) -> int:
        return sum(one != 'GET' for one, _path in self.simulator.requests)

    def test_a_class_of_service_of_others_is_reserved(self) -> None:
        self.simulator.add_workload(
            {'core_ids': ['20'], 'policy': 'gold', 'uuid': OTHER}
        )

        self.host.refresh()

        self.assertEqual(
            3, backend.find_inventory(self.host, RDT, CLOS).reserved
        )

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

    def test_nothing_leaks_whenever_a_request_of_a_start_fails(self) -> None:
        for number in range(1, 12):
            for kind in ('drop', 'status'):
                for when in ('before', 'after'):
                    self.check_failure_at(number, kind, when)

    def check_failure_at(
        self, number: int, kind: faults.Kind, when: faults.When
    ) -> None:
        self.fail_request(number, kind, when)
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


class DisabledEnforcerTest(with_host.RmdHostTestCase):
    """The enforcer was taken out while servers still hold something."""

    def test_nothing_is_forgotten_that_is_still_in_force(self) -> None:
        host = self.make_rmd_host()
        host.claim(with_host.make_claim(SERVER))
        host.apply(SERVER)
        host.close()
        without = with_host.make_host({}, {}, self.open_ledger())

        err = self.assertRaises(
            exception.EnforcementFailed, without.release, SERVER
        )

        self.assertIn('[ext_resources] enforcers', str(err))
        self.assertIsNotNone(without.find_entry(SERVER))
        without.heal()
        self.assertEqual(1, len(without.problems))


class LateTest(late_rmd.LateRmdTestCase):
    """RMD carries out a request long after the client has given up."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.host = self.make_rmd_host()
        self.late.count = 1
        err = self.assertRaises(
            exception.EnforcementFailed, self.start, self.host, SERVER
        )
        self.assertIn(SERVER, str(err))

    def test_one_that_never_comes_leaks_nothing(self) -> None:
        self.late.pass_timeout()

        self.host.heal()

        self.assert_agreement(self.host)
        self.assertEqual({}, self.read_rows())

    def test_what_may_still_come_counts_as_held(self) -> None:
        self.assertEqual({SERVER: 'releasing'}, self.read_rows())

        self.host.heal()

        (problem,) = self.host.problems
        self.assertEqual(
            (alarm.RELEASE_PENDING, SERVER), (problem.alarm, problem.subject)
        )
        self.assertIn('may still carry out this request', str(problem))
        self.assertEqual({SERVER: 'releasing'}, self.read_rows())

    def test_it_is_deleted_when_it_has_come(self) -> None:
        self.late.arrive()

        self.host.heal()

        self.assertEqual({}, self.read_rows())
        self.assert_agreement(self.host)
        self.start(self.host, OTHER)

    def test_it_is_deleted_when_it_comes_after_everything(self) -> None:
        self.late.pass_timeout()
        self.host.heal()
        self.assertEqual({}, self.read_rows())

        self.late.arrive()
        self.host.heal()

        self.assertEqual({}, self.list_in_force())
        self.assertEqual((), self.host.problems)
        self.start(self.host, OTHER)

    def test_one_that_is_there_at_the_start_goes_unless_nova_has_it(
        self,
    ) -> None:
        self.late.pass_timeout()
        self.host.heal()
        self.late.arrive()
        self.host.close()

        again = self.make_rmd_host()
        again.reconcile([SERVER])
        self.assertEqual({SERVER}, set(self.list_in_force()))
        (problem,) = again.problems
        self.assertIn('shelve and unshelve', str(problem))
        again.heal()
        self.assertEqual({SERVER}, set(self.list_in_force()))

        again.reconcile([OTHER])
        self.assertEqual({}, self.list_in_force())
        self.assertEqual((), again.problems)


class LateRestoreTest(late_rmd.LateRmdTestCase):
    def test_ways_of_a_late_workload_are_not_taken_for_those_of_before(
        self,
    ) -> None:
        host = self.make_rmd_host()
        self.start(host, OTHER, 3, cpus=frozenset({5}))
        self.start(host, SERVER, 2)
        host.release(OTHER)
        self.simulator.restart(keep_database=False)
        self.late.count = 1
        host.heal()
        self.assertIn(SERVER, str(host.problems[0]))

        self.late.arrive()
        host.heal()

        self.assert_agreement(host)
        self.assertEqual({SERVER}, set(self.list_in_force()))


class MeanwhileTest(with_host.RmdHostTestCase):
    """Something happens while the host is being looked at."""

    def setUp(self) -> None:
        super().setUp()
        for core in ('10', '20'):
            self.simulator.add_workload(
                {'core_ids': [core], 'policy': 'silver'}
            )
        inventories = self.load_rmd(plugins.INVENTORY_PROVIDERS)
        self.enforcers = self.load_rmd(plugins.ENFORCERS)
        self.host = with_host.make_host(
            {'rmd': self.interrupt(inventories['rmd'], 'discover')},
            {'rmd': self.interrupt(self.enforcers['rmd'], 'list_applied')},
            self.open_ledger(),
        )
        self.acts: list[Callable[[], object]] = []
        self.before: list[Callable[[], object]] = []
        self.host.refresh()

    def interrupt(self, plugin: Any, method: str) -> Any:
        """Let what waits happen before or after it looks at the host."""
        look = getattr(plugin, method)

        def act() -> Any:
            if self.before:
                self.before.pop()()
            seen = look()
            while self.acts:
                self.acts.pop()()
            return seen

        setattr(plugin, method, act)
        return plugin

    def reserved(self) -> int:
        return backend.find_inventory(self.host, RDT, CLOS).reserved

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

    def test_a_start_that_ends_meanwhile_takes_nothing_twice(self) -> None:
        self.host.claim(with_host.make_claim(SERVER))
        # RMD is asked for its caches first: half of it is seen.
        self.before.append(lambda: self.host.apply(SERVER))

        self.host.refresh()

        published = self.host.providers()
        self.host.refresh()
        self.assertEqual(self.host.providers(), published)
        self.assertEqual(5, self.reserved())

    def test_a_host_that_never_rests_is_looked_at_three_times(self) -> None:
        def move() -> None:
            moves.append(SERVER)
            self.host.release(SERVER)
            self.start(self.host, SERVER, len(moves))
            self.before.append(move)

        moves: list[str] = []
        self.before.append(move)

        self.host.refresh()

        self.assertEqual(3, len(moves))
        self.assert_consistent(self.host)

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
        # The build itself applied it again, which only looked.
        self.assertEqual(
            ['/v1/cache/l3', '/v1/workloads', '/v1/cache/l3'],
            [path for _method, path in self.simulator.requests[-3:]],
        )

    def test_a_server_that_goes_meanwhile_is_no_stranger(self) -> None:
        self.start(self.host, SERVER)
        self.acts.append(lambda: self.host.release(SERVER))

        self.host.heal()

        self.assertEqual((), self.host.problems)


class GrantedTest(with_host.RmdHostTestCase):
    """RMD chooses the ways at the claim."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.host = self.make_rmd_host()

    def test_what_is_claimed_is_what_is_applied(self) -> None:
        # By itself the host would choose other ways than RMD.
        entry = self.host.claim(with_host.make_claim(SERVER, 3))

        self.assertEqual({SERVER: entry}, self.host.entries)
        self.assertEqual(assignment.State.APPLIED, entry.state)
        self.assert_agreement(self.host)

    def test_two_that_claim_at_the_same_time_get_what_rmd_gives(self) -> None:
        requests = [
            with_host.make_claim(uuid, 2, cpus=frozenset({cpu}))
            for uuid, cpu in ((SERVER, 1), (OTHER, 2))
        ]
        for _ in range(5):
            with futures.ThreadPoolExecutor(2) as pool:
                list(pool.map(self.host.claim, requests))

            self.assert_agreement(self.host)
            for uuid in (SERVER, OTHER):
                self.host.release(uuid)
            self.assert_agreement(self.host)

    def test_what_a_server_held_is_free_for_its_next_claim(self) -> None:
        self.host.claim(with_host.make_claim(SERVER, 4))
        self.host.refresh()

        self.host.claim(with_host.make_claim(SERVER, 6))

        self.assert_agreement(self.host)

    def test_a_claim_that_rmd_refuses_leaves_nothing(self) -> None:
        before = self.host.view
        self.simulator.refuse_connections()
        self.assertRaises(
            exception.EnforcementFailed,
            self.host.claim,
            with_host.make_claim(SERVER),
        )
        self.simulator.accept_connections()

        self.host.heal()

        self.assertEqual({}, self.read_rows())
        self.assertEqual(before, self.host.view)
        self.assert_agreement(self.host)

    def test_ways_of_a_claim_under_way_are_a_guess(self) -> None:
        entry = self.host.claim(with_host.make_claim(SERVER))
        self.host.state.put(
            dataclasses.replace(
                entry,
                consumer_uuid=OTHER,
                state=assignment.State.CLAIMED,
            )
        )

        self.host.heal()

        self.assertEqual((), self.host.problems)

    def test_applying_it_changes_nothing(self) -> None:
        self.host.claim(with_host.make_claim(SERVER))
        before = len(self.simulator.requests)

        self.host.apply(SERVER)

        methods = {one[0] for one in self.simulator.requests[before:]}
        self.assertEqual({'GET'}, methods)


class OtherUnitsTest(with_host.RmdHostTestCase):
    """The ledger has units of a type that the resource had once."""

    def test_the_host_starts_and_says_so(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        host = self.make_rmd_host()
        entry = self.start(host, SERVER)
        ways, *others = entry.assignments
        host._ledger.put(
            dataclasses.replace(
                entry,
                assignments=(dataclasses.replace(ways, units={}), *others),
            )
        )
        host.close()

        again = self.make_rmd_host()
        again.reconcile([SERVER])
        again.refresh()
        again.heal()

        (problem,) = again.problems
        for words in (SERVER, ways.resource_class, 'cache_ways'):
            self.assertIn(words, str(problem))
        self.assertEqual(1, log.output.count(str(problem)))
        self.start(again, OTHER, cpus=frozenset({3}))
        again.release(SERVER)
        again.heal()
        self.assertEqual((), again.problems)
        again.refresh()
        self.assert_agreement(again)


class MixedUpHostTest(with_host.RmdHostTestCase):
    """RMD writes masks to the wrong cache in half of all cases."""

    SETTINGS = {'has_cache_mixup': True, 'seed': 7}  # noqa: RUF012

    def test_the_ledger_has_the_masks_that_are_in_force(self) -> None:
        host = self.make_rmd_host()

        self.start(host, SERVER, 2)
        self.start(host, OTHER, 3, domain=1, cpus=frozenset({13}))

        self.assert_agreement(host)

    def test_a_pool_that_mostly_misses_is_an_alarm(self) -> None:
        host = self.make_rmd_host()
        self.simulator.daemon.resctrl.mixup_odds = 0.0
        for _ in range(2):
            self.assertRaises(
                exception.EnforcementFailed, self.start, host, SERVER
            )

        host.heal()

        (problem,) = host.problems
        self.assertEqual(
            (alarm.RESTART_NEEDED, 'rmd guaranteed'),
            (problem.alarm, problem.subject),
        )
        for words in (self.fixture.url, 'restart RMD', 'wrong cache'):
            self.assertIn(words, str(problem))
        self.simulator.daemon.resctrl.mixup_odds = 1.0
        for _ in range(24):
            self.start(host, SERVER)
            host.release(SERVER)
        host.heal()
        self.assertEqual((), host.problems)

    def test_a_lie_is_not_believed(self) -> None:
        self.simulator.lie()
        host = self.make_rmd_host()

        err = self.assertRaises(
            exception.EnforcementFailed, self.start, host, SERVER
        )

        self.assertIn('did not enforce', str(err))
        self.assert_agreement(host)
