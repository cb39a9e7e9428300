# SPDX-License-Identifier: Apache-2.0

"""A pool, and what each of its servers has of it. Pure.

A pool is what may be moved between servers while they run: the burst ways of
a cache, or its memory bandwidth. Every server in it always has its guaranteed
amount; the rest is divided, see ``drivers.rdt.fair_share``, unless fine tuning
has set amounts for exactly these servers.

Four servers on a cache of twelve ways, of which the burst pool has the lowest
six. A, B and C have allocated one burst way each, A two at most. D comes, and
has two guaranteed::

    server    least  most  before      after
    A             1     2     003        003
    B             1     6     00c        004
    C             1     6     030        008
    D             2     6       -        030

The spare way goes to the first of them. Each run is moved only when no other
is in its way, see ``write_order``.
"""

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
from typing import TypeAlias

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rdt import fair_share
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.policy import bandwidth
from nova_ext_resources.drivers.resctrl.policy import layout
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import tunable_units

#: Provider key, resource class.
Key: TypeAlias = tuple[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pool(abc.ABC):
    """All amounts are in the unit of the resource class.

    :ivar demands: server -> the least and the most that it can have
    :ivar amounts: server -> what it has now, 0 for nothing yet
    :ivar step: what the hardware counts in
    """

    key: Key
    cache: schemata.Cache
    capacity: int
    demands: Mapping[str, fair_share.Demand]
    amounts: Mapping[str, int]
    step: int = 1

    @property
    def guaranteed(self) -> int:
        return sum(least for least, _most in self.demands.values())

    @property
    def is_overdrawn(self) -> bool:
        """Whether not even the guaranteed amounts are there."""
        return self.guaranteed > self.capacity

    def explain_shortage(self) -> str:
        """Explain why it is overdrawn."""
        return (
            f'other software on the host uses this resource: {self.capacity} '
            'units are left for all servers of the pool'
        )

    @abc.abstractmethod
    def make_parts(
        self, divided: Mapping[str, int]
    ) -> Iterator[tuple[str, layout.Wanted]]:
        """Return each server, and what its group is to have."""

    def divide(self, fixed: Mapping[str, int]) -> dict[str, int]:
        """Return server -> amount.

        :param fixed: used when it is of these servers and possible
        :raises ValueError: the guaranteed amounts alone are too much
        """
        if not self.find_problem(fixed):
            return dict(fixed)
        divided = fair_share.divide(
            self.capacity, tuple(self.demands.values()), self.step
        )
        return dict(zip(self.demands, divided, strict=True))

    def find_problem(self, fixed: Mapping[str, int]) -> str:
        """Explain why these cannot be the amounts, or ''."""
        if fixed.keys() != self.demands.keys():
            return (
                'the amounts must be for exactly the servers '
                f'{", ".join(sorted(self.demands))}'
            )
        for uuid, amount in fixed.items():
            least, most = self.demands[uuid]
            if not least <= amount <= most:
                return (
                    f'{amount} for server {uuid} is not between {least} and '
                    f'{most}'
                )
        if sum(fixed.values()) > self.capacity:
            return (
                f'the sum of the amounts is {sum(fixed.values())}, more than '
                f'the {self.capacity} units of the pool'
            )
        return ''

    def list_tunables(self) -> list[tunable_units.Tunable]:
        """Return what each server has, without those that have none yet."""
        return [
            tunable_units.Tunable(
                consumer_uuid=uuid,
                rp_key=self.key[0],
                resource_class=self.key[1],
                minimum=least,
                # What the hardware cannot count cannot be had.
                maximum=self._round(uuid, most),
                amount=self.amounts[uuid],
                step=self.step,
            )
            for uuid, (least, most) in self.demands.items()
            if self.amounts[uuid]
        ]

    def read_tunables(
        self,
        tunables: Sequence[tunable_units.Tunable],
        known: Mapping[str, int],
    ) -> dict[str, int]:
        """Return server -> amount; servers that are not named keep theirs.

        Amounts between two steps of the hardware are rounded downwards.

        :param known: amounts that were set before
        :raises ValueError: it cannot be done; says why
        """
        named = {one.consumer_uuid: one.amount for one in tunables}
        if others := named.keys() - self.demands.keys():
            raise ValueError(
                f'server {", ".join(sorted(others))} holds no unit'
            )
        given = {uuid: self._round(uuid, one) for uuid, one in named.items()}
        amounts = {**self.divide(known), **given}
        if problem := self.find_problem(amounts):
            raise ValueError(problem)
        return amounts

    def _round(self, uuid: str, amount: int) -> int:
        least = self.demands[uuid][0]
        return least + (amount - least) // self.step * self.step


@dataclasses.dataclass(frozen=True, kw_only=True)
class BurstPool(Pool):
    """The burst ways of a cache.

    Runs lie side by side in an order that stays, so that each can be moved
    while no two of them overlap: of two neighbours never each is in the
    other's way, so there is one that can go first.

    :ivar demands: in the order of the runs, those without one last
    :ivar room: the ways that its servers can have
    :ivar size: how many the options say
    """

    room: int
    size: int

    def explain_shortage(self) -> str:
        if self.guaranteed <= self.size:
            return super().explain_shortage()
        return (
            f'{self.guaranteed} ways of the pool of {self.key[0]} are '
            'allocated, but [ext_resources_resctrl] burst_ways is '
            f'{self.size}; set burst_ways to at least {self.guaranteed} until '
            'servers have left'
        )

    def make_parts(
        self, divided: Mapping[str, int]
    ) -> Iterator[tuple[str, layout.Wanted]]:
        runs = lay_out(self.room, [divided[uuid] for uuid in self.demands])
        for uuid, mask in zip(self.demands, runs, strict=True):
            ways = {self.cache: schemata.Ways(mask)}
            yield uuid, layout.Wanted(ways=ways)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BandwidthPool(Pool):
    """The memory bandwidth of a last-level cache."""

    domain: bandwidth.BandwidthOwnership

    def make_parts(
        self, divided: Mapping[str, int]
    ) -> Iterator[tuple[str, layout.Wanted]]:
        for uuid, amount in divided.items():
            limits = {self.cache.number: self.domain.to_kernel(amount)}
            yield uuid, layout.Wanted(limits=limits)


def make_pool(
    owned: ownership.Ownership,
    key: Key,
    *,
    added: Mapping[str, Iterable[assignment.Assignment]] | None = None,
) -> Pool | None:
    """Make a pool of its servers, None where there is no such.

    :param added: what a server has that is to be applied, again or for the
        first time
    """
    entries = {
        uuid: entry.assignments
        for uuid, entry in owned.entries.items()
        if uuid in owned.tree.ours
    }
    assignments = {
        uuid: one
        for uuid, assignments in sorted({**entries, **(added or {})}.items())
        for one in assignments
        if (one.rp_key, one.resource_class) == key
    }
    if not assignments:
        return None
    cache = schemata.parse_key(key[0])
    if key[1] == classes.BURST:
        ways = owned.caches.get(cache)
        return (
            _make_burst_pool(key, cache, ways, assignments) if ways else None
        )
    limits = owned.bandwidths.get(cache)
    if limits is None or limits.resource_class != key[1]:
        return None
    return _make_bandwidth_pool(key, cache, limits, assignments)


def _make_burst_pool(
    key: Key,
    cache: schemata.Cache,
    domain: ownership.CacheOwnership,
    assignments: Mapping[str, assignment.Assignment],
) -> Pool:
    room = domain.find_room(domain.burst, assignments.keys())
    size = room.bit_count()
    masks = {uuid: domain.find_burst_run(uuid) for uuid in assignments}

    def limit(one: assignment.Assignment) -> fair_share.Demand:
        most = min(int(one.units.get('max', size)), size)
        return one.amount, max(most, one.amount)

    return BurstPool(
        key=key,
        cache=cache,
        capacity=size,
        demands={uuid: limit(assignments[uuid]) for uuid in sort(masks)},
        amounts={uuid: mask.bit_count() for uuid, mask in masks.items()},
        room=room,
        size=domain.burst.bit_count(),
    )


def _make_bandwidth_pool(
    key: Key,
    cache: schemata.Cache,
    domain: bandwidth.BandwidthOwnership,
    assignments: Mapping[str, assignment.Assignment],
) -> Pool:
    least = {
        uuid: domain.round(classes.get_limit(one))
        for uuid, one in assignments.items()
    }
    return BandwidthPool(
        key=key,
        cache=cache,
        # Rounding upwards may have taken more than there is.
        capacity=max(domain.total, sum(least.values())),
        demands={
            uuid: (least[uuid], max(least[uuid], int(one.units.get('max', 0))))
            for uuid, one in assignments.items()
        },
        amounts={uuid: domain.get_amount(uuid) for uuid in assignments},
        step=domain.to_amount(domain.info.granularity),
        domain=domain,
    )


def sort(current: Mapping[str, int]) -> list[str]:
    """Return servers in the order of their runs, then those without one."""
    return sorted(
        current,
        key=lambda uuid: (
            not current[uuid],
            current[uuid] & -current[uuid],
            uuid,
        ),
    )


def lay_out(room: int, sizes: Sequence[int]) -> list[int]:
    """Return runs of these sizes side by side."""
    start = (room & -room).bit_length() - 1
    runs = []
    for size in sizes:
        runs.append(bitmask.make_run(start, size))
        start += size
    return runs
