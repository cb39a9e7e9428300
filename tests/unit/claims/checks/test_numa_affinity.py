# SPDX-License-Identifier: Apache-2.0

"""Tests of the affinity of devices and CPUs."""

from collections.abc import Sequence, Set
import dataclasses
from typing import Any

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.claims.checks import cache_affinity
from nova_ext_resources.claims.checks import capacity
from nova_ext_resources.claims.checks import granularity
from nova_ext_resources.claims.checks import numa_affinity
from nova_ext_resources.claims import decide
from nova_ext_resources.claims import extra_specs
from nova_ext_resources.claims.schedule import candidates
from nova_ext_resources.claims.trackers import device
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import requirements
from nova_ext_resources import plugins
from tests import base
from tests.unit import builders

CLASS = 'SRIOV_NET_VF'
NEAR: str = uuidsentinel.near
FAR: str = uuidsentinel.far
UNKNOWN: str = uuidsentinel.unknown

TRACKERS = builders.make_trackers()
TESTS = {
    'granularity': granularity.GranularityTest(TRACKERS),
    'capacity': capacity.CapacityTest(TRACKERS),
    'numa_affinity': numa_affinity.NumaAffinityTest(TRACKERS),
}


def make_card(cpus: str, *names: str, trait: str = 'A') -> host_view.Tracked:
    return host_view.Tracked(
        tracker='device',
        state=device.DeviceState(frozenset(names)),
        inventory=builders.make_inventory(max(len(names), 1)),
        near=cpus,
        alike=frozenset({trait}),
    )


def make_view(**cards: host_view.Tracked) -> host_view.HostView:
    """Make a host with a card at each of its two nodes."""
    given = {
        'near': make_card('0-3', 'n0', 'n1'),
        'far': make_card('4-7', 'f0', 'f1'),
        **cards,
    }
    return host_view.HostView(
        tracked={
            (getattr(uuidsentinel, key), CLASS): one
            for key, one in given.items()
        },
        resource_classes=frozenset({CLASS}),
        constraints=host_constraints.Constraints(tests=tuple(TESTS)),
    )


def make_request(
    rp_uuid: str = NEAR, affinity: str = 'required', **fields: Any
) -> assignment.ClaimRequest:
    made = builders.make_request(
        {rp_uuid: {CLASS: 1}},
        asked={CLASS: 1},
        attributes=(
            {CLASS: {requirements.AFFINITY: affinity}} if affinity else {}
        ),
        cpus=fields.pop('cpus', None),
        float_cpus=fields.pop('float_cpus', None),
    )
    return dataclasses.replace(made, **fields)


class NumaAffinityTest(base.TestCase):
    test = TESTS['numa_affinity']

    def find(
        self, request: assignment.ClaimRequest, **cards: host_view.Tracked
    ) -> list[exception.Shortfall]:
        return list(self.test.shortfalls(make_view(**cards), request))

    def test_one_cpu_near_the_device_is_enough(self) -> None:
        self.assertEqual([], self.find(make_request(cpus=[0, 1])))
        self.assertEqual([], self.find(make_request(cpus=[3, 4])))
        self.assertEqual([], self.find(make_request(float_cpus=[2, 9])))

    def test_one_at_another_node_is_reported(self) -> None:
        for request in (
            make_request(cpus=[4, 5]),
            make_request(float_cpus=[4, 5]),
        ):
            with self.subTest(cpus=request.cpus):
                [shortfall] = self.find(request)

                self.assertEqual(NEAR, shortfall.rp_uuid)
                self.assertIn(
                    '(4-5) are not among the CPUs near this device (0-3)',
                    shortfall.reason,
                )

    def test_a_server_that_floats_is_told_what_to_set(self) -> None:
        [shortfall] = self.find(make_request())

        self.assertIn('hw:numa_nodes', shortfall.reason)
        self.assertTrue(shortfall.is_permanent)

    def test_a_device_of_an_unknown_node_is_not_near(self) -> None:
        [shortfall] = self.find(
            make_request(UNKNOWN, cpus=[0]), unknown=make_card('', 'u')
        )

        self.assertIn('does not know the NUMA node', shortfall.reason)
        self.assertTrue(shortfall.is_permanent)

    def test_where_it_does_not_matter_nothing_is_reported(self) -> None:
        for affinity in ('', 'preferred'):
            for cpus in ([4], None):
                request = make_request(affinity=affinity, cpus=cpus)
                self.assertEqual([], self.find(request))

    def test_before_cpus_are_chosen_only_the_impossible_is_reported(
        self,
    ) -> None:
        def find(
            sizes: tuple[int, ...], free: Sequence[Set[int]] | None
        ) -> list[str]:
            pinning = assignment.Pinning(sizes=sizes, free=free)
            return [
                one.reason for one in self.find(make_request(pinning=pinning))
            ]

        self.assertEqual([], find((), None))
        self.assertEqual([], find((2,), [{0, 1}, {4}]))
        self.assertEqual([], find((2, 1), [{0}, {4, 5}]))
        [reason] = find((2,), [{0}, {4, 5, 6}])
        self.assertIn('needs 2 dedicated CPUs', reason)
        self.assertIn('free CPUs: 0 of 0-3', reason)

    def test_unmet_wishes_are_counted(self) -> None:
        for affinity, cpus, expected in (
            ('preferred', [4], 1),
            ('preferred', [0], 0),
            ('required', [4], 0),
            ('', [4], 0),
        ):
            request = make_request(affinity=affinity, cpus=cpus)
            found = self.test.count_unmet(make_view(), request)
            self.assertEqual(expected, found)


class MovesTest(base.TestCase):
    """The host takes a device of another card than placement chose."""

    def decide(
        self, request: assignment.ClaimRequest, **cards: host_view.Tracked
    ) -> list[str]:
        """Return the devices that a server gets; none if it is refused."""
        made = decide.decide(
            make_view(**cards),
            request,
            trackers=TRACKERS,
            tests=[*TESTS.values()],
        )
        return [name for one in made.taken for name in one.units['names']]

    def test_one_near_the_cpus_is_taken(self) -> None:
        for affinity in ('required', 'preferred'):
            request = make_request(FAR, affinity, cpus=[0, 1])
            self.assertEqual(['n0'], self.decide(request))

    def test_one_that_is_near_already_stays(self) -> None:
        for affinity in ('required', 'preferred', ''):
            request = make_request(FAR, affinity, cpus=[4])
            self.assertEqual(['f0'], self.decide(request))

    def test_without_the_attribute_it_stays_where_it_is(self) -> None:
        self.assertEqual(
            ['f0'], self.decide(make_request(FAR, '', cpus=[0, 1]))
        )

    def test_a_card_with_other_traits_does_not_do(self) -> None:
        other = make_card('0-3', 'n0', trait='B')

        self.assertEqual(
            [], self.decide(make_request(FAR, cpus=[0]), near=other)
        )
        self.assertEqual(
            ['f0'],
            self.decide(make_request(FAR, 'preferred', cpus=[0]), near=other),
        )

    def test_a_full_card_does_not_do(self) -> None:
        full = make_card('0-3')

        self.assertEqual(
            [], self.decide(make_request(FAR, cpus=[0]), near=full)
        )
        self.assertEqual(
            ['f0'],
            self.decide(make_request(FAR, 'preferred', cpus=[0]), near=full),
        )

    def test_ways_and_a_device_move_together(self) -> None:
        ways = {
            (builders.L3_0, builders.WAYS): builders.make_ways(cpus='0-3'),
            (builders.L3_1, builders.WAYS): builders.make_ways(cpus='4-7'),
            (builders.RDT, builders.CLOS): builders.make_count(),
        }
        host = make_view()
        host = dataclasses.replace(host, tracked={**host.tracked, **ways})
        for affinity, expected in (('required', 'f0'), ('preferred', 'n0')):
            request = make_request(NEAR, affinity, cpus=[4, 5])
            request = dataclasses.replace(
                request,
                allocations={
                    **request.allocations,
                    builders.L3_0: {builders.WAYS: 2},
                },
            )
            tests = [
                *TESTS.values(),
                cache_affinity.CacheAffinityTest(TRACKERS),
            ]

            made = decide.decide(host, request, trackers=TRACKERS, tests=tests)

            self.assertEqual((), made.shortfalls)
            held = {one.resource_class: one for one in made.taken}
            self.assertEqual(builders.L3_1, held[builders.WAYS].rp_uuid)
            self.assertEqual([expected], held[CLASS].units['names'])

    def test_a_wish_is_no_reason_to_take_what_does_not_fit(self) -> None:
        # No test on this host is about caches.
        full = builders.make_ways(free=0, taken=0x7FF, cpus='4-7')
        host = make_view(far=make_card('4-7'))
        ways = {
            (builders.L3_0, builders.WAYS): builders.make_ways(cpus='0-3'),
            (builders.L3_1, builders.WAYS): full,
            (builders.RDT, builders.CLOS): builders.make_count(),
        }
        host = dataclasses.replace(host, tracked={**host.tracked, **ways})
        request = make_request(NEAR, 'preferred', cpus=[4, 5])
        request = dataclasses.replace(
            request,
            allocations={
                **request.allocations,
                builders.L3_0: {builders.WAYS: 2},
            },
        )

        made = decide.decide(
            host, request, trackers=TRACKERS, tests=[*TESTS.values()]
        )

        self.assertEqual(((), ()), (made.shortfalls, made.moves))


class ScheduleTest(base.TestCase):
    """The filter knows free CPUs, and drops what no choice can meet."""

    def choose(
        self, free: Sequence[Set[int]], sizes: tuple[int, ...] = (2,)
    ) -> list[str]:
        document = stats.decode(stats.encode(make_view()))
        assert document
        asked = make_request().requirement
        judge = candidates.Judge(TRACKERS, TESTS, sizes, asked)
        offered = [
            {'allocations': {one: {'resources': {CLASS: 1}}}}
            for one in (NEAR, FAR)
        ]
        chosen = judge.choose(
            document, offered, lambda: [set(one) for one in free]
        )
        self.assertEqual({}, judge.unread)
        return [name for one in chosen for name in one['allocations']]

    def test_only_cards_near_enough_free_cpus_are_left(self) -> None:
        self.assertEqual([NEAR, FAR], self.choose([{0, 1}, {4, 5}]))
        self.assertEqual([NEAR], self.choose([{0, 1}, {4}]))
        self.assertEqual([FAR], self.choose([{0}, {4, 5}]))
        self.assertEqual([], self.choose([{0}, {4}]))

    def test_of_several_cells_one_is_enough(self) -> None:
        self.assertEqual([NEAR, FAR], self.choose([{0, 1}, {4}], (2, 1)))

    def test_hosts_with_cards_of_equal_names_are_told_apart(self) -> None:
        judge = candidates.Judge(
            TRACKERS, TESTS, (2,), make_request().requirement
        )
        offered = [{'allocations': {NEAR: {'resources': {CLASS: 1}}}}]

        chosen = []
        for cpus in ('0-3', '4-7'):
            host = make_view(near=make_card(cpus, 'n0'))
            document = stats.decode(stats.encode(host))
            assert document
            chosen += judge.choose(document, offered, lambda: [{0, 1}, set()])

        self.assertEqual(offered, chosen)

    def test_the_document_has_the_cpus_near_a_card(self) -> None:
        document = stats.decode(stats.encode(make_view()))
        assert document

        read = stats.make_view(document, TRACKERS)

        self.assertEqual('0-3', read.tracked[NEAR, CLASS].near)
        self.assertIsNone(read.tracked[NEAR, CLASS].cpus)


class SeveralCachesTest(base.TestCase):
    """Each node has two caches; a card is as near to one as to the other."""

    #: Provider of each cache -> its CPUs.
    CACHES = {  # noqa: RUF012
        getattr(uuidsentinel, f'l3_{first}'): f'{first}-{first + 1}'
        for first in (0, 2, 4, 6)
    }

    #: Where CPUs are free -> the card that is near to them.
    CELLS = {  # noqa: RUF012
        NEAR: frozenset({0, 1, 2, 3}),
        FAR: frozenset({4, 5, 6, 7}),
    }

    def setUp(self) -> None:
        super().setUp()
        host = make_view()
        tests = {
            **TESTS,
            'cache_affinity': cache_affinity.CacheAffinityTest(TRACKERS),
        }
        self.tests = tests
        self.host = dataclasses.replace(
            host,
            tracked={
                **host.tracked,
                (builders.RDT, builders.CLOS): builders.make_count(),
                **{
                    (one, builders.WAYS): builders.make_ways(cpus=cpus)
                    for one, cpus in self.CACHES.items()
                },
            },
            resource_classes=host.resource_classes | {builders.WAYS},
            constraints=host_constraints.Constraints(tests=tuple(tests)),
        )

    def decide(
        self, cache: str, card: str, cpus: Sequence[int], **options: Any
    ) -> dict[str, str]:
        """Return class -> provider; nothing if the host refuses."""
        request = make_request(card, cpus=cpus)
        request = dataclasses.replace(
            request,
            allocations={**request.allocations, cache: {builders.WAYS: 2}},
        )
        made = decide.decide(
            self.host,
            request,
            trackers=TRACKERS,
            tests=[*self.tests.values()],
            **options,
        )
        return {one.resource_class: one.rp_uuid for one in made.taken}

    def test_the_ways_are_of_the_cache_and_the_device_of_the_node(
        self,
    ) -> None:
        wrong = uuidsentinel.l3_0
        for cache, text in self.CACHES.items():
            cpus = bitmask.parse_list(text)
            [card] = [one for one, cell in self.CELLS.items() if cpus <= cell]
            for chosen in self.CELLS:
                with self.subTest(cpus=text, chosen=chosen):
                    taken = self.decide(wrong, chosen, sorted(cpus))

                    self.assertEqual(cache, taken[builders.WAYS])
                    self.assertEqual(card, taken[CLASS])

    def test_the_filter_keeps_what_the_host_takes_as_it_is(self) -> None:
        document = stats.decode(stats.encode(self.host))
        assert document
        asked = make_request().requirement
        judge = candidates.Judge(TRACKERS, self.tests, (2,), asked)
        offered = [
            {
                'allocations': {
                    cache: {'resources': {builders.WAYS: 2}},
                    card: {'resources': {CLASS: 1}},
                }
            }
            for cache in self.CACHES
            for card in self.CELLS
        ]

        chosen = judge.choose(
            document,
            offered,
            lambda: [set(one) for one in self.CELLS.values()],
        )

        kept = [tuple(one['allocations']) for one in chosen]
        taken = [
            (cache, card)
            for cache, text in self.CACHES.items()
            for card in self.CELLS
            if self.decide(
                cache, card, sorted(bitmask.parse_list(text)), may_move=False
            )
        ]
        self.assertEqual(taken, kept)
        self.assertEqual(4, len(kept))


class NoCacheTest(base.TestCase):
    def test_a_flavor_cannot_require_a_device_near_a_cache(self) -> None:
        grammar = plugins.load_grammar()
        for name in ('l3_affinity', 'cache_affinity'):
            err = self.assertRaises(
                exception.InvalidExtraSpec,
                extra_specs.check,
                f'resource:{CLASS}:{name}',
                'required',
                grammar,
            )

            for words in (name, 'use numa_affinity', 'L3 cache as NUMA'):
                self.assertIn(words, str(err))
