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

"""Units that are all alike: only their number matters."""

from collections.abc import Iterable, Mapping
import dataclasses
import operator
from typing import Any, Self

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.plugins import base


@dataclasses.dataclass(frozen=True, slots=True)
class CountState:
    """``used`` of ``capacity``; more is used than there is after a cut."""

    capacity: int
    used: int = 0

    @property
    def free(self) -> int:
        return max(self.capacity - self.used, 0)

    @property
    def available(self) -> int:
        return self.free

    def to_dict(self) -> Mapping[str, str | int]:
        return {'c': self.capacity, 'u': self.used}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(operator.index(data['c']), operator.index(data['u']))


class CountTracker(base.Tracker):
    """Counts up to the inventory's capacity.

    The inventory provider may report ``{'free': N}``: what the host still
    has, whoever uses the rest. What is then neither free nor held by a
    server of ours is foreign use, and is reserved.
    """

    STATE = CountState

    def observe(
        self,
        inventory: inventory_obj.Inventory,
        units: Mapping[str, Any],
        held: Iterable[assignment.Assignment],
    ) -> inventory_obj.Inventory:
        if 'free' not in units:
            return inventory
        own = sum(a.amount for a in held)
        foreign = inventory.total - int(units['free']) - own
        reserved = min(max(inventory.reserved, foreign), inventory.total)
        return dataclasses.replace(inventory, reserved=reserved)

    def initial(
        self, inventory: inventory_obj.Inventory, units: Mapping[str, Any]
    ) -> CountState:
        return CountState(inventory.capacity)

    def fits(self, state: CountState, amount: int) -> bool:
        return 0 < amount <= state.capacity - state.used

    def take(
        self,
        state: CountState,
        amount: int,
        units: Mapping[str, Any] | None = None,
    ) -> tuple[CountState, Mapping[str, Any]]:
        if units is None and not self.fits(state, amount):
            raise ValueError(f'{amount} of {state.free} free units')
        return CountState(state.capacity, state.used + amount), {}

    def give(
        self, state: CountState, amount: int, units: Mapping[str, Any]
    ) -> CountState:
        return CountState(state.capacity, state.used - amount)
