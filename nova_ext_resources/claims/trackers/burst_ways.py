# SPDX-License-Identifier: Apache-2.0

"""Ways of a pool whose servers may use more while nobody else needs it.

What a server asks for is its minimum: the ways that it always has. All that
must fit is the sum of the minimums, for the enforcer lays the runs out anew
whenever a server comes or goes, and so none is ever in the way of another.
Nothing that is cached is lost by that: a mask says which ways are filled,
and hits are served from any (kernel documentation, *User Interface for
Resource Control feature*, "Cache Pseudo-Locking").
"""

from collections.abc import Mapping
from typing import Any

from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import class_inventory


class BurstWaysTracker(count.RangeTracker):
    """Counts the minimums of a pool of burst ways.

    Without the attribute ``max`` a server may use the whole pool while it
    is free.
    """

    def initial(
        self, inventory: class_inventory.Inventory, units: Mapping[str, Any]
    ) -> count.CountState:
        count.check_sold_once('burst ways', inventory)
        return super().initial(inventory, units)
