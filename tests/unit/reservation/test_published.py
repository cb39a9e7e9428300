# SPDX-License-Identifier: Apache-2.0

"""A host of two caches as it publishes itself, and as placement shows it."""

from collections.abc import Mapping
import dataclasses
import json
from typing import Any

import hypothesis
from hypothesis import strategies as st
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.claims import decide
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import holders
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation import published
from tests import base
from tests.unit.reservation import hosts
from tests.unit import strategies

L3 = ('host L3_0', 'host L3_1')
RDT = 'host RDT'
WAYS = tuple((one, hosts.WAYS) for one in L3)
CLOS = RDT, hosts.CLOS
PCPU = 'host', 'PCPU'


class PublishedTest(base.TestCase):
    """The host is right, and placement shows the same.

    :ivar entries: what the host's ledger has
    :ivar uses: what placement shows
    :ivar pinned: CPUs that Nova has given to servers
    """

    def setUp(self) -> None:
        super().setUp()
        self.view = dataclasses.replace(
            hosts.make_cached_host('host').view,
            constraints=host_constraints.Constraints(
                tests=('capacity', 'cache_affinity')
            ),
        )
        self.view = dataclasses.replace(
            self.view,
            tracked={
                place: one
                for place, one in self.view.tracked.items()
                if place[0] != 'host'
            },
        )
        self.entries: list[assignment.Entry] = []
        self.uses: dict[host_view.Place, dict[str, int]] = {}
        self.pinned = frozenset[int]()

    def boot(
        self,
        consumer: str,
        cpus: frozenset[int] = frozenset({0}),
        number: int = 0,
        ways: int = 2,
    ) -> None:
        """Claim as the host does."""
        decision = decide.decide(
            self.view,
            assignment.ClaimRequest(
                consumer_uuid=consumer,
                allocations={L3[number]: {hosts.WAYS: ways}},
                requirement=hosts.make_demand(
                    _={hosts.WAYS: ways}
                ).requirement,
                cpus=cpus,
            ),
            trackers=hosts.TRACKERS,
            tests=[*hosts.make_tests().values()],
        )
        self.assertTrue(decision.fits, str(decision.shortfalls))
        self.view = decision.view
        self.entries.append(decision.request.make_entry(decision.taken))
        for one in decision.taken:
            if one.is_allocated:
                place = one.rp_uuid, one.resource_class
                self.uses.setdefault(place, {})[consumer] = one.amount
        self.uses.setdefault(PCPU, {})[consumer] = len(cpus)
        self.pinned |= cpus

    def make_counted(
        self, taken: published.Taken, reserved: int = 0
    ) -> host_mod.Host:
        """Make the host of what placement shows.

        :param reserved: ways that others have got since
        """
        implied = self.view.tracked[CLOS].state.used
        totals = {
            WAYS[0]: class_inventory.Inventory(total=8, reserved=reserved),
            WAYS[1]: class_inventory.Inventory(total=8),
            CLOS: class_inventory.Inventory(total=8, reserved=implied),
            PCPU: class_inventory.Inventory(total=8),
        }
        tracked = {}
        for place, one in totals.items():
            used = sum(
                max(amount - taken.get(consumer, {}).get(place, 0), 0)
                for consumer, amount in self.uses.get(place, {}).items()
            )
            tracked[place] = host_view.Tracked(
                tracker='count',
                state=count.CountState(one.capacity, used),
                inventory=one,
            )
        made = hosts.make_cached_host('host')
        return host_mod.make_host(
            'host', made.providers, host_view.HostView(tracked=tracked)
        )

    def publish(self) -> publication.Publication:
        cells = [
            publication.Cell(cell, cell - self.pinned) for cell in hosts.CELLS
        ]
        return publication.Publication(
            host='host',
            document=stats.encode(self.view),
            holders=holders.encode(self.entries, 60_000),
            cells=publication.write_cells(cells),
        )

    def apply(
        self,
        taken: published.Taken | None = None,
        told: publication.Publication | None = None,
        reserved: int = 0,
    ) -> host_mod.Host:
        taken = taken or {}
        return published.apply(
            self.make_counted(taken, reserved),
            told or self.publish(),
            self.uses,
            taken,
            hosts.TRACKERS,
        )

    def find_free(self, host: host_mod.Host) -> dict[host_view.Place, int]:
        return {
            place: one.state.free
            for place, one in host.view.tracked.items()
            if place[1] != 'VCPU'
        }

    def find_mask(self, host: host_mod.Host, number: int = 0) -> int:
        state: Any = host.view.tracked[WAYS[number]].state
        return int(state.free_mask)

    def assert_counted(self, host: host_mod.Host) -> None:
        self.assertEqual(
            {'count'}, {one.tracker for one in host.view.tracked.values()}
        )
        self.assertIsNone(host.cells)
        self.assertEqual({}, host.held)

    # What is known

    def test_units_and_cells_are_known(self) -> None:
        self.boot(uuids.one, frozenset({0, 1}))

        found = self.apply()

        self.assertEqual('cache_ways', found.view.tracked[WAYS[0]].tracker)
        self.assertEqual(0xFC, self.find_mask(found))
        self.assertEqual(
            {WAYS[0]: 6, WAYS[1]: 8, CLOS: 7, PCPU: 6}, self.find_free(found)
        )
        self.assertEqual(
            (frozenset({2, 3}), frozenset({4, 5, 6, 7})), found.cells
        )

    def test_inventories_are_those_of_placement(self) -> None:
        found = self.apply()

        for place, total in ((WAYS[0], 8), (CLOS, 8)):
            known = found.view.tracked[place].inventory
            self.assertEqual(total, known.total if known else None)

    def test_the_claim_tests_are_those_of_the_host(self) -> None:
        self.assertEqual(
            ('granularity', 'capacity', 'cache_affinity'),
            decide.name_tests(self.apply().view),
        )

    # What servers have of their slots

    def slot(self, number: int = 0, ways: int = 2) -> dict[Any, int]:
        return {WAYS[number]: ways, CLOS: 1, PCPU: 1}

    def test_what_a_server_has_of_its_slot_is_not_taken(self) -> None:
        self.boot(uuids.other)
        self.boot(uuids.mine, frozenset({1}))

        found = self.apply({uuids.mine: self.slot()})

        self.assertEqual(0xFC, self.find_mask(found))
        self.assertEqual(
            {WAYS[0]: 6, WAYS[1]: 8, CLOS: 7, PCPU: 7}, self.find_free(found)
        )
        self.assertEqual(frozenset({1, 2, 3}), (found.cells or [])[0])
        held = found.held[uuids.mine]
        self.assertEqual(frozenset({1}), held.cpus)
        self.assertEqual(
            {(hosts.WAYS, 2, 'c'), (hosts.CLOS, 1, None)},
            {
                (one.resource_class, one.amount, one.units.get('mask'))
                for one in held.assignments
            },
        )

    def test_the_host_has_moved_a_server_to_another_cache(self) -> None:
        self.boot(uuids.mine, frozenset({4}))

        found = self.apply({uuids.mine: self.slot(number=0)})

        self.assertEqual(8, self.find_free(found)[WAYS[0]])
        self.assertEqual(8, self.find_free(found)[WAYS[1]])
        (ways,) = [
            one
            for one in found.held[uuids.mine].assignments
            if one.resource_class == hosts.WAYS
        ]
        self.assertEqual(L3[1], ways.rp_uuid)

    def test_what_is_more_than_the_slot_is_taken_for_good(self) -> None:
        self.boot(uuids.mine, ways=4)

        found = self.apply({uuids.mine: self.slot()})

        self.assertEqual(4, self.find_free(found)[WAYS[0]])
        held = found.held[uuids.mine]
        self.assertIn(hosts.WAYS, held.classes)
        self.assertEqual(
            {hosts.CLOS}, {one.resource_class for one in held.assignments}
        )

    def test_a_slot_without_a_class_of_service_has_none(self) -> None:
        self.boot(uuids.mine)
        slot = {WAYS[0]: 2, PCPU: 1}

        found = self.apply({uuids.mine: slot})

        self.assertEqual(7, self.find_free(found)[CLOS])
        self.assertEqual(8, self.find_free(found)[WAYS[0]])

    def test_a_slot_on_another_host_is_none_here(self) -> None:
        self.boot(uuids.mine)

        found = self.apply({uuids.mine: {('elsewhere', hosts.WAYS): 2}})

        self.assertEqual(6, self.find_free(found)[WAYS[0]])
        self.assertEqual({}, found.held)

    def test_room_that_is_held_for_servers_is_not_known_to_hosts(
        self,
    ) -> None:
        self.boot(uuids.one)
        consumer = planned_hold.make_consumer('lease/0')
        self.uses[WAYS[0]][consumer] = 2
        self.uses[PCPU][consumer] = 1

        found = self.apply({consumer: {WAYS[0]: 2, PCPU: 1}})

        self.assertEqual(6, self.find_free(found)[WAYS[0]])
        self.assertEqual(frozenset({1, 2, 3}), (found.cells or [])[0])

    def test_cpus_of_a_server_that_is_not_ours_are_not_known(self) -> None:
        self.uses[PCPU] = {uuids.mine: 1}
        self.pinned = frozenset({0})

        found = self.apply({uuids.mine: {PCPU: 1}})

        self.assertIsNone(found.cells)
        self.assertEqual('cache_ways', found.view.tracked[WAYS[0]].tracker)

    def test_cpus_that_are_used_in_placement_only(self) -> None:
        self.uses[PCPU] = {uuids.one: 1}

        self.assertIsNone(self.apply().cells)

    # Where they do not agree

    def test_a_server_is_not_published_yet(self) -> None:
        told = self.publish()
        self.boot(uuids.one)

        self.assert_counted(self.apply(told=told))

    def test_another_server_has_as_much(self) -> None:
        self.boot(uuids.one)
        told = self.publish()
        self.uses[WAYS[0]] = {uuids.other: 2}

        self.assert_counted(self.apply(told=told))

    def test_a_server_is_gone_from_placement(self) -> None:
        self.boot(uuids.one)
        del self.uses[WAYS[0]]

        self.assert_counted(self.apply())

    def test_the_capacity_has_changed(self) -> None:
        self.assert_counted(self.apply(reserved=1))

    def test_a_provider_is_not_there(self) -> None:
        tracked = {
            (place[0].replace('L3_1', 'L3_9'), place[1]): one
            for place, one in self.view.tracked.items()
        }
        self.view = dataclasses.replace(self.view, tracked=tracked)

        self.assert_counted(self.apply())

    def test_two_servers_have_the_same_units_for_a_while(self) -> None:
        self.boot(uuids.one)
        self.entries.append(
            dataclasses.replace(self.entries[0], consumer_uuid=uuids.two)
        )
        self.uses[WAYS[0]][uuids.two] = 2

        self.assert_counted(self.apply())

    def test_units_of_another_tracker(self) -> None:
        self.boot(uuids.one)
        (entry,) = self.entries
        bare = tuple(
            dataclasses.replace(one, units={}) for one in entry.assignments
        )
        self.entries = [dataclasses.replace(entry, assignments=bare)]

        self.assert_counted(self.apply())

    def test_texts_that_are_not_understood(self) -> None:
        told = self.publish()
        for changes in (
            {'document': told.document.replace('"v":1', '"v":2')},
            {'document': '{'},
            {'holders': ''},
            {'holders': told.holders.replace('"v":1', '"v":2')},
        ):
            found = self.apply(told=dataclasses.replace(told, **changes))

            self.assert_counted(found)

    def test_cells_that_are_not_understood(self) -> None:
        for cells in ('', '{', '[1]', '[["x", "1"]]'):
            told = dataclasses.replace(self.publish(), cells=cells)

            found = self.apply(told=told)

            self.assertIsNone(found.cells)
            self.assertEqual('cache_ways', found.view.tracked[WAYS[0]].tracker)

    def test_a_tracker_that_cannot_foresee_is_counted(self) -> None:
        strange = dataclasses.replace(
            self.view.tracked[WAYS[1]], tracker='strange'
        )
        self.view = dataclasses.replace(
            self.view, tracked={**self.view.tracked, WAYS[1]: strange}
        )

        found = self.apply()

        self.assertEqual('count', found.view.tracked[WAYS[1]].tracker)
        self.assertEqual('cache_ways', found.view.tracked[WAYS[0]].tracker)

    @hypothesis.given(st.data())
    def test_damaged_texts_are_no_reason_to_fail(
        self, drawn: st.DataObject
    ) -> None:
        if not self.entries:
            self.boot(uuids.mine)
        good = self.publish()
        for field in ('document', 'holders', 'cells'):
            data = json.loads(getattr(good, field))
            text = json.dumps(drawn.draw(strategies.damaged(data)))
            told = dataclasses.replace(good, **{field: text})

            found = self.apply({uuids.mine: self.slot()}, told)

            self.assertEqual('host', found.name)


class PublicationTest(base.TestCase):
    def test_the_digest_tells_texts_apart(self) -> None:
        texts: list[Mapping[str, str]] = [
            {'document': 'a'},
            {'document': 'b'},
            {'document': 'a', 'holders': 'c'},
            {'document': 'a', 'cells': 'c'},
            {'document': 'ac'},
        ]

        found = {
            publication.Publication(host='host', **one).digest for one in texts
        }

        self.assertEqual(len(texts), len(found))
