# SPDX-License-Identifier: Apache-2.0

"""Tests of who has which part of the resources of a host."""

from collections.abc import Mapping
import dataclasses
import json

import hypothesis
from hypothesis import strategies as st
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.inspection import rows
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.objects import reserved_units
from nova_ext_resources.reservation import publication
from tests import base
from tests.unit import builders
from tests.unit.inspection import trees
from tests.unit import strategies

Kind = rows.PartKind
Source = rows.RowSource
Reserved = reserved_units.Reserved


class RowsTest(base.TestCase):
    def list_rows(
        self,
        tree: host_tree.HostTree | None = None,
        published: publication.Publication | None = None,
    ) -> dict[str, rows.ResourceRow]:
        found = rows.list_rows(
            tree or trees.make_tree(), published, builders.make_trackers()
        )
        return {one.resource_class: one for one in found}

    def list_parts(
        self, row: rows.ResourceRow
    ) -> list[tuple[Kind, str, int, Mapping[str, object]]]:
        return [
            (one.kind, one.consumer, one.amount, one.units)
            for one in row.parts
        ]

    def test_the_owner_of_each_way(self) -> None:
        row = self.list_rows(published=trees.make_publication())[trees.WAYS]

        self.assertIs(Source.UNITS, row.source)
        self.assertEqual(
            [
                (Kind.SERVER, trees.ONE, 4, {'mask': 'f'}),
                (Kind.SERVER, trees.TWO, 2, {'mask': 'c0'}),
                (Kind.RESERVED, '', 4, {'mask': 'f00'}),
                (Kind.FREE, '', 2, {'mask': '30'}),
            ],
            self.list_parts(row),
        )
        self.assertEqual((0, 0, 0, 0, 3, 3, 1, 1, 2, 2, 2, 2), row.ways)

    def list_reserved(self, **known: int) -> dict[Kind, object]:
        """Return the masks of what no server has, by kind."""
        published = trees.make_publication(
            reserved={(trees.L3_0, trees.WAYS): Reserved(**known)}
        )
        row = self.list_rows(published=published)[trees.WAYS]
        self.assertIs(Source.UNITS, row.source)
        self.is_explained = row.is_explained
        return {
            one.kind: one.units.get('mask')
            for one in row.parts
            if one.kind is not Kind.SERVER
        }

    def test_what_has_the_reserved_ways(self) -> None:
        self.assertEqual(
            {
                Kind.HOST: '800',
                Kind.OTHER: '400',
                Kind.POOL: '300',
                Kind.FREE: '30',
            },
            self.list_reserved(host=0x800, other=0x400, pools=0x300),
        )
        self.assertTrue(self.is_explained)

    def test_ways_of_which_it_is_not_known(self) -> None:
        for host, mask in ((0x800, '700'), (0, 'f00')):
            found = self.list_reserved(host=host)

            self.assertEqual(mask, found[Kind.RESERVED])
            self.assertTrue(self.is_explained)

    def test_each_way_has_one_owner(self) -> None:
        self.assertEqual(
            {
                Kind.HOST: '800',
                Kind.OTHER: '600',
                Kind.POOL: '100',
                Kind.FREE: '30',
            },
            self.list_reserved(host=0x800, other=0xE00, pools=0xF00),
        )

    def test_ways_of_servers_and_free_ones_stay_so(self) -> None:
        # A server got its ways before the pool was there; others are back.
        self.assertEqual(
            {Kind.POOL: 'f00', Kind.FREE: '30'},
            self.list_reserved(host=0x30, other=0xF000, pools=0xFCF),
        )

    def test_an_older_host_does_not_tell_what_has_them(self) -> None:
        row = self.list_rows(published=trees.make_publication())[trees.WAYS]

        self.assertFalse(row.is_explained)
        self.assertIs(Kind.RESERVED, row.parts[2].kind)

    def test_believed_only_if_as_many_are_reserved(self) -> None:
        tree = trees.make_tree()
        cache = trees.make_provider(
            '_L3_0',
            trees.RDT,
            trees.WAYS,
            # More is sold than there is, until placement is corrected.
            builders.make_inventory(12, reserved=7),
            {one: mask.bit_count() for one, mask in trees.MASKS.items()},
        )
        tree = dataclasses.replace(
            tree, providers=(*tree.providers[:2], cache)
        )
        published = trees.make_publication(
            reserved={(trees.L3_0, trees.WAYS): Reserved(host=0xF00)}
        )
        published = dataclasses.replace(
            published,
            document=published.document.replace('"w":"ff"', '"w":"cf"'),
        )

        row = self.list_rows(tree, published)[trees.WAYS]

        self.assertIs(Source.UNITS, row.source)
        self.assertFalse(row.is_explained)
        self.assertNotIn(Kind.HOST, [one.kind for one in row.parts])

    def list_classes(self, **known: int) -> list[tuple[Kind, int]]:
        published = trees.make_publication(
            reserved={(trees.RDT, trees.CLOS): Reserved(**known)}
        )
        row = self.list_rows(published=published)[trees.CLOS]
        return [(one.kind, one.amount) for one in row.parts[2:]]

    def test_what_has_the_reserved_classes_of_service(self) -> None:
        # Two of the four that are reserved are those of the servers.
        for known, wanted in (
            ({'host': 1, 'pools': 1}, [(Kind.HOST, 1), (Kind.POOL, 1)]),
            ({'host': 1, 'other': 1}, [(Kind.HOST, 1), (Kind.OTHER, 1)]),
            ({'host': 1}, [(Kind.HOST, 1), (Kind.RESERVED, 1)]),
            ({'host': 1, 'other': 2}, [(Kind.RESERVED, 2)]),
        ):
            self.assertEqual(
                [*wanted, (Kind.FREE, 4)], self.list_classes(**known)
            )

    def test_a_class_of_service_without_an_allocation(self) -> None:
        row = self.list_rows(published=trees.make_publication())[trees.CLOS]

        self.assertEqual(
            sorted([(Kind.SERVER, one, 1) for one in trees.MASKS]),
            sorted(one[:3] for one in self.list_parts(row)[:2]),
        )
        # Two of the four that are reserved are those of the servers.
        self.assertEqual(
            [(Kind.RESERVED, '', 2, {}), (Kind.FREE, '', 4, {})],
            self.list_parts(row)[2:],
        )
        self.assertIsNone(row.ways)

    def test_amounts_alone_where_nothing_is_published(self) -> None:
        row = self.list_rows()[trees.WAYS]

        self.assertIs(Source.AMOUNTS, row.source)
        self.assertEqual(
            [
                *sorted(
                    [
                        (Kind.SERVER, trees.ONE, 4, {}),
                        (Kind.SERVER, trees.TWO, 2, {}),
                    ],
                    key=lambda one: one[1],
                ),
                (Kind.RESERVED, '', 4, {}),
                (Kind.FREE, '', 2, {}),
            ],
            self.list_parts(row),
        )
        self.assertIsNone(row.ways)

    def test_what_does_not_agree_with_placement_is_not_believed(self) -> None:
        published = trees.make_publication()
        for held in (
            {trees.ONE: 4},
            {trees.ONE: 2, trees.TWO: 4},
            {**dict.fromkeys(trees.MASKS, 2), uuids.third: 1},
        ):
            row = self.list_rows(trees.make_tree(held), published)[trees.WAYS]

            self.assertIs(Source.OUTDATED, row.source)
            self.assertIsNone(row.ways)
            self.assertEqual(
                held,
                {
                    one.consumer: one.amount
                    for one in row.parts
                    if one.consumer
                },
            )

    def test_room_that_is_held_is_not_known_to_the_host(self) -> None:
        key = planned_hold.make_consumer('night 1')
        held = {one: mask.bit_count() for one, mask in trees.MASKS.items()}

        row = self.list_rows(
            trees.make_tree({**held, key: 2}), trees.make_publication()
        )[trees.WAYS]

        self.assertIs(Source.UNITS, row.source)
        self.assertIn((Kind.SERVER, key, 2, {}), self.list_parts(row))

    def test_bad_documents_are_as_none(self) -> None:
        good = trees.make_publication()
        for bad in (
            dataclasses.replace(good, document='{'),
            dataclasses.replace(good, holders=''),
            dataclasses.replace(good, document='{"v":7}'),
        ):
            row = self.list_rows(published=bad)[trees.WAYS]

            self.assertIs(Source.AMOUNTS, row.source)

    def test_classes_of_others_are_counted(self) -> None:
        row = self.list_rows(published=trees.make_publication())['VCPU']

        self.assertEqual(
            ('compute-1', 8, 0, Source.AMOUNTS),
            (row.provider, row.total, row.reserved, row.source),
        )
        self.assertEqual(
            [(Kind.SERVER, trees.ONE, 2, {}), (Kind.FREE, '', 6, {})],
            self.list_parts(row),
        )

    def test_a_server_with_a_mask_that_cannot_be_read(self) -> None:
        good = trees.make_publication()
        bad = dataclasses.replace(
            good, holders=good.holders.replace('"c0"', '"?"')
        )

        row = self.list_rows(published=bad)[trees.WAYS]

        self.assertEqual(12, len(row.ways or ()))
        self.assertIn(trees.TWO, [one.consumer for one in row.parts])

    @hypothesis.given(st.data())
    def test_damaged_texts_are_no_reason_to_fail(
        self, drawn: st.DataObject
    ) -> None:
        good = trees.make_publication(
            reserved={(trees.L3_0, trees.WAYS): Reserved(host=0x800)}
        )
        for field in ('document', 'holders'):
            data = json.loads(getattr(good, field))
            text = json.dumps(drawn.draw(strategies.damaged(data)))

            self.list_rows(
                published=dataclasses.replace(good, **{field: text})
            )
