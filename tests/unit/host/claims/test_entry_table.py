# SPDX-License-Identifier: Apache-2.0

import pathlib

from nova_ext_resources import exception
from nova_ext_resources.host.claims import entry_table
from nova_ext_resources.objects import assignment
from tests import base
from tests.explore import drawing
from tests.unit import builders

State = assignment.State
Event = entry_table.EntryEvent

PAGE = pathlib.Path(__file__).parents[4] / 'doc/source/contributor/entries.rst'


class EntryTableTest(base.TestCase):
    def test_an_event_leads_to_a_state_and_a_purpose(self) -> None:
        parked = entry_table.advance(
            builders.make_entry('server'), Event.PARK, consumer_uuid='move'
        )

        self.assertEqual(
            ('move', State.PARKED, assignment.Purpose.MIGRATION_SOURCE),
            (parked.consumer_uuid, parked.state, parked.purpose),
        )

    def test_what_is_not_in_the_table_is_refused(self) -> None:
        err = self.assertRaises(
            exception.EntryStepRefused,
            entry_table.advance,
            builders.make_entry('server'),
            Event.UNPARK,
        )

        for word in ('server', 'applied', 'own', 'unpark'):
            self.assertIn(f'{word}', str(err))

    def test_nothing_is_released_that_is_not_there(self) -> None:
        err = self.assertRaises(
            exception.EntryStepRefused,
            entry_table.find_step,
            None,
            Event.RELEASE,
        )

        self.assertIn('absent', str(err))

    def test_what_is_being_released_can_be_released_or_kept_only(self) -> None:
        events = {
            event
            for state, _purpose, event in entry_table.ENTRY_TABLE
            if state is State.RELEASING
        }

        self.assertEqual({Event.RELEASE, Event.FINISH, Event.KEEP}, events)

    def test_the_page_has_the_table(self) -> None:
        self.assertIn(drawing.draw(), PAGE.read_text())
