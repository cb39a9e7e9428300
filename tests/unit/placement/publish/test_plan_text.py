# SPDX-License-Identifier: Apache-2.0

import dataclasses

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.publish import diff
from nova_ext_resources.placement.publish import plan_text
from tests import base

SEEN = host_provider.Provider(
    rp_uuid='1',
    name='host1_A',
    parent_uuid='0',
    inventories={
        'CUSTOM_A': class_inventory.Inventory(total=4),
        'CUSTOM_B': class_inventory.Inventory(total=2),
    },
    traits=frozenset({host_provider.OWNER_TRAIT, 'CUSTOM_OLD'}),
    aggregates=frozenset({'there'}),
    generation=1,
)


class DescribeTest(base.TestCase):
    def describe(self, *wanted: host_provider.Provider) -> list[str]:
        return [*plan_text.describe(diff.plan(wanted, [SEEN]))]

    def test_nothing(self) -> None:
        self.assertEqual([], self.describe(SEEN))

    def test_a_provider_that_goes(self) -> None:
        self.assertEqual(['delete provider host1_A'], self.describe())

    def test_all_that_changes_in_one(self) -> None:
        wanted = dataclasses.replace(
            SEEN,
            name='host2_A',
            parent_uuid='9',
            inventories={
                'CUSTOM_A': class_inventory.Inventory(total=3, reserved=1)
            },
            aggregates=frozenset({'here', 'there'}),
            traits=frozenset({'CUSTOM_NEW'}),
            published_traits=frozenset({'CUSTOM_OLD'}),
        )

        self.assertEqual(
            [
                'change provider host2_A',
                '  name: host1_A -> host2_A',
                '  parent_uuid: 0 -> 9',
                '  CUSTOM_A: total 4 -> 3, reserved 0 -> 1, max_unit 4 -> 3',
                '  CUSTOM_B: removed, total 2',
                '  traits added: CUSTOM_NEW',
                '  traits removed: CUSTOM_OLD',
                '  aggregates added: here',
            ],
            self.describe(wanted),
        )
