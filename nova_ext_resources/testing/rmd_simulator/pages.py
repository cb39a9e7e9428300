# SPDX-License-Identifier: Apache-2.0

"""The pages that only report: caches, policies, bandwidth, hospitality."""

from typing import Any

from nova_ext_resources.testing.rmd_simulator import allocation
from nova_ext_resources.testing.rmd_simulator import binding
from nova_ext_resources.testing.rmd_simulator import cores
from nova_ext_resources.testing.rmd_simulator import daemon as daemon_mod
from nova_ext_resources.testing.rmd_simulator import gojson
from nova_ext_resources.testing.rmd_simulator import masks
from nova_ext_resources.testing.rmd_simulator import resctrl
from nova_ext_resources.testing.rmd_simulator import settings as settings_mod
from nova_ext_resources.testing.rmd_simulator import validation

#: Pool of rmd.toml -> its name on the cache pages, sorted as Go does.
_POOL_KEYS = (
    ('besteffort', 'besteffort'),
    ('guarantee', 'guaranteed'),
    ('infra', 'infra'),
    ('os', 'os'),
    ('shared', 'shared'),
)


class Unreadable(Exception):
    """The daemon fails to report, and does not say why."""


def cache_summary(settings: settings_mod.Settings) -> dict[str, Any]:
    """Give ``/v1/cache``."""
    return {
        'rdt': True,
        'cqm': True,
        'cdp': True,
        'cdp_enable': False,
        'cat': True,
        'cat_enable': True,
        'caches': {
            'l2': _summary(settings.cores),
            'l3': _summary(settings.sockets),
        },
    }


def _summary(number: int) -> dict[str, Any]:
    return {'number': number, 'caches_id': [str(n) for n in range(number)]}


def cache_level(daemon: daemon_mod.Daemon) -> dict[str, Any]:
    """Give ``/v1/cache/l3``.

    :raises Unreadable: the policy file is YAML
    """
    settings = daemon.settings
    if settings.policy_file == 'yaml' and settings.policies:
        raise Unreadable()
    caches = {
        str(cache_id): _cache(daemon, cache_id) for cache_id in settings.caches
    }
    return {'number': len(caches), 'Caches': gojson.sort_map(caches)}


def _cache(daemon: daemon_mod.Daemon, cache_id: int) -> dict[str, Any]:
    settings = daemon.settings
    cpus = settings.caches[cache_id] - daemon.resctrl.offline
    way_bytes = settings_mod.LINE_BYTES * settings_mod.SETS
    usable = daemon.resctrl.groups[resctrl.DEFAULT].cpus & (
        cpus
        - masks.parse_ranges(settings.os_cpus)
        - masks.parse_ranges(settings.infra_cpus)
    )
    available = daemon.resctrl.free_ways(
        {cache_id: masks.full(settings.ways)}, ()
    )
    return {
        'cache_id': cache_id,
        'NumWays': settings.ways,
        'NumSets': settings_mod.SETS,
        'NumPartitions': 0,
        'LineSize': settings_mod.LINE_BYTES,
        'total_size': settings.ways * way_bytes % 2**32,
        'WaySize': way_bytes,
        'NumClasses': 0,
        'WayContention': 0,
        'CacheLevel': 3,
        'location_on_socket': str(cache_id),
        'location_on_node': str(cache_id),
        'share_cpu_list': masks.format_ranges(cpus),
        'available_ways': f'{available[cache_id]:x}',
        'available_cpus': masks.format_ranges(usable),
        'available_isolated_cpus': '',
        'available_policy': _available_policies(daemon, cache_id),
        'available_ways_pool': _available_pools(daemon, cache_id),
    }


def _available_pools(
    daemon: daemon_mod.Daemon, cache_id: int
) -> dict[str, str]:
    pools = {}
    for pool, key in _POOL_KEYS:
        free = daemon.free_ways(pool)
        if free is not None and cache_id in free:
            pools[key] = masks.format_mask(free[cache_id])
    return pools


def _available_policies(
    daemon: daemon_mod.Daemon, cache_id: int
) -> dict[str, int]:
    settings = daemon.settings
    counts = {}
    for name, (maximum, minimum) in sorted(settings.policies.items()):
        pool = allocation.pool_name(maximum, minimum)
        if pool == allocation.SHARED:
            has_shared = settings.layout(pool) is not None
            counts[name] = settings_mod.SHARED_QUOTA if has_shared else 0
            continue
        size = maximum if pool == allocation.GUARANTEE else minimum
        free = daemon.free_ways(pool) if pool else None
        counts[name] = sum(
            length // size
            for _low, length, is_set in masks.runs(
                (free or {}).get(cache_id, 0), settings.ways
            )
            if is_set
        )
    return counts


def policies(settings: settings_mod.Settings) -> dict[str, Any]:
    """Give ``/v1/policy``."""
    return {
        name: {'cache': {'max': maximum, 'min': minimum}}
        for name, (maximum, minimum) in sorted(settings.policies.items())
    }


def bandwidth() -> dict[str, Any]:
    """Give ``/v1/mba``, which is what the CPU can do, whatever the mode."""
    return {
        'mba': True,
        'mba_enable': True,
        'mba_step': settings_mod.MBA_STEP,
        'mba_min': settings_mod.MBA_STEP,
    }


def hospitality(daemon: daemon_mod.Daemon, data: Any) -> dict[str, Any]:
    """Return the answer to ``POST /v1/hospitality``.

    :raises Go: the body has the wrong types
    :raises CannotEnforce: the daemon's complaint
    :raises Panic: the daemon has no shared pool to look at
    """
    if data is None:
        raise cores.Panic('nil pointer')
    binder = binding.Binder('Request')
    binder.root(data, 'hospitality.Request')
    maximum = binder.number(data, 'max_cache') or 0
    minimum = binder.number(data, 'min_cache') or 0
    policy = binder.text(data, 'policy')
    only = binder.number(data, 'cache_id')
    if binder.complaint:
        raise gojson.Go(binder.complaint)
    if policy:
        maximum, minimum = _limits_of(daemon.settings, policy)
    scores = {
        str(cache_id): score
        for cache_id, score in _scores(daemon, maximum, minimum).items()
        if only is None or only == cache_id
    }
    return {'score': {'l3': gojson.sort_map(scores)}}


def _limits_of(
    settings: settings_mod.Settings, policy: str
) -> tuple[int, int]:
    try:
        limits = validation.find_policy(settings, policy)
    except validation.Refused as err:
        raise allocation.CannotEnforce(
            validation.with_details('Can not find Policy', str(err))
        ) from None
    if settings.policy_file == 'toml':
        raise allocation.CannotEnforce('Unknown AppError type!')
    return limits


def _scores(
    daemon: daemon_mod.Daemon, maximum: int, minimum: int
) -> dict[int, int]:
    settings = daemon.settings
    if maximum < minimum or (maximum and not minimum):
        raise allocation.CannotEnforce(
            f'Bad request, max_cache={maximum}, min_cache={minimum}'
        )
    pool = allocation.pool_name(maximum, minimum)
    free = daemon.free_ways(pool)
    if pool == allocation.SHARED:
        if free is None:
            raise cores.Panic('nil pointer')
        return dict.fromkeys(free, 100)
    scores = {}
    for cache_id, mask in (free or {}).items():
        longest = masks.longest_run(mask, settings.ways)
        fits = longest >= minimum
        scores[cache_id] = min(100, longest * 100 // maximum) if fits else 0
    return scores
