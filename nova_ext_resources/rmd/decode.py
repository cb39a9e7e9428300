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

"""RMD's JSON as values; anything else is a MalformedAnswer.

What is not needed is not looked at, so that other versions of RMD pass.
"""

from collections.abc import Callable, Mapping
import contextlib
from typing import Any, TypeVar

from nova_ext_resources.rmd import answers
from nova_ext_resources.rmd import values

_T = TypeVar('_T')


def _decode(answer: answers.Answer, read: Callable[[Any], _T]) -> _T:
    data = answer.json()
    try:
        return read(data)
    except (
        AttributeError,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
    ) as err:
        answer.raise_malformed(
            f'{type(err).__name__} {err} while reading it: {answer.reason!r}',
            err,
        )


def ranges(text: str) -> frozenset[int]:
    """Read a list of ranges such as ``0-11,24-35``, or an empty one.

    :raises ValueError: it is no such list
    """
    numbers: set[int] = set()
    for part in filter(None, text.split(',')):
        first, dash, last = part.partition('-')
        low, high = int(first), int(last if dash else first)
        # No host has so many; a larger one would only eat memory.
        if not 0 <= low <= high < 65536:
            raise ValueError(f'range {part!r}')
        numbers.update(range(low, high + 1))
    return frozenset(numbers)


def mask(text: str) -> int:
    """Read ranges of ways as a mask, bit n for way n.

    :raises ValueError: it is no list of ranges
    """
    return sum(1 << way for way in ranges(text))


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f'{value!r} is not a count')
    return value


def _cache(data: Mapping[str, Any]) -> values.Cache:
    cpus = ranges(data['share_cpu_list'])
    ways = _count(data['NumWays'])
    if not cpus or not ways:
        raise ValueError('a cache without CPUs or ways')
    return values.Cache(
        cache_id=_count(data['cache_id']),
        ways=ways,
        way_bytes=_count(data.get('WaySize', 0)),
        cpus=cpus,
        free={
            pool: mask(text)
            for pool, text in data['available_ways_pool'].items()
        },
        policies={
            name: _count(number)
            for name, number in (data.get('available_policy') or {}).items()
        },
    )


def caches(answer: answers.Answer) -> dict[int, values.Cache]:
    """Read ``GET /v1/cache/l3``; it has at least one cache."""

    def read(data: Any) -> dict[int, values.Cache]:
        found = [_cache(item) for item in data['Caches'].values()]
        if not found:
            raise ValueError('no caches')
        return {
            cache.cache_id: cache
            for cache in sorted(found, key=lambda cache: cache.cache_id)
        }

    return _decode(answer, read)


def policies(answer: answers.Answer) -> dict[str, values.Policy]:
    """Read ``GET /v1/policy``; policies without ways are left out."""

    def read(data: Any) -> dict[str, values.Policy]:
        return {
            name: values.Policy(
                name=name,
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

    return _decode(answer, read)


def mba(answer: answers.Answer) -> values.Mba:
    """Read ``GET /v1/mba``, where zero values are absent."""

    def read(data: Any) -> values.Mba:
        return values.Mba(
            is_supported=bool(data['mba']),
            is_enabled=bool(data.get('mba_enable', False)),
            step=_count(data.get('mba_step', 0)),
            minimum=_count(data.get('mba_min', 0)),
        )

    return _decode(answer, read)


def scores(answer: answers.Answer) -> dict[int, int]:
    """Read ``POST /v1/hospitality``."""

    def read(data: Any) -> dict[int, int]:
        return {
            int(cache_id): _count(score)
            for cache_id, score in data['score']['l3'].items()
        }

    return _decode(answer, read)


def _limit(data: Mapping[str, Any]) -> values.MbaLimit | None:
    if 'percentage' in data:
        return values.MbaLimit(
            unit='percentage', value=_count(data['percentage'])
        )
    if 'mbps' in data:
        return values.MbaLimit(unit='mbps', value=_count(data['mbps']))
    return None


def _workload(data: Mapping[str, Any]) -> values.Workload:
    core_ids: frozenset[int] = frozenset()
    # Others may have written what cannot be read; the record still counts.
    with contextlib.suppress(ValueError):
        core_ids = frozenset(map(int, data.get('core_ids', ())))
    cache = data['rdt']['cache']
    return values.Workload(
        workload_id=str(data['id']),
        uuid=str(data.get('uuid', '')),
        core_ids=core_ids,
        task_ids=tuple(map(str, data.get('task_ids', ()))),
        max_ways=cache.get('max'),
        min_ways=cache.get('min'),
        mba=_limit(data['rdt'].get('mba', {})),
        policy=str(data.get('policy', '')),
        cos_name=str(data['cos_name']),
        status=str(data['status']),
        origin=str(data['origin']),
        plugins=data.get('plugins') or {},
    )


def workload(answer: answers.Answer) -> values.Workload:
    """Read one workload."""
    return _decode(answer, _workload)


def workloads(answer: answers.Answer) -> tuple[values.Workload, ...]:
    """Read ``GET /v1/workloads``."""

    def read(data: Any) -> tuple[values.Workload, ...]:
        if not isinstance(data, list):
            raise ValueError('not a list')
        return tuple(map(_workload, data))

    return _decode(answer, read)
