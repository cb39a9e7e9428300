# SPDX-License-Identifier: Apache-2.0

"""Tests of how many more servers fit."""

import dataclasses

from nova_ext_resources.claims.checks import numa_affinity
from nova_ext_resources.claims.trackers import device
from nova_ext_resources.inspection import fit as fit_mod
from nova_ext_resources.inspection import simulation
from nova_ext_resources.objects import constraints
from nova_ext_resources.objects import host_tree
from nova_ext_resources.objects import stats
from nova_ext_resources.objects import view
from nova_ext_resources.reservation import demand as demand_mod
from nova_ext_resources.reservation import publication
from tests import base
from tests.unit import builders
from tests.unit.inspection import test_fit
from tests.unit.inspection import trees
from tests.unit.reservation import hosts

Step = fit_mod.Step
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
    tracked = view.Tracked(
        tracker='device',
        state=device.DeviceState(frozenset('abcdef')),
        near='4-7',
    )
    return publication.Publication(
        host=CARDS.name,
        document=stats.encode(
            view.HostView(
                tracked={(trees.RDT, CARD): tracked},
                keys={trees.RDT: 'RDT'},
                constraints=constraints.Constraints(tests=tuple(TESTS)),
            )
        ),
        cells=publication.write_cells(
            [publication.Cell(one, one) for one in hosts.CELLS]
        ),
    )


def simulate(
    demand: demand_mod.Demand,
    published: publication.Publication | None = None,
    most: int = 100,
    tree: host_tree.HostTree | None = None,
) -> simulation.Simulated:
    """Place servers on a host, by default of eight ways that are free."""
    tree = tree or trees.make_tree({})
    root = trees.make_provider(
        '', None, 'PCPU', builders.make_inventory(8), {}
    )
    tree = dataclasses.replace(tree, providers=(root, *tree.providers[1:]))
    return simulation.Simulation(
        demand,
        trackers=hosts.TRACKERS,
        tests=TESTS,
        published={tree.name: published} if published else {},
        most=most,
    ).run(tree)


CARDS = make_cards()


def ask_for(ways: int) -> demand_mod.Demand:
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
        made = simulation.Simulation(
            demand,
            trackers=hosts.TRACKERS,
            tests=TESTS,
            published={},
            most=2,
        )

        found = [
            made.run(dataclasses.replace(trees.make_tree({}), shared=(pool,)))
            for pool in [trees.make_pool(11)] * 3
        ]

        self.assertEqual([2, 1, 0], [one.number for one in found])
        [short] = found[2].fit.shortfalls
        self.assertEqual(('POOL_rack1', 2), (short.rp_key, short.available))

    def test_a_host_where_none_fits(self) -> None:
        found = simulate(ask_for(9))

        self.assertEqual(0, found.number)
        self.assertIs(Step.AMOUNTS, found.fit.step)
