# SPDX-License-Identifier: Apache-2.0

"""RMD's JSON as values. Pure; see :meth:`.response.RmdResponse.read`.

Fields that are not needed are ignored, so that other versions of RMD pass.
JSON of any other form raises one of ``foreign_data.UNREADABLE``.
"""

from collections.abc import Mapping
import contextlib
from typing import Any, get_args

from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects.documents import foreign_data


def _count(value: Any) -> int:
    # RMD's numbers are unsigned, of 32 bits.
    return foreign_data.read_whole(value, high=0xFFFFFFFF)


def _cache(data: Mapping[str, Any]) -> values.RmdCache:
    cpus = bitmask.parse_list(data['share_cpu_list'])
    ways = _count(data['NumWays'])
    if not cpus or not ways:
        raise ValueError('a cache without CPUs or ways')
    return values.RmdCache(
        cache_id=_count(data['cache_id']),
        ways=ways,
        cpus=cpus,
        free={
            pool: bitmask.from_numbers(bitmask.parse_list(ways))
            for pool, ways in data['available_ways_pool'].items()
        },
        idle_cpus=bitmask.parse_list(data.get('available_cpus', '')),
    )


def caches(data: Any) -> dict[int, values.RmdCache]:
    """Read ``GET /v1/cache/l3``; it has at least one cache."""
    found = [_cache(item) for item in data['Caches'].values()]
    if not found:
        raise ValueError('no caches')
    found.sort(key=lambda cache: cache.cache_id)
    return {cache.cache_id: cache for cache in found}


def _limit(data: Mapping[str, Any]) -> values.MbaLimit | None:
    for unit in get_args(values.MbaUnit):
        if unit in data:
            return values.MbaLimit(unit=unit, value=_count(data[unit]))
    return None


def policies(data: Any) -> dict[str, values.RmdPolicy]:
    """Read ``GET /v1/policy``; policies without ways are left out."""
    return {
        errors.escape(name): values.RmdPolicy(
            name=errors.escape(name),
            max_ways=_count(modules['cache']['max']),
            min_ways=_count(modules['cache']['min']),
            plugins={
                module: dict(items)
                for module, items in modules.items()
                if module not in ('cache', 'mba')
            },
            mba=_limit(modules.get('mba') or {}),
        )
        for name, modules in data.items()
        if {'max', 'min'} <= set(modules.get('cache', ()))
    }


def mba(data: Any) -> values.MbaSupport | None:
    """Read ``GET /v1/mba``; zero values are absent from it."""
    if not (data['mba'] and data.get('mba_enable')):
        return None
    return values.MbaSupport(
        step=_count(data.get('mba_step', 0)),
        minimum=_count(data.get('mba_min', 0)),
    )


def workload(data: Any) -> values.RmdWorkload:
    """Read one workload."""
    core_ids: frozenset[int] = frozenset()
    # Other software may have written ranges; the record still counts.
    with contextlib.suppress(*foreign_data.UNREADABLE):
        core_ids = frozenset(map(int, data.get('core_ids', ())))
    cache = data['rdt']['cache']
    return values.RmdWorkload(
        workload_id=errors.escape(str(data['id'])),
        uuid=errors.escape(str(data.get('uuid', ''))),
        core_ids=core_ids,
        max_ways=cache.get('max'),
        min_ways=cache.get('min'),
        mba=_limit(data['rdt'].get('mba', {})),
        cos_name=errors.escape(str(data['cos_name'])),
        plugins=data.get('plugins') or {},
    )


def workloads(data: Any) -> tuple[values.RmdWorkload, ...]:
    """Read ``GET /v1/workloads``."""
    if not isinstance(data, list):
        raise ValueError('not a list')
    return tuple(map(workload, data))
