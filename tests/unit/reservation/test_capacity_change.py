# SPDX-License-Identifier: Apache-2.0

"""Tests of planned changes of capacity."""

from typing import Any

from nova_ext_resources.reservation import capacity_change
from tests import base
from tests.unit.reservation import changes
from tests.unit.reservation.hosts import span


class CapacityChangeTest(base.TestCase):
    def list_deltas(
        self, amount: int, capacity: int, now: int, during: Any = None
    ) -> list[tuple[int, int, int]]:
        change = changes.make_change(
            'x', during or span(10, 20), {'VCPU': amount}
        )
        found = change.list_deltas('VCPU', capacity, now)
        return [(one.start, one.end, delta) for one, delta in found]

    def test_less_counts_in_full_until_it_is_over(self) -> None:
        for capacity in (4, 8, 12):
            for now in (0, 10, 19):
                self.assertEqual(
                    [(10, 20, -4)], self.list_deltas(-4, capacity, now)
                )
        self.assertEqual([], self.list_deltas(-4, 8, 20))

    def test_more_counts_as_far_as_it_has_not_come(self) -> None:
        for capacity, wanted in (
            (6, [(10, 20, 4)]),
            (8, [(10, 20, 4)]),
            (9, [(10, 20, 3), (20, 1 << 62, -1)]),
            (12, [(20, 1 << 62, -4)]),
            (30, [(20, 1 << 62, -4)]),
        ):
            with self.subTest(capacity=capacity):
                self.assertEqual(wanted, self.list_deltas(4, capacity, 9))

    def test_more_that_should_have_come_is_what_placement_shows(
        self,
    ) -> None:
        self.assertEqual([], self.list_deltas(4, 8, 10))
        self.assertEqual([(20, 1 << 62, -4)], self.list_deltas(4, 12, 10))
        self.assertEqual([], self.list_deltas(4, 12, 20))

    def test_more_that_came_for_good_stays(self) -> None:
        self.assertEqual([], self.list_deltas(4, 12, 5, span(10)))

    def test_other_classes(self) -> None:
        change = changes.make_change('x', span(10), {'VCPU': 4})

        self.assertEqual([], [*change.list_deltas('PCPU', 8, 0)])

    def test_what_makes_no_sense(self) -> None:
        for fields in (
            {'host': ''},
            {'amounts': {'VCPU': 4}},
            {'rp_uuid': 'a', 'amounts': {'VCPU': 4, 'PCPU': 0}},
        ):
            self.assertRaises(
                ValueError,
                capacity_change.CapacityChange,
                key='x',
                during=span(1),
                **{'host': 'a', **fields},
            )

    def test_words(self) -> None:
        during = 'from 1970-01-01T00:00:10Z to forever'
        more = changes.make_change('x', span(10), {'VCPU': 4, 'PCPU': -1})
        card = changes.make_maintenance(
            'y', span(10), rp_uuid='u', provider='a card'
        )
        pool = changes.make_maintenance(
            'z', span(10), '', rp_uuid='u', provider='pool'
        )

        self.assertEqual(
            f'host a has 1 PCPU less, 4 VCPU more {during} '
            '(capacity change x)',
            more.describe(),
        )
        self.assertEqual(
            'host a does not have 1 PCPU less, 4 VCPU more '
            f'{during}: capacity change x was withdrawn',
            more.describe(is_withdrawn=True),
        )
        self.assertEqual(
            f'host a, provider a card, has nothing {during} '
            '(capacity change y)',
            card.describe(),
        )
        self.assertEqual(
            f'provider pool has nothing {during} (capacity change z)',
            pool.describe(),
        )
        self.assertTrue(more.is_cause(f'moved: {more.describe()}'))
        self.assertFalse(more.is_cause(card.describe()))
        self.assertEqual(['a', 'a', 'pool'], [more.row, card.row, pool.row])
