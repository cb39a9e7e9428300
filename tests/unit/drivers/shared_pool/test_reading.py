# SPDX-License-Identifier: Apache-2.0

"""What sources of pools say, and what is refused."""

import datetime
import json
from typing import Any

from nova_ext_resources.drivers.shared_pool import reading
from nova_ext_resources.objects import pool
from tests import base

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
GIB = 1024**3

#: Of ceph 18.2, shortened.
CEPH: dict[str, Any] = {
    'stats': {'total_bytes': 900 * GIB, 'total_avail_bytes': 600 * GIB},
    'pools': [
        {
            'name': 'vms',
            'id': 2,
            'stats': {
                'stored': 40 * GIB + 5,
                'objects': 10240,
                'kb_used': 125829120,
                'bytes_used': 120 * GIB,
                'percent_used': 0.17,
                'max_avail': 190 * GIB + 7,
            },
        },
        {'name': 'images', 'id': 3, 'stats': {'stored': 1, 'max_avail': 1}},
    ],
}


def make(**numbers: Any) -> pool.Reading:
    return pool.Reading(read_at=NOW, **numbers)


class DocumentTest(base.TestCase):
    def read(self, text: str, unit_size: int = 1) -> pool.Reading:
        return reading.parse_document(text.encode(), unit_size, NOW)

    def test_numbers_are_counted_in_whole_units(self) -> None:
        for text, unit_size, expected in (
            ('{"total": 10}', 1, make(total=10)),
            ('{"total": 10, "free": 0}', 1, make(total=10, free=0)),
            ('{"total": 10.9, "x": "y"}', 1, make(total=10)),
            # What is free is never more, what others use never less.
            ('{"total": 19, "free": 19}', 10, make(total=1, free=1)),
            ('{"total": 25, "reserved": 11}', 10, make(total=2, reserved=2)),
            ('{"total": 25, "reserved": 21}', 10, make(total=2, reserved=2)),
            ('{"total": 1e3}', 1, make(total=1000)),
        ):
            with self.subTest(text=text):
                self.assertEqual(expected, self.read(text, unit_size))

    def test_a_wrong_value_is_shown_in_part(self) -> None:
        err = self.assertRaises(
            ValueError, self.read, '{"total": "' + 60000 * 'x' + '"}'
        )

        self.assertLess(len(str(err)), 200)

    def test_what_makes_no_sense_is_refused(self) -> None:
        for text, reason in (
            ('', 'Expecting value'),
            ('10', 'not a JSON object'),
            ('{}', '"total": None is'),
            ('{"total": 0}', 'less than 1 unit'),
            ('{"total": -1}', '"total": -1 is'),
            ('{"total": 1' + 400 * '0' + '}', '"total": 1'),
            ('{"total": 1e999}', '1e999 is too large'),
            ('{"total": true}', '"total": True'),
            ('{"total": "10"}', "\"total\": '10'"),
            ('{"total": NaN}', 'NaN is not a number'),
            ('{"total": Infinity}', 'Infinity is not a number'),
            ('{"total": 1e999}', '1e999 is too large'),
            ('{"total": 2147483648}', 'larger unit_size'),
            ('{"total": 10, "free": 11}', 'must be from 0 to the total 10'),
            ('{"total": 10, "free": null}', '"free": None'),
            ('{"total": 10, "reserved": -1}', '"reserved": -1'),
            ('{"total": 10, "reserved": 11}', 'reserved is 11'),
            ('{"total": 10, "free": 1, "reserved": 1}', 'both'),
            ('[' * 100000, 'too deeply'),
            ('{"total": %s}' % ('9' * 5000), ''),
        ):
            with self.subTest(text=text[:40]):
                error = self.assertRaises(ValueError, self.read, text)

                self.assertIn(reason, str(error))


class CephTest(base.TestCase):
    def read(self, content: Any, name: str = 'vms') -> pool.Reading:
        text = json.dumps(content).encode()
        return reading.parse_ceph(text, name, GIB, NOW)

    def test_a_pool_has_what_is_stored_and_what_is_left(self) -> None:
        self.assertEqual(make(total=230, free=190), self.read(CEPH))

    def test_what_makes_no_sense_is_refused(self) -> None:
        for content, name in (
            (CEPH, 'volumes'),
            ({}, 'vms'),
            ({'pools': 3}, 'vms'),
            ({'pools': [None, {'name': 'vms'}]}, 'vms'),
            ({'pools': [{'name': 'vms', 'stats': {'stored': 1}}]}, 'vms'),
            # Less than a unit.
            (CEPH, 'images'),
        ):
            with self.subTest(content=content, name=name):
                self.assertRaises(ValueError, self.read, content, name)


class BlocksTest(base.TestCase):
    def test_blocks_for_root_alone_do_not_count(self) -> None:
        found = reading.make_from_blocks(
            blocks=1000,
            free=600,
            available=500,
            block_size=4096,
            unit_size=40960,
            read_at=NOW,
        )

        self.assertEqual(make(total=90, free=50), found)
