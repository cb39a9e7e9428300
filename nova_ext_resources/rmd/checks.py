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

"""What must hold before anything is sent to RMD.

RMD drops the connection over a core that cannot exist, gives ways away for
one that does not exist, and takes ranges of cores that it cannot release.
It learns nothing of such requests.
"""

from collections.abc import Collection, Mapping
import re
from typing import Any

from nova_ext_resources.rmd import errors
from nova_ext_resources.rmd import values

_UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
_PLUGIN = re.compile(r'[A-Za-z0-9_]{1,64}')
_PATH_ID = re.compile(r'[A-Za-z0-9_-]{1,64}')

#: Largest limit per unit. RMD rounds up, and overflows above the second.
MBA_MAXIMA: Mapping[str, int] = {'percentage': 100, 'mbps': 4294967290}


def _refuse(url: str, action: str, reason: str) -> errors.InvalidWorkload:
    return errors.InvalidWorkload(url=url, action=action, reason=reason)


def uuid(url: str, value: str) -> None:
    """Check the uuid of a server, which becomes part of a path.

    A decimal id must not be chosen: RMD counts its own ids and overwrites
    a record that has the next one. The one workload of the shared pool is
    no server's.
    """
    if value == values.SHARED_ID:
        return
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        raise _refuse(url, 'workload', f'{value!r:.80} is not a server uuid')


def path_id(url: str, value: str) -> None:
    """Check an id that RMD reported before it is put into a path."""
    if not _PATH_ID.fullmatch(value):
        raise _refuse(
            url,
            'workload',
            f'id {value!r:.80} is unsafe in a path; delete that workload '
            f'by hand',
        )


def cores(url: str, core_ids: Collection[int], known: Collection[int]) -> None:
    """Check that every core is a single one that the host has online.

    :param known: the CPUs that share some last-level cache
    """
    for core in core_ids:
        if not isinstance(core, int) or isinstance(core, bool):
            raise _refuse(
                url, 'workload', f'core {core!r:.80} is not an integer'
            )
    unknown = sorted(set(core_ids) - set(known))
    if unknown:
        raise _refuse(
            url,
            'workload',
            f'CPUs {unknown} are not online on this host, which has '
            f'{len(known)}; correct [compute] cpu_dedicated_set',
        )


def targets(
    url: str, core_ids: Collection[int], task_ids: Collection[int]
) -> None:
    """Check that a workload has cores or tasks.

    With both, RMD associates the tasks only and leaves the cores out.
    """
    if not core_ids and not task_ids:
        raise _refuse(
            url,
            'workload',
            'it names neither cores nor tasks; RMD serves pinned servers only',
        )
    if core_ids and task_ids:
        raise _refuse(
            url,
            'workload',
            'it names cores and tasks; RMD would leave the cores out',
        )
    for task in task_ids:
        if not isinstance(task, int) or task <= 0:
            raise _refuse(
                url, 'workload', f'task {task!r:.80} is not a process id'
            )


def ways(
    url: str,
    max_ways: int,
    min_ways: int,
    *,
    available: int = 0,
    allow_shared: bool = False,
) -> None:
    """Check an amount of ways.

    :param available: ways of the largest cache, 0 when not known
    """
    for value in (max_ways, min_ways):
        if not isinstance(value, int) or isinstance(value, bool):
            raise _refuse(url, 'ways', f'{value!r:.80} is not an integer')
    try:
        pool = values.pool_of(max_ways, min_ways)
    except ValueError:
        raise _refuse(
            url,
            'ways',
            f'max {max_ways} and min {min_ways} do not go together: both '
            f'must be at least 1, and max not below min',
        ) from None
    if pool == values.SHARED and not allow_shared:
        raise _refuse(
            url,
            'ways',
            'shared ways (max 0, min 0) are not offered: two such workloads '
            'in its database keep RMD from starting',
        )
    if available and max_ways > available:
        raise _refuse(
            url, 'ways', f'{max_ways} asked for, a cache has {available}'
        )


def mba(
    url: str,
    limit: values.MbaLimit | None,
    mode: str | None,
    max_ways: int,
    min_ways: int,
) -> None:
    """Check a limit of memory bandwidth against RMD's mode and the ways."""
    if limit is None:
        return
    if limit.unit != mode:
        raise _refuse(
            url,
            'memory bandwidth',
            f'the limit is in {limit.unit}, [ext_resources_rmd] mba_mode is '
            f'{mode or "none"}',
        )
    if values.pool_of(max_ways, min_ways) != values.GUARANTEED:
        raise _refuse(
            url,
            'memory bandwidth',
            'RMD limits it for guaranteed ways only: max and min ways must '
            'be equal',
        )
    if not 1 <= limit.value <= MBA_MAXIMA[limit.unit]:
        raise _refuse(
            url,
            'memory bandwidth',
            f'{limit.value} is not within 1 and {MBA_MAXIMA[limit.unit]}',
        )


def plugin(url: str, name: str) -> None:
    """Check the name of a plugin, which becomes part of a path."""
    if not _PLUGIN.fullmatch(name):
        raise _refuse(
            url, 'plugins', f'{name!r:.80} is not the name of a plugin'
        )


def plugins(
    url: str, settings: Mapping[str, Mapping[str, Any]] | None
) -> dict[str, dict[str, Any]]:
    """Check the settings of RMD plugins, and give them as to be sent.

    Numbers become floats: RMD hands ``3`` to the plugin as an integer, and
    a plugin that wants a float refuses it.
    """
    checked: dict[str, dict[str, Any]] = {}
    for name, items in (settings or {}).items():
        plugin(url, name)
        checked[name] = {
            key: float(value)
            if isinstance(value, int) and not isinstance(value, bool)
            else value
            for key, value in items.items()
        }
    return checked
