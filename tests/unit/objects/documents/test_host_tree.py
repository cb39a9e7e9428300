# SPDX-License-Identifier: Apache-2.0

"""Tests of hosts as placement shows them."""

from nova_ext_resources.objects.documents import host_tree
from tests import base


def make(name: str, parent: str | None = None) -> host_tree.TreeProvider:
    return host_tree.TreeProvider(rp_uuid=name, name=name, parent_uuid=parent)


class GroupTest(base.TestCase):
    def group(self, *providers: host_tree.TreeProvider) -> list[list[str]]:
        return [
            [one.name for one in tree.providers]
            for tree in host_tree.group(providers)
        ]

    def test_parents_come_first_and_numbers_are_sorted_by_value(self) -> None:
        self.assertEqual(
            [
                ['a', 'a_L3_2', 'a_L3_10', 'a_L3_10_x', 'a_RDT'],
                ['b2'],
                ['b10'],
            ],
            self.group(
                make('b10'),
                make('a_L3_10_x', 'a_L3_10'),
                make('a_RDT', 'a'),
                make('a_L3_10', 'a'),
                make('b2'),
                make('a_L3_2', 'a'),
                make('a'),
            ),
        )

    def test_a_child_of_what_has_gone_is_in_no_tree(self) -> None:
        self.assertEqual([['a']], self.group(make('a'), make('x', 'gone')))

    def test_depth_and_key(self) -> None:
        [tree] = host_tree.group(
            [make('a'), make('a_RDT', 'a'), make('a_L3_0', 'a_RDT')]
        )

        self.assertEqual(
            [('a', 0), ('RDT', 1), ('L3_0', 2)],
            [
                (tree.make_key(one), tree.find_depth(one))
                for one in tree.providers
            ],
        )

    def test_nothing_is_free_below_zero(self) -> None:
        amount = host_tree.Amount(capacity=3, used=5)

        self.assertEqual(0, amount.free)
