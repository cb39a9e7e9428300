# SPDX-License-Identifier: Apache-2.0

"""The scheduler's answer is the host's decision on the same view."""

from collections.abc import Mapping, Sequence
import dataclasses
import itertools
from typing import Any

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.claims import decide
from nova_ext_resources.claims.schedule import candidates
from nova_ext_resources.claims.trackers import bandwidth
from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.policy import constraints as of_resctrl
from nova_ext_resources.drivers.rmd import constraints as of_rmd
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import requirements
from tests import base
from tests.unit import builders
from tests.unit.claims import test_decide

TRACKERS = builders.make_trackers()

#: One NUMA cell per domain.
CPUS = ('0-2', '3-5')
CELLS = (frozenset({0, 1, 2}), frozenset({3, 4, 5}))

RULES: tuple[Mapping[str, host_constraints.ClassConstraints], ...] = (
    {},
    of_rmd.CONSTRAINTS,
    host_constraints.unite(
        [
            of_resctrl.CONSTRAINTS,
            of_resctrl.make_code_constraints({builders.WAYS: 2}),
        ]
    ),
)

CLASSES = (builders.WAYS, classes.BURST, classes.PERCENT)


def make_host(
    ways: Sequence[int],
    burst: Sequence[int],
    percent: Sequence[int],
    clos: int,
    follows: bool,
    rules: Mapping[str, host_constraints.ClassConstraints],
) -> host_view.HostView:
    tracked = {(builders.RDT, builders.CLOS): builders.make_count(clos)}
    for i, rp_uuid in enumerate(builders.DOMAINS):
        for name, tracker, state in (
            (
                builders.WAYS,
                'cache_ways',
                cache_ways.CacheWaysState(0xFF, ways[i]),
            ),
            (classes.BURST, 'burst_ways', count.CountState(6, burst[i])),
            (
                classes.PERCENT,
                'bandwidth',
                bandwidth.BandwidthState(100, percent[i], 10),
            ),
        ):
            tracked[rp_uuid, name] = host_view.Tracked(
                tracker=tracker,
                state=state,
                implied=(builders.RDT, builders.CLOS),
                cpus=CPUS[i],
                follows_tasks=follows,
            )
    return host_view.HostView(
        tracked=tracked,
        constraints=host_constraints.Constraints(
            enforcers=frozenset({'rmd'}), classes=rules
        ),
    )


def pair(high: int) -> st.SearchStrategy[tuple[int, int]]:
    one = st.integers(min_value=0, max_value=high)
    return st.tuples(one, one)


hosts = st.builds(
    make_host,
    pair(0xFF),
    pair(6),
    pair(100),
    st.integers(min_value=0, max_value=2),
    st.booleans(),
    st.sampled_from(RULES),
)
asked = st.fixed_dictionaries(
    {},
    optional={
        builders.WAYS: st.integers(min_value=1, max_value=5),
        classes.BURST: st.integers(min_value=1, max_value=3),
        classes.PERCENT: st.sampled_from([10, 40]),
    },
).filter(bool)
needs = st.builds(
    lambda asked, attributes, wishes: dataclasses.replace(
        builders.make_requirement(_=asked),
        attributes={
            name: one for name, one in attributes.items() if name in asked
        },
        enforcers=wishes,
    ),
    asked,
    st.sampled_from(
        [
            {},
            {},
            {builders.WAYS: {'code': '1'}},
            {builders.WAYS: {'code': '3'}},
            {builders.WAYS: {'max': '4'}},
            {classes.BURST: {'max': '2'}},
        ]
    ),
    st.sampled_from(
        [{}, {}, {'rmd': {'policy': 'gold'}}, {'other': {'key': '1'}}]
    ),
)


def list_allocations(
    needed: requirements.Requirement,
) -> list[dict[str, dict[str, int]]]:
    """Return all that placement would offer, one provider per class."""
    found = []
    for chosen in itertools.product(
        builders.DOMAINS, repeat=len(needed.resources)
    ):
        one: dict[str, dict[str, int]] = {}
        for rp_uuid, (name, amount) in zip(
            chosen, needed.resources.items(), strict=True
        ):
            one.setdefault(rp_uuid, {})[name] = amount
        found.append(one)
    return found


def make_candidate(allocations: Mapping[str, Any]) -> dict[str, Any]:
    return {
        'allocations': {
            test_decide.NODE: {'resources': {'PCPU': 2}},
            **{rp: {'resources': one} for rp, one in allocations.items()},
        }
    }


def list_kept(
    host: host_view.HostView,
    needed: requirements.Requirement,
    offered: Sequence[Mapping[str, Any]],
    *,
    sizes: candidates.Sizes,
    free: Sequence[frozenset[int]],
) -> list[Mapping[str, Any]]:
    """Return the allocations that the scheduler keeps."""
    document = stats.decode(stats.encode(host))
    assert document is not None
    judge = candidates.Judge(TRACKERS, test_decide.make_tests(), sizes, needed)
    options = [make_candidate(one) for one in offered]
    kept = judge.choose(document, options, lambda: [set(c) for c in free])
    return [offered[options.index(dict(one))] for one in kept]


def ask(
    host: host_view.HostView,
    needed: requirements.Requirement,
    allocations: Mapping[str, Mapping[str, int]],
    may_move: bool = True,
    **fields: Any,
) -> decide.Decision:
    request = assignment.ClaimRequest(
        consumer_uuid='', allocations=allocations, requirement=needed, **fields
    )
    return test_decide.ask(host, request, may_move=may_move)


class TestDrift(base.TestCase):
    @hypothesis.given(host=hosts, needed=needs)
    def test_a_floating_or_mixed_server(
        self, host: host_view.HostView, needed: requirements.Requirement
    ) -> None:
        offered = list_allocations(needed)

        kept = list_kept(host, needed, offered, sizes=(), free=CELLS)

        fit = [ask(host, needed, one, may_move=False).fits for one in offered]
        self.assertCountEqual(itertools.compress(offered, fit), kept)
        self.assertEqual(
            any(ask(host, needed, one).fits for one in offered), bool(kept)
        )

    @hypothesis.given(
        host=hosts,
        needed=needs,
        free=st.tuples(
            *(st.frozensets(st.sampled_from(sorted(one))) for one in CELLS)
        ),
        size=st.integers(min_value=1, max_value=3),
        is_numa=st.booleans(),
    )
    def test_a_pinned_server(
        self,
        host: host_view.HostView,
        needed: requirements.Requirement,
        free: tuple[frozenset[int], ...],
        size: int,
        is_numa: bool,
    ) -> None:
        offered = list_allocations(needed)
        # Without NUMA, Nova sees one cell of the host.
        cells = free if is_numa else (frozenset[int]().union(*free),)
        choices = [
            frozenset(cpus)
            for cell in cells
            for cpus in itertools.combinations(sorted(cell), size)
        ]
        hypothesis.assume(choices)

        kept = list_kept(host, needed, offered, sizes=(size,), free=cells)

        pinning = assignment.Pinning(sizes=(size,), free=cells)
        fit = [
            ask(host, needed, one, may_move=False, pinning=pinning).fits
            for one in offered
        ]
        self.assertCountEqual(itertools.compress(offered, fit), kept)
        # What Nova chooses then is as good as what it could choose.
        self.assertEqual(
            any(
                ask(host, needed, one, cpus=cpus).fits
                for one in offered
                for cpus in choices
            ),
            bool(kept),
        )

    @hypothesis.given(
        host=hosts, needed=needs, sizes=st.sampled_from([(1, 1), (3, 1)])
    )
    def test_a_pinned_server_of_two_guest_cells(
        self,
        host: host_view.HostView,
        needed: requirements.Requirement,
        sizes: tuple[int, int],
    ) -> None:
        offered = list_allocations(needed)

        kept = list_kept(host, needed, offered, sizes=sizes, free=CELLS)

        # Any single provider leaves one of the cells without a guarantee.
        self.assertEqual([], kept)

    @hypothesis.given(host=hosts, needed=needs)
    def test_the_one_candidate_that_placement_offers(
        self, host: host_view.HostView, needed: requirements.Requirement
    ) -> None:
        offered = [{builders.L3_0: dict(needed.resources)}]

        kept = list_kept(host, needed, offered, sizes=(), free=CELLS)

        self.assertEqual(ask(host, needed, offered[0]).fits, bool(kept))
