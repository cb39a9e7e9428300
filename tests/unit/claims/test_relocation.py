# SPDX-License-Identifier: Apache-2.0

"""Tests of where consumers get what they hold on the compute node."""

from collections.abc import Mapping, Sequence
import dataclasses
import itertools
import sys
from typing import Any

import hypothesis
from hypothesis import strategies as st
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.claims import decide
from nova_ext_resources.claims import relocation
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_view
from tests import base
from tests.unit import builders
from tests.unit.claims import test_decide

WAYS, SEATS = builders.WAYS, builders.SEATS
L3_0, L3_1 = builders.L3_0, builders.L3_1

#: CPUs of each cache.
CPUS = {L3_0: (0, 1), L3_1: (12, 13)}

TESTS = (*test_decide.make_tests().values(),)


def make_mover(
    number: int,
    amounts: Mapping[str, int],
    *,
    near: str | None = None,
    former: Sequence[str] = (),
    **fields: Any,
) -> relocation.Mover:
    """Make one whose CPUs are near a cache, or are not known."""
    request = builders.make_request(
        {}, cpus=CPUS[near] if near else None, **fields
    )
    return relocation.Mover(
        request=dataclasses.replace(
            request,
            consumer_uuid=getattr(uuidsentinel, f'server{number}'),
            pinning=None if near else assignment.Pinning(),
        ),
        amounts=amounts,
        former=frozenset(former),
    )


def plan(
    host: host_view.HostView, *movers: relocation.Mover
) -> relocation.RelocationPlan:
    return relocation.plan(
        host, movers, trackers=test_decide.TRACKERS, tests=TESTS
    )


class PlanTest(base.TestCase):
    def assert_chosen(
        self, found: relocation.RelocationPlan, *expected: Mapping[str, str]
    ) -> None:
        self.assertIsNone(found.refusal)
        self.assertEqual(
            {
                getattr(uuidsentinel, f'server{number}'): one
                for number, one in enumerate(expected)
            },
            found.chosen,
        )

    def test_each_goes_where_its_cpus_are(self) -> None:
        found = plan(
            builders.make_view(),
            make_mover(0, {WAYS: 4}, near=L3_1),
            make_mover(1, {WAYS: 4}, near=L3_0),
        )

        self.assert_chosen(found, {WAYS: L3_1}, {WAYS: L3_0})

    def test_those_with_cpus_come_first(self) -> None:
        # Alone, the other one would take the fuller cache.
        host = builders.make_view([0b1111, 0b11111])
        movers = [
            make_mover(0, {WAYS: 4}),
            make_mover(1, {WAYS: 4}, near=L3_0),
        ]

        for some in itertools.permutations(movers):
            self.assert_chosen(plan(host, *some), {WAYS: L3_1}, {WAYS: L3_0})

    def test_room_is_kept_for_those_that_need_much(self) -> None:
        host = builders.make_view([0xFF, 0xF])

        found = plan(
            host,
            make_mover(0, {WAYS: 3}),
            make_mover(1, {WAYS: 8}),
        )

        self.assert_chosen(found, {WAYS: L3_1}, {WAYS: L3_0})

    def test_units_of_the_ledger_are_used_again(self) -> None:
        host = builders.make_view([0xFF, 0xF])

        found = plan(host, make_mover(0, {WAYS: 3}, former=[L3_0]))

        self.assert_chosen(found, {WAYS: L3_0})

    def test_it_goes_back_where_the_first_choice_was_wrong(self) -> None:
        """7 of ten and five: 4 would take the five, and 3 and 3 the ten."""
        host = builders.make_view([0b1111111, 0b111111])
        amounts = (4, 3, 3, 3)

        found = plan(
            host,
            *(make_mover(i, {WAYS: one}) for i, one in enumerate(amounts)),
        )

        self.assertIsNone(found.refusal)
        self.assertEqual(4, len(found.chosen))

    def test_none_is_placed_where_one_does_not_fit(self) -> None:
        found = plan(
            builders.make_view([0xFF, 0xF]),
            make_mover(0, {WAYS: 3}),
            make_mover(1, {WAYS: 9}),
        )

        self.assertEqual({}, found.chosen)
        assert found.refusal is not None
        self.assertEqual(
            uuidsentinel.server1, found.refusal.mover.consumer_uuid
        )
        self.assertIn('9 requested', str(found.refusal.shortfalls[0]))

    def test_a_class_that_no_provider_has(self) -> None:
        found = plan(builders.make_view(), make_mover(0, {SEATS: 1}))

        assert found.refusal is not None
        self.assertEqual((), found.refusal.shortfalls)

    def test_several_classes(self) -> None:
        found = plan(
            builders.make_view(seats=3),
            make_mover(0, {WAYS: 4, SEATS: 2}, near=L3_1),
        )

        self.assert_chosen(found, {WAYS: L3_1, SEATS: builders.POOL})

    def test_classes_of_the_same_providers_go_together(self) -> None:
        """One has less room in the first cache, the other in the second."""
        host = builders.make_view([0xF, 0xFF])
        host = dataclasses.replace(
            host,
            tracked={
                **host.tracked,
                (L3_0, SEATS): builders.make_count(9),
                (L3_1, SEATS): builders.make_count(3),
            },
        )

        found = plan(host, make_mover(0, {WAYS: 2, SEATS: 2}))

        self.assert_chosen(found, {WAYS: L3_1, SEATS: L3_1})

    def test_what_it_holds_counts_and_not_its_flavor(self) -> None:
        """As after a resize that is not confirmed."""
        host = builders.make_view([0xF, 0xFF])

        for asked in (2, 8):
            found = plan(host, make_mover(0, {WAYS: 6}, asked={WAYS: asked}))

            self.assert_chosen(found, {WAYS: L3_1})

    def test_what_is_below_in_a_group_of_its_own_counts(self) -> None:
        mover = make_mover(0, {SEATS: 2})
        request = dataclasses.replace(
            mover.request, allocations={builders.POOL: {SEATS: 2}}
        )

        found = plan(
            builders.make_view(seats=3),
            dataclasses.replace(mover, request=request),
        )

        self.assertIsNotNone(found.refusal)

    def test_what_is_below_already_counts(self) -> None:
        """A part may have been moved, or allocated, before."""
        mover = make_mover(0, {WAYS: 4}, near=L3_0)
        request = dataclasses.replace(
            mover.request, allocations={L3_0: {WAYS: 8}}
        )

        found = plan(
            builders.make_view(), dataclasses.replace(mover, request=request)
        )

        self.assertIsNotNone(found.refusal)

    def test_many_consumers_end_soon(self) -> None:
        movers = [make_mover(i, {WAYS: 1}) for i in range(40)]

        found = plan(builders.make_view(clos=40), *movers)

        self.assertIsNotNone(found.refusal)

    def test_more_consumers_than_python_nests_calls(self) -> None:
        number = sys.getrecursionlimit() + 200
        host = builders.make_view(seats=number)

        found = plan(host, *(make_mover(i, {SEATS: 1}) for i in range(number)))

        self.assertIsNone(found.refusal)
        self.assertEqual(number, len(found.chosen))

    @hypothesis.given(
        st.lists(
            st.tuples(
                st.integers(min_value=1, max_value=6),
                st.sampled_from([None, L3_0, L3_1]),
            ),
            max_size=5,
        )
    )
    def test_what_is_planned_can_be_claimed(
        self, rows: list[tuple[int, str | None]]
    ) -> None:
        movers = [
            make_mover(i, {WAYS: amount}, near=near)
            for i, (amount, near) in enumerate(rows)
        ]
        host = builders.make_view()

        found = plan(host, *movers)

        for mover in [] if found.refusal else movers:
            (rp_uuid,) = found.chosen[mover.consumer_uuid].values()
            held = decide.allocate(
                host,
                dataclasses.replace(
                    mover.request, allocations={rp_uuid: mover.amounts}
                ),
                test_decide.TRACKERS,
            )
            host = held[0]
        self.assertEqual(found, plan(builders.make_view(), *movers[::-1]))
