# SPDX-License-Identifier: Apache-2.0

"""Tests of how many more servers fit."""

import dataclasses

from nova_ext_resources.inspection import fit as fit_mod
from nova_ext_resources.inspection import simulation
from nova_ext_resources.reservation import demand as demand_mod
from nova_ext_resources.reservation import publication
from tests import base
from tests.unit import builders
from tests.unit.inspection import test_fit
from tests.unit.inspection import trees
from tests.unit.reservation import hosts

Step = fit_mod.Step


def simulate(
    demand: demand_mod.Demand,
    published: publication.Publication | None = None,
    most: int = 100,
) -> simulation.Simulated:
    """Place servers on a host of eight ways that are free."""
    tree = trees.make_tree({})
    root = trees.make_provider(
        '', None, 'PCPU', builders.make_inventory(8), {}
    )
    tree = dataclasses.replace(tree, providers=(root, *tree.providers[1:]))
    return simulation.Simulation(
        demand,
        trackers=hosts.TRACKERS,
        tests=hosts.make_tests(),
        published={tree.name: published} if published else {},
        most=most,
    ).run(tree)


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

    def test_no_more_than_are_asked_for(self) -> None:
        found = simulate(ask_for(1), most=3)

        self.assertEqual(3, found.number)
        self.assertIsNone(found.fit.step)

    def test_a_host_where_none_fits(self) -> None:
        found = simulate(ask_for(9))

        self.assertEqual(0, found.number)
        self.assertIs(Step.AMOUNTS, found.fit.step)
