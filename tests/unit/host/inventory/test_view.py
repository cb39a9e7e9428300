# SPDX-License-Identifier: Apache-2.0

from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_ext_resources.host.inventory import view as view_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view
from tests import base
from tests.unit import builders
from tests.unit.host import with_host

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
#: The same with more classes of service than a test needs.
WIDE = dataclasses.replace(
    RDT,
    inventories={CLOS: builders.make_inventory(64)},
    units={CLOS: {'free': 64}},
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
    """Return the entry with other units of its ways."""
    ways, clos = entry.assignments
    return dataclasses.replace(
        entry, assignments=(dataclasses.replace(ways, units=units), clos)
    )


def make_view(*settled: assignment.Entry) -> host_view.HostView:
    return view_mod.make_view(
        (RDT, CACHE),
        uuids={one.key: one.make_rp_uuid(NODE) for one in (RDT, CACHE)},
        trackers=TRACKERS,
        settled=[one for entry in settled for one in entry.assignments],
        resource_classes=frozenset({WAYS, CLOS}),
    )


def masks(entries: Mapping[str, assignment.Entry]) -> dict[str, str]:
    return {u: str(e.assignments[0].units['mask']) for u, e in entries.items()}


def taken(view: host_view.HostView) -> str:
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
        tree = view_mod.make_providers(
            (RDT, CACHE),
            make_view(entry),
            node=NODE,
            assignments=entry.assignments,
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
        tree = view_mod.make_providers(
            (RDT, CACHE), make_view(), node=NODE, assignments=held
        )

        self.assertEqual(8, tree[0].inventories[CLOS].reserved)

    def test_what_ties_the_host_to_a_pool_has_its_aggregate(self) -> None:
        tie = host_provider.HostProvider(
            key='POOL_rack1', inventories={}, aggregates=frozenset({'agg'})
        )

        [made] = view_mod.make_providers(
            (tie,), make_view(), node=NODE, assignments=()
        )

        self.assertEqual({'agg'}, made.aggregates)
        self.assertEqual({}, made.inventories)


class CountTest(base.TestCase):
    """What placement has allocated and the ledger does not have."""

    def test_an_amount_in_pieces(self) -> None:
        """Free are the ways 4-10; one in their midst is held."""
        held = view_mod.book(make_view(), [make_entry('one', 0x80)], TRACKERS)

        counted = view_mod.count(held, [((CACHE_UUID, WAYS), 5)], TRACKERS)

        state = counted.tracked[CACHE_UUID, WAYS].state
        self.assertEqual((6, 1), (state.used, state.free))

    def test_more_than_there_is(self) -> None:
        place = CACHE_UUID, WAYS

        counted = view_mod.count(
            make_view(), [(place, 12), ((NODE.uuid, WAYS), 1)], TRACKERS
        )

        self.assertEqual(0, counted.tracked[place].state.free)

    def test_what_is_recorded_is_not_counted_again(self) -> None:
        entry = make_entry('one', 0xF0)
        amounts = {CACHE_UUID: {WAYS: 6}, RDT_UUID: {CLOS: 1}}

        self.assertEqual(
            [((CACHE_UUID, WAYS), 2), ((RDT_UUID, CLOS), 1)],
            [*view_mod.list_unrecorded(amounts, entry)],
        )
        self.assertEqual(
            [((CACHE_UUID, WAYS), 6), ((RDT_UUID, CLOS), 1)],
            [*view_mod.list_unrecorded(amounts, None)],
        )


class BookTest(base.TestCase):
    def book(self, *entries: assignment.Entry) -> host_view.HostView:
        return view_mod.book(make_view(), entries, TRACKERS)

    def test_units_are_counted_as_they_are(self) -> None:
        view = self.book(make_entry('a', 0x30), make_entry('b', 0xC0))

        self.assertEqual('f0', taken(view))
        self.assertEqual(2, view.tracked[RDT_UUID, CLOS].state.used)

    def test_a_mere_claim_makes_way_for_what_is_applied(self) -> None:
        claimed = make_entry('a', 0x30, assignment.State.CLAIMED)

        view = self.book(claimed, make_entry('b', 0x60))

        self.assertEqual('660', taken(view))

    def test_the_first_one_is_the_most_certain(self) -> None:
        view = self.book(make_entry('a', 0x60), make_entry('b', 0x30))

        self.assertEqual('660', taken(view))

    def test_where_nothing_is_free_two_are_counted_as_one(self) -> None:
        view = self.book(
            make_entry('a', 0x3F0),
            make_entry('b', 0x3F0, assignment.State.CLAIMED),
        )

        self.assertEqual('3f0', taken(view))

    def test_only_the_places_that_are_named_are_counted(self) -> None:
        view = view_mod.book(
            make_view(),
            [make_entry('a', 0x30)],
            TRACKERS,
            places={(RDT_UUID, CLOS)},
        )

        self.assertEqual('0', taken(view))
        self.assertEqual(1, view.tracked[RDT_UUID, CLOS].state.used)

    def test_entries_of_providers_that_are_gone_are_passed_over(self) -> None:
        entry = dataclasses.replace(
            make_entry('a', 0x30),
            assignments=(builders.make_assignment(rp_uuid='gone'),),
        )

        self.assertEqual(make_view(), self.book(entry))

    def test_units_of_another_tracker_are_not_counted(self) -> None:
        good = make_entry('a', 0x30)
        for units in ({}, {'mask': 'zz'}, {'mask': 7}, {'mask': None}):
            odd = with_units(make_entry('odd', 0xC0), units)
            with self.subTest(units=units):
                view = self.book(odd, good)

                self.assertEqual('30', taken(view))
                self.assertEqual(2, view.tracked[RDT_UUID, CLOS].state.used)

    def test_units_of_another_tracker_may_have_been_settled(self) -> None:
        odd = with_units(make_entry('odd', 0xC0), {})

        inventory = make_view(odd).tracked[CACHE_UUID, WAYS].inventory

        assert inventory is not None
        self.assertEqual(4, inventory.reserved)
