# SPDX-License-Identifier: Apache-2.0

"""Tests of the command that lists pools; see functional for what it reads."""

import argparse
import io
from typing import Any

from cliff.formatters import table
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.cmd.osc.resource import pool
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.placement import cloud_snapshot
from tests import base
from tests.unit.cmd.osc import test_pages


class PoolTest(base.TestCase):
    def list_pools(self, *hosts: str) -> tuple[Any, list[Any]]:
        """Return the columns and the rows of a pool of these hosts."""
        one = host_tree.TreeProvider(
            rp_uuid=uuids.pool,
            name='POOL_rack1',
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
        self.patch(cloud_snapshot, 'list_pools', lambda _: [(one, hosts)])
        command = pool.ListPools(None, None)  # type: ignore[arg-type]
        command.placement = None  # type: ignore[assignment]
        columns, rows = command.take_action(argparse.Namespace())
        return columns, [*rows]

    def test_a_row_for_each_class_with_the_hosts(self) -> None:
        columns, [row] = self.list_pools('a', 'b')

        self.assertEqual(
            ('POOL_rack1', 'CUSTOM_RACK1_GB', 100, 20, 30, 50), row[:-1]
        )
        self.assertEqual(['a', 'b'], row[-1].machine_readable())
        self.assertEqual(len(columns), len(row))

    def test_the_page_shows_what_is_printed(self) -> None:
        columns, rows = self.list_pools('node1', 'node2')
        printed = io.StringIO()

        table.TableFormatter().emit_list(
            columns,
            rows,
            printed,
            argparse.Namespace(
                print_empty=False, max_width=0, fit_width=False
            ),
        )

        page = dict(test_pages.read_page('admin/plugins/shared_pool.rst'))
        self.assertEqual(
            page['openstack extended resource pool list'],
            printed.getvalue().rstrip(),
        )
