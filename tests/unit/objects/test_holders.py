# SPDX-License-Identifier: Apache-2.0

import dataclasses
import json

from nova_ext_resources.objects import holders
from tests import base
from tests.unit import builders

ROOM = 60_000


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
