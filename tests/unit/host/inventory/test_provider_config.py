# SPDX-License-Identifier: Apache-2.0

from nova_ext_resources import exception
from nova_ext_resources.host.inventory import provider_config
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from tests import base

Inventory = class_inventory.Inventory


def make_cache(number: int, **fields: int) -> host_provider.HostProvider:
    return host_provider.HostProvider(
        key=f'L3_{number}',
        inventories={
            'CUSTOM_LLC_WAYS': Inventory(total=11, **fields),
            'SRIOV_NET_VF': Inventory(total=4),
        },
        traits=frozenset({'CUSTOM_CAT', 'HW_CPU_X86_VMX'}),
    )


class DocumentTest(base.TestCase):
    def test_two_caches_are_one_inventory_of_the_node(self) -> None:
        made = provider_config.make_document(
            [make_cache(0, reserved=1, max_unit=9), make_cache(1, reserved=2)]
        )

        [found] = made['providers']
        self.assertEqual({'uuid': '$COMPUTE_NODE'}, found['identification'])
        self.assertEqual(
            [
                {
                    'CUSTOM_LLC_WAYS': {
                        'total': 22,
                        'reserved': 3,
                        'min_unit': 1,
                        # What one of the caches has.
                        'max_unit': 11,
                        'step_size': 1,
                        'allocation_ratio': 1.0,
                    }
                }
            ],
            found['inventories']['additional'],
        )
        self.assertEqual(['CUSTOM_CAT'], found['traits']['additional'])

    def test_traits_of_the_compute_node_are_added(self) -> None:
        made = provider_config.make_document([], ['CUSTOM_B', 'CUSTOM_A'])

        [found] = made['providers']
        self.assertEqual(
            ['CUSTOM_A', 'CUSTOM_B'], found['traits']['additional']
        )

    def test_a_host_with_nothing(self) -> None:
        self.assertEqual([], provider_config.make_document([])['providers'])

    def test_units_that_any_of_the_providers_would_give(self) -> None:
        united = provider_config.unite(
            'CUSTOM_SEAT',
            [
                Inventory(
                    total=8, min_unit=2, step_size=4, allocation_ratio=2.0
                ),
                Inventory(total=6, min_unit=3, step_size=6),
            ],
        )

        self.assertEqual(
            Inventory(total=14, min_unit=2, max_unit=8, step_size=2), united
        )

    def test_more_than_placement_can_store(self) -> None:
        large = Inventory(total=class_inventory.MAX_INT)

        error = self.assertRaises(
            exception.InvalidResource,
            provider_config.unite,
            'CUSTOM_SEAT',
            [large, large],
        )

        self.assertIn('CUSTOM_SEAT', str(error))
