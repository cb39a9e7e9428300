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

from nova_ext_resources import books
from nova_ext_resources import discovery
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from tests import base
from tests.unit import builders
from tests.unit import test_hostview
from tests.unit import with_host

WAYS = builders.WAYS
SEATS = builders.SEATS
CACHE_UUID = test_hostview.CACHE_UUID

#: It looks as if other software uses four ways.
FOUND = discovery.Found(providers=(test_hostview.RDT, test_hostview.CACHE))

#: Has two of the four.
APPLIED = test_hostview.make_entry('a', 0b1100)
CLAIMED = dataclasses.replace(APPLIED, state=assignment.State.CLAIMED)


class BooksTestCase(base.TestCase):
    def make_books(self, *entries: assignment.Entry) -> books.Books:
        return books.Books(
            host='host1',
            node=with_host.NODE,
            trackers=test_hostview.TRACKERS,
            entries={one.consumer_uuid: one for one in entries},
            found=discovery.Found(),
            resource_classes=frozenset({WAYS, builders.CLOS}),
        )

    def claim(
        self,
        made: books.Books,
        resource_class: str = SEATS,
        *,
        allocated: str = CACHE_UUID,
        published: frozenset[str] = frozenset(),
    ) -> assignment.Entry:
        request = builders.make_request(
            {allocated: {resource_class: 1}}, asked={resource_class: 1}
        )
        return made.take(
            request, tests=with_host.load_pure()[1], published=published
        )


class RebuildTest(BooksTestCase):
    def count_foreign(self, made: books.Books) -> int:
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
            ('changed', {'a': test_hostview.make_entry('a', 0b11000)}),
        ):
            with self.subTest(what):
                made = self.make_books(APPLIED)

                made.rebuild(FOUND, before, may_refuse=False)

                self.assertEqual(4, self.count_foreign(made))

    def test_what_is_only_claimed_hides_no_use_of_others(self) -> None:
        made = self.make_books(CLAIMED)

        made.rebuild(FOUND, {'a': CLAIMED}, may_refuse=False)

        self.assertEqual(4, self.count_foreign(made))

    def test_a_look_at_a_host_that_changed_meanwhile_is_refused(self) -> None:
        made = self.make_books(APPLIED)
        before = made.view

        is_made = made.rebuild(FOUND, {'a': CLAIMED}, may_refuse=True)

        self.assertFalse(is_made)
        self.assertIs(before, made.view)
        self.assertEqual(discovery.Found(), made.found)

    def test_a_look_at_a_host_that_did_not_change_is_believed(self) -> None:
        made = self.make_books(APPLIED)

        self.assertTrue(made.rebuild(FOUND, made.entries, may_refuse=True))
        self.assertIs(FOUND, made.found)

    def test_units_that_two_servers_have_are_counted_twice(self) -> None:
        both = [test_hostview.make_entry(uuid, 0x30) for uuid in ('a', 'b')]
        made = self.make_books(*both)

        made.rebuild(FOUND, made.entries, may_refuse=False)

        booked = {
            int(mask, 16) for mask in test_hostview.masks(made.booked).values()
        }
        self.assertEqual(2, len(booked))
        self.assertEqual(sum(booked), int(test_hostview.taken(made.view), 16))
        made.rebook(drop=('a', 'b'))
        self.assertEqual('0', test_hostview.taken(made.view))

    def test_units_on_paper_are_forgotten_when_all_is_as_it_should_be(
        self,
    ) -> None:
        both = [test_hostview.make_entry(uuid, 0x30) for uuid in ('a', 'b')]
        made = self.make_books(*both)
        made.rebuild(FOUND, made.entries, may_refuse=False)

        made.rebook(put=test_hostview.make_entry('b', 0xC0))
        made.rebuild(FOUND, made.entries, may_refuse=False)

        self.assertEqual(made.entries, made.booked)


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

        self.assertIn('does not offer it any more', str(err))
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
