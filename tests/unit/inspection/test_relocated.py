# SPDX-License-Identifier: Apache-2.0

"""Tests of how far a class of a host is moved."""

from nova_ext_resources.inspection import relocated
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects import host_provider
from tests import base
from tests.unit import builders

WAYS = builders.WAYS

ROOT, BELOW = 'root', 'below'

_Amount = tuple[int, int]


def make_tree(
    root: _Amount | None = None, below: _Amount | None = None
) -> host_tree.HostTree:
    """Make a host from capacity and use; None where the class is not."""
    amounts = [
        {}
        if one is None
        else {WAYS: host_tree.Amount(capacity=one[0], used=one[1])}
        for one in (root, below)
    ]
    return host_tree.HostTree(
        providers=(
            host_tree.TreeProvider(
                rp_uuid=ROOT, name='host1', amounts=amounts[0]
            ),
            host_tree.TreeProvider(
                rp_uuid=BELOW,
                name='host1_L3_0',
                parent_uuid=ROOT,
                traits=frozenset({host_provider.OWNER_TRAIT}),
                amounts=amounts[1],
            ),
        )
    )


class RowTest(base.TestCase):
    def test_states(self) -> None:
        for root, below, state in (
            ((20, 4), None, relocated.RelocationState.NOT_MOVED),
            ((20, 4), (0, 0), relocated.RelocationState.WAITING),
            ((20, 4), (0, 3), relocated.RelocationState.HALF),
            ((20, 0), (10, 0), relocated.RelocationState.TWICE),
            (None, (10, 4), relocated.RelocationState.MOVED),
        ):
            holders = {ROOT: {WAYS: {'server': 4}}}

            [row] = relocated.list_rows(
                [make_tree(root, below)], [WAYS], holders
            )

            self.assertEqual(state, row.state)
            self.assertEqual({'server': 4}, row.holders)

    def test_a_host_without_the_class(self) -> None:
        rows = relocated.list_rows([make_tree()], [WAYS], {})

        self.assertEqual([], [*rows])

    def test_classes_are_those_of_this_package(self) -> None:
        self.assertEqual(
            frozenset(), relocated.list_classes([make_tree(root=(1, 0))])
        )
        self.assertEqual(
            {WAYS}, relocated.list_classes([make_tree(below=(1, 0))])
        )
