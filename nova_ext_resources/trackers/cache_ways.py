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

"""Ways of one cache domain, given out as contiguous runs.

A capacity bitmask must be one run of set bits on most CPUs (kernel
documentation, *User Interface for Resource Control feature*, "Cache Bit
Masks (CBM)"), so N free ways are no use to a server that asks for N unless
they lie side by side.
"""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Any, Self

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.plugins import base


@dataclasses.dataclass(frozen=True, slots=True)
class CacheWaysState:
    """One domain.

    :ivar ways: mask of what can be sold: not held by the host or others
    :ivar taken: mask of what servers of this host hold
    """

    ways: int
    taken: int = 0

    @property
    def free_mask(self) -> int:
        return self.ways & ~self.taken

    @property
    def used(self) -> int:
        return self.taken.bit_count()

    @property
    def free(self) -> int:
        return self.free_mask.bit_count()

    @property
    def available(self) -> int:
        runs = bitmask.list_runs(self.free_mask)
        return max((length for _start, length in runs), default=0)

    def to_dict(self) -> Mapping[str, str | int]:
        return {
            'w': bitmask.format_mask(self.ways),
            't': bitmask.format_mask(self.taken),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            bitmask.parse_mask(data['w']), bitmask.parse_mask(data['t'])
        )


class CacheWaysTracker(base.Tracker):
    """Gives each server exclusive, contiguous ways.

    Inventory providers report ``{'free': mask}``, the ways that nobody
    uses. All else that no server of ours holds is reserved: the host's own
    ways, other pools, and groups of other software.
    """

    ATTRIBUTES = {'pool': 'guaranteed'}  # noqa: RUF012
    STATE = CacheWaysState
    NEEDS_ENFORCER = True
    IS_CPU_LOCAL = True
    NEEDS_FACTS = True

    def observe(
        self,
        inventory: inventory_obj.Inventory,
        units: Mapping[str, Any],
        held: Iterable[assignment.Assignment],
    ) -> inventory_obj.Inventory:
        ways = bitmask.parse_mask(units['free']) | _mask_of(held)
        longest = CacheWaysState(ways).available
        # With nothing left at all, placement still wants max_unit >= 1.
        return dataclasses.replace(
            inventory,
            reserved=max(inventory.total - ways.bit_count(), 0),
            max_unit=max(min(inventory.max_unit, longest), inventory.min_unit),
        )

    def initial(
        self, inventory: inventory_obj.Inventory, units: Mapping[str, Any]
    ) -> CacheWaysState:
        if inventory.allocation_ratio != 1.0:
            raise exception.InvalidResource(
                name='cache ways',
                reason='exclusive ways cannot be sold twice: '
                'allocation_ratio must be 1.0',
            )
        return CacheWaysState(bitmask.parse_mask(units['free']))

    def fits(self, state: CacheWaysState, amount: int) -> bool:
        return amount > 0 and bitmask.has_run(state.free_mask, amount)

    def take(
        self,
        state: CacheWaysState,
        amount: int,
        units: Mapping[str, Any] | None = None,
    ) -> tuple[CacheWaysState, Mapping[str, Any]]:
        if units is None:
            units = {'mask': bitmask.format_mask(_choose(state, amount))}
        mask = bitmask.parse_mask(units['mask'])
        return CacheWaysState(state.ways | mask, state.taken | mask), units

    def give(
        self, state: CacheWaysState, amount: int, units: Mapping[str, Any]
    ) -> CacheWaysState:
        mask = bitmask.parse_mask(units['mask'])
        return dataclasses.replace(state, taken=state.taken & ~mask)


def _choose(state: CacheWaysState, amount: int) -> int:
    """Best fit: the shortest run that will do, so that long ones stay."""
    runs = bitmask.list_runs(state.free_mask)
    fitting = [run for run in runs if amount <= run[1]]
    if amount < 1 or not fitting:
        raise ValueError(f'{amount} of {state.available} ways in a row')
    start, _length = min(fitting, key=lambda run: (run[1], run[0]))
    return bitmask.make_run(start, amount)


def _mask_of(held: Iterable[assignment.Assignment]) -> int:
    mask = 0
    for one in held:
        mask |= bitmask.parse_mask(one.units['mask'])
    return mask
