# SPDX-License-Identifier: Apache-2.0

"""Tests of the command that lists pools; see functional for what it reads."""

import argparse

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.cmd.osc import pool
from nova_ext_resources.objects import host_tree
from nova_ext_resources.objects import inventory
from nova_ext_resources.placement import overview
from tests import base


class PoolTest(base.TestCase):
    def test_a_row_for_each_class_with_the_hosts(self) -> None:
        one = host_tree.TreeProvider(
            rp_uuid=uuids.pool,
            name='POOL_rack1',
            amounts={
                'CUSTOM_RACK1_GB': host_tree.Amount(
                    capacity=80,
                    used=30,
                    inventory=inventory.Inventory(total=100, reserved=20),
                )
            },
        )
        self.patch(overview, 'list_pools', lambda _: [(one, ('a', 'b'))])
        command = pool.ListPools(None, None)  # type: ignore[arg-type]
        command.placement = None  # type: ignore[assignment]

        columns, rows = command.take_action(argparse.Namespace())

        [row] = rows
        self.assertEqual(
            ('POOL_rack1', 'CUSTOM_RACK1_GB', 100, 20, 30, 50), row[:-1]
        )
        self.assertEqual(['a', 'b'], row[-1].machine_readable())
        self.assertEqual(len(columns), len(row))
