# SPDX-License-Identifier: Apache-2.0

"""Tests of how many more servers fit."""

import dataclasses
from typing import Any

from nova_ext_resources.claims.checks import numa_affinity
from nova_ext_resources.claims.trackers import device
from nova_ext_resources.inspection import fit as fit_mod
from nova_ext_resources.inspection import placing
from nova_ext_resources.inspection import simulation
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation import server_demand
from tests import base
from tests.unit import builders
from tests.unit.inspection import test_fit
from tests.unit.inspection import trees
from tests.unit.reservation import hosts

Step = fit_mod.FitStep
WAYS = trees.WAYS
CARD = 'CUSTOM_CARD'
TESTS = {
    **hosts.make_tests(),
    'numa_affinity': numa_affinity.NumaAffinityTest(hosts.TRACKERS),
}


def make_cards() -> host_tree.HostTree:
    """Make a host of six devices."""
    [tree] = host_tree.group(
        [
            trees.make_provider(
                '', None, 'VCPU', builders.make_inventory(8), {}
            ),
            trees.make_provider(
                '_RDT', trees.ROOT, CARD, builders.make_inventory(6), {}
            ),
        ]
    )
    return tree


def publish_cards() -> publication.Publication:
    """Make what that host publishes: its devices are in the second cell."""
    tracked = host_view.Tracked(
        tracker='device',
        state=device.DeviceState(frozenset('abcdef')),
        near='4-7',
    )
    return publication.Publication(
        host=CARDS.name,
        document=stats.encode(
            host_view.HostView(
                tracked={(trees.RDT, CARD): tracked},
                keys={trees.RDT: 'RDT'},
                constraints=host_constraints.Constraints(tests=tuple(TESTS)),
            )
        ),
        cells=publication.write_cells(
            [publication.Cell(one, one) for one in hosts.CELLS]
        ),
    )


def simulate(
    demand: server_demand.Demand,
    published: publication.Publication | None = None,
    most: int = 100,
    tree: host_tree.HostTree | None = None,
    promises: promise_ledger.Promises | None = None,
) -> simulation.Simulated:
    """Place servers on a host, by default of eight ways that are free."""
    tree = tree or trees.make_tree({})
    root = trees.make_provider(
        '', None, 'PCPU', builders.make_inventory(8), {}
    )
    tree = dataclasses.replace(tree, providers=(root, *tree.providers[1:]))
    made = simulation.Simulation({tree.name: published} if published else {})
    return made.run(tree, make_placing(demand, promises), most)


def make_placing(
    demand: server_demand.Demand,
    promises: promise_ledger.Promises | None = None,
) -> placing.Placing:
    return placing.Placing(
        fit_mod.Filters(
            demand=demand,
            trackers=hosts.TRACKERS,
            tests=TESTS,
            promises=promises or promise_ledger.Promises(),
        )
    )


def make_hosts(
    number: int, cpus: str = 'PCPU', **changes: Any
) -> list[host_tree.HostTree]:
    """Make hosts of eight ways each, with other names."""
    made = []
    for index in range(1, number + 1):
        tree = trees.make_tree({})
        root = trees.make_provider(
            '', None, cpus, builders.make_inventory(8), {}
        )
        root = dataclasses.replace(root, name=f'host{index}')
        providers = (root, *tree.providers[1:])
        made.append(dataclasses.replace(tree, providers=providers, **changes))
    return made


CARDS = make_cards()


def ask_for(ways: int) -> server_demand.Demand:
    return test_fit.ask_for(ways, hw__cpu_policy='dedicated')


class SimulationTest(base.TestCase):
    def test_amounts_alone(self) -> None:
        found = simulate(ask_for(2))

        self.assertEqual((4, False), (found.number, found.is_sure))
        self.assertIs(Step.AMOUNTS, found.fit.step)
        self.assertEqual(
            ['CUSTOM_LLC_WAYS'],
            [one.resource_class for one in found.fit.shortfalls],
        )

    def test_a_host_that_takes_none_now(self) -> None:
        published = trees.make_publication(
            {}, rules=host_constraints.Constraints(refused={WAYS: 'stalled'})
        )

        made = simulate(ask_for(1), published)

        self.assertEqual(0, made.number)
        self.assertIn('accepts no claim of', made.fit.shortfalls[0].reason)

    def test_what_is_promised_is_left(self) -> None:
        promises = test_fit.ReservationsTest('promise').promise(5)
        for published in (None, trees.make_publication({})):
            made = simulate(ask_for(1), published, promises=promises)

            self.assertEqual(3, made.number)
            self.assertIs(Step.RESERVATIONS, made.fit.step)

    def test_units_are_given_one_after_the_other(self) -> None:
        found = simulate(ask_for(3), trees.make_publication({}))

        self.assertEqual((2, True), (found.number, found.is_sure))

    def test_what_no_allocation_shows_runs_out(self) -> None:
        # Of eight classes of service others have two.
        found = simulate(ask_for(1), trees.make_publication({}))

        self.assertEqual(6, found.number)
        self.assertIs(Step.UNITS, found.fit.step)
        self.assertEqual(
            ['CUSTOM_RDT_CLOS'],
            [one.resource_class for one in found.fit.shortfalls],
        )

    def test_cpus_near_the_cache_run_out(self) -> None:
        published = dataclasses.replace(
            trees.make_publication({}),
            cells=publication.write_cells(
                [publication.Cell(frozenset(range(8)), frozenset({2, 3, 4}))]
            ),
        )

        found = simulate(ask_for(1), published)

        self.assertEqual(2, found.number)
        self.assertIn('dedicated CPUs', found.fit.shortfalls[0].reason)

    def test_cpus_near_the_device_run_out(self) -> None:
        for affinity, number in (('required', 4), ('preferred', 6)):
            with self.subTest(affinity):
                demand = test_fit.make_demand(
                    hw__cpu_policy='dedicated',
                    resources__CUSTOM_CARD='1',
                    resource__CUSTOM_CARD__numa_affinity=affinity,
                )

                found = simulate(demand, publish_cards(), tree=CARDS)

                self.assertEqual(number, found.number)

    def test_no_more_than_are_asked_for(self) -> None:
        found = simulate(ask_for(1), most=3)

        self.assertEqual(3, found.number)
        self.assertIsNone(found.fit.step)

    def test_hosts_share_what_a_pool_has(self) -> None:
        demand = test_fit.make_demand(resources_A__CUSTOM_RACK1_GB='3')
        made = simulation.Simulation({})

        found = [
            made.run(host, make_placing(demand), most=2)
            for host in make_hosts(3, 'VCPU', shared=(trees.make_pool(11),))
        ]

        self.assertEqual([2, 1, 0], [one.number for one in found])
        [short] = found[2].fit.shortfalls
        self.assertEqual(('POOL_rack1', 2), (short.rp_key, short.available))

    def test_a_host_where_none_fits(self) -> None:
        found = simulate(ask_for(9))

        self.assertEqual(0, found.number)
        self.assertIs(Step.AMOUNTS, found.fit.step)


class MixTest(base.TestCase):
    """Servers of two ways and of three, on hosts of eight each."""

    def mix(
        self,
        small: int = 1,
        large: int = 1,
        most: int = 100,
        number: int = 2,
        refused: Any = None,
    ) -> simulation.Mixed:
        return simulation.mix(
            simulation.Simulation({}),
            make_hosts(number),
            {
                'small': (make_placing(ask_for(2)), small),
                'large': (make_placing(ask_for(3)), large),
            },
            most,
            refused or {},
        )

    def test_all_go_on_until_one_fits_nowhere(self) -> None:
        found = self.mix()

        # 2 + 3 + 2 on the first host, 3 + 2 + 3 on the second one.
        self.assertEqual(3, found.rounds)
        self.assertEqual(
            {
                'host1': {'small': 2, 'large': 1},
                'host2': {'small': 1, 'large': 2},
            },
            found.numbers,
        )
        self.assertEqual('small', found.flavor)
        self.assertEqual({'host1', 'host2'}, found.refused.keys())
        for one in found.refused.values():
            self.assertIs(Step.AMOUNTS, one.step)

    def test_so_many_of_each_round(self) -> None:
        found = self.mix(small=2, number=1)

        self.assertEqual((1, 'small'), (found.rounds, found.flavor))
        self.assertEqual({'host1': {'small': 2, 'large': 1}}, found.numbers)

    def test_no_more_rounds_than_are_asked_for(self) -> None:
        found = self.mix(most=1)

        self.assertEqual(
            (1, '', {}), (found.rounds, found.flavor, found.refused)
        )

    def test_a_host_that_placement_does_not_offer_for_one(self) -> None:
        fit = fit_mod.Fit(host=make_hosts(1)[0], step=Step.PLACEMENT)

        found = self.mix(refused={'large': {'host1': fit}})

        self.assertEqual(0, found.numbers['host1']['large'])
        self.assertEqual(2, found.numbers['host2']['large'])
