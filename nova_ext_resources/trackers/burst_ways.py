# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

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

from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.trackers import count


class BurstWaysTracker(count.RangeTracker):
    """Counts the minimums of a pool of burst ways.

    Without the attribute ``max`` a server may use the whole pool while it
    is free.
    """

    def initial(
        self, inventory: inventory_obj.Inventory, units: Mapping[str, Any]
    ) -> count.CountState:
        count.check_sold_once('burst ways', inventory)
        return super().initial(inventory, units)
