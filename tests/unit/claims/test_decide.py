# SPDX-License-Identifier: Apache-2.0

"""Tests of claims: everything is taken, or every reason is told."""

from collections.abc import Mapping
import dataclasses
import doctest
from typing import Any, TypeAlias

import hypothesis
from hypothesis import strategies as st
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.claims import base as plugin_base
from nova_ext_resources.claims.checks import cache_affinity
from nova_ext_resources.claims.checks import capacity
from nova_ext_resources.claims.checks import granularity
from nova_ext_resources.claims import decide
from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_view
from tests import base
from tests.unit import builders
from tests.unit import strategies

Allocations: TypeAlias = Mapping[str, Mapping[str, int]]

TRACKERS = builders.make_trackers()

#: Nova's own root provider, which is among every server's allocations.
NODE: str = uuidsentinel.node

hosts = st.builds(
    lambda one, other, clos, seats: builders.make_view(
        [one, other], clos=clos, seats=seats
    ),
    strategies.masks,
    strategies.masks,
    st.integers(min_value=0, max_value=3),
    st.integers(min_value=0, max_value=3),
)
_amounts = st.integers(min_value=1, max_value=6)
allocations_of_ours = st.fixed_dictionaries(
    {},
    optional={
        builders.L3_0: st.just(builders.WAYS),
        builders.L3_1: st.just(builders.WAYS),
        builders.POOL: st.just(builders.SEATS),
        builders.RDT: st.just(builders.CLOS),
        NODE: st.just('VCPU'),
    },
).flatmap(
    lambda classes: st.fixed_dictionaries(
        {
            rp: st.fixed_dictionaries({resource_class: _amounts})
            for rp, resource_class in classes.items()
        }
    )
)


def make_tests() -> dict[str, plugin_base.ClaimTest]:
    return {
        'granularity': granularity.GranularityTest(TRACKERS),
        'capacity': capacity.CapacityTest(TRACKERS),
        'cache_affinity': cache_affinity.CacheAffinityTest(TRACKERS),
    }


def ask(
    host: host_view.HostView, request: assignment.ClaimRequest, **fields: Any
) -> decide.Decision:
    tests = (*make_tests().values(),)
    return decide.decide(
        host, request, trackers=TRACKERS, tests=tests, **fields
    )


def find(
    host: host_view.HostView,
    allocations: Allocations | None = None,
    **fields: Any,
) -> tuple[exception.Shortfall, ...]:
    request = builders.make_request(allocations, **fields)
    return decide.find_shortfalls(host, request, (*make_tests().values(),))


def take(
    host: host_view.HostView, allocations: Allocations | None = None
) -> tuple[host_view.HostView, tuple[assignment.Assignment, ...]]:
    request = builders.make_request(allocations)
    return decide.allocate(host, request, TRACKERS)


class Coded(cache_ways.CacheWaysTracker):
    def read_attributes(
        self, amount: int, attributes: Mapping[str, str]
    ) -> Mapping[str, str]:
        return attributes


class TestExample(base.TestCase):
    """The example in the module's docstring, from nothing but it."""

    def setUp(self) -> None:
        super().setUp()
        ways = cache_ways.CacheWaysState(0xFF)
        self.view = host_view.HostView(
            tracked={
                ('RDT', builders.CLOS): builders.make_count(4),
                **{
                    (rp_uuid, builders.WAYS): dataclasses.replace(
                        builders.make_ways(cpus=cpus),
                        state=ways,
                        implied=('RDT', builders.CLOS),
                    )
                    for rp_uuid, cpus in (('A', '0-3'), ('B', '4-7'))
                },
            }
        )

    def claim(self, name: str, *, cpus: str, ways: int) -> None:
        request = builders.make_request(
            {'A': {builders.WAYS: ways}}, cpus=sorted(bitmask.parse_list(cpus))
        )
        decision = ask(self.view, request)
        self.view = decision.view
        if not decision.fits:
            print(f'{name} is refused')
        for one in decision.shortfalls:
            print(
                f'{one.resource_class} of {one.rp_uuid}: {one.requested} '
                f'requested, {one.available} available'
            )
        for held in decision.taken[:1]:
            moved = ''.join(f', moved from {m.source}' for m in decision.moves)
            mask = held.units['mask'].zfill(2)
            print(f'{name} gets {mask} of {held.rp_uuid}{moved}')

    def test_it_is_true(self) -> None:
        text = decide.__doc__
        assert text is not None
        example = doctest.DocTestParser().get_doctest(
            text, {'claim': self.claim}, 'decide', None, 0
        )
        out: list[str] = []

        result = doctest.DocTestRunner().run(example, out=out.append)

        found = result.failed, result.attempted
        self.assertEqual((0, 5), found, ''.join(out))


class TestTake(base.TestCase):
    def test_a_server_with_ways_takes_a_class_of_service_too(self) -> None:
        _host, held = take(builders.make_view())

        self.assertEqual(
            (
                builders.make_assignment(),
                builders.make_assignment(
                    rp_uuid=builders.RDT,
                    rp_key='RDT',
                    resource_class=builders.CLOS,
                    amount=1,
                    units={},
                    is_allocated=False,
                ),
            ),
            held,
        )

    def test_attributes_of_the_flavor_go_along_with_the_units(self) -> None:
        request = builders.make_request(
            attributes={builders.WAYS: {'code': '1'}}
        )

        _host, held = decide.allocate(
            builders.make_view(), request, {**TRACKERS, 'cache_ways': Coded()}
        )

        self.assertEqual({'mask': 'f', 'code': '1'}, held[0].units)
        self.assertEqual({}, held[1].units)

    def test_one_class_of_service_serves_all_its_domains(self) -> None:
        host, _held = take(
            builders.make_view(clos=1),
            {
                builders.L3_0: {builders.WAYS: 4},
                builders.L3_1: {builders.WAYS: 2},
            },
        )

        self.assertEqual(
            1, host.tracked[builders.RDT, builders.CLOS].state.used
        )

    def test_a_class_of_service_that_is_asked_for_is_not_taken_twice(
        self,
    ) -> None:
        _host, held = take(
            builders.make_view(),
            {
                builders.L3_0: {builders.WAYS: 4},
                builders.RDT: {builders.CLOS: 1},
            },
        )

        self.assertEqual(2, len(held))
        self.assertTrue(all(one.is_allocated for one in held))

    def test_what_others_allocate_is_passed_over(self) -> None:
        host = builders.make_view()

        after, held = take(host, {NODE: {'VCPU': 2}})

        self.assertEqual((host, ()), (after, held))

    def test_a_provider_without_a_key_is_taken_from_all_the_same(
        self,
    ) -> None:
        host = host_view.HostView(tracked=builders.make_view().tracked)

        _after, held = take(host)

        self.assertEqual({''}, {one.rp_key for one in held})

    @hypothesis.given(host=hosts, allocations=allocations_of_ours)
    def test_it_takes_exactly_when_capacity_has_no_shortfall(
        self, host: host_view.HostView, allocations: Allocations
    ) -> None:
        request = builders.make_request(allocations)
        short = decide.find_shortfalls(
            host, request, [capacity.CapacityTest(TRACKERS)]
        )

        try:
            decide.allocate(host, request, TRACKERS)
        except exception.CapacityExceeded:
            was_taken = False
        else:
            was_taken = True

        self.assertEqual(was_taken, not short)

    @hypothesis.given(host=hosts, allocations=allocations_of_ours)
    def test_it_takes_everything_or_nothing(
        self, host: host_view.HostView, allocations: Allocations
    ) -> None:
        before = stats.encode(host)

        try:
            after, held = take(host, allocations)
        except exception.CapacityExceeded:
            after, held = host, ()

        self.assertEqual(before, stats.encode(host))
        got = {(one.rp_uuid, one.resource_class): one.amount for one in held}
        if held:
            asked = {
                (rp, resource_class): amount
                for rp, resources in allocations.items()
                for resource_class, amount in resources.items()
                if (rp, resource_class) in host.tracked
            }
            self.assertLessEqual(asked.items(), got.items())
        for place, tracked in after.tracked.items():
            self.assertEqual(got.get(place, 0), tracked.state.used)

    @hypothesis.given(host=hosts, allocations=allocations_of_ours)
    def test_the_scheduler_and_the_host_decide_the_same(
        self, host: host_view.HostView, allocations: Allocations
    ) -> None:
        request = builders.make_request(allocations)
        document = stats.decode(stats.encode(host))
        assert document is not None
        published = stats.make_view(document, TRACKERS)
        tests = (*make_tests().values(),)[1:]

        self.assertEqual(
            decide.find_shortfalls(host, request, tests),
            decide.find_shortfalls(published, request, tests),
        )


class TestNearest(base.TestCase):
    """The smaller of two caches can never serve it; the other one is full."""

    def setUp(self) -> None:
        super().setUp()
        host = builders.make_view([0xF, 0], follows_tasks=True)
        small = dataclasses.replace(
            host.tracked[builders.L3_0, builders.WAYS],
            inventory=builders.make_inventory(4),
        )
        self.host = dataclasses.replace(
            host,
            tracked={**host.tracked, (builders.L3_0, builders.WAYS): small},
        )

    def test_a_host_that_is_full_is_not_one_that_never_could(self) -> None:
        request = builders.make_request(
            {builders.L3_0: {builders.WAYS: 6}}, cpus=None
        )

        decision = ask(self.host, request)

        self.assertEqual(
            [builders.L3_1], [one.rp_uuid for one in decision.shortfalls]
        )
        self.assertIsInstance(
            decision.make_error('host1'), exception.CapacityExceeded
        )

    def test_providers_have_their_names(self) -> None:
        request = builders.make_request(
            {builders.L3_0: {builders.WAYS: 6}}, cpus=None
        )

        decision = ask(self.host, request, may_move=False)

        self.assertEqual({'L3_0'}, {s.rp_key for s in decision.shortfalls})


class TestAttributes(base.TestCase):
    def test_bad_ones_are_refused_without_granularity_too(self) -> None:
        attributes = {builders.WAYS: {'code': '99'}}
        request = builders.make_request(attributes=attributes)

        decision = decide.decide(
            builders.make_view(), request, trackers=TRACKERS, tests=()
        )

        (shortfall,) = decision.shortfalls
        self.assertTrue(shortfall.is_permanent)
        self.assertIn('attribute code takes 99', shortfall.reason)


class TestGive(base.TestCase):
    @hypothesis.given(host=hosts, allocations=allocations_of_ours)
    def test_giving_back_makes_the_very_view_from_before(
        self, host: host_view.HostView, allocations: Allocations
    ) -> None:
        request = builders.make_request(allocations)
        hypothesis.assume(
            not decide.find_shortfalls(
                host, request, [capacity.CapacityTest(TRACKERS)]
            )
        )

        after, held = decide.allocate(host, request, TRACKERS)

        self.assertEqual(host, decide.free(after, held, TRACKERS))

    def test_units_of_a_provider_that_is_gone_are_passed_over(self) -> None:
        _after, held = take(builders.make_view())
        gone = host_view.HostView()

        self.assertEqual(gone, decide.free(gone, held, TRACKERS))


class TestFindShortfalls(base.TestCase):
    def test_what_fits_has_none(self) -> None:
        self.assertEqual((), find(builders.make_view()))

    def test_all_of_them_are_reported_sorted(self) -> None:
        host = builders.make_view([0, 0x7FF], clos=0, seats=1)

        found = find(
            host,
            {
                builders.POOL: {builders.SEATS: 2},
                builders.L3_0: {builders.WAYS: 12},
            },
            cpus=None,
            asked={builders.SEATS: 5},
        )

        self.assertEqual(tuple(sorted(set(found))), found)
        self.assertEqual(
            {
                ('', builders.SEATS),
                (builders.POOL, builders.SEATS),
                (builders.L3_0, builders.WAYS),
                (builders.RDT, builders.CLOS),
            },
            {(one.rp_uuid, one.resource_class) for one in found},
        )
        # Granularity, capacity and affinity each have one on the ways.
        self.assertEqual(3, sum(one.rp_uuid == builders.L3_0 for one in found))

    def test_a_class_of_service_that_is_missing_is_a_shortfall(self) -> None:
        [shortfall] = find(builders.make_view(clos=0))

        self.assertEqual(builders.CLOS, shortfall.resource_class)

    def test_what_was_asked_for_and_not_allocated_is_a_shortfall(
        self,
    ) -> None:
        [shortfall] = find(builders.make_view(), {}, asked={builders.WAYS: 4})

        self.assertEqual(
            ('', builders.WAYS, 4, 0),
            (
                shortfall.rp_uuid,
                shortfall.resource_class,
                shortfall.requested,
                shortfall.available,
            ),
        )

    def test_amounts_of_several_providers_add_up(self) -> None:
        found = find(
            builders.make_view(),
            {
                builders.L3_0: {builders.WAYS: 2},
                builders.L3_1: {builders.WAYS: 2},
            },
            asked={builders.WAYS: 4},
            cpus=[0, 12],
        )

        self.assertEqual((), found)

    def test_what_nobody_here_has_is_left_to_others(self) -> None:
        self.assertEqual(
            (), find(builders.make_view(), asked={'CUSTOM_BAREMETAL': 1})
        )
