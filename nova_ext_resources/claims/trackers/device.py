# SPDX-License-Identifier: Apache-2.0

"""Devices, each with a name of its own, such as its PCI address.

The name is what a server holds and what the ledger records. A number would
have to be looked up in a table of the host's devices, and that table changes
when one is plugged in: a server would have another device after a restart.
Only the published state counts positions in a table of names, which it has
itself, because the names would fill it otherwise.

A device that a server holds may vanish. It stays taken, and is never free
again by being given back: only what the host still has is free.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
import dataclasses
import re
from typing import Any, Self

from nova_ext_resources.claims import base
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects import requirements

#: What a name may be: it is written to files, logs and pages.
_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,63}')

#: Its ``local_cpulist`` has the CPUs of its NUMA node (function
#: ``pci_dev_show_local_cpu`` of the kernel).
_NO_CACHE = (
    'the kernel shows the NUMA node of a device, but not the cache near the '
    'device: use numa_affinity. If a node has several caches, the firmware '
    'option "L3 cache as NUMA domain" makes each cache a node'
)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceState:
    """The devices of one provider.

    :ivar names: those that are there
    :ivar foreign: those of them that other software uses
    :ivar taken: those that servers of this host hold, also such as are no
        longer there
    """

    names: frozenset[str]
    foreign: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()

    @property
    def left(self) -> frozenset[str]:
        return self.names - self.foreign - self.taken

    @property
    def used(self) -> int:
        return len(self.taken)

    @property
    def free(self) -> int:
        return len(self.left)

    @property
    def available(self) -> int:
        return self.free

    def to_dict(self) -> Mapping[str, str | int]:
        table = sorted(self.names | self.taken)
        gone = self.taken - self.names
        return {
            'n': ' '.join(table),
            'f': _mark(table, self.foreign),
            't': _mark(table, self.taken),
            'g': _mark(table, gone),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read it.

        :raises ValueError: a name is none, or a mask is of other names
        """
        table = str.split(data['n'])
        names = check_names(table)
        foreign, taken, gone = (_pick(table, data[key]) for key in 'ftg')
        return cls(names - gone, foreign, taken)


class DeviceTracker(base.Tracker):
    """Gives each server devices of its own, the lowest names first.

    Inventory providers report ``{'names': [...]}``, the devices that are
    there, and may report ``{'foreign': [...]}``, those of them that look
    used. A server holds ``{'names': [...]}``.

    The attribute ``numa_affinity`` says whether the devices have to be near
    the server's CPUs, or should be.
    """

    ATTRIBUTES = {  # noqa: RUF012
        requirements.AFFINITY: '|'.join(requirements.Affinity)
    }
    NO_ATTRIBUTES = dict.fromkeys(('cache_affinity', 'l3_affinity'), _NO_CACHE)
    CAN_BE_NEAR = True
    STATE = DeviceState
    UNITS = frozenset({'names'})
    NEEDS_FACTS = True

    def observe(
        self,
        inventory: class_inventory.Inventory,
        units: Mapping[str, Any],
        assignments: Iterable[assignment.Assignment],
    ) -> class_inventory.Inventory:
        state = self._read(units)
        own = frozenset(
            name for one in assignments for name in one.units['names']
        )
        # Placement has allocated what servers hold, also where it is gone.
        total = max(inventory.total, len(state.names | own))
        return dataclasses.replace(
            inventory,
            total=total,
            reserved=total - len(state.left | own),
        )

    def initial(
        self, inventory: class_inventory.Inventory, units: Mapping[str, Any]
    ) -> DeviceState:
        count.check_sold_once('devices', inventory)
        return self._read(units)

    def _read(self, units: Mapping[str, Any]) -> DeviceState:
        """Read the facts of an inventory provider.

        :raises ValueError: a name is none, or there twice
        """
        names = check_names(units['names'])
        names -= frozenset(units.get('withheld', ()))
        return DeviceState(names, names & frozenset(units.get('foreign', ())))

    def fits(self, state: DeviceState, amount: int) -> bool:
        return 0 < amount <= state.free

    def allocate(
        self,
        state: DeviceState,
        amount: int,
        units: Mapping[str, Any] | None = None,
    ) -> tuple[DeviceState, Mapping[str, Any]]:
        if units is None:
            if not self.fits(state, amount):
                raise ValueError(
                    f'cannot take {amount} devices, {state.free} are free'
                )
            units = {'names': sorted(state.left)[:amount]}
        names = frozenset(units['names'])
        after = dataclasses.replace(
            state, foreign=state.foreign - names, taken=state.taken | names
        )
        return after, units

    def free(
        self, state: DeviceState, amount: int, units: Mapping[str, Any]
    ) -> DeviceState:
        names = frozenset(units['names'])
        return dataclasses.replace(state, taken=state.taken - names)

    def join(self, states: Sequence[DeviceState]) -> DeviceState:
        names = frozenset.intersection(*(one.names for one in states))
        foreign = frozenset[str]().union(*(one.foreign for one in states))
        return DeviceState(
            names,
            names & foreign,
            frozenset[str]().union(*(one.taken for one in states)),
        )

    def can_parse(self, units: Mapping[str, Any]) -> bool:
        try:
            return bool(check_names(units['names']))
        except foreign_data.UNREADABLE:
            return False

    def list_names(self, units: Mapping[str, Any]) -> frozenset[str]:
        return frozenset(units['names'])

    def find_lost(
        self, state: DeviceState, units: Mapping[str, Any]
    ) -> frozenset[str]:
        return self.list_names(units) - state.names

    def withhold(
        self, units: Mapping[str, Any], names: Set[str]
    ) -> Mapping[str, Any]:
        return {**units, 'withheld': sorted(names)}


def check_names(names: Iterable[Any]) -> frozenset[str]:
    """Return the names of devices.

    :raises (TypeError, ValueError): one of them is none, or there twice
    """
    if isinstance(names, str):
        raise TypeError('names must be a list')
    listed = list(names)
    for one in listed:
        if not isinstance(one, str) or not _NAME.fullmatch(one):
            raise ValueError(f'{one!a} is not the name of a device')
    if len(set(listed)) < len(listed):
        raise ValueError('two devices have the same name')
    return frozenset(listed)


def _mark(table: Sequence[str], names: Set[str]) -> str:
    return bitmask.format_mask(
        bitmask.from_numbers(n for n, one in enumerate(table) if one in names)
    )


def _pick(table: Sequence[str], text: str) -> frozenset[str]:
    """Return the names of a mask.

    :raises ValueError: it has bits that no name has
    """
    mask = bitmask.parse_mask(text)
    if mask >> len(table):
        raise ValueError(
            f'mask {text} has bits for more than {len(table)} names'
        )
    return frozenset(one for n, one in enumerate(table) if mask >> n & 1)
