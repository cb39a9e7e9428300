# SPDX-License-Identifier: Apache-2.0

import dataclasses
import json
from typing import Any

from nova_ext_resources.objects.documents import holders
from nova_ext_resources.objects import reserved_units
from tests import base
from tests.unit import builders

ROOM = 60_000

#: As the releases before it published what has the reserved units.
OLDER = '{"p":[],"s":{"one":{"h":[]}},"v":1}'

RESERVED = {
    (builders.L3_0, builders.WAYS): reserved_units.Reserved(
        host=0x400, other=0x200, pools=0x7
    ),
    (builders.L3_1, builders.WAYS): reserved_units.Reserved(),
    (builders.RDT, builders.CLOS): reserved_units.Reserved(host=1),
}


def make_entry(consumer: str = 'server', **fields: object) -> holders.Holder:
    return holders.Holder(
        assignments=(
            builders.make_assignment(rp_key='', units={'mask': 'f'}),
            builders.make_assignment(
                rp_key='',
                rp_uuid=builders.RDT,
                resource_class=builders.CLOS,
                amount=1,
                units={},
                is_allocated=False,
            ),
        ),
        **fields,  # type: ignore[arg-type]
    )


class HoldersTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.entry = dataclasses.replace(
            builders.make_entry('server'),
            assignments=make_entry().assignments,
        )

    def test_what_is_written_is_read_again(self) -> None:
        pinned = dataclasses.replace(
            self.entry, consumer_uuid='pinned', cpus=frozenset({0, 1, 5})
        )

        found = holders.decode(holders.encode([self.entry, pinned], ROOM))

        self.assertEqual(
            {
                'server': make_entry(),
                'pinned': make_entry(cpus=frozenset({0, 1, 5})),
            },
            found,
        )

    def test_nobody_holds_anything(self) -> None:
        self.assertEqual({}, holders.decode(holders.encode([], ROOM)))

    def test_a_class_that_is_implied_is_not_allocated(self) -> None:
        one = make_entry()

        self.assertEqual(4, one.find_allocated((builders.L3_0, builders.WAYS)))
        self.assertEqual(0, one.find_allocated((builders.RDT, builders.CLOS)))

    def test_there_is_no_room(self) -> None:
        text = holders.encode([self.entry], ROOM)
        needed = len(json.dumps(text))

        self.assertEqual(text, holders.encode([self.entry], needed))
        self.assertEqual('', holders.encode([self.entry], needed - 1))

    def test_what_has_reserved_units_is_read_again(self) -> None:
        text = holders.encode([self.entry], ROOM, RESERVED)

        self.assertEqual(RESERVED, holders.decode_reserved(text))
        self.assertEqual({'server': make_entry()}, holders.decode(text))

    def test_an_older_host_says_nothing_of_reserved_units(self) -> None:
        for text in (
            None,
            '',
            OLDER,
            holders.encode([self.entry], ROOM),
            holders.encode([self.entry], ROOM, {}),
        ):
            self.assertEqual({}, holders.decode_reserved(text))
        self.assertEqual({'one': holders.Holder()}, holders.decode(OLDER))

    def test_reserved_units_are_left_out_before_servers(self) -> None:
        short = holders.encode([self.entry], ROOM)
        whole = holders.encode([self.entry], ROOM, RESERVED)
        needed = len(json.dumps(whole))

        for room, wanted in (
            (needed, whole),
            (needed - 1, short),
            (len(json.dumps(short)), short),
            (len(json.dumps(short)) - 1, ''),
        ):
            self.assertEqual(
                wanted, holders.encode([self.entry], room, RESERVED)
            )

    def test_reserved_units_that_cannot_be_read_are_unknown(self) -> None:
        whole = json.loads(holders.encode([self.entry], ROOM, RESERVED))
        malformed: tuple[Any, ...] = (
            5,
            {'a': 1},
            [5],
            [[]],
            [[0, 1, 2]],
            [[0, 1, 2, 3, 4]],
            [[9, 1, 2, 3]],
            [[0, -1, 2, 3]],
            [[0, 'f', 2, 3]],
            [[0, 1.5, 2, 3]],
        )
        for rows in malformed:
            text = json.dumps({**whole, 'r': rows})

            self.assertEqual({}, holders.decode_reserved(text))
            self.assertEqual({'server': make_entry()}, holders.decode(text))
        for text in ('{', '[]', json.dumps({**whole, 'v': 2}), '[' * 100_000):
            self.assertEqual({}, holders.decode_reserved(text), text[:80])

    def test_what_is_no_such_document(self) -> None:
        whole = json.loads(holders.encode([self.entry], ROOM))
        for text in (
            None,
            '',
            '{',
            '[]',
            '[' * 100_000,
            json.dumps({**whole, 'v': 2}),
            json.dumps({**whole, 's': {'server': {'h': [[7, 1, {}]]}}}),
            json.dumps({**whole, 's': {'server': {'h': [], 'c': 'x'}}}),
            json.dumps({**whole, 's': [1]}),
        ):
            self.assertIsNone(holders.decode(text), str(text)[:80])
