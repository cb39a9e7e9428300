# SPDX-License-Identifier: Apache-2.0

"""Tests of the affinity of cache ways and CPUs."""

from collections.abc import Mapping, Sequence
import itertools

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.claims.checks import cache_affinity
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_view
from tests import base
from tests.unit import builders

FIRST = {builders.L3_0: {builders.WAYS: 4}}
SECOND = {builders.L3_1: {builders.WAYS: 4}}
BOTH = {**FIRST, **SECOND}


class TestCacheAffinity(base.TestCase):
    def find(
        self,
        allocations: Mapping[str, Mapping[str, int]],
        cpus: Sequence[int] | None,
    ) -> list[exception.Shortfall]:
        test = cache_affinity.CacheAffinityTest(builders.make_trackers())
        host = builders.make_view(seats=4)
        request = builders.make_request(allocations, cpus=cpus)
        return list(test.shortfalls(host, request))

    def test_cpus_and_ways_of_the_same_domain_go_together(self) -> None:
        self.assertEqual([], self.find(FIRST, [3, 27]))
        self.assertEqual([], self.find(SECOND, [12, 47]))

    def test_units_that_follow_threads_serve_a_floating_server(self) -> None:
        test = cache_affinity.CacheAffinityTest(builders.make_trackers())
        host = builders.make_view(follows_tasks=True)

        floating = builders.make_request(FIRST, cpus=None)
        pinned = builders.make_request(FIRST, cpus=[12])

        self.assertEqual([], list(test.shortfalls(host, floating)))
        self.assertEqual(1, len(list(test.shortfalls(host, pinned))))

    def test_a_cache_that_a_floating_server_never_uses_is_reported(
        self,
    ) -> None:
        test = cache_affinity.CacheAffinityTest(builders.make_trackers())
        host = builders.make_view(follows_tasks=True)

        near, far = (
            builders.make_request(one, cpus=None, float_cpus=[12, 13])
            for one in (SECOND, BOTH)
        )

        self.assertEqual([], list(test.shortfalls(host, near)))
        [shortfall] = test.shortfalls(host, far)
        self.assertEqual(builders.L3_0, shortfall.rp_uuid)
        self.assertIn('float over host CPUs 12-13', shortfall.reason)
        self.assertIn(
            'this cache serves host CPUs 0-11,24-35', shortfall.reason
        )
        self.assertTrue(shortfall.is_permanent)

    def test_ways_of_another_domain_are_reported(self) -> None:
        [shortfall] = self.find(FIRST, [12, 13])

        self.assertEqual(builders.L3_0, shortfall.rp_uuid)
        self.assertEqual((4, 0), (shortfall.requested, shortfall.available))
        self.assertIn(
            '(12-13) are not among the CPUs of this cache (0-11,24-35)',
            shortfall.reason,
        )

    def test_cpus_without_a_guarantee_are_reported(self) -> None:
        [shortfall] = self.find(FIRST, [11, 12])

        self.assertIn(
            'CPUs 12 of the server are in another cache', shortfall.reason
        )

    def test_ways_on_every_domain_of_the_cpus_are_enough(self) -> None:
        self.assertEqual([], self.find(BOTH, [11, 12]))

    def test_a_domain_that_the_server_does_not_run_on_is_reported(
        self,
    ) -> None:
        [shortfall] = self.find(BOTH, [1, 2])

        self.assertEqual(builders.L3_1, shortfall.rp_uuid)

    def test_a_server_that_floats_is_told_how_to_be_pinned(self) -> None:
        for cpus in (None, ()):
            with self.subTest(cpus=cpus):
                [shortfall] = self.find(FIRST, cpus)
                self.assertIn('hw:cpu_policy=dedicated', shortfall.reason)

    def test_resources_of_the_whole_host_may_float(self) -> None:
        allocations = {
            builders.POOL: {builders.SEATS: 1},
            builders.RDT: {builders.CLOS: 1},
        }

        self.assertEqual([], self.find(allocations, None))

    @hypothesis.given(
        cpus=st.frozensets(
            st.integers(min_value=0, max_value=47), min_size=1, max_size=6
        ),
        allocations=st.sampled_from([FIRST, SECOND, BOTH]),
    )
    def test_it_passes_exactly_when_cpus_and_domains_match(
        self,
        cpus: frozenset[int],
        allocations: Mapping[str, Mapping[str, int]],
    ) -> None:
        domains = {
            builders.L3_0: bitmask.parse_list(builders.CPUS[0]),
            builders.L3_1: bitmask.parse_list(builders.CPUS[1]),
        }
        runs_on = {rp for rp, domain in domains.items() if domain & cpus}

        found = self.find(allocations, sorted(cpus))

        self.assertEqual(runs_on == set(allocations), not found)


A = frozenset(range(0, 4))
B = frozenset(range(4, 8))


class TestCanPin(base.TestCase):
    def fits(
        self,
        domains: Sequence[frozenset[int]],
        sizes: tuple[int, ...],
        free: Sequence[set[int]],
    ) -> bool:
        return cache_affinity.can_pin(
            {(str(i), builders.WAYS): one for i, one in enumerate(domains)},
            assignment.Pinning(sizes=sizes, free=free),
        )

    def test_what_each_class_serves_is_compared_by_itself(self) -> None:
        pinning = assignment.Pinning(sizes=(4, 4), free=[set(A), set(B)])
        ways = {('0', builders.WAYS): A, ('1', builders.WAYS): B}

        apart = {('0', builders.WAYS): A, ('1', builders.SEATS): B}
        both = {**ways, ('0', builders.SEATS): A, ('1', builders.SEATS): B}
        self.assertFalse(cache_affinity.can_pin(apart, pinning))
        self.assertTrue(cache_affinity.can_pin(both, pinning))

    def test_what_is_not_known_is_left_open(self) -> None:
        for pinning in (
            assignment.Pinning(),
            assignment.Pinning(sizes=(99,)),
        ):
            self.assertTrue(
                cache_affinity.can_pin({('0', builders.WAYS): A}, pinning)
            )

    def test_cpus_of_one_domain_are_counted(self) -> None:
        self.assertTrue(self.fits([A], (3,), [{0, 1, 2}]))
        self.assertFalse(self.fits([A], (4,), [{0, 1, 2}]))

    def test_cpus_beside_the_domain_do_not_count(self) -> None:
        self.assertFalse(self.fits([A], (2,), [{3, 4, 5, 6}]))

    def test_one_guest_cell_does_not_span_host_cells(self) -> None:
        self.assertFalse(self.fits([A], (4,), [{0, 1}, {2, 3}]))

    def test_guest_cells_go_to_host_cells_of_their_own(self) -> None:
        cells = [set(A), set(B)]

        self.assertTrue(self.fits([A, B], (4, 4), cells))
        self.assertFalse(self.fits([A, B], (4, 4), [set(A | B)]))
        self.assertFalse(self.fits([A], (2, 2), cells))

    def test_every_domain_must_serve_a_cpu(self) -> None:
        self.assertTrue(self.fits([A, B], (2,), [{3, 4}]))
        self.assertFalse(self.fits([A, B], (2,), [{2, 3}]))
        self.assertFalse(self.fits([A, B], (2,), [{2, 3}, {4, 5}]))

    @hypothesis.given(
        free=st.sets(st.integers(min_value=0, max_value=7)),
        size=st.integers(min_value=1, max_value=4),
        domains=st.sampled_from([(A,), (B,), (A, B)]),
    )
    def test_no_choice_of_cpus_that_the_claim_takes_is_refused(
        self,
        free: set[int],
        size: int,
        domains: tuple[frozenset[int], ...],
    ) -> None:
        host = host_view.HostView(
            tracked={
                (builders.DOMAINS[i], builders.WAYS): builders.make_ways(
                    cpus=','.join(map(str, sorted(domain)))
                )
                for i, domain in enumerate(domains)
            }
        )
        test = cache_affinity.CacheAffinityTest(builders.make_trackers())
        allocations = {rp: {name: 4} for rp, name in host.tracked}
        possible = any(
            not list(
                test.shortfalls(
                    host, builders.make_request(allocations, cpus=cpus)
                )
            )
            for cpus in itertools.combinations(sorted(free), size)
        )

        self.assertEqual(possible, self.fits(domains, (size,), [free]))

    def test_the_largest_guest_cell_goes_to_the_largest_host_cell(
        self,
    ) -> None:
        cells = [{0, 1}, set(B)]

        for sizes in ((4, 2), (2, 4), (1, 3)):
            self.assertTrue(self.fits([A, B], sizes, cells), sizes)
            self.assertTrue(self.fits([A, B], sizes, cells[::-1]), sizes)
        for sizes in ((3, 3), (1, 5), (5, 1)):
            self.assertFalse(self.fits([A, B], sizes, cells), sizes)
