# SPDX-License-Identifier: Apache-2.0

"""Tests of whether a server fits, and of what is short where."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_ext_resources.claims import extra_specs
from nova_ext_resources.claims.trackers import device
from nova_ext_resources.inspection import aggregates
from nova_ext_resources.inspection.audit import cloud
from nova_ext_resources.inspection import fit as fit_mod
from nova_ext_resources.inspection import services
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation import server_demand
from tests import base
from tests.unit import builders
from tests.unit.inspection import trees
from tests.unit.reservation import hosts
from tests.unit.reservation import test_promise_ledger

GRAMMAR = extra_specs.Grammar(attributes=device.DeviceTracker.ATTRIBUTES)

Step = fit_mod.FitStep
WAYS = trees.WAYS


def make_demand(vcpus: int = 1, **specs: Any) -> server_demand.Demand:
    return server_demand.make_demand(
        vcpus=vcpus,
        memory_mb=0,
        disk_gb=0,
        extra_specs={
            key.replace('__', ':'): value for key, value in specs.items()
        },
        grammar=GRAMMAR,
    )


def ask_for(ways: int, **specs: Any) -> server_demand.Demand:
    return make_demand(resources__CUSTOM_LLC_WAYS=str(ways), **specs)


def examine(
    demand: server_demand.Demand,
    tree: host_tree.HostTree | None = None,
    *,
    offered: Mapping[str, Mapping[str, int]] | None = None,
    published: publication.Publication | None = None,
    promises: promise_ledger.Promises | None = None,
    end: int = interval.FOREVER,
    **fields: Any,
) -> fit_mod.Fit:
    tree = tree or trees.make_tree()
    filters = fit_mod.Filters(
        demand=demand,
        trackers=hosts.TRACKERS,
        tests=hosts.make_tests(),
        promises=promises or promise_ledger.Promises(),
        end=end,
    )
    return fit_mod.Examiner(
        filters,
        {trees.ROOT: [offered]} if offered else {},
        published={tree.name: published} if published else {},
        **fields,
    ).examine(tree)


def change_root(tree: host_tree.HostTree, **fields: Any) -> host_tree.HostTree:
    root = dataclasses.replace(tree.root, **fields)
    return host_tree.HostTree(providers=(root, *tree.providers[1:]))


class AbsenceTest(base.TestCase):
    """Placement does not offer the host."""

    def check(
        self,
        fit: fit_mod.Fit,
        step: Step,
        *wanted: str,
    ) -> None:
        self.assertIs(step, fit.step)
        self.assertEqual([*wanted], [str(one) for one in fit.shortfalls])

    def test_a_class_that_the_host_does_not_have(self) -> None:
        self.check(
            examine(make_demand(resources__CUSTOM_NONE='2')),
            Step.CLASSES,
            'CUSTOM_NONE: 2 requested: no provider of this host has this '
            'resource class',
        )

    def test_a_pool_that_has_too_little(self) -> None:
        tree = dataclasses.replace(
            trees.make_tree(), shared=(trees.make_pool(10, used=8),)
        )
        self.check(
            examine(make_demand(resources_A__CUSTOM_RACK1_GB='3'), tree),
            Step.AMOUNTS,
            f'{trees.POOL} of POOL_rack1: 3 requested, 2 available: 8 of 10 '
            'are allocated, short by 1',
        )

    def test_traits_that_no_provider_has(self) -> None:
        self.check(
            examine(ask_for(1, trait__CUSTOM_GOLD='required')),
            Step.TRAITS,
            'CUSTOM_LLC_WAYS: 1 requested: no provider of this host has this '
            'class together with the traits CUSTOM_GOLD',
        )

    def test_two_classes_that_are_on_no_provider_together(self) -> None:
        fit = examine(
            make_demand(
                resources_A__CUSTOM_LLC_WAYS='1',
                resources_A__CUSTOM_RDT_CLOS='1',
            )
        )

        self.assertIs(Step.TRAITS, fit.step)
        self.assertIn('request group', fit.shortfalls[0].reason)

    def test_by_how_much_what_is_short(self) -> None:
        self.check(
            examine(ask_for(4)),
            Step.AMOUNTS,
            'CUSTOM_LLC_WAYS of L3_0: 4 requested, 2 available: 6 of 8 are '
            'allocated, short by 2',
        )

    def test_all_of_it_is_reserved(self) -> None:
        amounts = {'VCPU': host_tree.Amount(capacity=0, used=1)}

        fit = examine(
            make_demand(resources__VCPU='1'),
            change_root(trees.make_tree(), amounts=amounts),
        )

        [short] = fit.shortfalls
        self.assertIn('all units are reserved', short.reason)
        self.assertFalse(short.is_permanent)

    def test_more_than_there_is_in_all(self) -> None:
        """Of a host whose inventories were not read."""
        tree = trees.make_tree()
        amounts = {'VCPU': host_tree.Amount(capacity=8, used=2)}

        fit = examine(
            make_demand(resources__VCPU='60'),
            change_root(tree, amounts=amounts),
        )

        [short] = fit.shortfalls
        self.assertTrue(short.is_permanent)
        self.assertIn('has only 8 in total', short.reason)

    def test_all_that_is_short(self) -> None:
        fit = examine(ask_for(4, resources__VCPU='7'))

        self.assertEqual(
            {(WAYS, 4, 2), ('VCPU', 7, 6)},
            {
                (one.resource_class, one.requested, one.available)
                for one in fit.shortfalls
            },
        )

    def test_what_an_inventory_does_not_allow(self) -> None:
        tree = trees.make_tree({})
        cache = trees.make_provider(
            '_L3_0',
            trees.RDT,
            WAYS,
            builders.make_inventory(12, step_size=2),
            {},
        )

        fit = examine(
            ask_for(3),
            host_tree.HostTree(providers=(*tree.providers[:2], cache)),
        )

        self.assertIs(Step.AMOUNTS, fit.step)
        self.assertTrue(fit.shortfalls[0].is_permanent)
        self.assertIn('multiple of 2', fit.shortfalls[0].reason)

    def test_groups_that_need_a_provider_each(self) -> None:
        fit = examine(
            make_demand(
                resources_A__CUSTOM_LLC_WAYS='1',
                resources_B__CUSTOM_LLC_WAYS='1',
                group_policy='isolate',
            )
        )

        self.assertIs(Step.POLICY, fit.step)

    def test_nothing_says_why(self) -> None:
        fit = examine(ask_for(2))

        self.assertIs(Step.PLACEMENT, fit.step)
        self.assertIn('Try again', fit.shortfalls[0].reason)

    def test_nothing_is_requested_of_the_compute_node(self) -> None:
        fit = examine(ask_for(2, resources__VCPU='0'))

        self.check(
            fit,
            Step.PLACEMENT,
            'CUSTOM_LLC_WAYS: 2 requested: the flavor requests nothing of the '
            'compute node itself, so Nova finds no host: it needs candidates '
            'that use the compute node. Request a resource class of the '
            'compute node: VCPU',
        )

    def test_a_host_that_is_off(self) -> None:
        tree = trees.make_tree()
        disabled = change_root(
            tree, traits=frozenset({fit_mod.DISABLED_TRAIT})
        )

        forgotten = services.Services(nodes={})

        for fit, wanted in (
            (examine(ask_for(99), disabled), 'disabled'),
            (examine(ask_for(99), tree, services=forgotten), 'discover_hosts'),
        ):
            self.assertIs(Step.SERVICE, fit.step)
            self.assertIn(wanted, fit.shortfalls[0].reason)

    def test_a_host_of_another_zone(self) -> None:
        """By the host of its nova-compute; a host that is off comes first."""
        tree = trees.make_tree()
        nodes = {
            tree.name: cloud.Hypervisor(
                name=tree.name, uuid=trees.ROOT, host='ctl'
            )
        }
        rack = aggregates.Aggregate(
            name='rack', zone='z', hosts=frozenset({'ctl'})
        )
        other = aggregates.Aggregate(
            name='other', zone='y', hosts=frozenset({'host'})
        )
        up = services.Services(nodes=nodes)
        for zone, found, step in (
            ('z', up, Step.AMOUNTS),
            ('y', up, Step.ZONE),
            # The hypervisor has another name than its host.
            ('z', services.Services(states={'ctl': 'up'}), Step.AMOUNTS),
            ('y', services.Services(nodes={}), Step.SERVICE),
        ):
            fit = examine(
                ask_for(4),
                tree,
                services=found,
                zone=aggregates.find_zone(
                    [rack, other], zone, [trees.ROOT] if zone == 'z' else []
                ),
            )

            self.assertIs(step, fit.step)


class OfferedTest(base.TestCase):
    """Placement offers the host; the filter decides."""

    OFFER: Mapping[str, Mapping[str, int]] = {
        trees.ROOT: {'VCPU': 1},
        trees.L3_0: {WAYS: 2},
    }

    def test_without_a_publication_the_amounts_decide(self) -> None:
        fit = examine(ask_for(2), offered=self.OFFER)

        self.assertIsNone(fit.step)
        self.assertFalse(fit.is_sure)
        self.assertEqual(self.OFFER, fit.places)

    def test_with_a_publication_the_units_decide(self) -> None:
        apart = {trees.ONE: 0x007, trees.TWO: 0x070}
        for masks, step in ((trees.MASKS, None), (apart, Step.UNITS)):
            fit = examine(
                ask_for(2, hw__cpu_policy='dedicated'),
                offered=self.OFFER,
                published=trees.make_publication(masks),
            )

            self.assertTrue(fit.is_sure)
            self.assertIs(step, fit.step)
        [reason] = [one.reason for one in fit.shortfalls]
        self.assertIn('not side by side', reason)

    def test_a_host_that_takes_none_now(self) -> None:
        published = trees.make_publication(
            rules=host_constraints.Constraints(
                refused={WAYS: 'resctrl_missing'}
            )
        )
        demand = ask_for(2, hw__cpu_policy='dedicated')

        fit = examine(demand, offered=self.OFFER, published=published)

        self.assertIs(Step.UNITS, fit.step)
        self.assertEqual(
            [
                'CUSTOM_LLC_WAYS: 2 requested: this host accepts no claim of '
                'CUSTOM_LLC_WAYS now, because of the alarm resctrl_missing'
            ],
            [str(one) for one in fit.shortfalls],
        )
        for other in ({}, {'CUSTOM_OTHER': 'resctrl_missing'}):
            published = trees.make_publication(
                rules=host_constraints.Constraints(refused=other)
            )
            fit = examine(demand, offered=self.OFFER, published=published)
            self.assertIsNone(fit.step)

    def test_a_floating_server_where_ways_follow_cpus(self) -> None:
        fit = examine(
            ask_for(2),
            offered=self.OFFER,
            published=trees.make_publication(),
        )

        self.assertIs(Step.UNITS, fit.step)
        self.assertIn('hw:cpu_policy=dedicated', fit.shortfalls[0].reason)

    def test_cores_that_are_shared_are_named_with_the_remedy(self) -> None:
        rule = host_constraints.ClassConstraints(needs_cores=True)
        rules = host_constraints.Constraints(classes={WAYS: rule})
        for policy, step in (('isolate', None), ('prefer', Step.UNITS)):
            fit = examine(
                ask_for(
                    2,
                    hw__cpu_policy='dedicated',
                    hw__cpu_thread_policy=policy,
                ),
                offered=self.OFFER,
                published=trees.make_publication(rules=rules),
            )

            self.assertIs(step, fit.step)
        [reason] = [one.reason for one in fit.shortfalls]
        self.assertIn('hw:cpu_thread_policy=require on', reason)

    def test_cpus_that_are_not_free_near_the_cache(self) -> None:
        published = dataclasses.replace(
            trees.make_publication(),
            cells=publication.write_cells(
                [publication.Cell(frozenset(range(8)), frozenset({5, 6}))]
            ),
        )

        fit = examine(
            ask_for(2, hw__cpu_policy='dedicated'),
            offered=self.OFFER,
            published=published,
        )

        self.assertIs(Step.UNITS, fit.step)
        self.assertIn('dedicated CPUs', fit.shortfalls[0].reason)


class ReservationsTest(base.TestCase):
    """Two servers hold six of eight ways, and two are free."""

    OFFER: Mapping[str, Mapping[str, int]] = {
        trees.ROOT: {'VCPU': 1},
        trees.L3_0: {WAYS: 2},
    }

    def promise(
        self, ways: int, start: int = 100, end: int = 200
    ) -> promise_ledger.Promises:
        """Promise ways of the cache to a reservation."""
        during = hosts.span(start, end)
        slot = test_promise_ledger.make_slot(
            'n1/0', during, {(trees.L3_0, WAYS): ways}
        )
        request = hosts.make_request(
            'n1', during, hosts.make_demand(_={WAYS: ways}, cells=(1,))
        )
        promises = promise_ledger.Promises()
        promises.take(request, (dataclasses.replace(slot, host='compute-1'),))
        return promises

    def test_the_reservation_in_the_way_is_named(self) -> None:
        fit = examine(ask_for(2), offered=self.OFFER, promises=self.promise(1))

        self.assertIs(Step.RESERVATIONS, fit.step)
        self.assertEqual(
            [
                'CUSTOM_LLC_WAYS of L3_0: 2 requested, 1 available: of 2 '
                'free units, 1 are promised to reservation n1 from '
                '1970-01-01T00:01:40Z to 1970-01-01T00:03:20Z'
            ],
            [str(one) for one in fit.shortfalls],
        )
        self.assertEqual({}, fit.places)

    def test_what_is_in_nobodys_way(self) -> None:
        for promises, end in (
            # One way is left.
            (self.promise(1), interval.FOREVER),
            # The server ends before.
            (self.promise(2), 100),
            (self.promise(2), 50),
        ):
            fit = examine(
                ask_for(1),
                offered={**self.OFFER, trees.L3_0: {WAYS: 1}},
                promises=promises,
                end=end,
            )

            self.assertIsNone(fit.step)

    def test_units_that_would_be_apart(self) -> None:
        """Four ways are free; two of them are promised side by side."""
        for masks, step in (
            ({trees.ONE: 0x003, trees.TWO: 0x0C0}, None),
            ({trees.ONE: 0x003, trees.TWO: 0x060}, Step.RESERVATIONS),
        ):
            fit = examine(
                ask_for(2, hw__cpu_policy='dedicated'),
                trees.make_tree({trees.ONE: 2, trees.TWO: 2}),
                offered={trees.ROOT: {'PCPU': 1}, trees.L3_0: {WAYS: 2}},
                published=trees.make_publication(masks),
                promises=self.promise(2),
            )

            self.assertIs(step, fit.step)
        [short] = fit.shortfalls
        self.assertEqual('L3_0', short.rp_key)
        self.assertIn(
            'reservation n1 needs this many adjacent units', str(short)
        )
