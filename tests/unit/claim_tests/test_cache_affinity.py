# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Tests of the affinity of cache ways and CPUs."""

from collections.abc import Mapping, Sequence

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.claim_tests import cache_affinity
from nova_ext_resources import exception
from nova_ext_resources.objects import bitmask
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

    def test_ways_of_another_domain_are_reported(self) -> None:
        [shortfall] = self.find(FIRST, [12, 13])

        self.assertEqual(builders.L3_0, shortfall.rp_uuid)
        self.assertEqual((4, 0), (shortfall.requested, shortfall.available))
        self.assertIn('CPUs 12-13 are not among 0-11,24-35', shortfall.reason)

    def test_cpus_without_a_guarantee_are_reported(self) -> None:
        [shortfall] = self.find(FIRST, [11, 12])

        self.assertIn('CPUs 12 are in another cache', shortfall.reason)

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
