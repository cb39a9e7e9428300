# SPDX-License-Identifier: Apache-2.0

"""Tests of the commands that show resource classes; see functional, too."""

import argparse
import dataclasses
from typing import Any

from osc_lib import exceptions
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.cmd.osc.resource import definition
from nova_ext_resources import exception
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement import cloud_snapshot
from tests import base
from tests.unit.inspection import trees

WAYS = 'CUSTOM_LLC_WAYS'
OWNER = frozenset({host_provider.OWNER_TRAIT})


def _own(tree: host_tree.HostTree, used: int) -> host_tree.HostTree:
    """Return a host whose nested providers are of this package."""

    def change(one: host_tree.TreeProvider) -> host_tree.TreeProvider:
        amounts = {
            name: dataclasses.replace(
                amount, used=used if name == WAYS else amount.used
            )
            for name, amount in one.amounts.items()
        }
        return dataclasses.replace(
            one, traits=one.traits | OWNER, amounts=amounts
        )

    return dataclasses.replace(
        tree, providers=(tree.root, *map(change, tree.providers[1:]))
    )


class _Nova:
    """Knows one flavor, or is away."""

    def __init__(self) -> None:
        self.is_away = False

    def list_requesting(self, resource_class: str) -> list[str]:
        if self.is_away:
            raise exception.ComputeUnavailable(
                action='list flavors', reason='away'
            )
        return ['gold'] if resource_class == WAYS else []


class DefinitionTest(base.TestCase):
    """A host of eight free ways, and a pool that it reaches."""

    def setUp(self) -> None:
        super().setUp()
        pool = host_tree.TreeProvider(
            rp_uuid=uuids.pool,
            name='POOL_rack1',
            traits=OWNER | {host_provider.SHARING_TRAIT},
            amounts={
                'CUSTOM_RACK1_GB': host_tree.Amount(
                    capacity=80,
                    used=30,
                    inventory=class_inventory.Inventory(
                        total=100, reserved=20
                    ),
                )
            },
        )
        others = dataclasses.replace(pool, traits=pool.traits - OWNER)
        hosts = (_own(trees.make_tree({}), used=3),)
        self.patch(cloud_snapshot, 'list_hosts', lambda _: hosts)
        self.patch(
            cloud_snapshot,
            'add_inventories',
            lambda _client, found, _is: found,
        )
        self.patch(
            cloud_snapshot,
            'list_pools',
            lambda _: ((pool, ('a', 'b')), (others, ('c',))),
        )
        self.nova = _Nova()

    def run_command(self, cls: Any, **arguments: str) -> Any:
        command = cls(None, None)
        command.placement = None
        command.nova = self.nova
        return command.take_action(argparse.Namespace(**arguments))

    def test_a_row_for_each_class(self) -> None:
        columns, rows = self.run_command(definition.ListDefinitions)

        by_class = {row[0]: row[1:] for row in rows}
        self.assertEqual((2, 1, 80, 30, 50, 50), by_class['CUSTOM_RACK1_GB'])
        self.assertEqual((1, 1), by_class[WAYS][:2])
        self.assertEqual(3, by_class[WAYS][3])
        self.assertNotIn('VCPU', by_class)
        self.assertEqual({len(columns)}, {len(row) for row in rows})

    def test_providers_and_flavors_of_one(self) -> None:
        columns, values = self.run_command(
            definition.ShowDefinition, resource_class=WAYS
        )

        data = dict(zip(columns, values, strict=True))
        self.assertEqual(['gold'], data['flavors'].machine_readable())
        [one] = data['providers'].machine_readable()
        self.assertEqual(('L3_0', 3), (one['provider'], one['used']))

    def test_providers_where_nova_is_away(self) -> None:
        self.nova.is_away = True

        columns, values = self.run_command(
            definition.ShowDefinition, resource_class='CUSTOM_RACK1_GB'
        )

        data = dict(zip(columns, values, strict=True))
        self.assertEqual([], data['flavors'].machine_readable())
        [one] = data['providers'].machine_readable()
        self.assertEqual(
            (['a', 'b'], 100, 20, [host_provider.SHARING_TRAIT]),
            (one['hosts'], one['total'], one['reserved'], one['traits']),
        )

    def test_a_class_that_nobody_has(self) -> None:
        error = self.assertRaises(
            exceptions.CommandError,
            self.run_command,
            definition.ShowDefinition,
            resource_class='VCPU',
        )

        self.assertIn('No host and no pool has VCPU', str(error))
