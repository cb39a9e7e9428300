# SPDX-License-Identifier: Apache-2.0

"""Tests of what reservations lose with their hosts."""

from nova_ext_resources.reservation import outage
from tests import base

ENABLED = {'a': True, 'b': False}


class OutageTest(base.TestCase):
    def test_what_is_lost(self) -> None:
        rows = [
            ('well', 'a', 3, 1),
            ('disabled', 'b', 3, 1),
            ('taken', 'b', 3, 3),
            ('gone', 'c', 3, 3),
            ('some', 'a', 1, 0),
            ('some', 'b', 1, 0),
            ('some', 'c', 2, 0),
        ]

        self.assertEqual(
            {
                'disabled': {'b': 2},
                'gone': {'c': 3},
                'some': {'b': 1, 'c': 2},
            },
            outage.list_lost(rows, ENABLED),
        )

    def test_reasons_name_the_hosts(self) -> None:
        self.assertEqual(
            'host b is disabled, with 1 of its servers; host c is not in '
            'placement any more, with 2 of its servers',
            outage.describe({'c': 2, 'b': 1}, ENABLED),
        )
        self.assertEqual(
            'host b is down, with 1 of its servers',
            outage.describe({'b': 1}, ENABLED, {'b'}),
        )

    def test_of_many_hosts_some_are_named(self) -> None:
        found = outage.describe(
            {f'host-{number:04}': 1 for number in range(700)}, {}
        )

        self.assertEqual(outage.NAMED, found.count('host-'))
        self.assertIn('; and 690 hosts more', found)

    def test_of_many_changes_some_are_named(self) -> None:
        cut = [f'cut {number}' for number in range(12)]

        found = outage.explain({'b': 1}, ENABLED, cut)

        self.assertIn('host b is disabled', found)
        self.assertEqual(outage.NAMED, found.count('cut'))
        self.assertIn('; and 2 changes of capacity more', found)
