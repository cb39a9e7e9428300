# SPDX-License-Identifier: Apache-2.0

"""Tests of the tracker of devices with names."""

from typing import Any

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.claims.trackers import device
from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_view
from tests import base
from tests.unit import builders
from tests.unit.claims.trackers import contract

NAMES = tuple(f'0000:3b:02.{number}' for number in range(8))
A, B, C, D = NAMES[:4]


def make_state(*names: str, **fields: Any) -> device.DeviceState:
    given = {name: frozenset(some) for name, some in fields.items()}
    return device.DeviceState(frozenset(names), **given)


class TestDeviceTracker(contract.TrackerContract):
    tracker = device.DeviceTracker()
    fresh = st.builds(
        device.DeviceState,
        st.frozensets(st.sampled_from(NAMES), min_size=1),
    )

    def make_inventory(self, fresh: Any) -> class_inventory.Inventory:
        return builders.make_inventory(len(fresh.names))

    def report(self, state: Any) -> dict[str, Any]:
        # A device that a server has looks used.
        return {
            'names': sorted(state.names),
            'foreign': sorted(state.foreign | state.taken),
        }

    def check(
        self, state: host_view.TrackerState, held: list[contract.Held]
    ) -> None:
        super().check(state, held)
        names = [name for _amount, units in held for name in units['names']]
        self.assertEqual(len(names), len(set(names)))
        for amount, units in held:
            self.assertEqual(amount, len(units['names']))
            self.assertEqual(sorted(units['names']), units['names'])


class TestNames(base.TestCase):
    tracker = device.DeviceTracker()

    def test_the_lowest_names_go_first(self) -> None:
        state = make_state(C, A, D, B, taken=[A])

        after, units = self.tracker.allocate(state, 2)

        self.assertEqual({'names': [B, C]}, units)
        self.assertEqual(frozenset({A, B, C}), after.taken)

    def test_the_refusal_says_how_many_are_free(self) -> None:
        error = self.assertRaises(
            ValueError, self.tracker.allocate, make_state(A, B, foreign=[B]), 2
        )

        self.assertIn('2 devices, 1', str(error))

    def test_one_that_is_gone_is_not_free_when_it_is_given_back(self) -> None:
        state, units = self.tracker.allocate(make_state(A), 1, {'names': [B]})
        self.assertEqual((1, 1), (state.used, state.free))

        self.assertEqual({B}, self.tracker.find_lost(state, units))
        self.assertEqual(make_state(A), self.tracker.free(state, 1, units))

    def test_one_that_is_gone_survives_the_json(self) -> None:
        state = make_state(A, C, foreign=[C], taken=[B])

        self.assertEqual(state, self.tracker.from_dict(state.to_dict()))

    def test_what_is_there_is_not_lost(self) -> None:
        state = make_state(A, B, foreign=[A], taken=[B])

        self.assertEqual(
            set(), self.tracker.find_lost(state, {'names': [A, B]})
        )

    def test_the_inventory_never_falls_below_what_is_held(self) -> None:
        held = [
            builders.make_assignment(amount=1, units={'names': [one]})
            for one in (A, B)
        ]

        after = self.tracker.observe(
            builders.make_inventory(2), {'names': [B, C]}, held
        )

        # A is gone and held, B is held, C is free.
        self.assertEqual(
            (3, 0, 3), (after.total, after.reserved, after.capacity)
        )

    def test_one_that_is_withheld_is_reserved_and_never_free(self) -> None:
        facts = self.tracker.withhold({'names': [A, B]}, {A, D})
        given = builders.make_inventory(2)

        after = self.tracker.observe(given, facts, ())
        state = self.tracker.initial(after, facts)

        self.assertEqual((2, 1), (after.total, after.reserved))
        self.assertEqual(make_state(B), state)
        # Not even after a server that had it has left.
        state, units = self.tracker.allocate(state, 1, {'names': [A]})
        self.assertEqual(make_state(B), self.tracker.free(state, 1, units))

    def test_one_that_is_withheld_and_held_is_not_reserved(self) -> None:
        facts = self.tracker.withhold({'names': [A, B]}, {A})
        held = [builders.make_assignment(amount=1, units={'names': [A]})]

        after = self.tracker.observe(builders.make_inventory(2), facts, held)

        self.assertEqual((2, 0), (after.total, after.reserved))

    @hypothesis.given(
        names=st.lists(
            st.frozensets(st.sampled_from(NAMES)), min_size=1, max_size=3
        )
    )
    def test_no_device_is_free_later_that_is_not_free_throughout(
        self, names: list[frozenset[str]]
    ) -> None:
        joined = self.tracker.join([device.DeviceState(n) for n in names])

        self.assertEqual(frozenset.intersection(*names), joined.left)

    def test_what_is_no_name_is_refused(self) -> None:
        for names in (
            [''],
            ['a b'],
            ['../x'],
            ['a\n'],
            ['\x1b[31m'],
            ['\udcff'],
            ['x' * 65],
            [7],
            [A, A],
            A,
            None,
        ):
            with self.subTest(names=names):
                self.assertRaises(
                    (TypeError, ValueError),
                    self.tracker.initial,
                    builders.make_inventory(1),
                    {'names': names},
                )
                self.assertFalse(self.tracker.can_parse({'names': names}))

    def test_a_published_state_of_other_names_is_refused(self) -> None:
        good = dict(make_state(A, taken=[B]).to_dict())
        for key, value in (('n', 7), ('t', '7'), ('f', 'zz'), ('g', None)):
            with self.subTest(key=key):
                self.assertRaises(
                    (TypeError, ValueError),
                    self.tracker.from_dict,
                    {**good, key: value},
                )

    def test_a_device_has_one_owner(self) -> None:
        given = builders.make_inventory(2, allocation_ratio=2.0)

        self.assertRaises(
            exception.InvalidResource,
            self.tracker.initial,
            given,
            {'names': [A]},
        )

    def test_it_neither_needs_an_enforcer_nor_serves_some_cpus_only(
        self,
    ) -> None:
        self.assertFalse(self.tracker.NEEDS_ENFORCER)
        self.assertFalse(self.tracker.IS_CPU_LOCAL)
