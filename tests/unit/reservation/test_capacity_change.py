# SPDX-License-Identifier: Apache-2.0

"""Tests of planned changes of capacity."""

from nova_ext_resources.reservation import capacity_change
from tests import base
from tests.unit.reservation import changes
from tests.unit.reservation.hosts import span


class CapacityChangeTest(base.TestCase):
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

    def test_whether_there_is_less(self) -> None:
        for change, taken, withdrawn in (
            (changes.make_maintenance('x', span(1)), True, False),
            (changes.make_change('x', span(1), {'VCPU': -1}), True, False),
            (changes.make_change('x', span(1), {'VCPU': 1}), False, True),
            (
                changes.make_change('x', span(1), {'VCPU': 1, 'PCPU': -1}),
                True,
                True,
            ),
        ):
            self.assertEqual(taken, change.takes())
            self.assertEqual(withdrawn, change.takes(is_withdrawn=True))

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
            f'host a, provider a card, is in maintenance {during} '
            '(capacity change y)',
            card.describe(),
        )
        self.assertEqual(
            f'provider pool is in maintenance {during} (capacity change z)',
            pool.describe(),
        )
        self.assertEqual(
            f'host a does not have 1 PCPU less, 4 VCPU more yet, planned '
            f'{during} (capacity change x)',
            more.describe(is_late=True),
        )
        self.assertEqual(['a', 'a', 'pool'], [more.row, card.row, pool.row])
