# SPDX-License-Identifier: Apache-2.0

"""Which ways a workload really got: compares the caches before and after.

RMD's response does not contain it. Worse, RMD reports success when the
hardware refused, and on a host with two sockets it writes the mask to the
wrong cache in about half of all cases. The ways that the caches lost prove
what happened.
"""

from collections.abc import Iterable, Mapping, Set
import itertools

from oslo_log import log as logging

from nova_ext_resources.drivers.rmd.api import client as client_mod
from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import losses
from nova_ext_resources.drivers.rmd.api import request as request_mod
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.objects import bitmask

LOG = logging.getLogger(__name__)

#: On a host with several caches, while RMD applies something, but elsewhere.
#: Each attempt takes a few milliseconds. See :mod:`.odds`.
WRONG_CACHE_ATTEMPTS = 12

#: With one cache: something else changed the host in the same moment. And
#: where the CPUs were in some group before, which RMD has cleared by now.
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
            taken = taken_ways(before, after)
            fault = find_fault(before, taken, wanted=wanted, request=request)
            if not fault:
                _note_odds(client, before, request, is_miss=False)
                break
            has_effect = any(taken.values()) or has_moved(
                before, after, request.core_ids
            )
            if has_effect:
                _note_odds(client, before, request, is_miss=True)
                remove_workload(client, request.uuid)
            else:
                client.delete_workload(request.uuid)
                _note_unenforced(client, before, created)
            _check_attempts(
                client.url, request, attempt, before, fault, has_effect
            )
    return {cache_id: taken[cache_id] for cache_id in wanted}


def _note_odds(
    client: client_mod.RmdClient,
    caches: Mapping[int, values.RmdCache],
    request: request_mod.WorkloadRequest,
    *,
    is_miss: bool,
) -> None:
    if len(caches) > 1:
        client.odds.add(request.pool, is_miss=is_miss)


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


def _create(
    client: client_mod.RmdClient,
    request: request_mod.WorkloadRequest,
    before: Mapping[int, values.RmdCache],
) -> values.RmdWorkload:
    """Create it; where RMD fails, find out whether it has taken something."""
    try:
        return client.create_workload(request)
    except (errors.RmdFailed, errors.RmdRejected):
        after = _find_caches_if_any(client)
        taken = taken_ways(before, after)
        has_effect = any(taken.values()) or has_moved(
            before, after, request.core_ids
        )
        if after and has_effect:
            _lose(
                client,
                f'POST of workload {request.uuid} failed and has no record, '
                f'but {_describe(taken, request.core_ids)} stay taken',
                is_of_plugin=bool(request.plugins),
            )
        raise


def remove_workload(client: client_mod.RmdClient, uuid: str) -> None:
    """Remove the workload of a server, and notice what the kernel keeps.

    None is a success.

    :raises RmdError: see :meth:`.client.RmdClient.delete_workload`
    """
    with client.writing():
        found = client.find_workload(uuid)
        before = _find_caches_if_any(client) if found else {}
        client.delete_workload(uuid)
        if found is None or not before:
            return
        after = _find_caches_if_any(client)
        if after and _is_kept(before, after, found.core_ids):
            _lose(
                client,
                f'DELETE of workload {uuid} had no effect, and its ways and '
                f'{_describe({}, found.core_ids)} stay taken',
                cos_name=found.cos_name,
            )


def _find_caches_if_any(
    client: client_mod.RmdClient,
) -> Mapping[int, values.RmdCache]:
    """Return the caches, none if RMD cannot report them."""
    try:
        return client.list_caches()
    except errors.RmdError:
        return {}


def _is_kept(
    before: Mapping[int, values.RmdCache],
    after: Mapping[int, values.RmdCache],
    core_ids: Set[int],
) -> bool:
    """Return whether the kernel has let go of nothing by a DELETE."""
    has_freed = any(taken_ways(after, before).values())
    return not has_freed and not core_ids & _list_idle(after)


def _note_unenforced(
    client: client_mod.RmdClient,
    before: Mapping[int, values.RmdCache],
    created: values.RmdWorkload,
) -> None:
    """Note that RMD keeps the class of what was never applied."""
    if created.core_ids & _list_idle(before):
        _lose(
            client,
            f'libpqos failed for workload {created.workload_id}',
            cos_name=created.cos_name,
        )


def _lose(
    client: client_mod.RmdClient,
    text: str,
    *,
    cos_name: str = '',
    is_of_plugin: bool = False,
) -> None:
    LOG.error(
        'RMD at %(url)s has lost a class of service %(name)s: %(text)s',
        {'url': client.url, 'name': cos_name or '(unknown)', 'text': text},
    )
    client.losses.add(
        losses.Loss(text=text, cos_name=cos_name, is_of_plugin=is_of_plugin)
    )


def _describe(taken: Mapping[int, int], core_ids: Set[int]) -> str:
    ways = [
        f'ways {mask:#x} of cache {cache_id}'
        for cache_id, mask in sorted(taken.items())
        if mask
    ]
    cpus = f'CPUs {bitmask.format_list(core_ids)}'
    return ' and '.join([*ways, cpus])


def _list_after(
    client: client_mod.RmdClient, uuid: str
) -> dict[int, values.RmdCache]:
    """Read the caches; a workload that cannot be verified is deleted."""
    try:
        return client.list_caches()
    except errors.RmdError:
        client.delete_workload(uuid)
        raise


def has_moved(
    before: Mapping[int, values.RmdCache],
    after: Mapping[int, values.RmdCache],
    core_ids: Set[int],
) -> bool:
    """Return whether some of these CPUs have left the default group.

    RMD moves them after it has written the mask. A mask on the wrong cache
    changes no page where the same ways were taken before, but this does.
    """
    return bool(core_ids & _list_idle(before) - _list_idle(after))


def _list_idle(caches: Mapping[int, values.RmdCache]) -> Set[int]:
    return frozenset[int]().union(*(one.idle_cpus for one in caches.values()))


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
    url: str,
    request: request_mod.WorkloadRequest,
    attempt: int,
    before: Mapping[int, values.RmdCache],
    fault: str,
    has_effect: bool,
) -> None:
    """Return if another attempt may help.

    RMD loses a class of service whenever libpqos fails. So where no cache
    page has changed there is no other attempt.

    :param has_effect: whether some cache page has changed
    :raises NotEnforced: there were enough
    """
    was_idle = request.core_ids & _list_idle(before)
    limit = DOUBTFUL_ATTEMPTS
    if has_effect and len(before) > 1:
        limit = WRONG_CACHE_ATTEMPTS
    elif was_idle and not has_effect:
        limit = 1
    if attempt >= limit:
        raise errors.NotEnforced(
            url=url,
            action='place workload',
            uuid=request.uuid,
            reason=f'{fault} ({attempt} attempts). The workload was deleted '
            f'again. {_advise(has_effect, len(before) > 1)}',
        )
    LOG.debug(
        'RMD at %(url)s misplaced workload %(uuid)s (%(fault)s), trying again',
        {'url': url, 'uuid': request.uuid, 'fault': fault},
    )


def _advise(has_effect: bool, has_others: bool) -> str:
    """Say what the reason may be, and what to do.

    :param has_others: whether there are several caches
    """
    if not has_effect:
        return (
            'No cache has changed, so libpqos failed, and RMD keeps the class '
            'of service of the workload until RMD is restarted: find the '
            'error of libpqos in RMD\'s log, then restart RMD.'
        )
    advice = (
        'Either shrink is on in rmd.toml and RMD allocated ways that another '
        'workload has, or other software uses the ways'
    )
    if has_others:
        advice += (
            ', or RMD v0.3.1 has mixed up the caches, as it does on hosts '
            'with several sockets; use the resctrl enforcer there'
        )
    return f'{advice}.'
