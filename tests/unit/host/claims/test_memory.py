# SPDX-License-Identifier: Apache-2.0

import dataclasses
import random

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources import exception
from nova_ext_resources.host.claims import memory
from nova_ext_resources.host.inventory import discovery
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from tests import base
from tests.unit import builders
from tests.unit.host.inventory import test_view
from tests.unit.host import with_host
from tests.unit import strategies

WAYS = builders.WAYS
SEATS = builders.SEATS
CACHE_UUID = test_view.CACHE_UUID

#: It looks as if other software uses four ways.
FOUND = discovery.DiscoveredResources(
    providers=(test_view.RDT, test_view.CACHE)
)

#: Has two of the four.
APPLIED = test_view.make_entry('a', 0b1100)
CLAIMED = dataclasses.replace(APPLIED, state=assignment.State.CLAIMED)


class BooksTestCase(base.TestCase):
    def make_books(self, *entries: assignment.Entry) -> memory.StateMemory:
        return memory.StateMemory(
            host='host1',
            node=with_host.NODE,
            trackers=test_view.TRACKERS,
            entries={one.consumer_uuid: one for one in entries},
            found=discovery.DiscoveredResources(),
            resource_classes=frozenset({WAYS, builders.CLOS}),
        )

    def claim(
        self,
        made: memory.StateMemory,
        resource_class: str = SEATS,
        *,
        allocated: str = CACHE_UUID,
        published: frozenset[str] = frozenset(),
    ) -> assignment.Entry:
        request = builders.make_request(
            {allocated: {resource_class: 1}}, asked={resource_class: 1}
        )
        return made.allocate(
            request, tests=with_host.load_pure()[1], published=published
        )


class RebuildTest(BooksTestCase):
    def count_foreign(self, made: memory.StateMemory) -> int:
        inventory = made.view.tracked[CACHE_UUID, WAYS].inventory
        assert inventory is not None
        return inventory.reserved

    def test_what_was_in_force_all_the_time_is_no_use_of_others(self) -> None:
        made = self.make_books(APPLIED)

        made.rebuild(FOUND, {'a': APPLIED}, may_refuse=False)

        self.assertEqual(2, self.count_foreign(made))

    def test_what_came_into_force_meanwhile_hides_no_use_of_others(
        self,
    ) -> None:
        for what, before in (
            ('claimed', {}),
            ('applied', {'a': CLAIMED}),
            ('changed', {'a': test_view.make_entry('a', 0b11000)}),
        ):
            with self.subTest(what):
                made = self.make_books(APPLIED)

                made.rebuild(FOUND, before, may_refuse=False)

                self.assertEqual(4, self.count_foreign(made))

    def test_what_is_not_applied_hides_no_use_of_others(self) -> None:
        held = dataclasses.replace(CLAIMED, state=assignment.State.PARKED)
        for entry in (CLAIMED, held):
            made = self.make_books(entry)

            made.rebuild(FOUND, {'a': entry}, may_refuse=False)

            self.assertEqual(4, self.count_foreign(made))

    def test_a_look_at_a_host_that_changed_meanwhile_is_refused(self) -> None:
        made = self.make_books(APPLIED)
        before = made.view

        is_made = made.rebuild(FOUND, {'a': CLAIMED}, may_refuse=True)

        self.assertFalse(is_made)
        self.assertIs(before, made.view)
        self.assertEqual(discovery.DiscoveredResources(), made.found)

    def test_a_look_at_a_host_that_did_not_change_is_believed(self) -> None:
        made = self.make_books(APPLIED)

        self.assertTrue(made.rebuild(FOUND, made.entries, may_refuse=True))
        self.assertIs(FOUND, made.found)

    def test_units_that_two_servers_have_are_counted_twice(self) -> None:
        both = [test_view.make_entry(uuid, 0x30) for uuid in ('a', 'b')]
        made = self.make_books(*both)

        made.rebuild(FOUND, made.entries, may_refuse=False)

        self.assertEqual(
            2 * APPLIED.assignments[0].amount,
            int(test_view.taken(made.view), 16).bit_count(),
        )
        made.drop(('a', 'b'))
        self.assertEqual('0', test_view.taken(made.view))

    def test_units_are_counted_as_they_are_when_nobody_shares_them(
        self,
    ) -> None:
        both = [test_view.make_entry(uuid, 0x30) for uuid in ('a', 'b')]
        made = self.make_books(*both)
        made.rebuild(FOUND, made.entries, may_refuse=False)

        made.put(test_view.make_entry('b', 0xC0))

        self.assertEqual('f0', test_view.taken(made.view))
        made.rebuild(FOUND, made.entries, may_refuse=False)
        self.assertEqual('f0', test_view.taken(made.view))

    def test_who_was_applied_last_is_the_most_certain(self) -> None:
        made = self.make_books(test_view.make_entry('a', 0x30))
        made.rebuild(FOUND, made.entries, may_refuse=False)

        made.put(test_view.make_entry('b', 0x60))

        # Two of the ways from 4 to 10 that are free stand for those of a.
        self.assertEqual('660', test_view.taken(made.view))

    def test_many_go_at_once(self) -> None:
        made = self.make_books(
            *(test_view.make_entry(f'{n}', 0x10 << n) for n in range(5))
        )
        made.rebuild(FOUND, made.entries, may_refuse=False)

        made.drop({'0', '2', '4', 'unknown'})

        self.assertEqual({'1': '20', '3': '80'}, test_view.masks(made.entries))
        self.assertEqual('a0', test_view.taken(made.view))

    @hypothesis.settings(max_examples=strategies.EXAMPLES)
    @hypothesis.given(st.randoms(use_true_random=False))
    def test_whoever_comes_and_goes_nothing_is_counted_twice(
        self, chance: random.Random
    ) -> None:
        """A host that applies other ways than were claimed, at random."""
        real: dict[str, int] = {}

        def discover() -> discovery.DiscoveredResources:
            """See everything that is applied as used."""
            free = {'free': f'{0x7F0 & ~sum(real.values()):x}'}
            cache = dataclasses.replace(test_view.CACHE, units={WAYS: free})
            return dataclasses.replace(
                FOUND, providers=(test_view.WIDE, cache)
            )

        made = self.make_books()
        made.rebuild(discover(), {}, may_refuse=False)
        for step in range(12):
            free = 0x7F0 & ~sum(real.values())
            runs = [
                bitmask.make_run(low, 2)
                for low in range(4, 10)
                if bitmask.make_run(low, 2) & free == bitmask.make_run(low, 2)
            ]
            waiting = sorted(made.entries.keys() - real.keys())
            act = chance.choice(('claim', 'apply', 'release', 'rebuild'))
            state_now = made.view.tracked[CACHE_UUID, WAYS].state
            if act == 'claim' and state_now.available >= 2:
                request = dataclasses.replace(
                    builders.make_request({CACHE_UUID: {WAYS: 2}}),
                    consumer_uuid=f'server-{step}',
                )
                made.allocate(request, tests=(), published=())
            elif act == 'apply' and waiting and runs:
                uuid = chance.choice(waiting)
                real[uuid] = chance.choice(runs)
                made.put(test_view.make_entry(uuid, real[uuid]))
            elif act == 'release' and made.entries:
                uuid = chance.choice(sorted(made.entries))
                real.pop(uuid, None)
                made.drop([uuid])
            elif act == 'rebuild':
                made.rebuild(discover(), made.entries, may_refuse=False)
            self.check(made, real)

    def check(self, made: memory.StateMemory, real: dict[str, int]) -> None:
        ways = made.view.tracked[CACHE_UUID, WAYS].state
        # Ways that two have are counted for one only where no run is free.
        assert ways.used == 2 * len(made.entries) or ways.available < 2
        assert ways.used <= 2 * len(made.entries)
        mask = int(str(ways.to_dict()['t']), 16)
        for uuid, own in real.items():
            assert mask & own == own, uuid
        assert int(str(ways.to_dict()['w']), 16) == 0x7F0
        clos = made.view.tracked[test_view.RDT_UUID, builders.CLOS].state
        assert clos.used == len(made.entries)


class TakeTest(BooksTestCase):
    def test_what_a_plugin_found_and_defines_no_more_is_asked_of_us(
        self,
    ) -> None:
        seats = builders.make_host_provider()
        for what, found in (
            ('found', dataclasses.replace(FOUND, providers=(seats,))),
            (
                'left out',
                dataclasses.replace(FOUND, left_out=frozenset({SEATS})),
            ),
        ):
            made = self.make_books()
            made.rebuild(found, {}, may_refuse=False)
            with self.subTest(what):
                err = self.assertRaises(
                    exception.CapacityExceeded, self.claim, made
                )

                (short,) = err.shortfalls
                self.assertEqual(
                    (SEATS, 1), (short.resource_class, short.requested)
                )

    def test_what_this_host_published_once_and_lost_is_not_booted_without(
        self,
    ) -> None:
        # The provider is there, but nobody knows the class any more.
        made = self.make_books()
        made.rebuild(FOUND, {}, may_refuse=False)

        err = self.assertRaises(
            exception.CapacityExceeded,
            self.claim,
            made,
            published=frozenset({CACHE_UUID}),
        )

        self.assertIn('no longer offers this resource', str(err))
        self.assertEqual({}, made.entries)

    def test_what_others_publish_is_none_of_our_business(self) -> None:
        made = self.make_books()
        made.rebuild(FOUND, {}, may_refuse=False)

        entry = self.claim(
            made,
            allocated=builders.POOL,
            published=frozenset({CACHE_UUID}),
        )

        self.assertEqual((), entry.assignments)
