# SPDX-License-Identifier: Apache-2.0

"""Places among the servers that share one pool of ways.

All of them fill the same ways, and one class of service does for them all. A
place is no way of one's own: it keeps what a server fills out of the ways
that others have for themselves, and bounds with how many it competes.
"""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Any

from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory


class SharedWaysTracker(count.CountTracker):
    """Counts places, of which a server takes one."""

    NEEDS_ENFORCER = True
    IS_CPU_LOCAL = True

    def observe(
        self,
        inventory: class_inventory.Inventory,
        units: Mapping[str, Any],
        assignments: Iterable[assignment.Assignment],
    ) -> class_inventory.Inventory:
        # A second place would give the server nothing, and keep others out.
        return dataclasses.replace(
            super().observe(inventory, units, assignments), max_unit=1
        )
