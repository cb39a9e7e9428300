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

Which run a server gets decides what fits after it, since runs are never moved
while servers use them:

1. The shortest free run that will do, so that long ones stay whole.
2. Of its two ends the one whose distance to the nearer wall is a multiple of
   the amount, or comes nearest to one from above. A wall is an end of a run of
   ways that can be sold. Servers of one size then leave gaps into which others
   of that size fit exactly.
3. Of ends that are equal so far the one that is nearer to its wall. What is
   free then lies in the middle, and grows together with what is given back on
   either side, rather than in pieces shut in between servers and walls.

The uppermost run is an exception: its upper end is taken only where no more
than the amount is left of it. Everything without ways of its own fills the
free ways that lie side by side with the host's own (the highest; see
``resctrl/masks.py``). A server between the two would cut that off from all of
them, which is worse than some more refusals.

``bench/allocator.py`` compares this with first fit, with best fit (rule 1
alone), and with the optimum where that can be computed. Scores of what a
choice leaves (how many servers of each size would still fit; sums of squares)
were tried too: nearly always they take the run that best fit takes, and what
counts is which end of it.
"""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Any, Self

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.plugins import base
from nova_ext_resources.trackers import count


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

    The attribute ``code`` says how many of the ways hold code alone, where
    the host tells code from data; the others, one at least, hold data.
    """

    ATTRIBUTES = {  # noqa: RUF012
        'code': count.NUMBER,
        'pool': 'guaranteed',
    }
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
        count.check_sold_once('cache ways', inventory)
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

    def read_attributes(
        self, amount: int, attributes: Mapping[str, str]
    ) -> Mapping[str, Any]:
        super().read_attributes(amount, attributes)
        if 'code' not in attributes:
            return {}
        code = count.read_number('code', attributes['code'])
        if code >= amount:
            raise ValueError(
                f'attribute code is {code} of {amount} ways; one at least '
                'must be left for data'
            )
        return {'code': code}


def _choose(state: CacheWaysState, amount: int) -> int:
    """Choose ways by the rules of this module.

    :raises ValueError: there is no such run
    """
    runs = [
        (length, start)
        for start, length in bitmask.list_runs(state.free_mask)
        if length >= amount
    ]
    if amount < 1:
        raise ValueError(f'{amount} ways are nothing to give')
    if not runs:
        raise ValueError(_explain_lack(state, amount))
    shortest = min(runs)[0]
    _rest, _distance, start = min(
        (distance % amount, distance, start)
        for length, low in runs
        if length == shortest
        for start in _list_ends(state, low, length, amount)
        for distance in (_measure(state.ways, start, amount),)
    )
    return bitmask.make_run(start, amount)


def _explain_lack(state: CacheWaysState, amount: int) -> str:
    if not state.available:
        return 'no way is free'
    return f'no {amount} ways in a row are free, {state.available} at most'


def _list_ends(
    state: CacheWaysState, low: int, length: int, amount: int
) -> Iterable[int]:
    """Give where ``amount`` ways of a free run may start."""
    yield low
    is_uppermost = low + length == state.ways.bit_length()
    longest = 2 * amount if is_uppermost else length
    if amount < length <= longest:
        yield low + length - amount


def _measure(ways: int, start: int, length: int) -> int:
    """Count the ways between a run and the nearer wall."""
    return min(
        bitmask.count_below(ways, start),
        bitmask.count_from(ways, start + length),
    )


def _mask_of(held: Iterable[assignment.Assignment]) -> int:
    mask = 0
    for one in held:
        mask |= bitmask.parse_mask(one.units['mask'])
    return mask
