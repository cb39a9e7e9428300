# SPDX-License-Identifier: Apache-2.0

"""Plans beside servers that have taken their slots: with what they have."""

import dataclasses
from typing import Any

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.objects import assignment
from nova_ext_resources.reservation import future
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import planned_server
from nova_ext_resources.reservation import planner
from tests import base
from tests.unit.reservation import hosts
from tests.unit.reservation.hosts import span

L3 = ('one L3_0', 'one L3_1')
CLOS = 'one RDT', hosts.CLOS


def make_ways(mask: str, number: int = 0) -> assignment.Assignment:
    return assignment.Assignment(
        rp_uuid=L3[number],
        rp_key='',
        resource_class=hosts.WAYS,
        amount=int(mask, 2).bit_count(),
        units={'mask': f'{int(mask, 2):x}'},
    )


def make_slot(
    mask: str,
    during: interval.Interval,
    key: str = 'lease/0',
    **fields: Any,
) -> planned_server.PlannedServer:
    return planned_server.PlannedServer(
        key=key,
        host='one',
        during=during,
        assignments=(make_ways(mask),),
        **fields,
    )


class HeldTest(base.TestCase):
    """One host of two caches; a server without a reservation holds a way."""

    def setUp(self) -> None:
        super().setUp()
        self.patch_host(held={})

    def patch_host(self, **fields: Any) -> None:
        host = hosts.make_cached_host('one')
        state = cache_ways.CacheWaysState(0xFF, 0b10000000)
        full = cache_ways.CacheWaysState(0xFF, 0xFF)
        view = host.view.with_state((L3[0], hosts.WAYS), state)
        view = view.with_state((L3[1], hosts.WAYS), full)
        host = dataclasses.replace(
            host, **{'view': view, 'cells': None, **fields}
        )
        self.planner = hosts.make_planner(host)
        self.fleet = self.planner.fleet

    def plan(
        self, amount: int, during: interval.Interval | None = None
    ) -> planner.Plan | planner.Refusal:
        request = hosts.make_request(
            'new',
            during or span(0, 9),
            hosts.make_demand(_={hosts.WAYS: amount, 'PCPU': 1}, cells=(1,)),
        )
        return self.planner.plan(request, 0)

    def find_mask(self, answer: Any) -> str:
        (mask,) = [
            one.units['mask']
            for one in answer.servers[0].assignments
            if one.resource_class == hosts.WAYS
        ]
        return f'{int(mask, 16):08b}'

    def test_the_host_has_chosen_others_than_were_planned(self) -> None:
        held = host_mod.Held(
            classes=frozenset({hosts.WAYS}), assignments=(make_ways('111000'),)
        )
        self.patch_host(held={'server': held})
        self.fleet.book(make_slot('111', span(0, 9), consumer='server'))

        refused = self.plan(4)

        # Of seven ways, three are the server's, and none of the rest ...
        assert isinstance(refused, planner.Refusal)
        (short,) = refused.shortfalls['one']
        self.assertEqual(
            (L3[0], hosts.WAYS), (short.rp_uuid, short.resource_class)
        )
        self.assertEqual(3, short.available)
        self.assertIn('4 units are free, but not side by side', short.reason)
        # ... but after it.
        assert refused.earliest is not None
        self.assertEqual(9, refused.earliest.during.start)
        self.assertEqual('00000111', self.find_mask(self.plan(3)))

    def test_a_server_that_is_in_another_cache(self) -> None:
        held = host_mod.Held(
            classes=frozenset({hosts.WAYS}),
            assignments=(make_ways('111', number=1),),
        )
        self.patch_host(held={'server': held})
        self.fleet.book(make_slot('1111111', span(0, 9), consumer='server'))

        self.assertIsInstance(self.plan(7), planner.Plan)
        self.assertEqual(
            3, self.fleet.calendar.peak((L3[1], hosts.WAYS), span(0, 9))
        )

    def test_what_is_released_is_what_was_booked(self) -> None:
        held = host_mod.Held(
            classes=frozenset({hosts.WAYS}), assignments=(make_ways('11000'),)
        )
        self.patch_host(held={'server': held})
        self.fleet.book(make_slot('111', span(0, 9), consumer='server'))

        self.fleet.release('lease/0')

        self.assertEqual(
            0, self.fleet.calendar.peak((L3[0], hosts.WAYS), span(0, 9))
        )
        self.assertIsInstance(self.plan(7), planner.Plan)

    def test_a_slot_that_was_planned_where_another_server_is_now(self) -> None:
        # It is planned on the way that somebody has got meanwhile.
        self.fleet.book(make_slot('11100000', span(5, 9)))

        found = self.plan(4, span(0, 9))

        self.assertIsInstance(found, planner.Plan)
        (booked,) = self.fleet.bookings.values()
        (ways,) = booked.assignments
        self.assertEqual(0, int(ways.units['mask'], 16) & 0b10000000)

    def test_a_slot_that_was_planned_by_amounts(self) -> None:
        bare = dataclasses.replace(
            make_slot('11', span(5, 9)),
            assignments=(dataclasses.replace(make_ways('11'), units={}),),
        )
        self.fleet.book(bare)

        self.assertIsInstance(self.plan(5), planner.Plan)
        self.assertIsInstance(self.plan(6), planner.Refusal)
        self.assertIsInstance(self.plan(6, span(0, 5)), planner.Plan)

    def test_a_slot_that_fits_nowhere_any_more(self) -> None:
        bare = dataclasses.replace(
            make_slot('11111111', span(5, 9)),
            assignments=(
                dataclasses.replace(make_ways('11111111'), units={}),
            ),
        )
        self.fleet.book(bare)

        self.assertIsInstance(self.plan(1), planner.Refusal)
        self.assertIsInstance(self.plan(7, span(0, 5)), planner.Plan)

    def test_one_that_is_small_would_part_what_is_left(self) -> None:
        # ``X.XX...`` where X is had: the host gives one way the upper end.
        state = cache_ways.CacheWaysState(0x7F, 0b0001100)
        self.patch_host()
        host = self.fleet.hosts['one']
        view = host.view.with_state((L3[0], hosts.WAYS), state)
        self.planner = hosts.make_planner(dataclasses.replace(host, view=view))
        self.fleet = self.planner.fleet
        for key in ('a', 'b'):
            self.fleet.book(make_slot('1', span(5, 9), key=f'{key}/0'))

        refused = self.plan(3, span(6, 9))

        assert isinstance(refused, planner.Refusal)
        (short,) = refused.shortfalls['one']
        self.assertIn('the host chooses the units', short.reason)
        self.assertIn('new/0', short.reason)
        self.assertIsInstance(self.plan(2, span(6, 9)), planner.Plan)

    def test_an_end_is_not_put_off_where_others_would_be_refused(
        self,
    ) -> None:
        held = host_mod.Held(
            classes=frozenset({hosts.WAYS}), assignments=(make_ways('11000'),)
        )
        self.patch_host(held={'server': held})
        self.fleet.book(make_slot('11', span(0, 9), consumer='server'))
        self.fleet.book(make_slot('1111100', span(9, 12), key='other/0'))
        request = hosts.make_request('lease', span(0, 10))

        refused = self.planner.prolong(
            request, (make_slot('11', span(0, 9), consumer='server'),)
        )

        # By the plan, both would fit beside each other.
        assert isinstance(refused, planner.Refusal)
        self.assertIn(
            'promised to other reservations',
            refused.shortfalls['one'][0].reason,
        )


class CellsTest(base.TestCase):
    """Two cells of four CPUs."""

    def leave(self, *held: planned_server.PlannedServer) -> list[int]:
        found = future.leave_cells(hosts.CELLS, held)
        return [len(one) for one in found]

    def make(
        self, amount: int, cpus: frozenset[int] | None = None
    ) -> planned_server.PlannedServer:
        own = assignment.Assignment(
            rp_uuid='one', rp_key='', resource_class='PCPU', amount=amount
        )
        return planned_server.PlannedServer(
            key=f'{amount} {cpus}',
            host='one',
            during=span(0),
            assignments=(own,),
            cpus=cpus,
        )

    def test_cpus_of_the_plan(self) -> None:
        self.assertEqual([2, 4], self.leave(self.make(2, frozenset({0, 1}))))

    def test_others_have_got_them(self) -> None:
        self.assertEqual([2, 4], self.leave(self.make(2, frozenset({0, 9}))))

    def test_planned_by_amounts(self) -> None:
        one = self.make(2, frozenset({0, 1}))

        self.assertEqual([0, 4], self.leave(one, self.make(2)))
        self.assertEqual([2, 1], self.leave(one, self.make(3)))

    def test_no_cell_has_so_many(self) -> None:
        self.assertEqual([0, 2], sorted(self.leave(self.make(6))))

    def test_a_server_that_floats(self) -> None:
        self.assertEqual([4, 4], self.leave(make_slot('1', span(0))))
