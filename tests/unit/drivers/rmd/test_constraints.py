# SPDX-License-Identifier: Apache-2.0

"""Claims that RMD can never apply are refused, and the others are not."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rmd import constraints
from nova_ext_resources import exception
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_view
from tests import base
from tests.unit import builders
from tests.unit.claims import test_decide

L3_0, L3_1 = builders.DOMAINS
WAYS, BURST, SHARED = classes.WAYS, classes.BURST, classes.SHARED
PERCENT = classes.PERCENT


def make_host() -> host_view.HostView:
    plain = dataclasses.replace(
        builders.make_count(100), implied=(builders.RDT, classes.CLOS)
    )
    own = dataclasses.replace(
        plain,
        tracker='cache_ways',
        state=cache_ways.CacheWaysState(0x7FF),
    )
    return host_view.HostView(
        tracked={
            (builders.RDT, classes.CLOS): builders.make_count(8),
            **{
                (rp_uuid, name): dataclasses.replace(plain, tracker=tracker)
                for rp_uuid in builders.DOMAINS
                for name, tracker in (
                    (BURST, 'burst_ways'),
                    (SHARED, 'shared_ways'),
                    (PERCENT, 'count'),
                )
            },
            (L3_0, WAYS): own,
            (L3_1, WAYS): own,
        },
        constraints=host_constraints.Constraints(
            enforcers=frozenset({'rmd'}), classes=constraints.CONSTRAINTS
        ),
    )


class RmdConstraintsTest(base.TestCase):
    def find(
        self,
        allocations: Mapping[str, Mapping[str, int]],
        *,
        wishes: Mapping[str, Mapping[str, str]] | None = None,
        **fields: Any,
    ) -> tuple[exception.Shortfall, ...]:
        request = builders.make_request(allocations, **fields)
        request = dataclasses.replace(
            request,
            requirement=dataclasses.replace(
                request.requirement, enforcers=wishes or {}
            ),
        )
        return test_decide.ask(make_host(), request, may_move=False).shortfalls

    def test_bandwidth_needs_whole_cores(self) -> None:
        for name in (PERCENT, classes.MBPS):
            self.assertTrue(constraints.CONSTRAINTS[name].needs_cores)

    def test_what_rmd_can_apply_has_no_shortfall(self) -> None:
        for allocations in (
            {L3_0: {WAYS: 2}},
            {L3_0: {WAYS: 2, PERCENT: 30}},
            {
                L3_0: {WAYS: 2, PERCENT: 30},
                L3_1: {WAYS: 2, PERCENT: 30},
            },
            {L3_0: {BURST: 2}, L3_1: {BURST: 2}},
            {L3_0: {SHARED: 1}, L3_1: {SHARED: 1}},
            {L3_0: {WAYS: 2}, builders.RDT: {classes.CLOS: 1}},
        ):
            with self.subTest(allocations=allocations):
                self.assertEqual((), self.find(allocations))

    def test_what_rmd_can_never_apply_is_refused_with_what_to_ask_for(
        self,
    ) -> None:
        for allocations, reason in (
            ({builders.RDT: {classes.CLOS: 1}}, f'also request {WAYS} or'),
            ({L3_0: {PERCENT: 50}}, f'also request {WAYS};'),
            ({L3_0: {WAYS: 2}, L3_1: {WAYS: 3}}, 'not 2, 3; make the amounts'),
            ({L3_0: {WAYS: 2, BURST: 1}}, f'both {WAYS} and {BURST}'),
            ({L3_0: {BURST: 2}, L3_1: {SHARED: 1}}, f'{BURST} and {SHARED}'),
            ({L3_0: {BURST: 2, PERCENT: 50}}, f'also request {WAYS};'),
            ({L3_0: {SHARED: 1, PERCENT: 50}}, f'also request {WAYS};'),
            (
                {L3_0: {WAYS: 2, PERCENT: 30}, L3_1: {WAYS: 2}},
                'request both in each request group',
            ),
            (
                {L3_0: {WAYS: 2}, L3_1: {PERCENT: 30}},
                'request both in each request group',
            ),
            (
                {
                    L3_0: {WAYS: 2, PERCENT: 30},
                    L3_1: {WAYS: 2, PERCENT: 40},
                },
                'not 30, 40',
            ),
        ):
            with self.subTest(allocations=allocations):
                found = self.find(allocations)

                self.assertIn(reason, '; '.join(map(str, found)))
                self.assertTrue(all(one.is_permanent for one in found))

    def test_attributes_that_rmd_does_not_apply_are_refused(self) -> None:
        [code] = self.find({L3_0: {WAYS: 3}}, attributes={WAYS: {'code': '1'}})
        [most] = self.find(
            {L3_0: {BURST: 3}}, attributes={BURST: {'max': '3'}}
        )

        self.assertIn('cannot apply attribute code', str(code))
        self.assertIn('differ from the amount (3) by 1 or more', str(most))
        self.assertEqual(
            (), self.find({L3_0: {BURST: 3}}, attributes={BURST: {'max': '4'}})
        )
        self.assertEqual(
            (),
            self.find(
                {L3_0: {WAYS: 3}}, attributes={WAYS: {'pool': 'guaranteed'}}
            ),
        )

    def test_a_place_in_the_shared_pool_has_no_p_state_of_its_own(
        self,
    ) -> None:
        wishes = {'rmd': {'pstate_ratio': '3.0'}}

        [shared] = self.find({L3_0: {SHARED: 1}}, wishes=wishes)

        self.assertIn('rmd:pstate_ratio', str(shared))
        self.assertEqual((), self.find({L3_0: {WAYS: 1}}, wishes=wishes))

    def test_what_is_for_an_enforcer_that_is_not_enabled_is_refused(
        self,
    ) -> None:
        [unknown] = self.find(
            {L3_0: {WAYS: 1}}, wishes={'other': {'key': '1'}}
        )

        self.assertIn('resource:other:key needs the enforcer', str(unknown))
        self.assertTrue(unknown.is_permanent)
