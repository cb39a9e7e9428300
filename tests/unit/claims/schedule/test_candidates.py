# SPDX-License-Identifier: Apache-2.0

"""Tests of the choice among allocation candidates."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import json
from typing import Any, TypeAlias

import hypothesis
from hypothesis import strategies as st
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.claims import base as claims_base
from nova_ext_resources.claims import decide
from nova_ext_resources.claims.schedule import candidates
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_view
from tests import base
from tests.unit import builders
from tests.unit.claims import test_decide
from tests.unit import strategies

ROOT: str = uuidsentinel.root
TRACKERS = builders.make_trackers()

FreeCpus: TypeAlias = Sequence[set[int]] | None

#: Both sockets' CPUs, all free.
FREE: FreeCpus = [set(range(0, 12)), set(range(12, 24))]


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


def publish(view: host_view.HostView) -> stats.Document:
    document = stats.decode(stats.encode(view))
    assert document is not None
    return document


class _NeverTest(claims_base.ClaimTest):
    """A claim test of another package, which refuses every server."""

    def shortfalls(
        self,
        view: host_view.HostView,
        request: assignment.ClaimRequest,
    ) -> Iterable[exception.Shortfall]:
        for rp_uuid, resources in request.allocations.items():
            for name, amount in resources.items():
                if (rp_uuid, name) in view.tracked:
                    yield exception.Shortfall(
                        rp_uuid=rp_uuid,
                        resource_class=name,
                        requested=amount,
                        available=0,
                        reason='never',
                    )


def make_judge(
    sizes: candidates.Sizes = (2,), **fields: Any
) -> candidates.Judge:
    asked = {builders.WAYS: 4, builders.CLOS: 0, builders.SEATS: 0}
    needs = builders.make_requirement(_=asked)
    return candidates.Judge(
        TRACKERS,
        {**test_decide.make_tests(), 'never': _NeverTest(TRACKERS)},
        sizes,
        dataclasses.replace(needs, **fields),
    )


def choose(
    document: stats.Document,
    options: Sequence[candidates.Candidate] = (ON_0, ON_1),
    *,
    sizes: candidates.Sizes = (2,),
    free: FreeCpus = FREE,
    **fields: Any,
) -> list[candidates.Candidate]:
    judge = make_judge(sizes, **fields)
    return judge.choose(document, options, lambda: free)


def explain(
    document: stats.Document,
    *,
    sizes: candidates.Sizes = (2,),
    free: FreeCpus = FREE,
    **fields: Any,
) -> str:
    judge = make_judge(sizes, **fields)
    found = judge.explain(document, (ON_0, ON_1), lambda: free)
    return '\n'.join(map(str, found))


class WholeCoresTest(base.TestCase):
    """Of a class whose limit the threads of a core share."""

    #: Policy of the flavor, CPUs of each guest NUMA cell (None: they float),
    #: whether Nova gives such a server whole cores.
    CASES = (
        ('isolate', (1,), True),
        ('isolate', (3,), True),
        ('require', (2,), True),
        ('require', (3,), False),
        ('require', (1, 1), False),
        ('prefer', (2,), False),
        ('', (2,), False),
        ('', None, False),
        ('isolate', None, False),
    )

    def setUp(self) -> None:
        super().setUp()
        view = builders.make_view([0xFFF, 0xFFF], follows_tasks=True)
        rule = host_constraints.ClassConstraints(needs_cores=True)
        rules = dataclasses.replace(
            view.constraints, classes={builders.WAYS: rule}
        )
        self.view = dataclasses.replace(view, constraints=rules)
        self.document = publish(self.view)

    def test_the_scheduler_offers_what_nova_promises(self) -> None:
        for policy, sizes, fits in self.CASES:
            with self.subTest(policy=policy, sizes=sizes):
                asked: dict[str, Any] = {
                    'sizes': sizes or (),
                    'thread_policy': policy,
                }
                kept = choose(self.document, **asked)
                text = explain(self.document, **asked)

                self.assertEqual(fits, bool(kept))
                self.assertEqual(not fits, 'hw:cpu_thread_policy=' in text)

    def test_the_host_says_the_same(self) -> None:
        for policy, sizes, fits in self.CASES:
            # Of its cells, the host knows the CPUs of all together.
            if sizes == (1, 1):
                continue
            with self.subTest(policy=policy, sizes=sizes):
                cpus = None if sizes is None else range(sizes[0])
                request = builders.make_request(cpus=cpus)
                requirement = dataclasses.replace(
                    request.requirement, thread_policy=policy
                )
                decision = decide.decide(
                    self.view,
                    dataclasses.replace(request, requirement=requirement),
                    trackers=TRACKERS,
                    tests=list(test_decide.make_tests().values()),
                )

                self.assertEqual(fits, decision.fits)

    def test_where_the_policy_is_not_known_nothing_is_refused(self) -> None:
        self.assertTrue(choose(self.document, thread_policy=None))

    def test_other_hosts_take_any_policy(self) -> None:
        other = publish(builders.make_view([0xFFF, 0xFFF]))

        self.assertTrue(choose(other, thread_policy=''))


class ClaimTestsTestCase(base.TestCase):
    def publish_with(self, tests: tuple[str, ...] | None) -> stats.Document:
        view = builders.make_view([0x777, 0xFFF])
        rules = dataclasses.replace(view.constraints, tests=tests)
        return publish(dataclasses.replace(view, constraints=rules))

    def test_those_run_that_the_host_has_enabled(self) -> None:
        usual = ('granularity', 'capacity', 'cache_affinity')

        self.assertEqual([ON_1], choose(self.publish_with(usual)))
        self.assertEqual([ON_1], choose(self.publish_with(None)))
        self.assertEqual([], choose(self.publish_with((*usual, 'never'))))
        self.assertIn('never', explain(self.publish_with(('never',))))

    def test_a_host_may_have_enabled_none(self) -> None:
        elsewhere = [{0, 1}, set[int]()]

        found = choose(self.publish_with(()), free=elsewhere)

        self.assertEqual([ON_1], found)

    def test_one_that_is_not_installed_here_is_named(self) -> None:
        judge = make_judge()

        kept = judge.choose(
            self.publish_with(('capacity', 'theirs')),
            (ON_0, ON_1),
            lambda: FREE,
        )

        self.assertEqual([ON_1], kept)
        self.assertEqual(
            {('claim test', 'theirs'): 'the test is not installed here'},
            judge.unread,
        )

    def test_where_affinity_is_not_tested_any_cpus_will_do(self) -> None:
        elsewhere = [{0, 1}, set[int]()]
        usual = ('granularity', 'capacity', 'cache_affinity')

        found = [
            choose(self.publish_with(tests), free=elsewhere)
            for tests in (usual, usual[:2])
        ]

        self.assertEqual([[], [ON_1]], found)

    def test_attributes_are_always_tested(self) -> None:
        document = self.publish_with(('capacity',))

        found = choose(document, attributes={builders.WAYS: {'code': '4'}})

        self.assertEqual([], found)


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

    def spread(
        self, masks: Sequence[int] = (0x7FF, 0x7FF), **fields: Any
    ) -> list[candidates.Candidate]:
        """Choose on a host of one cell that gives the amount in each cache.

        Four CPUs of each cache are free.
        """
        view = dataclasses.replace(
            builders.make_view(masks),
            constraints=host_constraints.Constraints(spreads_pins=True),
        )
        free = [set(range(8, 16))]
        return choose(publish(view), free=free, **fields)

    def test_cpus_of_several_caches_may_do(self) -> None:
        self.assertEqual([ON_0, ON_1], self.spread(sizes=(6,)))
        self.assertEqual([], self.spread(sizes=(9,)))

    def test_of_caches_that_are_full_they_do_not(self) -> None:
        self.assertEqual([], self.spread([0x7FF, 0b111], sizes=(6,)))
        self.assertEqual([ON_0], self.spread([0x7FF, 0b111], sizes=(4,)))

    def test_one_cache_comes_before_several(self) -> None:
        view = dataclasses.replace(
            builders.make_view(),
            constraints=host_constraints.Constraints(spreads_pins=True),
        )
        free = [{10, 11, *range(12, 18)}]

        self.assertEqual(
            [ON_1, ON_0], choose(publish(view), free=free, sizes=(6,))
        )
        self.assertEqual(
            [ON_1],
            choose(publish(builders.make_view()), free=free, sizes=(6,)),
        )

    def test_of_several_groups_each_says_where(self) -> None:
        groups = builders.make_requirement(
            _A={builders.WAYS: 4}, _B={builders.WAYS: 4}
        ).groups

        self.assertEqual([], self.spread(sizes=(6,), groups=groups))

    def test_without_numa_cells_cpus_are_left_to_others(self) -> None:
        document = publish(builders.make_view())

        self.assertEqual([ON_0, ON_1], choose(document, free=None))

    def test_it_is_not_asked_for_cpus_when_nobody_must_know(self) -> None:
        def refuse() -> None:
            raise AssertionError('the NUMA cells were looked at')

        document = publish(builders.make_view())

        for sizes in (None, ()):
            make_judge(sizes).choose(document, [ON_0, ON_1], refuse)

    def test_what_the_document_does_not_have_passes(self) -> None:
        elsewhere = make_candidate({uuidsentinel.new: {builders.WAYS: 99}})
        document = publish(builders.make_view([0]))

        self.assertEqual([elsewhere], choose(document, [elsewhere]))

    def test_a_tracker_that_is_not_installed_here_passes(self) -> None:
        text = stats.encode(builders.make_view([0, 0]))
        document = stats.decode(text.replace('cache_ways', 'third_party'))
        assert document is not None

        self.assertEqual([ON_0, ON_1], choose(document))

    def test_what_the_document_does_not_have_comes_last(self) -> None:
        elsewhere = make_candidate({uuidsentinel.new: {builders.WAYS: 4}})
        document = publish(builders.make_view())

        self.assertEqual(
            [ON_1, elsewhere], choose(document, [elsewhere, ON_1])
        )

    def test_what_must_move_comes_before_what_the_document_does_not_have(
        self,
    ) -> None:
        elsewhere = make_candidate({uuidsentinel.new: {builders.WAYS: 4}})
        document = publish(builders.make_view([0x001, 0x7FF]))

        self.assertEqual(
            [ON_0, elsewhere], choose(document, [elsewhere, ON_0])
        )

    def test_an_odd_record_does_not_let_the_others_pass(self) -> None:
        both = make_candidate(
            {
                builders.L3_0: {builders.WAYS: 4},
                builders.POOL: {builders.SEATS: 1},
            }
        )
        for full, kept in ((0x001, []), (0x7FF, [both])):
            document = publish(builders.make_view([full], seats=3))
            odd: Any = document.providers[builders.POOL][builders.SEATS]
            odd['i'] = 5
            with self.subTest(full=full):
                self.assertEqual(kept, choose(document, [both]))

    def test_what_cannot_be_read_is_reported(self) -> None:
        document = publish(builders.make_view())
        odd: Any = document.providers[builders.L3_0][builders.WAYS]
        odd['s'] = {'w': 5}
        judge = make_judge()

        kept = judge.choose(document, [ON_0, ON_1], lambda: FREE)

        self.assertEqual([ON_1, ON_0], kept)
        self.assertEqual({(builders.WAYS, 'cache_ways')}, set(judge.unread))

    def test_a_provider_that_placement_left_out_is_used(self) -> None:
        document = publish(builders.make_view([0x001, 0x7FF]))

        self.assertEqual([ON_0], choose(document, [ON_0]))
        self.assertEqual(
            [], choose(document, [ON_0], free=[set(range(0, 12)), set()])
        )

    def test_what_fits_as_it_is_comes_before_what_must_move(self) -> None:
        document = publish(builders.make_view([0x001, 0x7FF]))

        self.assertEqual([ON_1], choose(document, [ON_0, ON_1]))

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
                document = stats.Document({builders.L3_0: garbled})
                self.assertEqual([ON_0], choose(document, [ON_0]))


class ExplainTestCase(base.TestCase):
    def test_every_candidate_has_its_reason(self) -> None:
        text = explain(publish(builders.make_view([0x777, 0x001], clos=0)))

        self.assertIn('of L3_0:', text)
        self.assertIn('not side by side', text)
        self.assertIn('of L3_1:', text)
        self.assertIn('CUSTOM_RDT_CLOS', text)

    def test_missing_cpus_are_named(self) -> None:
        document = publish(builders.make_view())

        text = explain(document, sizes=(8,), free=[{0, 1}, set()])

        self.assertIn('8 dedicated CPUs', text)
        self.assertIn('free CPUs: 0-1 of 0-11,24-35', text)
        self.assertIn('free CPUs: none of 12-23,36-47', text)

    def test_what_fits_has_none(self) -> None:
        self.assertEqual('', explain(publish(builders.make_view())))


class TakeTestCase(base.TestCase):
    def test_what_was_taken_is_gone(self) -> None:
        document = publish(builders.make_view([0x00F, 0x00F], clos=2))

        document = make_judge().take(document, ON_0)

        self.assertEqual([ON_1], choose(document))
        document = make_judge().take(document, ON_1)
        self.assertEqual([], choose(document))

    def test_a_class_of_service_goes_with_it(self) -> None:
        document = publish(builders.make_view(clos=1))

        document = make_judge().take(document, ON_0)

        self.assertEqual([], choose(document))

    def test_what_does_not_fit_changes_nothing(self) -> None:
        document = publish(builders.make_view([0, 0]))

        self.assertEqual(document, make_judge().take(document, ON_0))

    def test_the_old_document_stays_as_it_was(self) -> None:
        document = publish(builders.make_view())
        before = json.dumps(document)

        make_judge().take(document, ON_0)

        self.assertEqual(before, json.dumps(document))


class DamagedTestCase(base.TestCase):
    """Documents of hosts that are newer, broken or hostile."""

    def check(self, text: str, data: Any) -> None:
        """Assert that one host's document costs another one nothing."""
        good, document = stats.decode(text), stats.decode(json.dumps(data))
        assert good is not None
        judge = make_judge()
        if document is not None:
            judge.explain(document, (ON_0, ON_1), lambda: FREE)
            judge.choose(document, (ON_0, ON_1), lambda: FREE)
            for one in (ON_0, ON_1):
                judge.can_give(judge.take(document, one), one)

        kept = judge.choose(good, (ON_0, ON_1), lambda: FREE)

        self.assertEqual(choose(good), kept)

    @hypothesis.given(st.data())
    def test_one_costs_no_other_host_anything(
        self, drawn: st.DataObject
    ) -> None:
        text = stats.encode(builders.make_view([0x001, 0x7FF]))
        data = drawn.draw(strategies.damaged(json.loads(text)))

        self.check(text, data)

    def test_what_equals_a_number_is_not_taken_for_it(self) -> None:
        # What is no number there is left to the host.
        for clos, odd in ((0, False), (0, 0.0), (1, True), (1, 1.0)):
            with self.subTest(odd=odd):
                text = stats.encode(builders.make_view(clos=clos))
                data = json.loads(text)
                state = data['p'][builders.RDT][builders.CLOS]['s']
                state.update(c=odd, u=state['u'])

                self.check(text, data)
