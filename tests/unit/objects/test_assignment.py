# SPDX-License-Identifier: Apache-2.0

"""Tests of what a server brings to a host and holds there."""

import dataclasses
import datetime

from nova_ext_resources.objects import assignment
from tests import base
from tests.unit import builders


class TestState(base.TestCase):
    def test_a_state_is_read_from_the_text_in_the_ledger(self) -> None:
        for text in ('claimed', 'applied', 'releasing'):
            with self.subTest(text=text):
                self.assertEqual(text, str(assignment.State(text)))

    def test_an_unknown_state_is_refused(self) -> None:
        self.assertRaises(ValueError, assignment.State, 'lost')


class TestEntry(base.TestCase):
    def test_an_entry_begins_as_claimed(self) -> None:
        made = assignment.Entry(consumer_uuid='c', assignments=())

        self.assertIs(assignment.State.CLAIMED, made.state)

    def test_a_consumer_is_its_server_unless_it_is_a_move(self) -> None:
        plain = assignment.Entry(consumer_uuid='c', assignments=())
        moved = dataclasses.replace(plain, consumer_uuid='migration')

        self.assertEqual('c', plain.server_uuid)
        self.assertEqual('c', moved.server_uuid)

    def test_the_entry_of_a_claim_has_all_of_its_request(self) -> None:
        request = dataclasses.replace(
            builders.make_request(), project_id='p1', flavor='gold'
        )
        held = (builders.make_assignment(),)
        at = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)

        made = request.make_entry(held, at)

        self.assertEqual((held, at), (made.assignments, made.claimed_at))
        for name in ('consumer_uuid', 'server_uuid', 'project_id', 'flavor'):
            self.assertEqual(getattr(request, name), getattr(made, name))
        self.assertEqual(request.cpus, made.cpus)
        self.assertEqual(request.requirement.enforcers, made.enforcers)

    def test_an_entry_cannot_be_changed(self) -> None:
        made = assignment.Entry(consumer_uuid='c', assignments=())

        self.assertRaises(
            dataclasses.FrozenInstanceError, setattr, made, 'state', 'applied'
        )


class TestAssignment(base.TestCase):
    def test_what_placement_allocated_is_the_usual_case(self) -> None:
        self.assertTrue(builders.make_assignment().is_allocated)

    def test_a_server_that_is_not_pinned_has_no_cpus(self) -> None:
        self.assertIsNone(builders.make_request(cpus=None).cpus)
