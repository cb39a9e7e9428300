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

"""What the servers of a pool have of it, each between its bounds. Pure.

A pool is what may be moved between servers while they run: the burst ways of
a cache, or its memory bandwidth. Whoever is in it always has what was sold;
the rest is divided, see :mod:`nova_ext_resources.shares`, unless somebody has
said otherwise for exactly these servers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
from typing import TypeAlias

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import share as share_obj
from nova_ext_resources import rdt
from nova_ext_resources.resctrl import bandwidth
from nova_ext_resources.resctrl import bursts
from nova_ext_resources.resctrl import choosing
from nova_ext_resources.resctrl import layout
from nova_ext_resources.resctrl import schemata
from nova_ext_resources import shares as shares_mod

#: Provider key, resource class.
Key: TypeAlias = tuple[str, str]

#: Pool -> server -> what somebody has said that it shall have.
Amounts: TypeAlias = Mapping[Key, Mapping[str, int]]

CLASSES = frozenset({rdt.BURST, *rdt.BANDWIDTHS})


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
    demands: Mapping[str, shares_mod.Demand]
    amounts: Mapping[str, int]
    step: int = 1
    room: int = 0
    size: int = 0

    @property
    def sold(self) -> int:
        return sum(least for least, _most in self.demands.values())

    @property
    def is_overdrawn(self) -> bool:
        """Whether not even what was sold is there."""
        return self.sold > self.capacity

    def explain_lack(self) -> str:
        """Say why it is overdrawn."""
        if self.sold > self.size:
            return (
                f'{self.sold} ways of the pool of {self.key[0]} are sold, and '
                f'[ext_resources_resctrl] burst_ways is {self.size}; set it '
                f'to {self.sold} at least until servers have left'
            )
        return (
            f'something else on the host uses it: {self.capacity} are left '
            'for all servers of the pool'
        )

    def divide(self, fixed: Mapping[str, int]) -> dict[str, int]:
        """Give server -> amount.

        :param fixed: used when it is of these servers and possible
        :raises ValueError: there is not even enough for what was sold
        """
        if not self.find_misfit(fixed):
            return dict(fixed)
        divided = shares_mod.divide(
            self.capacity, tuple(self.demands.values()), self.step
        )
        return dict(zip(self.demands, divided, strict=True))

    def find_misfit(self, fixed: Mapping[str, int]) -> str:
        """Say why these cannot be the amounts, or ''."""
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
    """Give the pools that servers have a part of."""
    found = {
        (one.rp_key, one.resource_class)
        for entry in entries
        for one in entry.assignments
        if one.resource_class in CLASSES
    }
    return sorted(found)


def make_pool(
    scene: choosing.Scene,
    key: Key,
    *,
    added: assignment.Entry | None = None,
) -> Pool | None:
    """Find out who is in a pool, None where the kernel has no such.

    :param added: a server that is not in force yet, or is to be anew
    """
    held = dict(_list_held(scene, key, added))
    if not held:
        return None
    cache = choosing.find_cache(next(iter(held.values())))
    if key[1] == rdt.BURST:
        return _make_burst_pool(scene, key, cache, held)
    return _make_bandwidth_pool(scene, key, cache, held)


def _list_held(
    scene: choosing.Scene, key: Key, added: assignment.Entry | None
) -> Iterator[tuple[str, assignment.Assignment]]:
    entries = {
        uuid: entry
        for uuid, entry in scene.entries.items()
        if uuid in scene.tree.ours
    }
    if added is not None:
        entries[added.consumer_uuid] = added
    for uuid, entry in sorted(entries.items()):
        for one in entry.assignments:
            if (one.rp_key, one.resource_class) == key:
                yield uuid, one


def _make_burst_pool(
    scene: choosing.Scene,
    key: Key,
    cache: schemata.Cache,
    held: Mapping[str, assignment.Assignment],
) -> Pool | None:
    if cache not in layout.list_caches(scene.tree):
        return None
    room = layout.find_room(
        scene.tree, cache, scene.layout, members=held.keys()
    )
    masks = {uuid: find_run(scene, uuid, cache) for uuid in held}
    size = room.bit_count()
    return Pool(
        key=key,
        cache=cache,
        capacity=size,
        demands={
            uuid: _limit(held[uuid], size) for uuid in bursts.sort(masks)
        },
        amounts={uuid: mask.bit_count() for uuid, mask in masks.items()},
        room=room,
        size=layout.find_pools(
            scene.tree, cache, scene.layout
        ).burst.bit_count(),
    )


def _limit(one: assignment.Assignment, size: int) -> shares_mod.Demand:
    most = min(int(one.units.get('max', size)), size)
    return one.amount, max(most, one.amount)


def find_run(scene: choosing.Scene, uuid: str, cache: schemata.Cache) -> int:
    """Give the burst ways that a server has now."""
    own = layout.find_own(scene.tree, uuid, scene.layout).get(cache, 0)
    return own & layout.find_pools(scene.tree, cache, scene.layout).burst


def _make_bandwidth_pool(
    scene: choosing.Scene,
    key: Key,
    cache: schemata.Cache,
    held: Mapping[str, assignment.Assignment],
) -> Pool | None:
    info, unit = scene.tree.info.bandwidth, choosing.find_unit(scene.tree)
    is_percent = key[1] == rdt.PERCENT
    if (
        info is None
        or unit is None
        or is_percent != (unit is bandwidth.Unit.PERCENT)
    ):
        return None
    least = {
        uuid: bandwidth.round_amount(info, unit, choosing.get_limit(one))
        for uuid, one in held.items()
    }
    capacity = bandwidth.MAX_PERCENT if is_percent else scene.memory_bandwidth
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
            uuid: bandwidth.to_amount(unit, _find_limit(scene, uuid, cache))
            for uuid in held
        },
        step=bandwidth.to_amount(unit, info.granularity),
    )


def _find_limit(
    scene: choosing.Scene, uuid: str, cache: schemata.Cache
) -> int:
    group = scene.tree.ours.get(uuid)
    values = group.schemata.get(schemata.BANDWIDTH, {}) if group else {}
    return values.get(cache.number, 0)


def arrange(
    scene: choosing.Scene,
    pools: Iterable[Pool],
    amounts: Amounts,
) -> dict[str, layout.Wanted]:
    """Give what each server of these pools shall have of them.

    :raises ValueError: a pool has not even enough for what was sold
    """
    wanted: dict[str, layout.Wanted] = {}
    for pool in pools:
        divided = pool.divide(amounts.get(pool.key, {}))
        _join(wanted, dict(_make_parts(scene, pool, divided)))
    return wanted


def make_room(
    scene: choosing.Scene, entry: assignment.Entry, amounts: Amounts
) -> dict[str, layout.Wanted]:
    """Divide the pools anew of which a server gets a part.

    :raises CapacityExceeded: something else has taken too much of one
    """
    wanted: dict[str, layout.Wanted] = {}
    for one in rdt.pick(entry.assignments, *CLASSES):
        if scene.layout.is_offline(choosing.find_cache(one)):
            continue
        key = (one.rp_key, one.resource_class)
        pool = make_pool(scene, key, added=entry)
        assert pool is not None, 'it has been chosen'
        kept = _find_kept(scene, entry, pool)
        if kept:
            _join(wanted, {entry.consumer_uuid: layout.Wanted(ways=kept)})
            continue
        if pool.is_overdrawn:
            raise rdt.make_busy(
                scene.host,
                entry.consumer_uuid,
                (one,),
                pool.explain_lack(),
            )
        _join(wanted, arrange(scene, [pool], amounts))
    return wanted


def _find_kept(
    scene: choosing.Scene, entry: assignment.Entry, pool: Pool
) -> dict[schemata.Cache, schemata.Ways]:
    """Give the run that a server has while nobody's can be laid out."""
    if not pool.is_overdrawn or not choosing.is_applied(entry):
        return {}
    own = layout.find_own(scene.tree, entry.consumer_uuid, scene.layout)
    mask = own.get(pool.cache, 0)
    return {pool.cache: schemata.Ways(mask)} if mask else {}


def relax(
    scene: choosing.Scene, keys: Iterable[Key], amounts: Amounts
) -> dict[str, layout.Wanted]:
    """Divide pools anew for those that stay."""
    wanted: dict[str, layout.Wanted] = {}
    for key in keys:
        pool = make_pool(scene, key)
        # Who does not fit any more keeps what it has; healing tells.
        if pool is not None and not pool.is_overdrawn:
            _join(wanted, arrange(scene, [pool], amounts))
    return wanted


def _join(
    wanted: dict[str, layout.Wanted], parts: Mapping[str, layout.Wanted]
) -> None:
    for uuid, part in parts.items():
        wanted[uuid] = wanted.get(uuid, layout.Wanted()).join(part)


def list_outdated(
    scene: choosing.Scene, keys: Iterable[Key], amounts: Amounts
) -> list[Key]:
    """Give the pools whose amounts are for other servers than there are."""
    found = []
    for key in set(keys) & amounts.keys():
        pool = make_pool(scene, key)
        if pool is None or pool.demands.keys() != amounts[key].keys():
            found.append(key)
    return found


def _make_parts(
    scene: choosing.Scene, pool: Pool, divided: Mapping[str, int]
) -> Iterator[tuple[str, layout.Wanted]]:
    if pool.key[1] == rdt.BURST:
        # In the order of the demands, which is that of the runs.
        order = list(pool.demands)
        sizes = [divided[uuid] for uuid in order]
        runs = bursts.lay_out(pool.room, sizes)
        for uuid, mask in zip(order, runs, strict=True):
            ways = {pool.cache: schemata.Ways(mask)}
            yield uuid, layout.Wanted(ways=ways)
        return
    info, unit = scene.tree.info.bandwidth, choosing.find_unit(scene.tree)
    assert info is not None and unit is not None, 'there is such a pool'
    for uuid, amount in divided.items():
        value = bandwidth.to_kernel(info, unit, amount)
        yield uuid, layout.Wanted(limits={pool.cache.number: value})


def list_shares(pool: Pool) -> list[share_obj.Share]:
    """Give what each server has, those that have nothing yet left out."""
    return [
        share_obj.Share(
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


def read_shares(
    pool: Pool, shares: Sequence[share_obj.Share], known: Mapping[str, int]
) -> dict[str, int]:
    """Give server -> amount, with those that are not named as they are.

    What lies between two steps of the hardware is rounded downwards.

    :param known: what somebody has said before
    :raises ValueError: it cannot be done; says why
    """
    given = {
        one.consumer_uuid: pool.demands[one.consumer_uuid][0]
        + (one.amount - pool.demands[one.consumer_uuid][0])
        // pool.step
        * pool.step
        for one in shares
        if one.consumer_uuid in pool.demands
    }
    strangers = {one.consumer_uuid for one in shares} - given.keys()
    if strangers:
        raise ValueError(
            f'server {", ".join(sorted(strangers))} has nothing of it'
        )
    amounts = {**pool.divide(known), **given}
    misfit = pool.find_misfit(amounts)
    if misfit:
        raise ValueError(misfit)
    return amounts
