# SPDX-License-Identifier: Apache-2.0

"""What RMD checks before it takes a workload. Pure.

The order of the checks decides which of several faults is named.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from nova_ext_resources.testing.rmd_simulator import cores
from nova_ext_resources.testing.rmd_simulator import gojson
from nova_ext_resources.testing.rmd_simulator import settings as settings_mod
from nova_ext_resources.testing.rmd_simulator import workload

NOT_LOADED = 'Trying to use module that is not loaded'


class Refused(Exception):
    """RMD refuses; its words, with their line ends."""


def with_details(message: str, details: str) -> str:
    """Join two texts as RMD's nested errors do."""
    return f'{message}. Details: {details}\n'


def find_policy(settings: settings_mod.Settings, name: str) -> tuple[int, int]:
    """Return (max, min) ways of a policy.

    :raises Refused: there is none
    """
    try:
        return settings.policies[name]
    except KeyError:
        raise Refused(f'Can not find specified policy {name}') from None


def fill_by_policy(
    settings: settings_mod.Settings, record: workload.Record
) -> None:
    """Copy a policy's ways into the record.

    From a YAML file the integers have a type that RMD does not expect: it
    copies nothing.

    :raises Refused: there is no such policy
    """
    try:
        maximum, minimum = find_policy(settings, record.policy)
    except Refused as err:
        raise Refused(f'Could not find the Policy. {err}') from None
    if settings.policy_file == 'toml':
        record.cache_max, record.cache_min = maximum, minimum


def validate(
    settings: settings_mod.Settings,
    record: workload.Record,
    running: Collection[str],
) -> None:
    """Check a request by itself; a policy overwrites its ways.

    :param running: ids of the tasks that exist
    :raises Refused: it is faulty
    """
    if not record.task_ids and not record.core_ids:
        raise Refused('No task or core id specified')
    for task in record.task_ids:
        if task not in running:
            raise Refused(f'The task: {task} does not exist')
    if record.policy:
        fill_by_policy(settings, record)
        return
    if (record.cache_max is None) != (record.cache_min is None):
        raise Refused('Need to provide both cache.* or none of them')
    if record.has_bandwidth:
        _validate_bandwidth(settings, record)
    for name, values in record.plugins.items():
        validate_plugin(settings, name, values, record)
    if not record.has_cache and record.percentage is None:
        if not record.plugins:
            raise Refused('No RDT/Plugins params in workload')


def _validate_bandwidth(
    settings: settings_mod.Settings, record: workload.Record
) -> None:
    mode, maximum = settings.mba_mode, settings.mba_maximum
    if mode == 'mbps' and record.percentage is not None:
        raise Refused('Please provide MBA in Mbps')
    if mode == 'percentage' and record.mbps is not None:
        raise Refused('Please provide MBA in Percentage')
    limit = record.bandwidth or 0
    is_guaranteed = record.cache_max == record.cache_min != 0
    if record.has_cache and not is_guaranteed and limit != maximum:
        raise Refused(
            'MBA only supported for Guaranteed Request and not for '
            'BestEffort and Shared'
        )
    if not 0 < limit <= maximum:
        raise Refused(f'MBA values in should range from 1 to {maximum}')
    if not record.has_cache:
        raise Refused(
            'Need to provide both cache and mba for better performance'
        )


def validate_plugin(
    settings: settings_mod.Settings,
    name: str,
    values: Mapping[str, Any],
    record: workload.Record,
) -> None:
    """Check the settings of a plugin, for which the plugin answers.

    :raises Refused: it is not loaded, or refuses
    """
    if name not in settings.plugins:
        raise Refused(NOT_LOADED)
    for kind, ids in (('core', record.core_ids), ('task', record.task_ids)):
        if not all(_is_plugin_range(item) for item in ids):
            raise Refused(f'Invalid params ({kind} ids) received')
    complaint = _complain_about_pstate(values)
    if complaint:
        raise Refused(with_details('Invalid params received', complaint))


def _is_plugin_range(item: str) -> bool:
    low, dash, high = item.partition('-')
    parts = [low.strip(), high.strip()] if dash else [low.strip()]
    return all(part.isdecimal() for part in parts) and (
        not dash or int(parts[0]) <= int(parts[1])
    )


def _complain_about_pstate(values: Mapping[str, Any]) -> str:
    """Play the pstate plugin, whose source was never published."""
    if not values:
        return 'No params given'
    ratio = values.get('ratio')
    # What has no decimal point reaches a plugin as an integer.
    if ratio is not None and (
        not isinstance(ratio, gojson.Number) or ratio.lstrip('-').isdecimal()
    ):
        return "Invalid type of 'ratio' input param"
    if values.get('monitoring', 'on') not in ('on', 'off'):
        return "Invalid content of 'monitoring' input param"
    return ''


def validate_in_database(
    record: workload.Record, stored: Iterable[workload.Record]
) -> None:
    """Check a request against the workloads on record.

    :raises Refused: an id, uuid, task or core is taken
    :raises Panic: the cores cannot be read
    """
    others = list(stored)
    try:
        _find_duplicates(record, others)
        if record.core_ids:
            _find_shared_cores(record, others)
    except (Refused, cores.BadCores) as err:
        raise Refused(
            with_details('Workload validation in database failed', str(err))
        ) from None


def _find_duplicates(
    record: workload.Record, others: list[workload.Record]
) -> None:
    for other in others:
        if record.id and record.id == other.id:
            raise Refused(f'Workload with id {record.id} already exists')
    for other in others:
        if record.uuid and record.uuid == other.uuid:
            raise Refused(
                f'UUID {record.uuid} already exists in workload {other.id}'
            )
    for task in record.task_ids:
        for other in others:
            if task in other.task_ids:
                raise Refused(
                    f'TaskID {task} already exists in workload {other.id}'
                )


def _find_shared_cores(
    record: workload.Record, others: list[workload.Record]
) -> None:
    asked = cores.read(record.core_ids)
    taken: set[int] = set()
    for other in others:
        if other.core_ids:
            taken |= cores.read(other.core_ids)
    shared = asked & taken
    if shared:
        # RMD reads the first 32-bit word of the bitmap only.
        listed = ' '.join(str(core) for core in sorted(shared) if core < 32)
        raise Refused(f'CPU list [{listed}] has been assigned')
