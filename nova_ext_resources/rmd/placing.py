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

"""Learning which ways a workload really got.

RMD's answer does not say it. Worse, RMD says "created" when the hardware
refused, and on a host with two sockets it writes the mask to the wrong
cache in about half of all cases. What the caches have lost tells the truth.
"""

from collections.abc import Iterable, Mapping
import contextlib
from typing import Any, Protocol

from oslo_log import log as logging

from nova_ext_resources.rmd import errors
from nova_ext_resources.rmd import values

LOG = logging.getLogger(__name__)

#: RMD picks the right one of two caches half of the time, independently:
#: one server in four thousand is refused after this many tries. Each takes
#: a few milliseconds.
WRONG_CACHE_ATTEMPTS = 12

#: With one cache. A failure of the hardware library does not pass by itself;
#: once more, in case something else changed the host in the same moment.
NOTHING_TAKEN_ATTEMPTS = 2


class Client(Protocol):
    """What is needed of :class:`.client.RmdClient`."""

    @property
    def url(self) -> str: ...

    def writing(self) -> contextlib.AbstractContextManager[object]: ...

    def list_caches(self) -> dict[int, values.Cache]: ...

    def create_workload(
        self,
        *,
        uuid: str,
        core_ids: Iterable[int] = (),
        max_ways: int,
        min_ways: int,
        mba: values.MbaLimit | None = None,
        plugins: Mapping[str, Mapping[str, Any]] | None = None,
        label: str = '',
    ) -> values.Workload: ...

    def delete_workload(self, uuid: str) -> None: ...


def taken_ways(
    before: Mapping[int, values.Cache], after: Mapping[int, values.Cache]
) -> dict[int, int]:
    """Give the mask that each cache lost, 0 where it lost none."""
    return {
        cache_id: cache.free_mask & ~after[cache_id].free_mask
        if cache_id in after
        else 0
        for cache_id, cache in before.items()
    }


def is_run(mask: int) -> bool:
    """Tell whether the set bits are one unbroken run."""
    low = mask & -mask
    return mask > 0 and (mask + low) & mask == 0


def find_fault(
    before: Mapping[int, values.Cache],
    taken: Mapping[int, int],
    *,
    wanted: Iterable[int],
    max_ways: int,
    min_ways: int,
) -> str:
    """Say what is wrong with the ways that were taken; '' when all is well.

    :param wanted: the caches that the workload runs on
    """
    pool = values.pool_of(max_ways, min_ways)
    expected = set(wanted)
    faults = []
    for cache_id, mask in sorted(taken.items()):
        if cache_id not in expected:
            if mask:
                faults.append(f'cache {cache_id} lost ways {mask:#x}')
            continue
        free = before[cache_id].free.get(pool, 0)
        if not _is_right(mask, free, max_ways, min_ways):
            faults.append(f'cache {cache_id} gave ways {mask:#x}')
    return ', '.join(faults)


def _is_right(mask: int, free: int, max_ways: int, min_ways: int) -> bool:
    """Tell whether these ways of a cache are what was asked for.

    :param free: of the pool, before
    """
    if values.pool_of(max_ways, min_ways) == values.SHARED:
        return mask == free != 0
    return (
        is_run(mask)
        and min_ways <= mask.bit_count() <= max_ways
        and not mask & ~free
    )


def _caches_of(
    url: str,
    caches: Mapping[int, values.Cache],
    cores: frozenset[int],
    *,
    is_everywhere: bool,
) -> list[int]:
    """Give the caches of these cores, if what they report can be used.

    :param is_everywhere: a workload of the shared pool has its ways on
        every cache
    """
    touched = [
        cache_id
        for cache_id, cache in caches.items()
        if cache.cpus & cores or is_everywhere
    ]
    if any(caches[cache_id].has_infra_group for cache_id in touched):
        raise errors.InfraGroupPresent(
            url=url,
            action='place workload',
            reason='all its ways read as taken, so nobody can see which '
            'ones a workload gets',
        )
    return touched


def place_workload(
    client: Client,
    *,
    uuid: str,
    core_ids: Iterable[int],
    max_ways: int,
    min_ways: int,
    mba: values.MbaLimit | None = None,
    plugins: Mapping[str, Mapping[str, Any]] | None = None,
    label: str = '',
) -> dict[int, int]:
    """Create a workload and see to it that its ways lie where it runs.

    Nobody else may write to this RMD meanwhile: its writer lock is held.

    :return: for each cache that the cores share (for shared ways: for each
        cache), the mask of ways that are in force, one run each
    :raises NotEnforced: RMD did not manage; the workload is gone again
    :raises WorkloadExists: delete it first; which ways an existing workload
        has cannot be learned
    :raises InfraGroupPresent: RMD's configuration hides the ways
    :raises RmdError: anything else, see :meth:`.client.RmdClient.
        create_workload`; nothing stays in force unless it says so
    """
    cores = frozenset(core_ids)
    misses = 0
    with client.writing():
        while True:
            before = client.list_caches()
            wanted = _caches_of(
                client.url, before, cores, is_everywhere=max_ways == 0
            )
            client.create_workload(
                uuid=uuid,
                core_ids=cores,
                max_ways=max_ways,
                min_ways=min_ways,
                mba=mba,
                plugins=plugins,
                label=label,
            )
            taken = _look(client, uuid, before)
            fault = find_fault(
                before,
                taken,
                wanted=wanted,
                max_ways=max_ways,
                min_ways=min_ways,
            )
            if not fault:
                return {cache_id: taken[cache_id] for cache_id in wanted}
            client.delete_workload(uuid)
            misses += 1
            may_be_elsewhere = any(taken.values()) or len(before) > 1
            _give_up(client.url, uuid, misses, fault, may_be_elsewhere)


def _look(
    client: Client, uuid: str, before: Mapping[int, values.Cache]
) -> dict[int, int]:
    """See what was taken; what cannot be seen must not stay."""
    try:
        return taken_ways(before, client.list_caches())
    except errors.RmdError:
        client.delete_workload(uuid)
        raise


def _give_up(
    url: str, uuid: str, misses: int, fault: str, may_be_elsewhere: bool
) -> None:
    """Decide whether it is worth another try; raise if not.

    :param may_be_elsewhere: whether RMD may have picked the wrong cache.
        Nobody sees it there where those ways were taken already.
    """
    if misses < (
        WRONG_CACHE_ATTEMPTS if may_be_elsewhere else NOTHING_TAKEN_ATTEMPTS
    ):
        LOG.debug(
            'RMD at %(url)s misplaced workload %(uuid)s (%(fault)s), '
            'trying again',
            {'url': url, 'uuid': uuid, 'fault': fault},
        )
        return
    advice = (
        'Either libpqos failed, which is in the log of RMD, or shrink is on '
        'in rmd.toml and it gave ways that another workload has'
    )
    if may_be_elsewhere:
        advice += (
            ', or RMD v0.3.1 has mixed up the caches, as it does on hosts '
            'with several sockets; use the resctrl enforcer there'
        )
    raise errors.NotEnforced(
        url=url,
        action='place workload',
        uuid=uuid,
        reason=f'{fault} (tried {misses} times). The workload was deleted '
        f'again. {advice}.',
    )
