# SPDX-License-Identifier: Apache-2.0

"""Tests of the ways to spread a server over the providers of a host."""

from nova_ext_resources.inspection import fit
from nova_ext_resources.objects import host_tree
from nova_ext_resources.objects import inventory
from nova_ext_resources.reservation import candidates
from tests import base
from tests.unit.inspection import test_fit

VF, WAYS = 'CUSTOM_A_VF', 'CUSTOM_LLC_WAYS'


class ManyProvidersTest(base.TestCase):
    """Eight cards, of which the fullest is at a network, and 16 caches."""

    def setUp(self) -> None:
        super().setUp()
        cards = [
            self.make(f'card {one}', VF, used=4 * (one == 3))
            for one in range(8)
        ]
        caches = [self.make(f'cache {one}', WAYS) for one in range(16)]
        [self.host] = host_tree.group(
            [
                host_tree.TreeProvider(rp_uuid='root', name='host'),
                *cards,
                *caches,
            ]
        )

    def make(
        self, name: str, resource_class: str, used: int = 0
    ) -> host_tree.TreeProvider:
        amount = host_tree.Amount(
            capacity=8, used=used, inventory=inventory.Inventory(total=8)
        )
        return host_tree.TreeProvider(
            rp_uuid=name,
            name=name,
            parent_uuid='root',
            traits=frozenset({'CUSTOM_NET'} if used else ()),
            amounts={resource_class: amount},
        )

    def test_a_trait_that_few_have_is_found(self) -> None:
        """Cards come before caches, in the order of their classes."""
        demand = test_fit.make_demand(
            vcpus=0,
            trait__CUSTOM_NET='required',
            **{f'resources__{name}': '1' for name in (VF, WAYS)},
        )

        found = [
            *candidates.list_candidates(
                fit.make_view(self.host),
                fit.make_providers(self.host),
                demand,
            )
        ]

        self.assertEqual(16, len(found))
        for one in found:
            self.assertEqual({VF: 1}, one['card 3'])
