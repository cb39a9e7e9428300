# SPDX-License-Identifier: Apache-2.0

import dataclasses
import re
from typing import Any

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rmd import enforcer
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources import plugins
from nova_ext_resources.testing.rmd_simulator import faults
from tests.unit import builders
from tests.unit.host import with_host

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other

#: What is asked of RMD to find a server applied.
READS = [('GET', '/v1/workloads'), ('GET', '/v1/cache/l3')]


def make_ways(
    amount: int = 2, key: str = 'L3_0', **fields: Any
) -> assignment.Assignment:
    return builders.make_assignment(
        rp_uuid=key, rp_key=key, amount=amount, **fields
    )


def make_entry(
    *held: assignment.Assignment, policy: str = '', **fields: Any
) -> assignment.Entry:
    clos = make_ways(1, 'RDT', resource_class=builders.CLOS, units={})
    given: dict[str, Any] = {
        'consumer_uuid': SERVER,
        'assignments': (*(held or [make_ways()]), clos),
        'cpus': frozenset({1, 2}),
        'enforcers': {'rmd': {'policy': policy}} if policy else {},
    }
    return assignment.Entry(**{**given, **fields})


class RmdEnforcerTestCase(with_host.RmdHostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enforcer = self.make_enforcer()

    def make_enforcer(self, **options: Any) -> enforcer.RmdEnforcer:
        made: enforcer.RmdEnforcer = self.load_rmd(
            plugins.ENFORCERS, **options
        )['rmd']
        return made

    def apply(self, entry: assignment.Entry) -> assignment.Entry:
        """Return the entry as the ledger has it then."""
        return dataclasses.replace(
            entry,
            assignments=self.enforcer.apply(entry),
            state=assignment.State.APPLIED,
        )

    def assert_refused(self, entry: assignment.Entry, *words: str) -> None:
        """It does not work this time."""
        err = self.assertRaises(
            exception.EnforcementFailed, self.enforcer.apply, entry
        )
        for word in ('rmd', 'host1', SERVER, *words):
            self.assertIn(word, str(err))
        self.assertEqual({}, self.list_in_force())

    def assert_violated(self, entry: assignment.Entry, *words: str) -> None:
        """It never works on this host, and RMD is not bothered."""
        err = self.assertRaises(
            exception.ConstraintsViolated, self.enforcer.apply, entry
        )
        for word in ('host1', SERVER, *words):
            self.assertIn(word, str(err))
        self.assertNotIn('Assignment(', str(err))
        self.assertEqual(
            [], [one for one in self.simulator.requests if one[0] != 'GET']
        )

    def assert_in_force(self, entry: assignment.Entry) -> None:
        ways = self.simulator.ways_of(entry.consumer_uuid)
        for one in entry.assignments:
            if one.resource_class == builders.WAYS:
                cache_id = int(one.rp_key[-1])
                self.assertEqual({'mask': f'{ways[cache_id]:x}'}, one.units)
                self.assertEqual(one.amount, ways[cache_id].bit_count())


class RmdEnforcerTest(RmdEnforcerTestCase):
    def test_it_reports_the_ways_that_rmd_chose(self) -> None:
        applied = self.apply(make_entry())

        self.assert_in_force(applied)
        group = self.simulator.group_of(SERVER)
        self.assertEqual({1, 2}, group.cpus)

    def test_all_else_of_the_entry_stays(self) -> None:
        entry = make_entry()

        real = self.enforcer.apply(entry)

        self.assertEqual(
            [dataclasses.replace(one, units={}) for one in entry.assignments],
            [dataclasses.replace(one, units={}) for one in real],
        )

    def test_ways_on_two_domains_are_reported_for_each(self) -> None:
        applied = self.apply(
            make_entry(
                make_ways(2, 'L3_0'),
                make_ways(2, 'L3_1'),
                cpus=frozenset({1, 13}),
            )
        )

        self.assert_in_force(applied)

    def test_a_class_of_service_alone_is_refused(self) -> None:
        entry = make_entry()
        entry = dataclasses.replace(entry, assignments=entry.assignments[1:])
        before = len(self.simulator.requests)

        err = self.assertRaises(
            exception.ConstraintsViolated, self.enforcer.apply, entry
        )

        self.assertIn('request resources:CUSTOM_LLC_WAYS too', str(err))
        self.enforcer.release(entry)
        self.assertEqual(before, len(self.simulator.requests))

    def test_release_gives_everything_back_and_may_be_repeated(self) -> None:
        applied = self.apply(make_entry())

        for _ in range(2):
            self.enforcer.release(applied)

        self.assertEqual({}, self.list_in_force())

    def test_what_is_in_force_is_only_looked_at(self) -> None:
        applied = self.apply(make_entry())
        before = len(self.simulator.requests)

        real = self.enforcer.apply(applied)

        self.assertEqual(applied.assignments, real)
        self.assertEqual(READS, self.simulator.requests[before:])

    def test_until_the_ledger_knows_its_ways_it_is_made_anew(self) -> None:
        entry = make_entry()
        self.apply(entry)

        self.assert_in_force(self.apply(entry))
        self.assertEqual({SERVER}, set(self.list_in_force()))

    def test_another_size_or_other_cpus_are_made_anew(self) -> None:
        for changed in (
            make_entry(make_ways(3)),
            make_entry(cpus=frozenset({4})),
        ):
            self.apply(make_entry())
            with self.subTest(changed=changed):
                applied = self.apply(
                    dataclasses.replace(
                        changed, state=assignment.State.APPLIED
                    )
                )

                self.assert_in_force(applied)
                self.assertEqual(
                    changed.cpus, self.simulator.group_of(SERVER).cpus
                )

    def test_a_lie_of_rmd_is_refused(self) -> None:
        self.simulator.lie()

        self.assert_refused(make_entry(), 'did not enforce')

    def test_floating_cpus_are_refused(self) -> None:
        for cpus in (None, frozenset[int]()):
            with self.subTest(cpus=cpus):
                self.assert_violated(
                    make_entry(cpus=cpus), 'hw:cpu_policy=dedicated'
                )

    def test_cpus_of_another_domain_than_the_ways_are_refused(self) -> None:
        for held, cpus in (
            ([make_ways(2, 'L3_1')], {1}),
            ([make_ways(2, 'L3_0')], {1, 13}),
            ([make_ways(2, 'L3_0'), make_ways(2, 'L3_1')], {1}),
            ([make_ways(2, 'CACHE')], {1}),
        ):
            entry = make_entry(*held, cpus=frozenset(cpus))
            with self.subTest(entry=entry):
                self.assert_refused(entry, 'cache_affinity')

    def test_a_full_cache_is_busy_and_not_broken(self) -> None:
        self.simulator.add_foreign_group('db', {0: 0b1111110})

        err = self.assertRaises(
            exception.CapacityExceeded, self.enforcer.apply, make_entry()
        )

        (shortfall,) = err.shortfalls
        self.assertEqual('L3_0', shortfall.rp_uuid)
        self.assertEqual(2, shortfall.requested)
        self.assertIn(
            'other software on the host uses this resource', str(err)
        )

    def test_cpus_that_somebody_else_has_are_busy_and_not_broken(self) -> None:
        self.apply(make_entry())

        self.assertRaises(
            exception.CapacityExceeded,
            self.enforcer.apply,
            make_entry(consumer_uuid=OTHER),
        )

        self.assertEqual({SERVER}, set(self.list_in_force()))

    def test_no_class_of_service_left_is_busy_and_not_broken(self) -> None:
        for number in range(6):
            self.simulator.add_workload(
                {
                    'core_ids': [str(12 + number)],
                    'rdt': {'cache': {'max': 1, 'min': 1}},
                }
            )

        self.assertRaises(
            exception.CapacityExceeded, self.enforcer.apply, make_entry()
        )

    def test_a_dead_rmd_fails_with_its_address(self) -> None:
        self.simulator.refuse_connections()

        for act in (self.enforcer.apply, self.enforcer.release):
            err = self.assertRaises(
                exception.EnforcementFailed, act, make_entry()
            )
            self.assertIn(self.fixture.url, str(err))
        err = self.assertRaises(
            exception.EnforcementFailed, self.enforcer.list_applied
        )
        self.assertIn(self.fixture.url, str(err))

    def test_only_workloads_of_servers_count_as_ours(self) -> None:
        self.apply(make_entry())
        self.simulator.add_workload(
            {'core_ids': ['20'], 'policy': 'gold', 'uuid': OTHER}
        )
        self.simulator.add_workload({'core_ids': ['21'], 'policy': 'silver'})

        self.assertEqual(frozenset({SERVER}), self.enforcer.list_applied())

    def test_a_workload_of_rmds_own_listener_is_left_alone(self) -> None:
        self.simulator.add_workload(
            {'core_ids': ['1'], 'policy': 'gold', 'uuid': SERVER}
        )

        self.assertRaises(
            exception.EnforcementFailed, self.enforcer.apply, make_entry()
        )

        self.assertIn(SERVER, self.list_in_force())


class PolicyTest(RmdEnforcerTestCase):
    def test_a_policy_of_the_same_size_is_fine(self) -> None:
        applied = self.apply(make_entry(make_ways(4), policy='gold'))

        self.assert_in_force(applied)

    def test_a_policy_of_another_size_is_refused(self) -> None:
        self.assert_violated(
            make_entry(make_ways(3), policy='gold'),
            'RMD policy gold means 4 to 4 ways',
            'resources:CUSTOM_LLC_WAYS=3',
        )

    def test_a_best_effort_policy_is_refused(self) -> None:
        for ways in (1, 3):
            self.assert_violated(
                make_entry(make_ways(ways), policy='silver'),
                'means 1 to 3 ways',
            )

    def test_an_unknown_policy_is_refused_with_those_that_there_are(
        self,
    ) -> None:
        self.assert_violated(
            make_entry(make_ways(4), policy='platinum'),
            'no policy platinum',
            'bronze, gold, silver',
        )

    def test_a_policy_is_not_asked_for_where_none_is_named(self) -> None:
        self.simulator.faults.add(
            faults.Fault(kind='status', path='/v1/policy')
        )

        self.apply(make_entry(make_ways(4)))

        self.assert_refused_by_rmd(
            make_entry(make_ways(4), policy='gold', consumer_uuid=OTHER)
        )

    def assert_refused_by_rmd(self, entry: assignment.Entry) -> None:
        self.assertRaises(
            exception.EnforcementFailed, self.enforcer.apply, entry
        )

    def test_the_policy_of_another_enforcer_is_none_of_ours(self) -> None:
        self.apply(make_entry(enforcers={'other': {'policy': 'platinum'}}))

        self.assertIn(SERVER, self.list_in_force())

    def test_names_of_policies_are_checked_as_extra_specs(self) -> None:
        pattern = enforcer.RmdEnforcer.EXTRA_SPECS['policy']
        for name, is_one in (('gold-2', True), ('Gold', False), ('', False)):
            self.assertEqual(is_one, bool(re.fullmatch(pattern, name)))


class MixedUpTest(RmdEnforcerTestCase):
    """RMD writes masks to some cache on hosts with two of them."""

    def setUp(self) -> None:
        self.SETTINGS = {'has_cache_mixup': True, 'seed': 3}
        super().setUp()

    def test_the_ways_are_in_force_where_the_cpus_are(self) -> None:
        for number in range(2):
            entry = make_entry(
                make_ways(1, f'L3_{number % 2}'),
                consumer_uuid=f'00000000-0000-4000-8000-00000000000{number}',
                cpus=frozenset({1 + number + 12 * (number % 2)}),
            )
            with self.subTest(number=number):
                self.assert_in_force(self.apply(entry))
