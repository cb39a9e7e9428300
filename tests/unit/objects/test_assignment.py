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

"""Tests of what a server brings to a host and holds there."""

import dataclasses

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
