# SPDX-License-Identifier: Apache-2.0

"""Tests of the inventory record."""

from typing import Any

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from tests import base
from tests.unit import strategies


class TestInventory(base.TestCase):
    def test_the_whole_total_may_be_asked_for_unless_told(self) -> None:
        self.assertEqual(7, class_inventory.Inventory(total=7).max_unit)

    def test_reserved_units_are_not_capacity(self) -> None:
        self.assertEqual(
            7, class_inventory.Inventory(total=10, reserved=3).capacity
        )

    def test_the_allocation_ratio_stretches_what_is_not_reserved(self) -> None:
        made = class_inventory.Inventory(
            total=10, reserved=3, allocation_ratio=1.5
        )

        self.assertEqual(10, made.capacity)

    @hypothesis.given(made=strategies.inventories())
    def test_the_capacity_is_what_placement_computes(
        self, made: class_inventory.Inventory
    ) -> None:
        placements = int((made.total - made.reserved) * made.allocation_ratio)

        self.assertEqual(placements, made.capacity)

    @hypothesis.given(made=strategies.inventories())
    def test_an_inventory_survives_the_round_trip(
        self, made: class_inventory.Inventory
    ) -> None:
        self.assertEqual(
            made, class_inventory.Inventory.from_dict(made.to_dict())
        )

    def test_the_generation_that_placement_adds_is_passed_over(self) -> None:
        data = {'total': 4, 'resource_provider_generation': 9}

        self.assertEqual(
            class_inventory.Inventory(total=4),
            class_inventory.Inventory.from_dict(data),
        )

    def test_the_dict_is_what_placement_takes(self) -> None:
        self.assertEqual(
            {
                'total': 8,
                'reserved': 2,
                'min_unit': 1,
                'max_unit': 8,
                'step_size': 1,
                'allocation_ratio': 1.0,
            },
            class_inventory.Inventory(total=8, reserved=2).to_dict(),
        )


class TestBounds(base.TestCase):
    def assert_refused(self, word: str, **fields: Any) -> None:
        with self.subTest(**fields):
            error = self.assertRaises(
                exception.InvalidResource, class_inventory.Inventory, **fields
            )
            self.assertIn(word, str(error))

    def test_a_number_out_of_bounds_is_refused_by_name(self) -> None:
        for field, values in {
            'total': (0, -1, class_inventory.MAX_INT + 1),
            'reserved': (-1, class_inventory.MAX_INT + 1),
            'min_unit': (0, -1, class_inventory.MAX_INT + 1),
            'max_unit': (-1, class_inventory.MAX_INT + 1),
            'step_size': (0, -1, class_inventory.MAX_INT + 1),
            'allocation_ratio': (0, -1.0, 10001, float('nan'), float('inf')),
        }.items():
            for value in values:
                self.assert_refused(field, **{'total': 8, field: value})

    def test_what_is_no_number_is_refused_by_name(self) -> None:
        for field in (
            'total',
            'reserved',
            'min_unit',
            'max_unit',
            'step_size',
            'allocation_ratio',
        ):
            for value in ('4', True, [4], {'n': 4}):
                self.assert_refused(field, **{'total': 8, field: value})

    def test_a_fraction_of_a_unit_is_refused(self) -> None:
        self.assert_refused('total', total=4.0)

    def test_no_value_is_refused(self) -> None:
        self.assert_refused('total', total=None)
        self.assert_refused('allocation_ratio', total=8, allocation_ratio=None)

    def test_more_reserved_than_there_is_is_refused(self) -> None:
        self.assert_refused('more than the total', total=4, reserved=5)

    def test_all_of_it_may_be_reserved(self) -> None:
        self.assertEqual(
            0, class_inventory.Inventory(total=4, reserved=4).capacity
        )

    def test_a_smallest_amount_above_the_largest_is_refused(self) -> None:
        self.assert_refused('max_unit', total=8, min_unit=5, max_unit=4)

    def test_an_inventory_without_total_is_refused(self) -> None:
        error = self.assertRaises(
            exception.InvalidResource, class_inventory.Inventory.from_dict, {}
        )
        self.assertIn('total', str(error))


class TestFindUnitError(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.inventory = class_inventory.Inventory(
            total=20, min_unit=2, max_unit=12, step_size=4
        )

    def test_an_amount_that_keeps_the_units_has_no_error(self) -> None:
        for amount in (4, 8, 12):
            self.assertIsNone(self.inventory.find_unit_error(amount))

    def test_each_broken_rule_is_named(self) -> None:
        for amount, word in (
            (1, 'at least 2'),
            (16, 'at most 12'),
            (6, 'multiple of 4'),
        ):
            with self.subTest(amount=amount):
                error = self.inventory.find_unit_error(amount)
                self.assertIn(word, error or '')

    @hypothesis.given(
        made=strategies.inventories(),
        amount=st.integers(
            min_value=-5, max_value=class_inventory.MAX_INT + 5
        ),
    )
    @hypothesis.example(
        made=class_inventory.Inventory(total=1, max_unit=2), amount=2
    )
    def test_the_rule_is_placements(
        self, made: class_inventory.Inventory, amount: int
    ) -> None:
        # As placement.objects.allocation checks before it allocates.
        refused = (
            amount < made.min_unit
            or amount > made.max_unit
            or amount % made.step_size != 0
            # Without what others have, or what is reserved.
            or amount > made.total * made.allocation_ratio
        )

        self.assertEqual(refused, made.find_unit_error(amount) is not None)
