# SPDX-License-Identifier: Apache-2.0

"""What a pinned server gets whose CPUs lie in several cache domains."""

import dataclasses
from typing import Any

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.claims import decide
from nova_ext_resources.claims import spread
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import requirements
from tests import base
from tests.unit import builders
from tests.unit.claims import test_decide
from tests.unit.claims import test_siblings

WAYS = builders.WAYS
PERCENT = classes.PERCENT

FIRST, SECOND, THIRD, FOURTH = test_siblings.CACHES


def make_host(host: host_view.HostView | None = None) -> host_view.HostView:
    """Make a host of four caches, with four CPUs each, that spreads."""
    return dataclasses.replace(
        host or test_siblings.make_host(),
        constraints=host_constraints.Constraints(spreads_pins=True),
    )


def make_request(
    allocations: dict[str, dict[str, int]],
    cpus: tuple[int, ...],
    **groups: dict[str, int],
) -> assignment.ClaimRequest:
    return dataclasses.replace(
        builders.make_request(allocations, cpus=cpus),
        requirement=builders.make_requirement(**(groups or {'_': {WAYS: 4}})),
    )


def ask(
    allocations: dict[str, dict[str, int]],
    cpus: tuple[int, ...],
    *,
    host: host_view.HostView | None = None,
    **groups: Any,
) -> decide.Decision:
    return test_decide.ask(
        make_host() if host is None else host,
        make_request(allocations, cpus, **groups),
    )


def list_taken(decision: decide.Decision) -> dict[tuple[str, str], int]:
    return {
        (one.rp_uuid, one.resource_class): one.amount
        for one in decision.taken
        if one.is_allocated
    }


class SpreadTest(base.TestCase):
    def test_each_domain_of_the_cpus_gives_the_amount(self) -> None:
        decision = ask({FIRST: {WAYS: 4}}, (0, 4, 5))

        self.assertEqual(
            {(FIRST, WAYS): 4, (SECOND, WAYS): 4}, list_taken(decision)
        )
        self.assertEqual(
            1, sum(not one.is_allocated for one in decision.taken)
        )
        for rp_uuid in (FIRST, SECOND):
            self.assertEqual(
                4, decision.view.tracked[rp_uuid, WAYS].state.used
            )

    def test_they_need_not_be_the_one_that_placement_chose(self) -> None:
        decision = ask(
            {FIRST: {WAYS: 4}, test_decide.NODE: {'PCPU': 3}}, (4, 8, 12)
        )

        self.assertEqual(
            {(rp, WAYS): 4 for rp in (SECOND, THIRD, FOURTH)},
            list_taken(decision),
        )
        self.assertEqual(
            {'PCPU': 3}, decision.request.allocations[test_decide.NODE]
        )
        self.assertNotIn(FIRST, decision.request.allocations)

    def test_each_class_of_the_domains_does(self) -> None:
        asked = {WAYS: 4, PERCENT: 30}
        decision = ask(
            {FIRST: {WAYS: 4}, THIRD: {PERCENT: 30}}, (0, 4), _=asked
        )

        self.assertEqual(
            {
                (rp, name): amount
                for rp in (FIRST, SECOND)
                for name, amount in asked.items()
            },
            list_taken(decision),
        )

    def test_one_domain_without_room_is_the_reason(self) -> None:
        host = make_host()
        full = host.tracked[SECOND, WAYS]
        taken, _ = test_decide.TRACKERS['cache_ways'].allocate(full.state, 9)
        host = host.with_state((SECOND, WAYS), taken)

        decision = ask({FIRST: {WAYS: 4}}, (0, 4), host=host)

        self.assertEqual(
            [(SECOND, 4, 2)],
            [
                (one.rp_uuid, one.requested, one.available)
                for one in decision.shortfalls
            ],
        )
        self.assertEqual((host, ()), (decision.view, decision.taken))

    def test_a_server_too_large_for_all_is_told_of_them(self) -> None:
        request = dataclasses.replace(
            make_request({FIRST: {WAYS: 4}}, ()),
            cpus=None,
            pinning=assignment.Pinning(
                sizes=(20,), free=(frozenset(range(16)),)
            ),
        )
        for host, expected in (
            (make_host(), 'in these caches; free CPUs: 0-15 of'),
            (test_siblings.make_host(), 'in this cache; free CPUs: 0-3 of'),
        ):
            (one,) = test_decide.ask(host, request).shortfalls
            self.assertIn(expected, one.reason)

    def test_a_host_that_does_not_spread_refuses(self) -> None:
        decision = ask(
            {FIRST: {WAYS: 4}}, (0, 4), host=test_siblings.make_host()
        )

        (one,) = decision.shortfalls
        self.assertIn('use a smaller flavor', one.reason)

    def test_of_several_groups_nothing_is_spread(self) -> None:
        groups: Any = {'_A': {WAYS: 4}, '_B': {WAYS: 4}}
        allocations = {FIRST: {WAYS: 4}, SECOND: {WAYS: 4}}

        decision = ask(allocations, (0, 4, 8), **groups)

        self.assertEqual(
            {
                f'request {WAYS} in one request group only, so that this '
                'host gives the server the same amount in each cache'
            },
            {one.reason.split('; ')[1] for one in decision.shortfalls},
        )
        self.assertEqual(
            {(FIRST, WAYS): 4, (SECOND, WAYS): 4},
            list_taken(ask(allocations, (0, 4), **groups)),
        )

    def test_nor_where_placement_took_them_of_one_domain(self) -> None:
        groups: Any = {'_A': {WAYS: 2}, '_B': {WAYS: 2}}

        self.assertFalse(ask({FIRST: {WAYS: 4}}, (0, 4), **groups).fits)
        self.assertTrue(ask({FIRST: {WAYS: 4}}, (0, 1), **groups).fits)

    def test_of_one_group_with_a_suffix_it_is(self) -> None:
        asked = {WAYS: 4, PERCENT: 30}

        decision = ask({FIRST: asked}, (0, 4), _A=asked)

        self.assertEqual(4, len(list_taken(decision)))

    def test_a_floating_server_has_one_domain(self) -> None:
        host = make_host(test_siblings.make_host(follows=True))
        request = dataclasses.replace(
            make_request({FIRST: {WAYS: 4}}, ()),
            cpus=None,
            float_cpus=frozenset({0, 4}),
        )

        decision = test_decide.ask(host, request)

        self.assertEqual({(FIRST, WAYS): 4}, list_taken(decision))

    def test_cpus_of_no_domain_are_refused(self) -> None:
        self.assertFalse(ask({FIRST: {WAYS: 4}}, (16, 17)).fits)
        self.assertFalse(ask({FIRST: {WAYS: 4}}, (0, 17)).fits)
        former = make_request(
            {rp: {WAYS: 4} for rp in (FIRST, SECOND, THIRD)}, (16, 17)
        )
        self.assertEqual(former, spread.spread(make_host(), former))

    def test_what_is_allocated_otherwise_than_requested_stays(self) -> None:
        request = make_request({FIRST: {WAYS: 2}}, (0, 4))

        self.assertEqual(request, spread.spread(make_host(), request))


class AgainTest(base.TestCase):
    """A server claims anew for what it has been allocated before."""

    @hypothesis.given(
        st.sets(st.sampled_from(range(16)), min_size=1),
        st.sets(st.sampled_from(test_siblings.CACHES), min_size=1),
    )
    def test_it_has_what_a_new_server_has(
        self, cpus: set[int], former: set[str]
    ) -> None:
        host = make_host()
        request = make_request({rp: {WAYS: 4} for rp in former}, tuple(cpus))

        once = spread.spread(host, request)

        self.assertEqual(once, spread.spread(host, once))
        near = {test_siblings.CACHES[cpu // 4] for cpu in cpus}
        if len(near) + len(former) > 2:
            self.assertEqual(near, once.allocations.keys())
        else:
            self.assertEqual(request, once)
        self.assertEqual(
            dict.fromkeys([(rp, WAYS) for rp in near], 4),
            list_taken(test_decide.ask(host, request)),
        )

    def test_so_has_one_whose_ledger_was_lost(self) -> None:
        request = make_request({FIRST: {WAYS: 4}}, (0, 4))

        held = decide.describe(make_host(), request, test_decide.TRACKERS)

        self.assertEqual(
            {(FIRST, 4), (SECOND, 4)},
            {(o.rp_uuid, o.amount) for o in held if o.is_allocated},
        )

    def test_the_units_are_those_of_its_own_flavor(self) -> None:
        made = requirements.Requirement(
            groups=builders.make_requirement(_={WAYS: 4}).groups
        )

        self.assertTrue(made.is_met_by_each(WAYS, [4]))
        self.assertTrue(made.is_met_by_each(WAYS, [4, 4]))
        self.assertFalse(made.is_met_by_each(WAYS, [4, 2]))
        self.assertFalse(made.is_met_by_each(WAYS, [2, 2]))
        self.assertFalse(made.is_met_by_each(WAYS, [8]))
        self.assertFalse(made.is_met_by_each(PERCENT, [4]))
        two = builders.make_requirement(_A={WAYS: 2}, _B={WAYS: 2})
        self.assertFalse(two.is_met_by_each(WAYS, [2, 2]))
        self.assertFalse(two.is_met_by_each(WAYS, [4, 4]))
