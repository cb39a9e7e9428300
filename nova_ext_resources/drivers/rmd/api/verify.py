# SPDX-License-Identifier: Apache-2.0

"""Which ways a workload really got: compares the caches before and after.

RMD's response does not contain it. Worse, RMD reports success when the
hardware refused, and on a host with two sockets it writes the mask to the
wrong cache in about half of all cases. The ways that the caches lost prove
what happened.
"""

from collections.abc import Iterable, Mapping
import itertools

from oslo_log import log as logging

from nova_ext_resources.drivers.rmd.api import client as client_mod
from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import request as request_mod
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.objects import bitmask

LOG = logging.getLogger(__name__)

#: RMD picks the right one of two caches half of the time, independently:
#: one server in four thousand is refused after this many attempts. Each
#: takes a few milliseconds.
WRONG_CACHE_ATTEMPTS = 12

#: With one cache. A failure of the hardware library does not pass by itself;
#: once more, in case something else changed the host in the same moment.
NOTHING_TAKEN_ATTEMPTS = 2


def place_workload(
    client: client_mod.RmdClient, request: request_mod.WorkloadRequest
) -> dict[int, int]:
    """Create a workload, and again until its ways lie where it runs.

    RMD's writer lock is held meanwhile: a workload that came or went between
    the two readings of the caches would spoil the comparison.

    :return: for each cache that the cores share (for shared ways: for each
        cache), the mask of the applied ways, one run each
    :raises NotEnforced: RMD did not apply it; the workload is deleted again
    :raises WorkloadExists: delete it first; which ways an existing workload
        has cannot be learned
    :raises InfraGroupPresent: RMD's configuration hides the ways
    :raises RmdError: see :meth:`.client.RmdClient.create_workload`; nothing
        stays applied unless the error mentions it
    """
    with client.writing():
        for attempt in itertools.count(1):
            before = client.list_caches()
            wanted = _find_caches(client.url, before, request)
            client.create_workload(request)
            taken = _find_taken(client, request.uuid, before)
            fault = find_fault(before, taken, wanted=wanted, request=request)
            if not fault:
                break
            client.delete_workload(request.uuid)
            # A wrong cache shows no loss if it had lost those ways before.
            may_be_elsewhere = any(taken.values()) or len(before) > 1
            _check_attempts(
                client.url, request.uuid, attempt, fault, may_be_elsewhere
            )
    return {cache_id: taken[cache_id] for cache_id in wanted}


def _find_caches(
    url: str,
    caches: Mapping[int, values.RmdCache],
    request: request_mod.WorkloadRequest,
) -> list[int]:
    """Return the caches where it will have ways.

    :raises InfraGroupPresent: what one of them reports cannot be used
    """
    wanted = [
        cache_id
        for cache_id, cache in caches.items()
        # A workload of the shared pool has its ways on every cache.
        if cache.cpus & request.core_ids or request.max_ways == 0
    ]
    if any(caches[cache_id].has_infra_group for cache_id in wanted):
        raise errors.InfraGroupPresent(
            url=url,
            action='place workload',
            reason='all its ways read as taken, so it is impossible to find '
            'out which ways a workload gets',
        )
    return wanted


def _find_taken(
    client: client_mod.RmdClient,
    uuid: str,
    before: Mapping[int, values.RmdCache],
) -> dict[int, int]:
    """Return what was taken; a workload that cannot be verified is deleted."""
    try:
        return taken_ways(before, client.list_caches())
    except errors.RmdError:
        client.delete_workload(uuid)
        raise


def taken_ways(
    before: Mapping[int, values.RmdCache],
    after: Mapping[int, values.RmdCache],
) -> dict[int, int]:
    """Return the mask that each cache lost, 0 where it lost none."""
    return {
        cache_id: cache.free_mask & ~after[cache_id].free_mask
        if cache_id in after
        else 0
        for cache_id, cache in before.items()
    }


def find_fault(
    before: Mapping[int, values.RmdCache],
    taken: Mapping[int, int],
    *,
    wanted: Iterable[int],
    request: request_mod.WorkloadRequest,
) -> str:
    """Describe what is wrong with the ways that were taken; '': nothing.

    :param wanted: the caches that the workload runs on
    """
    expected = set(wanted)
    faults = []
    for cache_id, mask in sorted(taken.items()):
        if cache_id not in expected:
            if mask:
                faults.append(f'cache {cache_id} lost ways {mask:#x}')
            continue
        free = before[cache_id].free.get(request.pool, 0)
        if not _is_right(mask, free, request):
            faults.append(f'cache {cache_id} gave ways {mask:#x}')
    return ', '.join(faults)


def _is_right(
    mask: int, free: int, request: request_mod.WorkloadRequest
) -> bool:
    """Return whether these ways of a cache are what was requested.

    :param free: of the pool, before
    """
    if request.pool == values.SHARED:
        return mask == free != 0
    return (
        bitmask.is_contiguous(mask)
        and request.min_ways <= mask.bit_count() <= request.max_ways
        and not mask & ~free
    )


def _check_attempts(
    url: str, uuid: str, attempt: int, fault: str, may_be_elsewhere: bool
) -> None:
    """Return if another attempt may help.

    :param may_be_elsewhere: whether RMD may have picked the wrong cache
    :raises NotEnforced: there were enough
    """
    if attempt < (
        WRONG_CACHE_ATTEMPTS if may_be_elsewhere else NOTHING_TAKEN_ATTEMPTS
    ):
        LOG.debug(
            'RMD at %(url)s misplaced workload %(uuid)s (%(fault)s), '
            'trying again',
            {'url': url, 'uuid': uuid, 'fault': fault},
        )
        return
    advice = (
        'Either libpqos failed (see RMD\'s log), or shrink is on in rmd.toml '
        'and RMD allocated ways that another workload has'
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
        reason=f'{fault} ({attempt} attempts). The workload was deleted '
        f'again. {advice}.',
    )
