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

"""Tests of the choice among allocation candidates."""

from collections.abc import Mapping, Sequence
import json
from typing import Any

import hypothesis
from hypothesis import strategies as st
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.claim_tests import capacity
from nova_ext_resources import claims
from nova_ext_resources.objects import stats
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.scheduler import affinity
from nova_ext_resources.scheduler import candidates
from tests import base
from tests.unit import builders
from tests.unit import strategies

ROOT: str = uuidsentinel.root
TRACKERS = builders.make_trackers()

#: Both sockets' CPUs, all free.
FREE = [set(range(0, 12)), set(range(12, 24))]


def make_candidate(
    allocations: Mapping[str, Mapping[str, int]],
) -> dict[str, Any]:
    """Make one as placement does, Nova's root among its providers."""
    return {
        'allocations': {
            ROOT: {'resources': {'VCPU': 2}},
            **{rp: {'resources': dict(r)} for rp, r in allocations.items()},
        },
        'mappings': {'': [ROOT, *allocations]},
    }


ON_0 = make_candidate({builders.L3_0: {builders.WAYS: 4}})
ON_1 = make_candidate({builders.L3_1: {builders.WAYS: 4}})


def publish(view: view_obj.HostView) -> stats.Document:
    document = stats.decode(stats.encode(view))
    assert document is not None
    return document


def choose(
    document: stats.Document,
    options: Sequence[candidates.Candidate] = (ON_0, ON_1),
    *,
    sizes: affinity.Sizes | None = (2,),
    free: affinity.FreeCpus | None = FREE,
) -> list[candidates.Candidate]:
    judge = candidates.Judge(TRACKERS, sizes)
    return judge.choose(document, options, lambda: free)


def explain(
    document: stats.Document,
    *,
    sizes: affinity.Sizes | None = (2,),
    free: affinity.FreeCpus | None = FREE,
) -> str:
    judge = candidates.Judge(TRACKERS, sizes)
    found = judge.explain(document, (ON_0, ON_1), lambda: free)
    return '\n'.join(map(str, found))


class ChooseTestCase(base.TestCase):
    def test_a_domain_without_a_run_is_dropped(self) -> None:
        document = publish(builders.make_view([0x777, 0x00F]))

        self.assertEqual([ON_1], choose(document))

    def test_the_domain_that_loses_the_least_comes_first(self) -> None:
        document = publish(builders.make_view([0x7FF, 0x0FF]))

        kept = choose(document)

        # Both lose four; the second has less to lose.
        self.assertEqual([ON_1, ON_0], kept)

    def test_a_gap_is_filled_before_a_long_run_is_cut(self) -> None:
        document = publish(builders.make_view([0x7F, 0x7EF]))

        # The first would be cut from 7 to 3, the second has a gap of 4
        # beside its run of 6.
        self.assertEqual([ON_1, ON_0], choose(document))

    def test_equal_candidates_stay_in_the_order_of_placement(self) -> None:
        document = publish(builders.make_view())

        self.assertEqual([ON_1, ON_0], choose(document, (ON_1, ON_0)))

    def test_without_a_class_of_service_nothing_is_kept(self) -> None:
        document = publish(builders.make_view(clos=0))

        self.assertEqual([], choose(document))

    def test_a_class_that_is_asked_for_is_not_asked_twice(self) -> None:
        both = make_candidate(
            {
                builders.L3_0: {builders.WAYS: 4},
                builders.RDT: {builders.CLOS: 1},
            }
        )
        document = publish(builders.make_view(clos=1))

        self.assertEqual([both], choose(document, [both]))

    def test_a_floating_server_gets_no_ways(self) -> None:
        document = publish(builders.make_view())

        self.assertEqual([], choose(document, sizes=()))
        self.assertIn('hw:cpu_policy=dedicated', explain(document, sizes=()))

    def test_a_floating_server_gets_ways_that_follow_its_threads(self) -> None:
        document = publish(builders.make_view([0x3, 0xF], follows_tasks=True))

        self.assertEqual([ON_1], choose(document, sizes=()))
        self.assertNotIn('float', explain(document, sizes=()))

    def test_a_pinned_server_gets_them_where_its_cpus_are(self) -> None:
        document = publish(builders.make_view(follows_tasks=True))

        kept = choose(document, free=[{0}, set(range(12, 24))])

        self.assertEqual([ON_1], kept)

    def test_a_floating_server_gets_what_serves_the_whole_host(self) -> None:
        seat = make_candidate({builders.POOL: {builders.SEATS: 1}})
        document = publish(builders.make_view(seats=1))

        self.assertEqual([seat], choose(document, [seat], sizes=()))

    def test_a_domain_without_free_cpus_is_dropped(self) -> None:
        document = publish(builders.make_view())

        kept = choose(document, free=[{0}, set(range(12, 24))])

        self.assertEqual([ON_1], kept)

    def test_without_numa_cells_cpus_are_left_to_others(self) -> None:
        document = publish(builders.make_view())

        self.assertEqual([ON_0, ON_1], choose(document, free=None))

    def test_it_is_not_asked_for_cpus_when_nobody_must_know(self) -> None:
        def refuse() -> None:
            raise AssertionError('the NUMA cells were looked at')

        document = publish(builders.make_view())

        for sizes in (None, ()):
            candidates.Judge(TRACKERS, sizes).choose(document, [ON_0], refuse)

    def test_what_the_document_does_not_have_passes(self) -> None:
        elsewhere = make_candidate({uuidsentinel.new: {builders.WAYS: 99}})
        document = publish(builders.make_view([0]))

        self.assertEqual([elsewhere], choose(document, [elsewhere]))

    def test_a_tracker_that_is_not_installed_here_passes(self) -> None:
        text = stats.encode(builders.make_view([0, 0]))
        document = stats.decode(text.replace('cache_ways', 'third_party'))
        assert document is not None

        self.assertEqual([ON_0, ON_1], choose(document))

    def test_garbled_records_pass(self) -> None:
        records: tuple[Any, ...] = (
            5,
            None,
            [],
            'text',
            {builders.WAYS: 5},
            {builders.WAYS: {}},
            {builders.WAYS: {'t': 'cache_ways', 's': 5}},
            {builders.WAYS: {'t': ['x'], 's': {}}},
            {builders.WAYS: {'t': 'cache_ways', 's': {'w': 5, 't': 'x'}}},
            {builders.WAYS: {'t': 'count', 's': {'c': 9, 'u': 0}, 'i': 5}},
            {builders.WAYS: {'t': 'count', 's': {'c': 9, 'u': 0}, 'c': 5}},
            {
                builders.WAYS: {
                    't': 'count',
                    's': {'c': 9, 'u': 0},
                    'i': [['x'], {}],
                }
            },
        )
        for garbled in records:
            with self.subTest(garbled=garbled):
                document: Any = {builders.L3_0: garbled}
                self.assertEqual([ON_0], choose(document, [ON_0]))

    @hypothesis.given(
        masks=st.tuples(strategies.masks, strategies.masks),
        clos=st.integers(min_value=0, max_value=2),
        amounts=st.tuples(
            st.integers(min_value=0, max_value=12),
            st.integers(min_value=1, max_value=12),
        ),
    )
    def test_it_keeps_exactly_what_the_claim_would_take(
        self, masks: tuple[int, int], clos: int, amounts: tuple[int, int]
    ) -> None:
        view = builders.make_view(masks, clos=clos)
        option = make_candidate(
            {
                rp_uuid: {builders.WAYS: amount}
                for rp_uuid, amount in zip(
                    builders.DOMAINS, amounts, strict=True
                )
                if amount
            }
        )

        kept = choose(publish(view), [option], sizes=None)

        request = candidates.make_claim_request(option)
        tests = [capacity.CapacityTest(TRACKERS)]
        shortfalls = claims.find_shortfalls(view, request, tests)
        self.assertEqual(not shortfalls, bool(kept), str(shortfalls))


class ExplainTestCase(base.TestCase):
    def test_every_candidate_has_its_reason(self) -> None:
        text = explain(publish(builders.make_view([0x777, 0x001], clos=0)))

        self.assertIn(f'provider {builders.L3_0}', text)
        self.assertIn('not side by side', text)
        self.assertIn(f'provider {builders.L3_1}', text)
        self.assertIn('CUSTOM_RDT_CLOS', text)

    def test_missing_cpus_are_named(self) -> None:
        document = publish(builders.make_view())

        text = explain(document, sizes=(8,), free=[{0, 1}, set()])

        self.assertIn('8 dedicated CPUs', text)
        self.assertIn('free are 0-1 of 0-11,24-35', text)
        self.assertIn('free are none of 12-23,36-47', text)

    def test_what_fits_has_none(self) -> None:
        self.assertEqual('', explain(publish(builders.make_view())))


class TakeTestCase(base.TestCase):
    def test_what_was_taken_is_gone(self) -> None:
        document = publish(builders.make_view([0x00F, 0x00F], clos=2))

        document = candidates.take(document, ON_0, TRACKERS)

        self.assertEqual([ON_1], choose(document))
        document = candidates.take(document, ON_1, TRACKERS)
        self.assertEqual([], choose(document))

    def test_a_class_of_service_goes_with_it(self) -> None:
        document = publish(builders.make_view(clos=1))

        document = candidates.take(document, ON_0, TRACKERS)

        self.assertEqual([], choose(document))

    def test_what_does_not_fit_changes_nothing(self) -> None:
        document = publish(builders.make_view([0, 0]))

        self.assertIs(document, candidates.take(document, ON_0, TRACKERS))

    def test_the_old_document_stays_as_it_was(self) -> None:
        document = publish(builders.make_view())
        before = json.dumps(document)

        candidates.take(document, ON_0, TRACKERS)

        self.assertEqual(before, json.dumps(document))
