# SPDX-License-Identifier: Apache-2.0

"""Removes workloads, and notices what RMD or the kernel keeps of them.

Whoever uses this holds RMD's writer lock, or else something that came or went
between two readings of the caches would spoil the comparison.
"""

from typing import Any

from oslo_log import log as logging

from nova_ext_resources.drivers.rmd.api import client as client_mod
from nova_ext_resources.drivers.rmd.api import difference
from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import losses
from nova_ext_resources.drivers.rmd.api import request as request_mod
from nova_ext_resources.drivers.rmd.api import values
from nova_ext_resources.objects import bitmask

LOG = logging.getLogger(__name__)


def remove_workload(client: client_mod.RmdClient, uuid: str) -> None:
    """Remove the workload of a server; none is a success.

    :raises RmdError: see :meth:`.client.RmdClient.delete_workload`
    """
    with client.writing():
        found = client.find_workload(uuid)
        before = _read_caches(client) if found else {}
        client.delete_workload(uuid)
        after = _read_caches(client) if before else {}
        if found is None or not after:
            return
        if _has_freed(client, found.cos_name, before, after):
            return
        # Idle CPUs prove nothing: RMD frees them before it frees the ways.
        cpus = bitmask.format_list(found.core_ids)
        _lose(
            client,
            f'DELETE of workload {uuid} with CPUs {cpus} has freed no ways',
            cos_name=found.cos_name,
            is_doubtful=found.core_ids <= difference.list_idle(before),
        )


def _has_freed(
    client: client_mod.RmdClient,
    name: str,
    before: difference.Caches,
    after: difference.Caches,
) -> bool:
    """Return whether DELETE has freed ways: then RMD has its class again.

    :param name: of the class, which is also that of its control group
    """
    if not (groups := client.list_groups()):
        return any(difference.taken_ways(after, before).values())
    return name in groups and difference.is_whole(groups[name], after)


def undo(
    client: client_mod.RmdClient,
    created: values.RmdWorkload,
    before: difference.Caches,
    after: difference.Caches,
) -> bool:
    """Remove a workload that is not as it should be.

    :param before: the caches before it was created
    :param after: and after
    :return: whether RMD has its class of service again
    :raises RmdError: see :meth:`.client.RmdClient.delete_workload`; or the
        caches cannot be read, so that this is unknown
    """
    client.delete_workload(created.workload_id)
    cores = created.core_ids
    left = client.list_caches()
    is_kept = not cores <= difference.list_idle(left)
    if difference.has_moved(before, after, cores):
        has_ways = any(difference.taken_ways(before, after).values())
        is_kept &= difference.has_moved(before, left, cores)
        if has_ways or client.list_groups():
            is_kept |= not _has_freed(client, created.cos_name, after, left)
    else:
        # A mask that came to ways of the wrong cache that were taken before
        # is not seen, nor are CPUs that were in some group before. But where
        # libpqos works, DELETE has moved them to the default group.
        is_kept |= bool(cores & difference.list_idle(before))
    if is_kept:
        what = f'libpqos failed for workload {created.workload_id}'
        _lose(client, what, cos_name=created.cos_name)
    return not is_kept


def check_failed(
    client: client_mod.RmdClient,
    request: request_mod.WorkloadRequest,
    before: difference.Caches,
) -> None:
    """Notice what RMD keeps of a workload that it has failed to create."""
    after = _read_caches(client)
    if not after or not difference.has_moved(before, after, request.core_ids):
        return
    try:
        if client.find_workload(request.uuid) is not None:
            return
    except errors.RmdError:
        return
    ways = difference.describe(difference.taken_ways(before, after))
    _lose(
        client,
        f'POST of workload {request.uuid} failed and has no record, but ways '
        f'{ways} and CPUs {bitmask.format_list(request.core_ids)} stay taken',
        is_of_plugin=bool(request.plugins),
    )


def check_classes(client: client_mod.RmdClient) -> None:
    """Notice what else RMD has lost, as it has refused to give a class."""
    for _ in range(client.count_classes(client.list_workloads())):
        _lose(
            client, 'RMD refused to give a class (or num_closids is too large)'
        )


def _read_caches(client: client_mod.RmdClient) -> difference.Caches:
    """Return the caches, none if RMD cannot report them."""
    try:
        return client.list_caches()
    except errors.RmdError:
        return {}


def _lose(client: client_mod.RmdClient, text: str, **facts: Any) -> None:
    client.losses.add(losses.Loss(text=text, **facts))
    LOG.error('RMD has lost a class of service: %(text)s', {'text': text})
