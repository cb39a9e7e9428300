# SPDX-License-Identifier: Apache-2.0

"""Which ways a workload gets. Pure."""

from collections.abc import Collection, Mapping

from nova_ext_resources.testing.rmd_simulator import masks
from nova_ext_resources.testing.rmd_simulator import settings as settings_mod
from nova_ext_resources.testing.rmd_simulator import validation

GUARANTEE = 'guarantee'
BESTEFFORT = 'besteffort'
SHARED = 'shared'


class CannotEnforce(Exception):
    """RMD gives up; its words, with their line ends."""


def pool_name(maximum: int, minimum: int) -> str:
    """Name the pool of such a request, '' when there is none."""
    if maximum == 0:
        return SHARED
    if maximum > minimum > 0:
        return BESTEFFORT
    return GUARANTEE if maximum == minimum else ''


def check_pool(maximum: int, minimum: int) -> str:
    """Name the pool of such a request.

    :raises CannotEnforce: there is none
    """
    if minimum > maximum:
        raise CannotEnforce(
            'Min cache value cannot be greater than max cache value'
        )
    pool = pool_name(maximum, minimum)
    if not pool:
        raise CannotEnforce(
            validation.with_details(
                'Bad cache ways request',
                f"max_cache={maximum}, min_cache={minimum}, doesn't support",
            )
        )
    return pool


def choose(
    settings: settings_mod.Settings,
    pool: str,
    free: Mapping[int, int],
    wanted: Collection[int],
    *,
    maximum: int,
    minimum: int,
) -> dict[int, int]:
    """Choose the mask of each cache.

    :param free: the pool's free ways per cache
    :param wanted: caches that the workload runs on; the others get every
        way, which counts as none
    :raises CannotEnforce: a cache has no run that is long enough
    """
    layout = settings.layout(pool) or {}
    chosen = {}
    for cache_id, mask in free.items():
        if pool == SHARED:
            chosen[cache_id] = layout[cache_id]
        elif cache_id not in wanted:
            chosen[cache_id] = masks.full(settings.ways)
        elif pool == GUARANTEE:
            chosen[cache_id] = masks.highest_run(mask, maximum, settings.ways)
        else:
            chosen[cache_id] = _choose_besteffort(
                settings, layout[cache_id], mask, maximum, minimum
            )
        if not chosen[cache_id]:
            raise CannotEnforce(
                f'Not enough cache left on cache_id {cache_id}'
            )
    return chosen


def _choose_besteffort(
    settings: settings_mod.Settings,
    pool: int,
    free: int,
    maximum: int,
    minimum: int,
) -> int:
    longest = masks.longest_run(free, settings.ways)
    if longest >= minimum:
        return masks.highest_run(free, min(longest, maximum), settings.ways)
    if settings.has_shrink:
        # It means to shrink others, finds none, and takes what they have.
        return masks.lowest_run(pool, minimum, settings.ways)
    return 0
