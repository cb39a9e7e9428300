# SPDX-License-Identifier: Apache-2.0

"""What two readings of the cache pages differ in. Pure.

RMD's answers do not tell what a request has done; the pages before and after
it do.
"""

from collections.abc import Mapping, Set
from typing import TypeAlias

from nova_ext_resources.drivers.rmd.api import values

Caches: TypeAlias = Mapping[int, values.RmdCache]


def taken_ways(before: Caches, after: Caches) -> dict[int, int]:
    """Return the mask that each cache lost, 0 where it lost none."""
    return {
        cache_id: cache.free_mask & ~after[cache_id].free_mask
        if cache_id in after
        else 0
        for cache_id, cache in before.items()
    }


def list_idle(caches: Caches) -> Set[int]:
    """Return the CPUs that the kernel has in the default group."""
    return frozenset[int]().union(*(one.idle_cpus for one in caches.values()))


def has_moved(before: Caches, after: Caches, core_ids: Set[int]) -> bool:
    """Return whether CPUs of a workload left the default group.

    Other software takes ways at any time, but not the CPUs of servers. So
    where the CPUs were in the default group, they alone are believed.
    """
    idle = core_ids & list_idle(before)
    if idle:
        return bool(idle - list_idle(after))
    return any(taken_ways(before, after).values())


def has_effect(before: Caches, after: Caches, core_ids: Set[int]) -> bool:
    """Return whether something was applied for a workload with these CPUs.

    RMD moves CPUs after it has written the mask. A mask on the wrong cache
    changes no page where the same ways were taken before, but the CPUs do.
    """
    moved = core_ids & list_idle(before) - list_idle(after)
    return bool(moved) or any(taken_ways(before, after).values())
