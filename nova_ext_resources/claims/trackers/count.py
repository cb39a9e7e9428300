# SPDX-License-Identifier: Apache-2.0

"""Units that are all alike: only their number matters."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import re
from typing import Any, Self

from nova_ext_resources.claims import base
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import foreign_data

#: Values of attributes that are numbers; placement's own are not longer.
NUMBER = '[1-9][0-9]{0,8}'


def read_number(name: str, value: str) -> int:
    """Read an attribute that is a whole number.

    :raises ValueError: it is none, or below 1
    """
    if not re.fullmatch(NUMBER, value):
        raise ValueError(
            f'attribute {name} is {value!r}; it must be a whole number from '
            f'1 on'
        )
    return int(value)


def check_sold_once(name: str, inventory: class_inventory.Inventory) -> None:
    """Refuse to sell more than there is of what is always held.

    :raises InvalidResource: the allocation ratio would allow it
    """
    if inventory.allocation_ratio != 1.0:
        raise exception.InvalidResource(
            name=name,
            reason=f'each unit of {name} has one owner: allocation_ratio must '
            'be 1.0',
        )


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
        read = foreign_data.read_capacity
        return cls(read(data['c']), read(data['u']))


class CountTracker(base.Tracker):
    """Counts up to the inventory's capacity.

    The inventory provider may report ``{'free': N}``: what the host still
    has, whoever uses the rest. What is then neither free nor held by a
    server of ours is foreign use, and is reserved.
    """

    STATE = CountState

    def observe(
        self,
        inventory: class_inventory.Inventory,
        units: Mapping[str, Any],
        assignments: Iterable[assignment.Assignment],
    ) -> class_inventory.Inventory:
        if 'free' not in units:
            return inventory
        own = sum(a.amount for a in assignments)
        foreign = inventory.total - int(units['free']) - own
        reserved = min(max(inventory.reserved, foreign), inventory.total)
        return dataclasses.replace(inventory, reserved=reserved)

    def initial(
        self, inventory: class_inventory.Inventory, units: Mapping[str, Any]
    ) -> CountState:
        return CountState(inventory.capacity)

    def fits(self, state: CountState, amount: int) -> bool:
        return 0 < amount <= state.capacity - state.used

    def allocate(
        self,
        state: CountState,
        amount: int,
        units: Mapping[str, Any] | None = None,
    ) -> tuple[CountState, Mapping[str, Any]]:
        if units is None and not self.fits(state, amount):
            raise ValueError(
                f'cannot take {amount} units, {state.free} are free'
            )
        state = dataclasses.replace(state, used=state.used + amount)
        return state, {} if units is None else units

    def free(
        self, state: CountState, amount: int, units: Mapping[str, Any]
    ) -> CountState:
        return dataclasses.replace(state, used=state.used - amount)

    def join(self, states: Sequence[CountState]) -> CountState:
        return min(states, key=lambda one: one.capacity - one.used)


class RangeTracker(CountTracker):
    """Counts what a server always has, and notes what it may have more.

    The attribute ``max`` is the most that a server may have while others
    leave it free, in the units of the resource class. Only the amount
    counts: nobody is turned away for the sake of what others may have.
    """

    ATTRIBUTES = {'max': NUMBER}  # noqa: RUF012
    NEEDS_ENFORCER = True
    IS_CPU_LOCAL = True

    def read_attributes(
        self, amount: int, attributes: Mapping[str, str]
    ) -> Mapping[str, Any]:
        super().read_attributes(amount, attributes)
        if 'max' not in attributes:
            return {}
        most = read_number('max', attributes['max'])
        if most < amount:
            raise ValueError(
                f'attribute max is {most}, less than the {amount} guaranteed '
                f'units; set max to {amount} or more'
            )
        return {'max': most}
