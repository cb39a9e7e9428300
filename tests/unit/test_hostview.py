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

import dataclasses
import random
from typing import Any

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources import claims
from nova_ext_resources import hostview
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import view as view_obj
from tests import base
from tests.unit import builders
from tests.unit import strategies
from tests.unit import with_host

WAYS = builders.WAYS
CLOS = builders.CLOS
SEATS = builders.SEATS
NODE = with_host.NODE
TRACKERS = builders.make_trackers()

CACHE = builders.make_host_provider(
    key='L3_0',
    parent_key='RDT',
    inventories={WAYS: builders.make_inventory(11)},
    trackers={WAYS: 'cache_ways'},
    units={WAYS: {'free': '7f0'}},
    implied={WAYS: CLOS},
    cpus='0-3',
)
RDT = builders.make_host_provider(
    key='RDT',
    inventories={CLOS: builders.make_inventory(8, reserved=2)},
    units={CLOS: {'free': 5}},
)
CACHE_UUID = CACHE.make_rp_uuid(NODE)
RDT_UUID = RDT.make_rp_uuid(NODE)


def make_entry(
    uuid: str, mask: int, state: assignment.State = assignment.State.APPLIED
) -> assignment.Entry:
    return assignment.Entry(
        consumer_uuid=uuid,
        state=state,
        assignments=(
            builders.make_assignment(
                rp_uuid=CACHE_UUID,
                amount=mask.bit_count(),
                units={'mask': f'{mask:x}'},
            ),
            builders.make_assignment(
                rp_uuid=RDT_UUID,
                rp_key='RDT',
                resource_class=CLOS,
                amount=1,
                units={},
                is_allocated=False,
            ),
        ),
    )


def with_units(
    entry: assignment.Entry, units: dict[str, Any]
) -> assignment.Entry:
    """Give the entry with other units of its ways."""
    ways, clos = entry.assignments
    return dataclasses.replace(
        entry, assignments=(dataclasses.replace(ways, units=units), clos)
    )


def make_booked_view(*entries: assignment.Entry) -> view_obj.HostView:
    """Make the view of the first one's ways and everybody's classes."""
    first, *others = entries
    held = [*first.assignments, *(one.assignments[1] for one in others)]
    view = make_view()
    for one in held:
        place = one.rp_uuid, one.resource_class
        tracked = view.tracked[place]
        state, _ = TRACKERS[tracked.tracker].take(
            tracked.state, one.amount, one.units
        )
        view = view.with_state(place, state)
    return view


def make_view(*settled: assignment.Entry) -> view_obj.HostView:
    return hostview.make_view(
        (RDT, CACHE),
        node=NODE,
        trackers=TRACKERS,
        settled=[one for entry in settled for one in entry.assignments],
        resource_classes=frozenset({WAYS, CLOS}),
    )


def masks(entries: dict[str, assignment.Entry]) -> dict[str, str]:
    return {u: str(e.assignments[0].units['mask']) for u, e in entries.items()}


def taken(view: view_obj.HostView) -> str:
    state = view.tracked[CACHE_UUID, WAYS].state
    return str(state.to_dict()['t'])


class MakeViewTest(base.TestCase):
    def test_the_view_says_what_was_found(self) -> None:
        view = make_view()

        cache = view.tracked[CACHE_UUID, WAYS]
        self.assertEqual((RDT_UUID, CLOS), cache.implied)
        self.assertEqual('0-3', cache.cpus)
        self.assertIsNone(view.tracked[RDT_UUID, CLOS].cpus)
        self.assertEqual({CACHE_UUID: 'L3_0', RDT_UUID: 'RDT'}, view.keys)

    def test_what_others_use_is_reserved(self) -> None:
        view = make_view()

        for place, reserved in (
            ((CACHE_UUID, WAYS), 4),
            ((RDT_UUID, CLOS), 3),
        ):
            inventory = view.tracked[place].inventory
            assert inventory is not None
            self.assertEqual(reserved, inventory.reserved)

    def test_what_servers_had_in_force_is_not_the_use_of_others(self) -> None:
        view = make_view(make_entry('a', 0b1100))

        for place, reserved in (
            ((CACHE_UUID, WAYS), 2),
            ((RDT_UUID, CLOS), 2),
        ):
            inventory = view.tracked[place].inventory
            assert inventory is not None
            self.assertEqual(reserved, inventory.reserved)

    def test_a_class_of_service_without_allocation_is_reserved(self) -> None:
        entry = make_entry('a', 0b1100)
        tree = hostview.make_providers(
            (RDT, CACHE),
            make_view(entry),
            node=NODE,
            held=entry.assignments,
        )

        by_name = {one.name: one for one in tree}
        self.assertEqual(3, by_name['host1_RDT'].inventories[CLOS].reserved)
        self.assertEqual(2, by_name['host1_L3_0'].inventories[WAYS].reserved)

    def test_never_more_is_reserved_than_there_is(self) -> None:
        held = [
            one
            for number in range(9)
            for one in make_entry(f'{number}', 1).assignments
        ]
        tree = hostview.make_providers(
            (RDT, CACHE), make_view(), node=NODE, held=held
        )

        self.assertEqual(8, tree[0].inventories[CLOS].reserved)


class BookTest(base.TestCase):
    def book(
        self, *entries: assignment.Entry, first: str = ''
    ) -> tuple[view_obj.HostView, dict[str, assignment.Entry]]:
        return hostview.book(
            make_view(),
            {one.consumer_uuid: one for one in entries},
            TRACKERS,
            first=first,
        )

    def test_units_are_booked_as_they_are(self) -> None:
        view, booked = self.book(make_entry('a', 0x30), make_entry('b', 0xC0))

        self.assertEqual({'a': '30', 'b': 'c0'}, masks(booked))
        self.assertEqual('f0', taken(view))
        self.assertEqual(2, view.tracked[RDT_UUID, CLOS].state.used)

    def test_a_mere_claim_makes_way_for_what_is_in_force(self) -> None:
        view, booked = self.book(
            make_entry('a', 0x30, assignment.State.CLAIMED),
            make_entry('b', 0x60),
        )

        self.assertEqual({'a': '600', 'b': '60'}, masks(booked))
        self.assertEqual('660', taken(view))

    def test_who_was_just_applied_is_the_most_certain(self) -> None:
        _, booked = self.book(
            make_entry('a', 0x30), make_entry('b', 0x60), first='b'
        )

        self.assertEqual({'a': '600', 'b': '60'}, masks(booked))

    def test_where_nothing_is_free_two_share_on_paper(self) -> None:
        view, booked = self.book(
            make_entry('a', 0x3F0),
            make_entry('b', 0x3F0, assignment.State.CLAIMED),
        )

        self.assertEqual({'a': '3f0', 'b': '3f0'}, masks(booked))
        self.assertEqual('3f0', taken(view))

    def test_entries_of_providers_that_are_gone_are_kept(self) -> None:
        entry = dataclasses.replace(
            make_entry('a', 0x30),
            assignments=(builders.make_assignment(rp_uuid='gone'),),
        )

        view, booked = self.book(entry)

        self.assertEqual({'a': entry}, booked)
        self.assertEqual(make_view(), view)

    def test_units_of_another_tracker_are_not_booked_but_named(self) -> None:
        good = make_entry('a', 0x30)
        for units in ({}, {'mask': 'zz'}, {'mask': 7}, {'mask': None}):
            odd = with_units(make_entry('odd', 0xC0), units)
            with self.subTest(units=units):
                view, booked = self.book(odd, good)

                self.assertEqual({'odd': odd, 'a': good}, booked)
                self.assertEqual('30', taken(view))
                self.assertEqual(view, make_booked_view(good, odd))
                (problem,) = hostview.list_unbookable(
                    view, booked.values(), TRACKERS
                )
                for words in ('server odd', WAYS, 'cache_ways', 'L3_0'):
                    self.assertIn(words, str(problem))

                view, after = hostview.rebook(
                    view, booked, TRACKERS, put=make_entry('b', 0xC0)
                )
                self.assertEqual('f0', taken(view))
                view, after = hostview.rebook(
                    view, after, TRACKERS, drop={'odd', 'b'}
                )
                self.assertEqual('30', taken(view))
                self.assertEqual(1, view.tracked[RDT_UUID, CLOS].state.used)

    def test_units_of_another_tracker_may_have_been_settled(self) -> None:
        odd = with_units(make_entry('odd', 0xC0), {})

        inventory = make_view(odd).tracked[CACHE_UUID, WAYS].inventory

        assert inventory is not None
        self.assertEqual(4, inventory.reserved)

    def test_many_go_at_once(self) -> None:
        view, booked = self.book(
            *(make_entry(f'{n}', 0x10 << n) for n in range(5))
        )

        view, after = hostview.rebook(
            view, booked, TRACKERS, drop={'0', '2', '4', 'unknown'}
        )

        self.assertEqual({'1': '20', '3': '80'}, masks(after))
        self.assertEqual('a0', taken(view))

    @hypothesis.settings(max_examples=strategies.EXAMPLES)
    @hypothesis.given(st.randoms(use_true_random=False))
    def test_whoever_comes_and_goes_nothing_is_counted_twice(
        self, chance: random.Random
    ) -> None:
        """A host that gives out other ways than were claimed, at random."""
        view, entries = make_view(), dict[str, assignment.Entry]()
        real: dict[str, int] = {}
        for step in range(12):
            free = 0x7F0 & ~sum(real.values())
            runs = [
                bitmask.make_run(low, 2)
                for low in range(4, 10)
                if bitmask.make_run(low, 2) & free == bitmask.make_run(low, 2)
            ]
            known = view.tracked[CACHE_UUID, WAYS].state
            waiting = sorted(entries.keys() - real.keys())
            act = chance.choice(('claim', 'apply', 'release'))
            if act == 'claim' and known.available >= 2:
                uuid = f'server-{step}'
                request = builders.make_request({CACHE_UUID: {WAYS: 2}})
                view, held = claims.take(view, request, TRACKERS)
                entries[uuid] = assignment.Entry(
                    consumer_uuid=uuid, assignments=held
                )
            elif act == 'apply' and waiting and runs:
                uuid = chance.choice(waiting)
                real[uuid] = chance.choice(runs)
                view, entries = hostview.rebook(
                    view,
                    entries,
                    TRACKERS,
                    put=make_entry(uuid, real[uuid]),
                )
            elif act == 'release' and entries:
                uuid = chance.choice(sorted(entries))
                real.pop(uuid, None)
                view, entries = hostview.rebook(
                    view, entries, TRACKERS, drop=[uuid]
                )
            self.check(view, entries, real)

    def check(
        self,
        view: view_obj.HostView,
        entries: dict[str, assignment.Entry],
        real: dict[str, int],
    ) -> None:
        together = 0
        for entry in entries.values():
            (one,) = (
                held
                for held in entry.assignments
                if held.resource_class == WAYS
            )
            mask = bitmask.parse_mask(one.units['mask'])
            together |= mask
            if entry.consumer_uuid in real:
                assert mask == real[entry.consumer_uuid]
        assert taken(view) == f'{together:x}'
        clos = view.tracked[RDT_UUID, CLOS].state
        assert clos.used == len(entries)
