# SPDX-License-Identifier: Apache-2.0

"""From the call of a driver's method to what Nova does with a server.

Which method Nova calls in which state of the server was read from and tried
with Nova 34.
"""

from collections.abc import Callable
from typing import Any

from nova.objects import fields

from nova_ext_resources.facts import operation

Operation = operation.Operation
_Task = fields.InstanceTaskState

_REBUILDS = (
    _Task.REBUILDING,
    _Task.REBUILD_BLOCK_DEVICE_MAPPING,
    _Task.REBUILD_SPAWNING,
)

#: Methods with one meaning, whatever the state of the server.
_METHODS = {
    'prepare_for_spawn': Operation.BOOT,
    'failed_spawn_cleanup': Operation.BUILD_FAILED,
    'power_on': Operation.RESTART,
    'reboot': Operation.RESTART,
    'rescue': Operation.RESTART,
    'resume': Operation.RESTART,
    'resume_state_on_host_boot': Operation.RESTART,
    'unrescue': Operation.RESTART,
    'finish_migration': Operation.MOVE_IN,
    'check_can_live_migrate_destination': Operation.MOVE_IN,
    'pre_live_migration': Operation.MOVE_IN,
    'post_live_migration_at_destination': Operation.MOVE_IN,
    'migrate_disk_and_power_off': Operation.MOVE_OUT,
    'live_migration': Operation.MOVE_OUT,
    'post_live_migration': Operation.MOVE_OUT,
    'post_live_migration_at_source': Operation.MOVE_OUT,
    'confirm_migration': Operation.CONFIRM,
    'finish_revert_migration': Operation.REVERT_IN,
    'rollback_live_migration_at_destination': Operation.REVERT_OUT,
}

#: Moves to another cell use ``spawn``, ``destroy`` and ``cleanup``. Nova's
#: fake driver spawns a guest that is missing when it is rebooted, and one that
#: is moved.
_SPAWNS = {
    _Task.REBOOTING_HARD: Operation.RESTART,
    _Task.REBOOT_PENDING_HARD: Operation.RESTART,
    _Task.REBOOT_STARTED_HARD: Operation.RESTART,
    _Task.RESIZE_FINISH: Operation.MOVE_IN,
    _Task.RESIZE_REVERTING: Operation.REVERT_IN,
}
_DESTROYS = {
    _Task.BLOCK_DEVICE_MAPPING: Operation.BUILD_FAILED,
    _Task.NETWORKING: Operation.BUILD_FAILED,
    _Task.SCHEDULING: Operation.BUILD_FAILED,
    _Task.SPAWNING: Operation.BUILD_FAILED,
    _Task.DELETING: Operation.DELETE,
    _Task.MIGRATING: Operation.REVERT_OUT,
    _Task.RESIZE_MIGRATING: Operation.MOVE_OUT,
    _Task.RESIZE_REVERTING: Operation.REVERT_OUT,
    _Task.SHELVING_OFFLOADING: Operation.SHELVE_OFFLOAD,
}


def find_operation(
    method: str,
    instance: Any,
    host: str,
    *,
    destroy_secrets: bool = True,
    is_evacuated: Callable[[str], bool] = lambda _uuid: False,
) -> Operation:
    """Return what Nova does when it calls a method of the driver.

    :param method: its name
    :param instance: a ``nova.objects.Instance``
    :param host: the name of this host
    :param destroy_secrets: argument of ``destroy``; false only where a
        driver destroys a guest in order to start it again
    :param is_evacuated: returns whether an evacuation of a server from this
        host is in progress, by its uuid
    :raises KeyError: the method changes no claim
    """
    if method == 'spawn':
        return _find_spawn(instance, host)
    if method == 'destroy':
        if not destroy_secrets:
            return Operation.RESTART
        return _find_destroy(instance, host, is_evacuated)
    return _METHODS[method]


def find_end(operation: Operation, instance: Any, host: str) -> Operation:
    """Return what Nova does with a server whose guest could not be spawned.

    Within a cell, it leaves a server that moves here on this host. From
    another cell, it has the server on its former host still, and leaves it
    there.
    """
    if is_from_cell(operation, instance, host):
        return Operation.REVERT_OUT
    return operation


def is_from_cell(operation: Operation, instance: Any, host: str) -> bool:
    """Return whether a guest is spawned that comes from another cell.

    Within a cell, Nova has the server on its next host before.
    """
    return operation is Operation.MOVE_IN and instance.host != host


def is_confirmed_to_cell(instance: Any, host: str) -> bool:
    """Return whether ``cleanup`` is that of a move to another cell.

    For all that time, the server has this task in its former cell. Within a
    cell, it has its next host by then.
    """
    return bool(
        instance.task_state == _Task.RESIZE_MIGRATED and instance.host == host
    )


def _find_spawn(instance: Any, host: str) -> Operation:
    if instance.task_state in _REBUILDS:
        # An evacuation has the same states, and still the former host.
        is_here = instance.host == host
        return Operation.REBUILD if is_here else Operation.EVACUATE_IN
    if instance.vm_state == fields.InstanceState.SHELVED_OFFLOADED:
        return Operation.UNSHELVE
    return _SPAWNS.get(instance.task_state, Operation.BOOT)


def _find_destroy(
    instance: Any, host: str, is_evacuated: Callable[[str], bool]
) -> Operation:
    is_elsewhere = instance.host not in (None, host)
    found = _DESTROYS.get(instance.task_state)
    # Its next host moves it.
    is_moved_on = is_elsewhere and found is Operation.MOVE_OUT
    if found is not None and not is_moved_on:
        return found
    if is_elsewhere:
        return Operation.EVACUATE_OUT
    if instance.task_state in _REBUILDS:
        # The source of an evacuation that has come back in the middle of it
        # is still the server's host. The server's migration context proves
        # nothing: there is none before the destination has claimed, and Nova
        # leaves that of a refused migration behind.
        if is_evacuated(instance.uuid):
            return Operation.EVACUATE_OUT
        return Operation.REBUILD
    return Operation.DELETE
