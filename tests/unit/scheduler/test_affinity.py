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

"""Tests of what the scheduler can say about CPUs and caches."""

import itertools

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.claim_tests import cache_affinity
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.scheduler import affinity
from tests import base
from tests.unit import builders

A = frozenset(range(0, 4))
B = frozenset(range(4, 8))


class AffinityTestCase(base.TestCase):
    def test_cpus_of_one_domain_are_counted(self) -> None:
        self.assertTrue(affinity.fits([A], (3,), [{0, 1, 2}]))
        self.assertFalse(affinity.fits([A], (4,), [{0, 1, 2}]))

    def test_cpus_beside_the_domain_do_not_count(self) -> None:
        self.assertFalse(affinity.fits([A], (2,), [{3, 4, 5, 6}]))

    def test_one_guest_cell_does_not_span_host_cells(self) -> None:
        self.assertFalse(affinity.fits([A], (4,), [{0, 1}, {2, 3}]))

    def test_guest_cells_go_to_host_cells_of_their_own(self) -> None:
        cells = [set(A), set(B)]

        self.assertTrue(affinity.fits([A, B], (4, 4), cells))
        self.assertFalse(affinity.fits([A, B], (4, 4), [set(A | B)]))
        self.assertFalse(affinity.fits([A], (2, 2), cells))

    def test_every_domain_must_serve_a_cpu(self) -> None:
        self.assertTrue(affinity.fits([A, B], (2,), [{3, 4}]))
        self.assertFalse(affinity.fits([A, B], (2,), [{2, 3}]))
        self.assertFalse(affinity.fits([A, B], (2,), [{2, 3}, {4, 5}]))

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
        view = view_obj.HostView(
            tracked={
                (builders.DOMAINS[i], builders.WAYS): builders.make_ways(
                    cpus=','.join(map(str, sorted(domain)))
                )
                for i, domain in enumerate(domains)
            }
        )
        test = cache_affinity.CacheAffinityTest(builders.make_trackers())
        allocations = {rp: {name: 4} for rp, name in view.tracked}
        possible = any(
            not list(
                test.shortfalls(
                    view, builders.make_request(allocations, cpus=cpus)
                )
            )
            for cpus in itertools.combinations(sorted(free), size)
        )

        self.assertEqual(possible, affinity.fits(domains, (size,), [free]))
