# SPDX-License-Identifier: Apache-2.0

"""Ways of one cache domain, allocated as contiguous runs.

A capacity bitmask must be one run of set bits on most CPUs (kernel
documentation, *User Interface for Resource Control feature*, "Cache Bit
Masks (CBM)"), so N free ways are no use to a server that asks for N unless
they lie side by side.

Which run a server gets decides what fits after it, because a run is never
moved while a server uses it. How long a server will live is not known, so its
amount has to stand for that:

1. The run that wastes least: the ways left over when it is filled with servers
   of this amount, and one more where it is of middle length. Such a run has
   room for two of them, yet is shorter than half of the ways: it is what
   servers of middle size need. A longer run stays long.
2. Of equal runs the uppermost one. While it is long, even a hole between
   servers that would fit exactly is left to grow when its neighbours leave.
3. A small server, of less than 3 ways in 10, gets the end of the run whose
   distance to the nearer wall is a multiple of its amount, or exceeds one by
   least; then the nearer one. A wall is an end of a run of ways that may be
   allocated at all. Small servers leave gaps into which others of their size
   fit exactly, and what is free grows together in the middle.
4. A large server gets the lower end. It blocks much for as long as it lives;
   with large servers low down and side by side, small ones that come and go
   do not end up between them, where they would part what is free.

The uppermost run is an exception: its upper end is taken only where no more
than the amount is left of it. Everything without ways of its own fills the
free ways that lie side by side with the host's own (the highest; see
``drivers/resctrl/policy/layout.py``). A server between the two would cut that
off from all of them, which is worse than a few more refusals.

An example: twelve ways, the lowest at the right, one letter per server::

    A2   ..........AA   the uppermost run, from below
    B4   ......BBBBAA   large: the lower end
    C2   ....CCBBBBAA
    -A   ....CCBBBB..
    D3   DDD.CCBBBB..   of four ways: 0 are above DDD, 1 would be above .DDD
    E2   DDD.CCBBBBEE   fits exactly
    -B   DDD.CC....EE
    F1   DDDFCC....EE   fits exactly; the four ways stay whole
    G2   DDDFCC..GGEE   2 are below GG, once its amount; 4 would be below GG..

``dev/bench/allocator.py`` compares this with first fit (the lowest run that is
long enough), with best fit (the shortest), and with the optimum where that can
be computed. To pack more tightly is not always to accept more requests: one
more large server that stays long means that many small ones are refused.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
from typing import Any, Self

from nova_ext_resources.claims import base
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects.documents import foreign_data


@dataclasses.dataclass(frozen=True, slots=True)
class CacheWaysState:
    """One domain.

    :ivar ways: mask of the ways that may be allocated: neither the host nor
        other software has them
    :ivar taken: mask of the ways allocated to servers of this host
    :ivar is_sparse: ways of a server need not lie side by side
    """

    ways: int
    taken: int = 0
    is_sparse: bool = False

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
        if self.is_sparse:
            return self.free
        return bitmask.find_longest(self.free_mask).bit_count()

    def to_dict(self) -> Mapping[str, str | int]:
        return {
            'w': bitmask.format_mask(self.ways),
            't': bitmask.format_mask(self.taken),
            **({'s': 1} if self.is_sparse else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        ways, taken = map(bitmask.parse_mask, (data['w'], data['t']))
        return cls(ways, taken, bool(data.get('s')))


class CacheWaysTracker(base.Tracker):
    """Allocates exclusive ways to each server: a run, where the CPU needs it.

    Inventory providers report ``{'free': mask}``, the ways that are not used
    at all, and ``{'sparse': 1}`` where ways need not lie side by side: then a
    server gets a run if there is one, else the lowest ways. All others that
    are not allocated to servers of this host are reserved: the host's own
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
        inventory: class_inventory.Inventory,
        units: Mapping[str, Any],
        assignments: Iterable[assignment.Assignment],
    ) -> class_inventory.Inventory:
        state = _read_state(units, assignments)
        # With nothing left at all, placement still wants max_unit >= 1.
        return dataclasses.replace(
            inventory,
            reserved=max(inventory.total - state.free, 0),
            max_unit=max(
                min(inventory.max_unit, state.available), inventory.min_unit
            ),
        )

    def initial(
        self, inventory: class_inventory.Inventory, units: Mapping[str, Any]
    ) -> CacheWaysState:
        count.check_sold_once('cache ways', inventory)
        return _read_state(units)

    def fits(self, state: CacheWaysState, amount: int) -> bool:
        is_one = state.is_sparse or bitmask.has_run(state.free_mask, amount)
        return 0 < amount <= state.free and is_one

    def allocate(
        self,
        state: CacheWaysState,
        amount: int,
        units: Mapping[str, Any] | None = None,
    ) -> tuple[CacheWaysState, Mapping[str, Any]]:
        if units is None:
            units = {'mask': bitmask.format_mask(_choose(state, amount))}
        mask = bitmask.parse_mask(units['mask'])
        ways, taken = state.ways | mask, state.taken | mask
        return dataclasses.replace(state, ways=ways, taken=taken), units

    def can_parse(self, units: Mapping[str, Any]) -> bool:
        try:
            bitmask.parse_mask(units['mask'])
        except foreign_data.UNREADABLE:
            return False
        return True

    def free(
        self, state: CacheWaysState, amount: int, units: Mapping[str, Any]
    ) -> CacheWaysState:
        mask = bitmask.parse_mask(units['mask'])
        return dataclasses.replace(state, taken=state.taken & ~mask)

    def join(self, states: Sequence[CacheWaysState]) -> CacheWaysState:
        ways, taken = states[0].ways, states[0].taken
        for one in states[1:]:
            ways, taken = ways & one.ways, taken | one.taken
        return dataclasses.replace(states[0], ways=ways, taken=taken)

    def read_attributes(
        self, amount: int, attributes: Mapping[str, str]
    ) -> Mapping[str, Any]:
        super().read_attributes(amount, attributes)
        if 'code' not in attributes:
            return {}
        code = count.read_number('code', attributes['code'])
        if code >= amount:
            raise ValueError(
                f'attribute code takes {code} of {amount} ways; leave at '
                'least one way for data'
            )
        return {'code': code}


def _choose(state: CacheWaysState, amount: int) -> int:
    """Choose ways by the rules of this module.

    :raises ValueError: there is no such run
    """
    if amount < 1:
        raise ValueError(f'{amount} ways cannot be allocated')
    ranked = [
        (
            *_rank_run(state, low, length, amount),
            *_rank_end(state, start, amount),
        )
        for low, length in bitmask.list_runs(state.free_mask)
        if length >= amount
        for start in _list_ends(state, low, length, amount)
    ]
    if not ranked and state.is_sparse and amount <= state.free:
        return bitmask.find_lowest(state.free_mask, amount)
    if not ranked:
        raise ValueError(_explain_shortage(state, amount))
    return bitmask.make_run(min(ranked)[-1], amount)


def _explain_shortage(state: CacheWaysState, amount: int) -> str:
    if not state.available:
        return 'no way is free'
    return (
        f'no {amount} ways in a row are free; at most {state.available} are '
        'available'
    )


def _rank_run(
    state: CacheWaysState, low: int, length: int, amount: int
) -> tuple[int, bool]:
    """Return the ways that a run wastes, and whether others lie above it."""
    is_middle = 2 * amount <= length < state.ways.bit_count() / 2
    return length % amount + is_middle, not _is_uppermost(state, low + length)


def _rank_end(
    state: CacheWaysState, start: int, amount: int
) -> tuple[int, int, int]:
    """Return what is between a place and the nearer wall, and the place."""
    if 10 * amount >= 3 * state.ways.bit_count():
        return 0, 0, start
    distance = min(
        bitmask.count_below(state.ways, start),
        bitmask.count_from(state.ways, start + amount),
    )
    return distance % amount, distance, start


def _list_ends(
    state: CacheWaysState, low: int, length: int, amount: int
) -> Iterable[int]:
    """Return the lowest ways that a server may get in a free run."""
    yield low
    is_open = _is_uppermost(state, low + length) and length > 2 * amount
    if length > amount and not is_open:
        yield low + length - amount


def _is_uppermost(state: CacheWaysState, end: int) -> bool:
    return end == state.ways.bit_length()


def _read_state(
    units: Mapping[str, Any], assignments: Iterable[assignment.Assignment] = ()
) -> CacheWaysState:
    """Return what an inventory provider reports, and what servers hold."""
    masks = (units['free'], *(one.units['mask'] for one in assignments))
    ways = bitmask.unite(map(bitmask.parse_mask, masks))
    return CacheWaysState(ways, is_sparse='sparse' in units)
