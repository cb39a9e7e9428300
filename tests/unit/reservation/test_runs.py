# SPDX-License-Identifier: Apache-2.0

"""Tests that ways side by side are left for those who have reserved them."""

import dataclasses
import random
from typing import Any
from unittest import mock

from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import runs
from tests import base
from tests.unit import builders
from tests.unit.reservation import hosts
from tests.unit.reservation import test_calendar
from tests.unit.reservation import test_promise_ledger

WAYS, L3_0, L3_1 = builders.WAYS, builders.L3_0, builders.L3_1


class RunsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.runs = runs.Runs(hosts.TRACKERS, hosts.make_tests())

    def promise(
        self,
        key: str,
        ways: int,
        start: int = 5,
        end: int = 9,
        rp_uuid: str = L3_0,
    ) -> promise_ledger.Promise:
        during = hosts.span(start, end)
        demand = hosts.make_demand(_={WAYS: ways}, cells=(2,))
        return promise_ledger.Promise(
            request=hosts.make_request(key, during, demand),
            slot=test_promise_ledger.make_slot(
                f'{key}/0', during, {(rp_uuid, WAYS): ways}
            ),
            during=during,
        )

    def find(
        self,
        view: host_view.HostView,
        *promises: promise_ledger.Promise,
        ways: int = 4,
        rp_uuid: str = L3_0,
    ) -> str | None:
        """Return the reservation that a server would break now."""
        found = self.runs.find_broken(
            view,
            promises,
            assignment.ClaimRequest(
                consumer_uuid='',
                allocations={rp_uuid: {WAYS: ways}},
                requirement=builders.make_requirement(_={WAYS: ways}),
                pinning=assignment.Pinning(),
            ),
            now=0,
        )
        return found.request.key if found else None

    def test_ways_that_would_be_apart(self) -> None:
        # Three and five side by side: four of the five leave four in all.
        view = builders.make_view([0b11111000111, 0])

        self.assertEqual('x', self.find(view, self.promise('x', 4)))
        self.assertIsNone(self.find(view, self.promise('x', 3)))
        self.assertIsNone(self.find(view, self.promise('x', 5), ways=3))

    def test_another_cache_does_as_well(self) -> None:
        view = builders.make_view([0b11111000111, 0x0F])

        self.assertIsNone(self.find(view, self.promise('x', 4)))

    def test_slots_at_different_times_share_what_is_left(self) -> None:
        view = builders.make_view([0xFF, 0])

        one, two = self.promise('x', 4, 5, 7), self.promise('y', 4, 7, 9)
        self.assertIsNone(self.find(view, one, two))
        two = self.promise('y', 4, 6, 9)
        self.assertEqual('y', self.find(view, one, two))

    def test_what_cannot_be_had_anyhow_is_nobodys_fault(self) -> None:
        view = builders.make_view([0b11111000111, 0])

        self.assertIsNone(self.find(view, self.promise('x', 6)))

    def test_but_what_is_left_of_it_can_be_broken(self) -> None:
        """Both cannot be had at once; one of them can, when the other ends."""
        view = builders.make_view([0b11111000111, 0])
        many = self.promise('x', 4, 5, 7), self.promise('y', 5, 5, 9)

        self.assertEqual('y', self.find(view, *many))
        self.assertIsNone(self.find(view, *many, ways=3))
        # Something else begins before it could.
        self.assertIsNone(self.find(view, *many, self.promise('z', 4, 7, 9)))

    def test_a_server_that_the_host_refuses_breaks_nothing(self) -> None:
        view = builders.make_view([0b1111, 0])

        self.assertIsNone(self.find(view, self.promise('x', 4), ways=5))

    def test_the_last_class_of_service(self) -> None:
        view = builders.make_view([0xFF, 0xFF], clos=1)

        self.assertEqual(
            'x', self.find(view, self.promise('x', 4), rp_uuid=L3_1)
        )

    def test_what_the_host_takes_none_of_now_is_had_later(self) -> None:
        promise = self.promise('x', 4)
        spare = mock.Mock(now=0)
        spare.list_promises.return_value = [promise]
        for refused in ({}, {WAYS: alarm.ENFORCER_FAILED}):
            rules = host_constraints.Constraints(refused=refused)
            view = builders.make_view([0xFF, 0], clos=1)
            view = dataclasses.replace(view, constraints=rules)

            broken, _end = self.runs.find_verdict(
                stats.decode(stats.encode(view)),
                {builders.RDT: {'resources': {builders.CLOS: 1}}},
                builders.make_requirement(_={builders.CLOS: 1}),
                spare,
                is_floating=False,
            )

            self.assertIs(promise, broken)

    def test_what_amounts_decide_is_left_to_them(self) -> None:
        view = builders.make_view([0xFF, 0], clos=1)
        place = (builders.RDT, builders.CLOS)
        slot = test_promise_ledger.make_slot(
            'x/0', hosts.span(5, 9), {place: 1}
        )
        request = hosts.make_request('x', slot.during)

        found = promise_ledger.Promise(
            request=request, slot=slot, during=slot.during
        )

        self.assertFalse(self.runs.needs_units(view, found))
        self.assertIsNone(self.find(view, found))

    def test_as_if_each_time_were_decided_by_itself(self) -> None:
        dice = random.Random(test_calendar.SEED)
        answers = set()
        for _round in range(max(test_calendar.CASES // 4, 20)):
            view = builders.make_view([dice.getrandbits(12), 0xFF])
            promises = [
                self.promise(
                    f'{number}',
                    dice.randint(1, 4),
                    start := dice.randrange(9),
                    start + dice.randint(1, 5),
                )
                for number in range(dice.randint(1, 6))
            ]
            found = self.find(view, *promises, ways=3)
            is_broken = self.is_broken(view, promises, ways=3)
            answers.add(is_broken)
            self.assertEqual(is_broken, found is not None)
        self.assertEqual({False, True}, answers)

    def is_broken(
        self,
        view: host_view.HostView,
        promises: list[promise_ledger.Promise],
        ways: int,
    ) -> bool:
        """Ask for every second, before and after."""
        guest = self.promise('guest', ways)
        after = self.runs.place(view, guest)
        if after is None:
            return False
        for second in range(20):
            together = sorted(
                (
                    one
                    for one in promises
                    if one.during.start <= second < one.during.end
                ),
                key=lambda one: -sum(one.slot.places.values()),
            )
            if not self.fit(after, together) and self.fit(view, together):
                return True
        return False

    def fit(
        self,
        view: host_view.HostView | None,
        promises: list[promise_ledger.Promise],
    ) -> bool:
        for one in promises:
            if view is not None:
                view = self.runs.place(view, one)
        return view is not None

    def test_slots_that_ask_for_the_same_are_decided_on_once(self) -> None:
        view = builders.make_view([0xFFF, 0])
        promises = [
            self.promise(f'{number}', 2, number, number + 2)
            for number in range(20)
        ]
        place = self.runs.place
        asked = []

        def count(*args: Any) -> Any:
            asked.append(args)
            return place(*args)

        self.patch(self.runs, 'place', count)

        self.assertIsNone(self.find(view, *promises))
        # One, and two at once.
        self.assertEqual(2, len(asked))
