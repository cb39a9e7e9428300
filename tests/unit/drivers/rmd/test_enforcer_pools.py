# SPDX-License-Identifier: Apache-2.0

"""Best-effort and shared ways, memory bandwidth and plugins of RMD."""

import dataclasses
import json
import re
from typing import Any

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.drivers.rmd import enforcer as enforcer_mod
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.testing import rmd_simulator
from nova_ext_resources.testing.rmd_simulator import faults
from tests.unit import builders
from tests.unit.drivers.rmd import test_enforcer

SERVER = test_enforcer.SERVER
OTHER = test_enforcer.OTHER

#: A server that comes after the two others.
THIRD = '33333333-3333-4333-8333-333333333333'


def make_burst(
    amount: int = 1, key: str = 'L3_0', **units: Any
) -> assignment.Assignment:
    return test_enforcer.make_ways(
        amount, key, resource_class=classes.BURST, units=units
    )


def make_place(key: str = 'L3_0') -> assignment.Assignment:
    return test_enforcer.make_ways(
        1, key, resource_class=classes.SHARED, units={}
    )


def make_limit(
    amount: int = 50,
    key: str = 'L3_0',
    name: str = classes.PERCENT,
    **units: Any,
) -> assignment.Assignment:
    return test_enforcer.make_ways(
        amount, key, resource_class=name, units=units
    )


def make_entry(
    *held: assignment.Assignment,
    cpus: frozenset[int] = frozenset({1, 2}),
    **wishes: str,
) -> assignment.Entry:
    return test_enforcer.make_entry(
        *held, cpus=cpus, enforcers={'rmd': wishes} if wishes else {}
    )


class BurstTest(test_enforcer.RmdEnforcerTestCase):
    """Ways 7 to 9 of cache 0 are for best effort, 6 to 8 of cache 1."""

    def make_enforcer(self, **options: Any) -> enforcer_mod.RmdEnforcer:
        return super().make_enforcer(burst_ways=3, **options)

    def test_it_gets_no_more_than_its_flavor_says(self) -> None:
        applied = self.apply(make_entry(make_burst(1, max=2)))

        self.assertEqual(
            {'max': 2, 'mask': '300'}, applied.assignments[0].units
        )
        self.assertEqual(0x300, self.simulator.ways_of(SERVER)[0])

    def test_without_a_maximum_it_gets_the_whole_pool(self) -> None:
        for amount in (1, 3):
            applied = self.apply(make_entry(make_burst(amount)))

            self.assertEqual({'mask': '380'}, applied.assignments[0].units)

    def test_what_is_left_is_enough_where_the_minimum_fits(self) -> None:
        self.apply(make_entry(make_burst(1, max=2)))

        self.apply(
            dataclasses.replace(
                make_entry(make_burst(1, max=2), cpus=frozenset({3})),
                consumer_uuid=OTHER,
            )
        )

        self.assertEqual(0x80, self.simulator.ways_of(OTHER)[0])

    def test_a_full_pool_is_busy_and_not_broken(self) -> None:
        self.apply(make_entry(make_burst(1)))

        err = self.assertRaises(
            exception.CapacityExceeded,
            self.enforcer.apply,
            dataclasses.replace(
                make_entry(make_burst(1), cpus=frozenset({3})),
                consumer_uuid=OTHER,
            ),
        )

        (shortfall,) = err.shortfalls
        self.assertEqual(classes.BURST, shortfall.resource_class)

    def test_an_equal_maximum_would_be_guaranteed_and_is_refused(
        self,
    ) -> None:
        self.assert_violated(
            make_entry(make_burst(2, max=2)),
            'RMD treats 2 to 2 ways as guaranteed ways',
            'resource:CUSTOM_LLC_WAYS_BURST:max to 3 or more',
        )

    def test_what_is_in_force_is_only_looked_at(self) -> None:
        for held in (make_burst(1), make_burst(1, max=2)):
            applied = self.apply(make_entry(held))
            before = len(self.simulator.requests)

            self.assertEqual(applied.assignments, self.enforcer.apply(applied))

            self.assertEqual(
                test_enforcer.READS, self.simulator.requests[before:]
            )
            self.assertEqual({SERVER}, self.enforcer.list_applied())
            self.assertTrue(self.enforcer.is_applied(applied))

    def test_a_best_effort_policy_is_the_maximum(self) -> None:
        applied = self.apply(make_entry(make_burst(1), policy='silver'))

        self.assertEqual({'mask': '380'}, applied.assignments[0].units)
        found = self.simulator.daemon.get_record(SERVER)
        self.assertEqual(
            (3, 1, ''), (found.cache_max, found.cache_min, found.policy)
        )

    def test_a_policy_of_other_amounts_is_refused(self) -> None:
        for held in (make_burst(2), make_burst(1, max=2)):
            self.assert_violated(
                make_entry(held, policy='silver'),
                'RMD policy silver means 1 to 3 ways',
            )

    def test_it_survives_a_restart_of_rmd(self) -> None:
        applied = self.apply(make_entry(make_burst(1, max=2)))

        self.simulator.restart()

        self.assertEqual({SERVER}, self.enforcer.list_applied())
        self.assertTrue(self.enforcer.is_applied(applied))
        self.assertEqual(0x300, self.simulator.ways_of(SERVER)[0])


class SharedTest(test_enforcer.RmdEnforcerTestCase):
    """Way 10 of cache 0 is shared, and way 9 of cache 1."""

    def make_enforcer(self, **options: Any) -> enforcer_mod.RmdEnforcer:
        return super().make_enforcer(shared_servers=4, **options)

    def join(
        self, uuid: str, *cpus: int, keys: tuple[str, ...] = ('L3_0',)
    ) -> assignment.Entry:
        return self.apply(self.make_member(uuid, *cpus, keys=keys))

    def make_member(
        self, uuid: str, *cpus: int, keys: tuple[str, ...] = ('L3_0',)
    ) -> assignment.Entry:
        # No class of service of its own: the pool has one.
        return dataclasses.replace(
            make_entry(cpus=frozenset(cpus)),
            consumer_uuid=uuid,
            assignments=tuple(make_place(key) for key in keys),
        )

    def find_pool(self) -> Any:
        (record,) = self.simulator.daemon.list_records()
        self.assertEqual(values.SHARED_ID, record.id)
        return self.simulator.groups[record.cos_name]

    def test_servers_of_both_sockets_share_one_workload(self) -> None:
        self.join(SERVER, 1, 2)
        self.join(OTHER, 13, keys=('L3_1',))

        pool = self.find_pool()
        self.assertEqual({1, 2, 13}, pool.cpus)
        self.assertEqual({0: 0x400, 1: 0x200}, pool.ways)
        self.assertEqual({SERVER, OTHER}, self.enforcer.list_applied())

    def test_rmd_starts_again_with_any_number_of_them(self) -> None:
        entries = [
            self.join(uuid, cpu)
            for uuid, cpu in ((SERVER, 1), (OTHER, 2), (THIRD, 3))
        ]

        self.simulator.restart()

        self.assertEqual({SERVER, OTHER, THIRD}, self.enforcer.list_applied())
        self.assertEqual({1, 2, 3}, self.find_pool().cpus)
        # RMD has forgotten which class it was, and must not open a second.
        self.enforcer.release(entries[0])
        self.assertEqual({2, 3}, self.find_pool().cpus)
        self.simulator.restart()
        self.assertEqual({OTHER, THIRD}, self.enforcer.list_applied())

    def test_what_a_restart_loses_is_made_again_one_by_one(self) -> None:
        entries = [
            self.join(uuid, cpu) for uuid, cpu in ((SERVER, 1), (OTHER, 2))
        ]
        self.simulator.restart(keep_database=False)
        self.assertEqual(frozenset(), self.enforcer.list_applied())

        for entry in entries:
            self.apply(entry)

        self.assertEqual({1, 2}, self.find_pool().cpus)

    def test_the_last_one_takes_the_workload_with_it(self) -> None:
        entry = self.join(SERVER, 1)

        for _ in range(2):
            self.enforcer.release(entry)

        self.assertEqual([], self.simulator.daemon.list_records())
        self.assertEqual({10}, self.list_free_shared())

    def list_free_shared(self) -> set[int]:
        free = self.simulator.daemon.free_ways('shared')
        assert free is not None
        return {way for way in range(11) if free[0] >> way & 1}

    def test_one_of_which_only_the_uuid_is_known_leaves_too(self) -> None:
        self.join(SERVER, 1)
        self.join(OTHER, 2)

        self.enforcer.release(
            assignment.Entry(consumer_uuid=SERVER, assignments=())
        )

        self.assertEqual({OTHER}, self.enforcer.list_applied())

    def test_who_is_in_is_only_looked_at(self) -> None:
        entry = self.join(SERVER, 1)
        before = len(self.simulator.requests)

        self.enforcer.apply(entry)

        self.assertEqual(test_enforcer.READS, self.simulator.requests[before:])
        self.assertEqual({SERVER}, self.enforcer.list_applied())
        self.assertTrue(self.enforcer.is_applied(entry))

    def test_beside_a_shared_workload_of_others_it_is_busy(self) -> None:
        self.simulator.add_workload(
            {'core_ids': ['20'], 'rdt': {'cache': {'max': 0, 'min': 0}}}
        )

        err = self.assertRaises(
            exception.CapacityExceeded, self.join, SERVER, 1
        )

        self.assertIn('RMD does not start with two', str(err))
        self.simulator.restart()

    def test_a_cpu_that_two_name_stays_when_one_of_them_leaves(self) -> None:
        # The first one is gone, and its release was late.
        late = self.join(SERVER, 1)
        self.join(OTHER, 1)

        self.enforcer.release(late)

        self.assertEqual({1}, self.find_pool().cpus)
        self.assertEqual({OTHER}, self.enforcer.list_applied())

    def test_cpus_of_a_server_with_ways_of_its_own_are_busy(self) -> None:
        self.join(SERVER, 1)
        self.apply(
            dataclasses.replace(
                make_entry(cpus=frozenset({2})), consumer_uuid=THIRD
            )
        )

        self.assertRaises(exception.CapacityExceeded, self.join, OTHER, 2)

        self.assertEqual({SERVER, THIRD}, self.enforcer.list_applied())

    def test_a_failed_request_leaves_the_others_in(self) -> None:
        self.join(SERVER, 1)
        self.simulator.faults.add(
            faults.Fault(kind='status', methods=('POST',), count=1, body='?')
        )

        self.assertRaises(exception.EnforcementFailed, self.join, OTHER, 2)

        self.assertEqual({SERVER}, self.enforcer.list_applied())
        self.assertEqual({1}, self.find_pool().cpus)

    def test_a_pool_that_somebody_has_changed_is_made_anew(self) -> None:
        entry = self.join(SERVER, 1)
        self.simulator.daemon._records[values.SHARED_ID].core_ids = ['5']

        self.assertEqual(frozenset(), self.enforcer.list_applied())

        self.apply(entry)
        self.assertIn(1, self.find_pool().cpus)

    def test_a_p_state_is_refused(self) -> None:
        entry = dataclasses.replace(
            self.make_member(SERVER, 1),
            enforcers={'rmd': {'pstate_ratio': '1.5'}},
        )

        self.assert_violated(entry, 'has one P-state')

    def test_places_of_another_cache_than_its_cpus_are_refused(self) -> None:
        self.assertRaises(
            exception.EnforcementFailed, self.join, SERVER, 1, keys=('L3_1',)
        )

        self.assertEqual([], self.simulator.daemon.list_records())


class MixedUpSharedTest(test_enforcer.RmdEnforcerTestCase):
    """RMD writes masks to some cache on hosts with two of them."""

    def test_each_cache_has_its_own_shared_ways_in_the_end(self) -> None:
        for seed in range(6):
            with self.subTest(seed=seed):
                fixture = rmd_simulator.RmdSimulatorFixture(
                    has_cache_mixup=True, seed=seed
                )
                self.useFixture(fixture)
                enforcer = self.make_enforcer(
                    url=fixture.url, shared_servers=4
                )

                enforcer.apply(
                    dataclasses.replace(
                        make_entry(), assignments=(make_place(),)
                    )
                )

                (record,) = fixture.simulator.daemon.list_records()
                group = fixture.simulator.groups[record.cos_name]
                self.assertEqual({0: 0x400, 1: 0x200}, group.ways)


class BandwidthTest(test_enforcer.RmdEnforcerTestCase):
    def test_guaranteed_ways_may_come_with_a_limit(self) -> None:
        applied = self.apply(
            make_entry(test_enforcer.make_ways(2), make_limit(45, limit=50))
        )

        self.assertEqual({'limit': 50}, applied.assignments[1].units)
        group = self.simulator.group_of(SERVER)
        self.assertEqual({0: 50, 1: 100}, group.bandwidth)

    def test_the_limit_is_never_below_the_amount(self) -> None:
        self.apply(
            make_entry(test_enforcer.make_ways(2), make_limit(50, limit=10))
        )

        self.assertEqual(50, self.simulator.group_of(SERVER).bandwidth[0])

    def test_the_limit_is_the_amount_whatever_may_be_had_more(self) -> None:
        self.apply(
            make_entry(test_enforcer.make_ways(2), make_limit(50, max=90))
        )

        self.assertEqual(50, self.simulator.group_of(SERVER).bandwidth[0])
        self.assertEqual((), self.enforcer.list_tunables())

    def test_both_caches_of_a_server_have_the_same_limit(self) -> None:
        ways = [test_enforcer.make_ways(2, key) for key in ('L3_0', 'L3_1')]
        cpus = frozenset({1, 13})

        self.apply(
            make_entry(
                *ways, make_limit(30), make_limit(30, 'L3_1'), cpus=cpus
            )
        )

        self.assertEqual(
            {0: 30, 1: 30}, self.simulator.group_of(SERVER).bandwidth
        )

    def test_another_limit_is_made_anew(self) -> None:
        first = self.apply(
            make_entry(test_enforcer.make_ways(), make_limit(30))
        )
        second = make_entry(*first.assignments[:1], make_limit(60))

        self.apply(dataclasses.replace(second, state=assignment.State.APPLIED))

        self.assertEqual(60, self.simulator.group_of(SERVER).bandwidth[0])

    def test_a_limit_that_somebody_has_changed_is_seen(self) -> None:
        entry = self.apply(
            make_entry(test_enforcer.make_ways(), make_limit(30))
        )
        self.enforcer.list_applied()
        self.assertTrue(self.enforcer.is_applied(entry))
        self.simulator.daemon._records[SERVER].percentage = 90

        self.enforcer.list_applied()

        self.assertFalse(self.enforcer.is_applied(entry))

    def test_it_is_the_same_after_a_restart_of_rmd(self) -> None:
        entry = self.apply(
            make_entry(test_enforcer.make_ways(), make_limit(30))
        )

        for keep in (True, False):
            self.simulator.restart(keep_database=keep)
            self.apply(entry)
            self.assertEqual(30, self.simulator.group_of(SERVER).bandwidth[0])

    def answer_policies(self, **sections: Any) -> None:
        body = {'gold': {'cache': {'max': 4, 'min': 4}, **sections}}
        self.simulator.faults.add(
            faults.Fault(
                kind='status',
                status=200,
                path='/v1/policy',
                body=json.dumps(body),
            )
        )

    def test_bandwidth_of_a_policy_must_be_claimed_too(self) -> None:
        self.answer_policies(mba={'percentage': 40})
        ways = test_enforcer.make_ways(4)

        self.assert_violated(
            make_entry(ways, policy='gold'),
            'resources:CUSTOM_MEMORY_BANDWIDTH_PERCENT=40',
        )

        self.apply(make_entry(ways, make_limit(40), policy='gold'))
        self.assertEqual(40, self.simulator.group_of(SERVER).bandwidth[0])


class MbpsTest(test_enforcer.RmdEnforcerTestCase):
    SETTINGS = {'mba_mode': 'mbps'}  # noqa: RUF012

    def test_a_limit_may_be_in_megabytes(self) -> None:
        self.enforcer = self.make_enforcer(mba_mode='mbps')

        self.apply(
            make_entry(
                test_enforcer.make_ways(), make_limit(5000, name=classes.MBPS)
            )
        )

        self.assertEqual(5000, self.simulator.group_of(SERVER).bandwidth[0])

    def test_a_limit_in_the_other_unit_is_refused(self) -> None:
        self.assert_refused(
            make_entry(
                test_enforcer.make_ways(), make_limit(5000, name=classes.MBPS)
            ),
            'mba_mode',
        )


class PluginTest(test_enforcer.RmdEnforcerTestCase):
    SETTINGS = {'plugins': ('pstate',)}  # noqa: RUF012

    def test_a_p_state_goes_with_the_ways(self) -> None:
        applied = self.apply(
            make_entry(pstate_ratio='3.0', pstate_monitoring='off')
        )

        record = self.simulator.daemon.get_record(SERVER)
        self.assertEqual(
            {'pstate': {'ratio': '3', 'monitoring': 'off'}},
            {
                name: {key: str(value) for key, value in items.items()}
                for name, items in record.plugins.items()
            },
        )
        # RMD has stored 3.0 as 3, which is the same all the same.
        before = len(self.simulator.requests)
        self.enforcer.apply(applied)
        self.assertEqual(test_enforcer.READS, self.simulator.requests[before:])

    def test_numbers_are_sent_with_a_decimal_point(self) -> None:
        for text in ('1.5', '3.0', '12.25', '2.0000'):
            self.apply(make_entry(pstate_ratio=text))

            self.enforcer.release(make_entry())

    def test_numbers_without_a_decimal_point_are_no_extra_specs(self) -> None:
        patterns = enforcer_mod.RmdEnforcer.EXTRA_SPECS
        for key, value, is_good in (
            ('pstate_ratio', '1.5', True),
            ('pstate_ratio', '3', False),
            ('pstate_ratio', '.5', False),
            ('pstate_ratio', '1e3', False),
            ('pstate_ratio', '-1.5', False),
            ('pstate_monitoring', 'on', True),
            ('pstate_monitoring', 'off', True),
            ('pstate_monitoring', 'maybe', False),
        ):
            with self.subTest(key=key, value=value):
                found = re.fullmatch(patterns[key], value)
                self.assertEqual(is_good, bool(found))

    def test_settings_of_a_policy_are_sent_and_the_flavors_win(self) -> None:
        self.simulator.faults.add(
            faults.Fault(
                kind='status',
                status=200,
                path='/v1/policy',
                body=json.dumps(
                    {
                        'gold': {
                            'cache': {'max': 2, 'min': 2},
                            'pstate': {'ratio': 2, 'monitoring': 'on'},
                        }
                    }
                ),
            )
        )

        self.apply(make_entry(policy='gold', pstate_ratio='1.5'))

        record = self.simulator.daemon.get_record(SERVER)
        self.assertEqual('1.5', str(record.plugins['pstate']['ratio']))
        self.assertEqual('on', record.plugins['pstate']['monitoring'])

    def test_what_the_plugin_does_not_take_is_refused_for_good(self) -> None:
        self.simulator.faults.add(
            faults.Fault(
                kind='status',
                status=400,
                methods=('POST',),
                body='Failed to validate workload. Reason: Invalid params '
                'received. Details: ratio is too high\n',
            )
        )

        err = self.assertRaises(
            exception.ConstraintsViolated,
            self.enforcer.apply,
            make_entry(pstate_ratio='9.5'),
        )

        self.assertIn('ratio is too high', str(err))


class NoPluginTest(test_enforcer.RmdEnforcerTestCase):
    def test_an_rmd_without_the_plugin_refuses_for_good(self) -> None:
        err = self.assertRaises(
            exception.ConstraintsViolated,
            self.enforcer.apply,
            make_entry(pstate_ratio='1.5'),
        )

        self.assertIn('Name the plugin in rmd.toml', str(err))
        self.assertEqual({}, self.list_in_force())
        self.assertEqual(builders.WAYS, err.shortfalls[0].resource_class)
