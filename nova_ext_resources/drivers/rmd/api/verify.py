# SPDX-License-Identifier: Apache-2.0

"""Which ways a workload really got: compares the caches before and after.

RMD's response does not contain it. Worse, RMD reports success when the
hardware refused, and on a host with two sockets it writes the mask to the
wrong cache in about half of all cases. The ways that the caches lost prove
what happened.
"""

from collections.abc import Iterable, Mapping
import http
import itertools

from nova_ext_resources.drivers.rmd.api import client as client_mod
from nova_ext_resources.drivers.rmd.api import difference
from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import removal
from nova_ext_resources.drivers.rmd.api import request as request_mod
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.objects import bitmask

#: On a host with several caches, while RMD applies something, but elsewhere.
#: Each attempt takes a few milliseconds. See :mod:`.odds`.
WRONG_CACHE_ATTEMPTS = 12

#: With one cache: something else changed the host in the same moment. And
#: where the CPUs were in some group before, so that nothing can be told.
DOUBTFUL_ATTEMPTS = 2


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
            created = _create(client, request, before)
            after = _list_after(client, request.uuid)
            taken = difference.taken_ways(before, after)
            problem = find_problem(
                before, taken, wanted=wanted, request=request
            )
            # Ways that other caches lost are perhaps of other software.
            own = {cache_id: taken[cache_id] for cache_id in wanted}
            miss = find_problem(before, own, wanted=wanted, request=request)
            has_others = len(before) > 1 and difference.has_effect(
                before, after, request.core_ids
            )
            # Where ways are wanting, RMD cannot hit.
            free = [before[one].free.get(request.pool, 0) for one in wanted]
            least = max(request.min_ways, 1)
            is_choice = has_others and all(
                bitmask.has_run(one, least) for one in free
            )
            if is_choice:
                client.odds.add(request.pool, is_miss=bool(miss))
            problem = problem or difference.find_unseen(
                client.list_groups(), created, after
            )
            if not problem:
                break
            is_undone = removal.undo(client, created, before, after)
            limit = WRONG_CACHE_ATTEMPTS if has_others else DOUBTFUL_ATTEMPTS
            if attempt >= limit or not is_undone:
                raise errors.NotEnforced(
                    url=client.url,
                    action='place workload',
                    uuid=request.uuid,
                    reason=f'{problem} ({attempt} attempts). The workload was '
                    f'deleted again. {_advise(is_undone, is_choice)}',
                )
        client.losses.settle()
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
            reason='RMD reports all its ways as taken, so the ways of a '
            'workload cannot be found',
        )
    return wanted


def _create(
    client: client_mod.RmdClient,
    request: request_mod.WorkloadRequest,
    before: Mapping[int, values.RmdCache],
) -> values.RmdWorkload:
    """Create it; where RMD fails, find out whether it has taken something."""
    try:
        return client.create_workload(request)
    except (errors.RmdFailed, errors.RmdRejected) as err:
        if isinstance(err, errors.NoFreeClos):
            removal.check_classes(client)
        # What its validation refuses has not touched anything.
        elif err.status != http.HTTPStatus.BAD_REQUEST:
            removal.check_failed(client, request, before)
        raise


def _list_after(
    client: client_mod.RmdClient, uuid: str
) -> dict[int, values.RmdCache]:
    """Read the caches; a workload that cannot be verified is deleted."""
    try:
        return client.list_caches()
    except errors.RmdError:
        client.delete_workload(uuid)
        raise


def find_problem(
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


def _advise(is_undone: bool, has_others: bool) -> str:
    """Say what the reason may be, and what to do.

    :param is_undone: whether RMD has its class of service again
    :param has_others: whether another cache may have got the mask
    """
    if not is_undone:
        return (
            'libpqos, the library below RMD, has failed, and RMD keeps the '
            'class of service: see the log of RMD, and the alarm '
            'restart_needed.'
        )
    advice = (
        'Either libpqos failed (see RMD\'s log), or shrink is on in rmd.toml, '
        'or other software uses the ways'
    )
    if has_others:
        advice += (
            ', or RMD v0.3.1 has mixed up the caches, as it does on hosts '
            'with several sockets; use the resctrl enforcer there'
        )
    return f'{advice}.'
