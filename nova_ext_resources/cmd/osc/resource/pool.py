# SPDX-License-Identifier: Apache-2.0

"""``openstack extended resource pool list``."""

import argparse
from collections.abc import Iterable
from typing import Any

from osc_lib.cli import format_columns
from osc_lib.command import command

from nova_ext_resources.cmd.osc import cloud
from nova_ext_resources.placement import cloud_snapshot

_COLUMNS = (
    'Pool',
    'Resource Class',
    'Total',
    'Reserved',
    'Used',
    'Free',
    'Hosts',
)


class ListPools(cloud.CloudCommand, command.Lister):
    """List pools that belong to no host, and the hosts that reach them.

    These are all sharing providers of placement.
    """

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        with cloud.asking():
            pools = cloud_snapshot.list_pools(self.placement)
        return _COLUMNS, [
            (
                pool.name,
                name,
                amount.inventory and amount.inventory.total,
                amount.inventory and amount.inventory.reserved,
                amount.used,
                amount.free,
                format_columns.ListColumn([*hosts]),
            )
            for pool, hosts in pools
            for name, amount in sorted(pool.amounts.items())
        ]
