# SPDX-License-Identifier: Apache-2.0

"""Memory bandwidth of one cache domain, in percent or in MB/s.

The amounts of all servers together stay within the capacity. What a server
is limited to is rounded upwards to what the hardware can do, never below the
amount. With the attribute ``max`` the limit may be raised up to it while
others leave bandwidth free; without, the amount is also the most.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any, Self

from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import foreign_data


@dataclasses.dataclass(frozen=True, slots=True)
class BandwidthState(count.CountState):
    """``used`` of ``capacity``; the hardware knows multiples of ``step``."""

    step: int = 1

    def to_dict(self) -> Mapping[str, str | int]:
        # A class with slots is made anew, which super() does not know.
        return {**count.CountState.to_dict(self), 's': self.step}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read it.

        :raises ValueError: the step is not a positive number
        """
        read = foreign_data.read_capacity
        step = foreign_data.read_whole(data['s'], 1)
        return cls(read(data['c']), read(data['u']), step)


class BandwidthTracker(count.RangeTracker):
    """Gives each server a limit, in the units of its resource class.

    Inventory providers may report ``{'step': N}``, in which the hardware
    counts.
    """

    STATE = BandwidthState

    def initial(
        self, inventory: class_inventory.Inventory, units: Mapping[str, Any]
    ) -> BandwidthState:
        step = max(int(units.get('step', 1)), 1)
        return BandwidthState(inventory.capacity, 0, step)

    def allocate(
        self,
        state: Any,
        amount: int,
        units: Mapping[str, Any] | None = None,
    ) -> tuple[count.CountState, Mapping[str, Any]]:
        after, same = super().allocate(state, amount, units)
        if units is None:
            return after, {'limit': -(-amount // state.step) * state.step}
        return after, same
