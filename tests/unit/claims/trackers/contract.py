# SPDX-License-Identifier: Apache-2.0

"""What every tracker must do, whatever it counts.

The test class of a tracker inherits ``TrackerContract`` and says how a
fresh state is made. Nothing here knows what the units are.
"""

import abc
from collections.abc import Mapping
import dataclasses
import json
import re
from typing import Any, TypeAlias

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.claims import base as plugin_base
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_view
from tests import base
from tests.unit import builders
from tests.unit import strategies

#: (amount, units) of one server.
Held: TypeAlias = tuple[int, Mapping[str, Any]]

Steps: TypeAlias = list[tuple[bool, int]]


class TrackerContract(base.TestCase):
    """Inherit, and give ``tracker``, ``fresh`` and the two methods."""

    tracker: plugin_base.Tracker

    #: Strategy of states in which nothing is taken.
    fresh: st.SearchStrategy[Any]

    @abc.abstractmethod
    def make_inventory(self, fresh: Any) -> class_inventory.Inventory:
        """Return the inventory of which ``fresh`` is the initial state."""

    @abc.abstractmethod
    def report(self, state: Any) -> dict[str, Any]:
        """Return the facts that an inventory provider would report now."""

    def play(self, state: Any, steps: Steps) -> tuple[Any, list[Held]]:
        """Let servers come and go; what does not fit is turned away."""
        held: list[Held] = []
        for is_arrival, number in steps:
            if is_arrival and self.tracker.fits(state, number):
                state, units = self.tracker.allocate(state, number)
                held.append((number, units))
            elif not is_arrival and held:
                amount, units = held.pop(number % len(held))
                state = self.tracker.free(state, amount, units)
            self.check(state, held)
        return state, held

    def check(self, state: host_view.TrackerState, held: list[Held]) -> None:
        """Assert what holds after every step; trackers add to it."""
        self.assertEqual(sum(amount for amount, _units in held), state.used)
        self.assertLessEqual(state.available, state.free)

    @hypothesis.given(
        data=st.data(), steps=strategies.steps, amount=strategies.amounts
    )
    def test_it_fits_exactly_when_it_can_be_taken(
        self, data: st.DataObject, steps: Steps, amount: int
    ) -> None:
        state, _held = self.play(data.draw(self.fresh), steps)

        try:
            self.tracker.allocate(state, amount)
        except ValueError:
            was_taken = False
        else:
            was_taken = True

        self.assertEqual(was_taken, self.tracker.fits(state, amount))

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_available_is_the_largest_amount_that_fits(
        self, data: st.DataObject, steps: Steps
    ) -> None:
        state, _held = self.play(data.draw(self.fresh), steps)

        self.assertEqual(
            state.available > 0, self.tracker.fits(state, state.available)
        )
        self.assertFalse(self.tracker.fits(state, state.available + 1))

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_giving_back_makes_the_very_state_from_before(
        self, data: st.DataObject, steps: Steps
    ) -> None:
        before, _held = self.play(data.draw(self.fresh), steps)
        amount = self.draw_amount(data, before)

        state, units = self.tracker.allocate(before, amount)

        self.assertNotEqual(before, state)
        self.assertEqual(before, self.tracker.free(state, amount, units))

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_what_fits_into_joined_states_fits_into_each(
        self, data: st.DataObject, steps: Steps
    ) -> None:
        fresh = data.draw(self.fresh)
        states = [
            self.play(fresh, steps[:number])[0]
            for number in range(len(steps) + 1)
        ]

        joined = self.tracker.join(states)

        self.assertLessEqual(
            joined.available, min(one.available for one in states)
        )
        for amount in range(1, min(joined.available, 12) + 1):
            _joined, units = self.tracker.allocate(joined, amount)
            for one in states:
                after, _units = self.tracker.allocate(one, amount, units)
                self.assertEqual(one.free - amount, after.free)
                self.assertEqual(one, self.tracker.free(after, amount, units))

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_one_state_joined_is_itself(
        self, data: st.DataObject, steps: Steps
    ) -> None:
        state, _held = self.play(data.draw(self.fresh), steps)

        self.assertEqual(state, self.tracker.join([state]))

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_all_given_back_in_any_order_is_fresh_again(
        self, data: st.DataObject, steps: Steps
    ) -> None:
        fresh = data.draw(self.fresh)
        state, held = self.play(fresh, steps)

        for amount, units in data.draw(st.permutations(held)):
            state = self.tracker.free(state, amount, units)

        self.assertEqual(fresh, state)

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_what_was_taken_is_no_longer_free(
        self, data: st.DataObject, steps: Steps
    ) -> None:
        fresh = data.draw(self.fresh)

        state, _held = self.play(fresh, steps)

        self.assertEqual(fresh.free, state.free + state.used)

    @hypothesis.given(data=st.data(), amount=st.integers(max_value=0))
    def test_an_amount_below_one_never_fits(
        self, data: st.DataObject, amount: int
    ) -> None:
        self.assertFalse(self.tracker.fits(data.draw(self.fresh), amount))

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_a_state_survives_its_json(
        self, data: st.DataObject, steps: Steps
    ) -> None:
        state, _held = self.play(data.draw(self.fresh), steps)

        text = json.dumps(state.to_dict())

        self.assertEqual(state, self.tracker.from_dict(json.loads(text)))

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_units_survive_the_json_of_the_ledger(
        self, data: st.DataObject, steps: Steps
    ) -> None:
        _state, held = self.play(data.draw(self.fresh), steps)

        for _amount, units in held:
            self.assertEqual(dict(units), json.loads(json.dumps(dict(units))))

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_units_that_need_no_enforcer_have_known_keys(
        self, data: st.DataObject, steps: Steps
    ) -> None:
        _state, held = self.play(data.draw(self.fresh), steps)

        if not self.tracker.NEEDS_ENFORCER:
            for _amount, units in held:
                self.assertLessEqual(units.keys(), self.tracker.UNITS)

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_a_restart_finds_the_state_in_ledger_and_report(
        self, data: st.DataObject, steps: Steps
    ) -> None:
        fresh = data.draw(self.fresh)
        state, held = self.play(fresh, steps)

        again = self.restart(self.make_inventory(fresh), state, held)

        self.assertEqual(state, again)

    @hypothesis.given(data=st.data(), steps=strategies.steps)
    def test_what_servers_hold_is_not_reserved(
        self, data: st.DataObject, steps: Steps
    ) -> None:
        fresh = data.draw(self.fresh)
        given = self.make_inventory(fresh)
        before = self.tracker.observe(given, self.report(fresh), ())
        state, held = self.play(fresh, steps)

        after = self.tracker.observe(
            given, self.report(state), self.make_assignments(held)
        )

        self.assertEqual(before, after)

    @hypothesis.given(data=st.data())
    def test_what_others_use_is_reserved(self, data: st.DataObject) -> None:
        fresh = data.draw(self.fresh)
        amount = self.draw_amount(data, fresh)
        given = self.make_inventory(fresh)
        before = self.tracker.observe(given, self.report(fresh), ())
        foreign, _units = self.tracker.allocate(fresh, amount)

        after = self.tracker.observe(given, self.report(foreign), ())

        self.assertEqual(before.capacity - amount, after.capacity)

    def test_a_state_that_is_something_else_is_refused(self) -> None:
        others: tuple[dict[str, Any], ...] = (
            {},
            {'x': 1},
            {'c': None, 'w': None},
            {'c': [], 'w': []},
        )
        for data in others:
            with self.subTest(data=data):
                self.assertRaises(
                    (KeyError, TypeError, ValueError),
                    self.tracker.from_dict,
                    data,
                )

    @hypothesis.given(data=st.data())
    def test_a_state_cannot_be_changed(self, data: st.DataObject) -> None:
        state = data.draw(self.fresh)

        self.assertIsInstance(state, self.tracker.STATE)
        for field in dataclasses.fields(state):
            self.assertRaises(
                dataclasses.FrozenInstanceError,
                setattr,
                state,
                field.name,
                getattr(state, field.name),
            )

    @hypothesis.given(data=st.data())
    def test_it_says_whether_it_needs_facts(self, data: st.DataObject) -> None:
        fresh = data.draw(self.fresh)
        given = self.make_inventory(fresh)

        try:
            observed = self.tracker.observe(given, {}, ())
            self.tracker.initial(observed, {})
        except KeyError:
            needs_facts = True
        else:
            needs_facts = False

        self.assertEqual(needs_facts, self.tracker.NEEDS_FACTS)

    def test_each_attribute_has_a_pattern_of_its_values(self) -> None:
        for attribute, pattern in self.tracker.ATTRIBUTES.items():
            self.assertRegex(attribute, '^[a-z][a-z_]*$')
            self.assertIsNone(re.fullmatch(pattern, ''))

    def test_no_attributes_add_no_units(self) -> None:
        self.assertEqual({}, self.tracker.read_attributes(1, {}))

    def test_refuses_an_attribute_that_it_does_not_have(self) -> None:
        error = self.assertRaises(
            ValueError, self.tracker.read_attributes, 1, {'colour': 'red'}
        )

        self.assertIn('no attribute colour', str(error))

    def draw_amount(
        self, data: st.DataObject, state: host_view.TrackerState
    ) -> int:
        """Choose an amount that fits."""
        hypothesis.assume(state.available)
        return data.draw(st.integers(min_value=1, max_value=state.available))

    def make_assignments(
        self, held: list[Held]
    ) -> tuple[assignment.Assignment, ...]:
        return tuple(
            builders.make_assignment(amount=amount, units=units)
            for amount, units in held
        )

    def restart(
        self, given: class_inventory.Inventory, state: Any, held: list[Held]
    ) -> host_view.TrackerState:
        """Make the state anew, as a host does that has just started."""
        report = self.report(state)
        observed = self.tracker.observe(
            given, report, self.make_assignments(held)
        )
        again = self.tracker.initial(observed, report)
        for amount, units in held:
            self.assertTrue(self.tracker.can_parse(units))
            again, booked = self.tracker.allocate(again, amount, units)
            self.assertEqual(units, booked)
        return again
