# SPDX-License-Identifier: Apache-2.0

"""Writes the sharing providers of pools that belong to no host.

All hosts that reach a pool do so, none of them leads. The uuid is that of the
pool's name, so that the first one creates it for all, and the generation lets
each write only what it has decided on the present state. What ties a host to
the pool is a provider in the host's own tree: no host writes another's.
"""

from collections.abc import Iterable, Mapping
import collections
import dataclasses
import datetime
from typing import TypeAlias

from oslo_log import log as logging

from nova_ext_resources import clocks
from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool as pool_obj
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import retry
from nova_ext_resources.placement.pools import desired
from nova_ext_resources.placement.publish import diff
from nova_ext_resources.placement.publish import provider_writer
from nova_ext_resources.placement.publish import tree_writer

LOG = logging.getLogger(__name__)

#: Seconds between the looks at two clocks that count as none, and how often
#: they are looked at for that.
_MOMENT, _ATTEMPTS = 0.001, 10

#: An entry, and when a reading of it was taken.
_News: TypeAlias = tuple[pool_obj.SharedPool, datetime.datetime]


@dataclasses.dataclass(slots=True)
class _Memory:
    """What this host knows of a pool from its former rounds.

    :ivar seen: the sharing provider as it was then
    :ivar written: entry and inventory, as this host last wanted them
    :ivar done: entry and time of the reading that placement has got, or that
        another host has overtaken
    :ivar news: entry and time of the last reading
    :ivar taken_at: when that was taken, in monotonic seconds, as far as the
        clock told when it came: what the clock does later changes nothing
    :ivar settled: what it says others use; None: not known yet
    :ivar looks: monotonic seconds and allocated amounts, those that differ
        from the one before, the latest last
    :ivar lost: the inventory that another write has overtaken this host at
    """

    seen: host_provider.Provider | None = None
    written: tuple[pool_obj.SharedPool, class_inventory.Inventory] | None = (
        None
    )
    done: _News | None = None
    news: _News | None = None
    taken_at: float = 0.0
    settled: pool_obj.Reading | None = None
    looks: collections.deque[tuple[float, int]] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=99)
    )
    lost: class_inventory.Inventory | None = None

    def look(self, now: float, allocated: int) -> None:
        if not self.looks or self.looks[-1][1] != allocated:
            self.looks.append((now, allocated))

    def find_allocated(self, then: float) -> int | None:
        """Return the least that was allocated at some time, and since.

        A look in between two others may have missed it, so the time is
        bracketed. None: that was before the first look.
        """
        earlier = [amount for at, amount in self.looks if at <= then]
        later = [amount for at, amount in self.looks if at > then]
        return min(earlier[-1:] + later) if earlier else None


class PoolWriter:
    """Publishes pools; used by one thread at a time.

    :param clock: dates readings, and sleeps between attempts
    """

    def __init__(
        self,
        client: placement_client.Client,
        *,
        clock: clocks.Clock = clocks.MACHINE,
    ) -> None:
        self._clock = clock
        self._client = client
        self._fields = provider_writer.FieldWriter(client)
        self._call = retry.make_strategy(clock)
        self._memories: dict[str, _Memory] = {}

    def publish(
        self, pools: Iterable[pool_obj.SharedPool]
    ) -> tree_writer.PublishResult:
        """Have placement show what has been read of the pools.

        What cannot be read now stays as it is: another host may have read it
        since.

        :raises PlacementUnavailable: placement went away
        """
        pools = tuple(pools)
        self._memories = {
            one.rp_uuid: self._memories.get(one.rp_uuid, _Memory())
            for one in pools
        }
        done = tree_writer.PublishResult()
        for pool in pools:
            if pool.reading is None or pool.is_failing:
                continue
            try:
                done = done.add(self._call(self._settle, pool, pool.reading))
            except exception.PlacementUnavailable:
                raise
            except exception.PlacementError as err:
                self._fields.forget_names()
                done = done.add(tree_writer.PublishResult(errors=(err,)))
        return done

    def _settle(
        self, pool: pool_obj.SharedPool, reading: pool_obj.Reading
    ) -> tree_writer.PublishResult:
        """Bring one sharing provider to what it shall be.

        :raises ConcurrentUpdate: another host has just created it, or deleted
            it
        """
        memory = self._memories[pool.rp_uuid]
        seen = self._find(pool.rp_uuid, memory)
        is_new = seen is None
        if seen is None:
            seen = self._client.ensure_provider(
                pool.rp_uuid, pool.rp_name, None
            )
        with provider_writer.as_conflict(pool.rp_name):
            used = self._client.list_usages(pool.rp_uuid)
        problems = [
            self._find_conflict(pool, seen),
            desired.find_problem(
                pool, reading, used.get(pool.resource_class, 0)
            ),
        ]
        clock, now = self._read_clocks()
        memory.look(now, used.get(pool.resource_class, 0))
        age = (clock - reading.read_at).total_seconds()
        settled = _settle_reading(pool, reading, seen, memory, now - age)
        is_news = _is_news(pool, reading, seen, used, memory)
        target = desired.make_target(
            pool, settled if is_news else None, seen, used
        )
        written = self._write(pool, reading, target, seen)
        return tree_writer.PublishResult(
            written=int(is_new or written),
            problems=tuple(filter(None, problems)),
        )

    def _read_clocks(self) -> tuple[datetime.datetime, float]:
        """Return the time, and the monotonic seconds of the same moment.

        On a busy machine a thread may wait between the two, and a reading
        would seem to be older than an allocation that came before it.
        """
        for _attempt in range(_ATTEMPTS):
            now = self._clock.monotonic()
            clock = self._clock.read()
            if self._clock.monotonic() - now < _MOMENT:
                break
        return clock, now

    def _write(
        self,
        pool: pool_obj.SharedPool,
        reading: pool_obj.Reading,
        target: host_provider.Provider,
        seen: host_provider.Provider,
    ) -> bool:
        """Write what differs; return whether something was.

        Where the pool has an inventory, another write that was faster is no
        error: hundreds of hosts may write at the same time. The next round
        writes what is still to be written then.

        :raises ConcurrentUpdate: it has none yet
        """
        memory = self._memories[pool.rp_uuid]
        before = seen.inventories.get(pool.resource_class)
        pending = diff.list_replacements(target, seen)
        try:
            for change in pending:
                LOG.debug('Placement: %(change)s', {'change': change})
                seen = self._fields.write(change, seen)
        except exception.ConcurrentUpdate as err:
            if before is None:
                raise
            LOG.debug('Another write was faster: %(err)s', {'err': err})
            memory.lost = before
            return False
        entry = _get_entry(pool)
        memory.seen = seen
        memory.written = (entry, seen.inventories[pool.resource_class])
        memory.done = (entry, reading.read_at)
        return bool(pending)

    def _find_conflict(
        self, pool: pool_obj.SharedPool, seen: host_provider.Provider
    ) -> alarm.Problem | None:
        """Report that other hosts have another entry for a pool."""
        written = self._memories[pool.rp_uuid].written
        # One that another host has just made again has no inventory at all.
        if (
            written is None
            or written[0] != _get_entry(pool)
            or not seen.inventories
        ):
            return None
        return desired.find_conflict(
            pool, written[1], seen.inventories.get(pool.resource_class)
        )

    def _find(
        self, rp_uuid: str, memory: _Memory
    ) -> host_provider.Provider | None:
        """Read a provider, unless it is as it was seen last."""
        known, memory.seen = memory.seen, None
        for listed in self._client.list_providers(in_tree=rp_uuid):
            if listed.rp_uuid != rp_uuid:
                # An operator's, below it.
                continue
            if known is not None and known.generation == listed.generation:
                return known
            with provider_writer.as_conflict(listed.name):
                return self._client.read_provider(listed)
        return None


def _settle_reading(
    pool: pool_obj.SharedPool,
    reading: pool_obj.Reading,
    seen: host_provider.Provider,
    memory: _Memory,
    taken_at: float,
) -> pool_obj.Reading | None:
    """Return what a reading says others use; once, whatever comes later.

    None: it was taken before this host knew how much was allocated, and the
    next one will tell. A pool without an inventory has nothing allocated.

    :param taken_at: when, in monotonic seconds, by what the clock says now
    """
    news = (_get_entry(pool), reading.read_at)
    if memory.news != news:
        memory.news, memory.taken_at = news, taken_at
    elif memory.settled is not None:
        return memory.settled
    allocated: int | None = 0
    if (
        desired.needs_allocated(pool, reading)
        and pool.resource_class in seen.inventories
    ):
        allocated = memory.find_allocated(memory.taken_at)
    memory.settled = (
        None if allocated is None else desired.settle(pool, reading, allocated)
    )
    return memory.settled


def _is_news(
    pool: pool_obj.SharedPool,
    reading: pool_obj.Reading,
    seen: host_provider.Provider,
    used: Mapping[str, int],
    memory: _Memory,
) -> bool:
    """Return whether a reading is to be written.

    One that was written is not written again: what another host has written
    since is newer.
    """
    inventory = seen.inventories.get(pool.resource_class)
    news = (_get_entry(pool), reading.read_at)
    if memory.lost is not None:
        if inventory != memory.lost:
            # It was another host, and not an allocation.
            memory.done = news
        memory.lost = None
    return (
        inventory is None
        or memory.done != news
        or used.get(pool.resource_class, 0) > inventory.capacity
    )


def _get_entry(pool: pool_obj.SharedPool) -> pool_obj.SharedPool:
    """Return a pool without what was read of it."""
    return dataclasses.replace(pool, reading=None, is_failing=False)
