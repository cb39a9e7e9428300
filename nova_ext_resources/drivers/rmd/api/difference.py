# SPDX-License-Identifier: Apache-2.0

"""What two readings of the cache pages differ in. Pure.

RMD's answers do not tell what a request has done; the pages before and after
it do, and the control groups of the kernel, where they can be read.
"""

from collections.abc import Iterable, Mapping, Set
from typing import TypeAlias

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import groups as groups_mod
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.objects import bitmask

Caches: TypeAlias = Mapping[int, values.RmdCache]

Groups: TypeAlias = Mapping[str, groups_mod.Group]

#: RMD rounds percentages to the nearest step.
MBA_STEP = 10


def taken_ways(before: Caches, after: Caches) -> dict[int, int]:
    """Return the mask that each cache lost, 0 where it lost none."""
    return {
        cache_id: cache.free_mask & ~after[cache_id].free_mask
        if cache_id in after
        else 0
        for cache_id, cache in before.items()
    }


def describe(masks: Mapping[int, int]) -> str:
    """Name the ways of caches for the operator."""
    return ', '.join(
        f'{mask:#x} of {classes.make_l3_key(cache_id)}'
        for cache_id, mask in sorted(masks.items())
        if mask
    )


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


def is_whole(group: groups_mod.Group, caches: Caches) -> bool:
    """Return whether a control group may use all ways, as if it were free."""
    return all(
        group.get_ways(schemata.Cache(3, cache_id)) == (1 << one.ways) - 1
        for cache_id, one in caches.items()
    )


def find_wrong_limit(
    groups: Groups, found: values.RmdWorkload, caches: Caches
) -> str:
    """Return which limit of a workload the kernel does not have, or ''."""
    group, limit = groups.get(found.cos_name), found.mba
    if group is None or limit is None:
        return ''
    wrong = {
        cache_id: value
        for cache_id, value in schemata.get_limits(group.schemata).items()
        if abs(value - limit.value) >= MBA_STEP
        # RMD may leave out a cache that the kernel has.
        and cache_id in caches
        and caches[cache_id].cpus & found.core_ids
    }
    return f'memory bandwidth by cache is {wrong}' if wrong else ''


def list_stale(
    groups: Groups, workloads: Iterable[values.RmdWorkload], caches: Caches
) -> list[str]:
    """Describe groups with ways or CPUs that no workload on record has."""
    owned: dict[str, Set[int]] = {}
    for one in workloads:
        owned[one.cos_name] = owned.get(one.cos_name, set()) | one.core_ids
    return [
        f'{name} (CPUs {bitmask.format_list(cpus) or "none"})'
        for name, group in sorted(groups.items())
        if (cpus := group.cpus - owned.get(name, set()))
        or (name not in owned and not is_whole(group, caches))
    ]


def find_unseen(
    groups: Groups, found: values.RmdWorkload, caches: Caches
) -> str:
    """Return what is wrong with a workload, besides its ways, or ''."""
    if idle := found.core_ids & list_idle(caches):
        return f'CPUs {bitmask.format_list(idle)} stay in the default group'
    own = {name: one for name, one in groups.items() if name == found.cos_name}
    if stale := list_stale(own, [found], caches):
        return f'other CPUs are in its control group {stale[0]}'
    return find_wrong_limit(groups, found, caches)
