# SPDX-License-Identifier: Apache-2.0

"""What the servers of a pool have of it, each between its bounds. Pure.

A pool is what may be moved between servers while they run: the burst ways of
a cache, or its memory bandwidth. Every server in it always has its guaranteed
amount; the rest is divided, see ``drivers.rdt.fair_share``, unless fine tuning
has set amounts for exactly these servers.

Runs of burst ways lie side by side in an order that stays, so that each can be
moved while no two of them overlap: of two neighbours never each is in the
other's way, so there is one that can go first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
from typing import TypeAlias

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rdt import fair_share
from nova_ext_resources.drivers.rdt import refusals
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.policy import bandwidth
from nova_ext_resources.drivers.resctrl.policy import choice
from nova_ext_resources.drivers.resctrl.policy import layout
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import tunable

#: Provider key, resource class.
Key: TypeAlias = tuple[str, str]

#: Pool -> server -> the amount that fine tuning has set.
Amounts: TypeAlias = Mapping[Key, Mapping[str, int]]

CLASSES = frozenset({classes.BURST, *classes.BANDWIDTHS})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """All amounts are in the unit of the resource class.

    :ivar demands: server -> the least and the most that it can have
    :ivar amounts: server -> what it has now, 0 for nothing yet
    :ivar step: what the hardware counts in
    :ivar room: burst ways only: which ones
    :ivar size: burst ways only: how many the options say
    """

    key: Key
    cache: schemata.Cache
    capacity: int
    demands: Mapping[str, fair_share.Demand]
    amounts: Mapping[str, int]
    step: int = 1
    room: int = 0
    size: int = 0

    @property
    def guaranteed(self) -> int:
        return sum(least for least, _most in self.demands.values())

    @property
    def is_overdrawn(self) -> bool:
        """Whether not even the guaranteed amounts are there."""
        return self.guaranteed > self.capacity

    def explain_lack(self) -> str:
        """Explain why it is overdrawn."""
        if self.guaranteed > self.size:
            return (
                f'{self.guaranteed} ways of the pool of {self.key[0]} are '
                f'allocated, and [ext_resources_resctrl] burst_ways is '
                f'{self.size}; set it to {self.guaranteed} at least until '
                'servers have left'
            )
        return (
            f'something else on the host uses it: {self.capacity} are left '
            'for all servers of the pool'
        )

    def divide(self, fixed: Mapping[str, int]) -> dict[str, int]:
        """Return server -> amount.

        :param fixed: used when it is of these servers and possible
        :raises ValueError: the guaranteed amounts alone are too much
        """
        if not self.find_misfit(fixed):
            return dict(fixed)
        divided = fair_share.divide(
            self.capacity, tuple(self.demands.values()), self.step
        )
        return dict(zip(self.demands, divided, strict=True))

    def find_misfit(self, fixed: Mapping[str, int]) -> str:
        """Explain why these cannot be the amounts, or ''."""
        if fixed.keys() != self.demands.keys():
            return f'the servers are {", ".join(sorted(self.demands))}'
        for uuid, amount in fixed.items():
            least, most = self.demands[uuid]
            if not least <= amount <= most:
                return (
                    f'{amount} for server {uuid} is not between {least} and '
                    f'{most}'
                )
        if sum(fixed.values()) > self.capacity:
            return f'{sum(fixed.values())} is more than {self.capacity}'
        return ''


def list_keys(entries: Iterable[assignment.Entry]) -> list[Key]:
    """Return the pools that servers have a part of."""
    found = {
        (one.rp_key, one.resource_class)
        for entry in entries
        for one in entry.assignments
        if one.resource_class in CLASSES
    }
    return sorted(found)


def make_pool(
    owned: ownership.Ownership,
    key: Key,
    *,
    added: assignment.Entry | None = None,
) -> Pool | None:
    """Make a pool and its servers, None where the kernel has no such.

    :param added: a server that is to be applied, again or for the first time
    """
    held = dict(_list_held(owned, key, added))
    if not held:
        return None
    cache = ownership.find_cache(next(iter(held.values())))
    if key[1] == classes.BURST:
        return _make_burst_pool(owned, key, cache, held)
    return _make_bandwidth_pool(owned, key, cache, held)


def _list_held(
    owned: ownership.Ownership, key: Key, added: assignment.Entry | None
) -> Iterator[tuple[str, assignment.Assignment]]:
    entries = {
        uuid: entry
        for uuid, entry in owned.entries.items()
        if uuid in owned.tree.ours
    }
    if added is not None:
        entries[added.consumer_uuid] = added
    for uuid, entry in sorted(entries.items()):
        for one in entry.assignments:
            if (one.rp_key, one.resource_class) == key:
                yield uuid, one


def _make_burst_pool(
    owned: ownership.Ownership,
    key: Key,
    cache: schemata.Cache,
    held: Mapping[str, assignment.Assignment],
) -> Pool | None:
    domain = owned.caches.get(cache)
    if domain is None:
        return None
    room = domain.find_room(domain.burst, held.keys())
    masks = {uuid: find_run(owned, uuid, cache) for uuid in held}
    size = room.bit_count()
    return Pool(
        key=key,
        cache=cache,
        capacity=size,
        demands={uuid: _limit(held[uuid], size) for uuid in sort(masks)},
        amounts={uuid: mask.bit_count() for uuid, mask in masks.items()},
        room=room,
        size=domain.burst.bit_count(),
    )


def _limit(one: assignment.Assignment, size: int) -> fair_share.Demand:
    most = min(int(one.units.get('max', size)), size)
    return one.amount, max(most, one.amount)


def find_run(
    owned: ownership.Ownership, uuid: str, cache: schemata.Cache
) -> int:
    """Return the burst ways that a server has now."""
    domain = owned.caches.get(cache)
    if domain is None or uuid not in domain.runs:
        return 0
    return domain.runs[uuid].mask & domain.burst


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


def _make_bandwidth_pool(
    owned: ownership.Ownership,
    key: Key,
    cache: schemata.Cache,
    held: Mapping[str, assignment.Assignment],
) -> Pool | None:
    tree = owned.tree
    info = tree.info.bandwidth
    unit = bandwidth.find_unit_of(tree.info, tree.default.schemata)
    is_percent = key[1] == classes.PERCENT
    if (
        info is None
        or unit is None
        or is_percent != (unit is bandwidth.Unit.PERCENT)
    ):
        return None
    least = {
        uuid: bandwidth.round_amount(info, unit, choice.get_limit(one))
        for uuid, one in held.items()
    }
    capacity = owned.machine.memory_bandwidth
    if is_percent:
        capacity = bandwidth.MAX_PERCENT
    return Pool(
        key=key,
        cache=cache,
        # Rounding upwards may have taken more than there is.
        capacity=max(capacity, sum(least.values())),
        demands={
            uuid: (
                least[uuid],
                max(least[uuid], int(one.units.get('max', 0))),
            )
            for uuid, one in held.items()
        },
        amounts={
            uuid: bandwidth.to_amount(unit, _find_limit(owned, uuid, cache))
            for uuid in held
        },
        step=bandwidth.to_amount(unit, info.granularity),
    )


def _find_limit(
    owned: ownership.Ownership, uuid: str, cache: schemata.Cache
) -> int:
    group = owned.tree.ours.get(uuid)
    values = group.schemata.get(schemata.BANDWIDTH, {}) if group else {}
    return values.get(cache.number, 0)


# -- what it comes to --------------------------------------------------


def divide(
    owned: ownership.Ownership, pools: Iterable[Pool], amounts: Amounts
) -> dict[str, layout.Wanted]:
    """Return what each server of these pools is to have of them.

    :raises ValueError: the guaranteed amounts of a pool are too much
    """
    wanted: dict[str, layout.Wanted] = {}
    for pool in pools:
        divided = pool.divide(amounts.get(pool.key, {}))
        for uuid, part in _make_parts(owned, pool, divided):
            wanted[uuid] = wanted.get(uuid, layout.Wanted()).join(part)
    return wanted


def make_room(
    owned: ownership.Ownership, entry: assignment.Entry, amounts: Amounts
) -> dict[str, layout.Wanted]:
    """Divide the pools anew of which a server gets a part.

    :return: server -> what it is to have of them, ``entry`` among them
    :raises CapacityExceeded: other software has taken too much of one
    """
    kept, pools = layout.Wanted(), []
    for one in classes.pick(entry.assignments, *CLASSES):
        if owned.machine.is_offline(ownership.find_cache(one)):
            continue
        key = (one.rp_key, one.resource_class)
        pool = make_pool(owned, key, added=entry)
        assert pool is not None, 'it has been chosen'
        domain = owned.caches.get(pool.cache)
        run = domain.runs.get(entry.consumer_uuid) if domain else None
        if not pool.is_overdrawn:
            pools.append(pool)
        elif choice.is_applied(entry) and run:
            # No server's run can be laid out; it keeps the one it has.
            ways = {pool.cache: run}
            kept = kept.join(layout.Wanted(ways=ways))
        else:
            raise refusals.make_busy(
                owned.machine.host,
                entry.consumer_uuid,
                (one,),
                pool.explain_lack(),
            )
    wanted = divide(owned, pools, amounts)
    own = wanted.get(entry.consumer_uuid, layout.Wanted())
    return {**wanted, entry.consumer_uuid: own.join(kept)}


def relax(
    owned: ownership.Ownership, keys: Iterable[Key], amounts: Amounts
) -> dict[str, layout.Wanted]:
    """Divide pools anew for those that stay.

    Servers of a pool that is overdrawn keep what they have; the audit reports
    it.
    """
    pools = (make_pool(owned, key) for key in keys)
    there = [one for one in pools if one and not one.is_overdrawn]
    return divide(owned, there, amounts)


def list_outdated(
    owned: ownership.Ownership, keys: Iterable[Key], amounts: Amounts
) -> list[Key]:
    """Return the pools whose amounts are for other servers than there are."""
    found = []
    for key in set(keys) & amounts.keys():
        pool = make_pool(owned, key)
        if pool is None or pool.demands.keys() != amounts[key].keys():
            found.append(key)
    return found


def _make_parts(
    owned: ownership.Ownership, pool: Pool, divided: Mapping[str, int]
) -> Iterator[tuple[str, layout.Wanted]]:
    if pool.key[1] == classes.BURST:
        # In the order of the demands, which is that of the runs.
        order = list(pool.demands)
        runs = lay_out(pool.room, [divided[uuid] for uuid in order])
        for uuid, mask in zip(order, runs, strict=True):
            ways = {pool.cache: schemata.Ways(mask)}
            yield uuid, layout.Wanted(ways=ways)
        return
    info = owned.tree.info.bandwidth
    unit = bandwidth.find_unit_of(owned.tree.info, owned.tree.default.schemata)
    assert info is not None and unit is not None, 'there is such a pool'
    for uuid, amount in divided.items():
        value = bandwidth.to_kernel(info, unit, amount)
        yield uuid, layout.Wanted(limits={pool.cache.number: value})


# -- fine tuning -------------------------------------------------------


def list_tunables(pool: Pool) -> list[tunable.Tunable]:
    """Return what each server has, those that have nothing yet left out."""
    return [
        tunable.Tunable(
            consumer_uuid=uuid,
            rp_key=pool.key[0],
            resource_class=pool.key[1],
            minimum=least,
            # What the hardware cannot count cannot be had.
            maximum=least + (most - least) // pool.step * pool.step,
            amount=pool.amounts[uuid],
            step=pool.step,
        )
        for uuid, (least, most) in pool.demands.items()
        if pool.amounts[uuid]
    ]


def read_tunables(
    pool: Pool, tunables: Sequence[tunable.Tunable], known: Mapping[str, int]
) -> dict[str, int]:
    """Return server -> amount, with those that are not named as they are.

    Amounts between two steps of the hardware are rounded downwards.

    :param known: amounts that were set before
    :raises ValueError: it cannot be done; says why
    """
    given = {
        one.consumer_uuid: pool.demands[one.consumer_uuid][0]
        + (one.amount - pool.demands[one.consumer_uuid][0])
        // pool.step
        * pool.step
        for one in tunables
        if one.consumer_uuid in pool.demands
    }
    others = {one.consumer_uuid for one in tunables} - given.keys()
    if others:
        raise ValueError(
            f'server {", ".join(sorted(others))} has nothing of it'
        )
    amounts = {**pool.divide(known), **given}
    misfit = pool.find_misfit(amounts)
    if misfit:
        raise ValueError(misfit)
    return amounts
