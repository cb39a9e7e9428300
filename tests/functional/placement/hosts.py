# SPDX-License-Identifier: Apache-2.0


"""A host as it shall look in placement, and as others write to it."""

import dataclasses
from typing import Any

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import responses
from tests.functional import base

WAYS = 'CUSTOM_LLC_WAYS'
CLOS = 'CUSTOM_RDT_CLOS'
CAT = 'CUSTOM_RDT_L3_CAT'
NODE = host_provider.Node(uuid=uuids.node, hypervisor_hostname='host1')


def make_wanted(
    key: str, parent_key: str | None = None, **totals: int
) -> host_provider.Provider:
    return host_provider.Provider(
        rp_uuid=host_provider.make_rp_uuid(NODE.uuid, key),
        name=f'host1_{key}',
        parent_uuid=(
            host_provider.make_rp_uuid(NODE.uuid, parent_key)
            if parent_key
            else NODE.uuid
        ),
        inventories={
            name: class_inventory.Inventory(total=total)
            for name, total in totals.items()
        },
        traits=frozenset({CAT}),
    )


def make_host(ways: int = 11) -> tuple[host_provider.Provider, ...]:
    return (
        make_wanted('RDT', CUSTOM_RDT_CLOS=15),
        make_wanted('L3_0', 'RDT', CUSTOM_LLC_WAYS=ways),
        make_wanted('L3_1', 'RDT', CUSTOM_LLC_WAYS=ways),
    )


RDT, L3_0, L3_1 = (p.rp_uuid for p in make_host())


def read_tree(
    client: placement_client.Client, root_uuid: str
) -> dict[str, host_provider.Provider]:
    listed = client.list_providers(in_tree=root_uuid)
    return {one.rp_uuid: client.read_provider(one) for one in listed}


class HostTestCase(base.PlacementTestCase):
    """``NODE`` is in placement, with what Nova puts there."""

    def setUp(self) -> None:
        super().setUp()
        self.make_root(NODE.uuid, NODE.hypervisor_hostname)
        self.client.set_inventories(
            NODE.uuid, {'VCPU': class_inventory.Inventory(total=16)}, 0
        )
        self.client.set_traits(NODE.uuid, ['HW_CPU_X86_AVX'], 1)
        self.client.ensure_provider(uuids.pf, 'host1_0000:81:00.0', NODE.uuid)
        self.client.set_inventories(
            uuids.pf, {'SRIOV_NET_VF': class_inventory.Inventory(total=4)}, 0
        )
        self.before = self.read_tree()
        self.forget_requests()

    def read_tree(
        self, client: placement_client.Client | None = None
    ) -> dict[str, host_provider.Provider]:
        return read_tree(client or self.client, NODE.uuid)

    def read_ours(self) -> dict[str, host_provider.Provider]:
        """Read the tree without Nova's part, which has to be untouched."""
        tree = self.read_tree()
        for rp_uuid, untouched in self.before.items():
            self.assertEqual(
                dataclasses.replace(untouched, generation=None),
                dataclasses.replace(tree.pop(rp_uuid), generation=None),
            )
        return tree

    def assert_published(self, *wanted: host_provider.Provider) -> None:
        self.assertEqual(
            {
                p.rp_uuid: dataclasses.replace(
                    p, traits=p.traits | {host_provider.OWNER_TRAIT}
                )
                for p in wanted
            },
            {
                rp_uuid: dataclasses.replace(p, generation=None)
                for rp_uuid, p in self.read_ours().items()
            },
        )

    def allocate(
        self, resources: dict[str, Any], consumer: str = uuids.server
    ) -> None:
        """Claim, or give back with ``{}``, as Nova's scheduler does."""
        held = self.client.get_allocations(consumer)
        self.client.put_allocations(
            responses.Allocations(
                consumer_uuid=consumer,
                resources=resources,
                project_id=uuids.project,
                user_id=uuids.user,
                generation=held.generation,
            )
        )
