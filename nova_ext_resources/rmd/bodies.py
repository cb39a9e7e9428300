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

"""A workload as it is written in a request."""

from collections.abc import Mapping
from typing import Any

from nova_ext_resources.rmd import values


def make_body(
    *,
    uuid: str,
    core_ids: frozenset[int],
    task_ids: tuple[int, ...],
    max_ways: int,
    min_ways: int,
    mba: values.MbaLimit | None,
    plugins: Mapping[str, Mapping[str, Any]],
    label: str = '',
) -> dict[str, Any]:
    """Write a workload as RMD wants it.

    Ids, cores and tasks are strings, one core each: RMD takes ranges but
    cannot release them. Ways and limits are integers. Both ways are always
    given, never a policy.

    :param label: what RMD keeps as its ``uuid``, if not the same
    """
    rdt: dict[str, Any] = {'cache': {'max': max_ways, 'min': min_ways}}
    if mba is not None:
        rdt['mba'] = {mba.unit: mba.value}
    body: dict[str, Any] = {'id': uuid, 'uuid': label or uuid, 'rdt': rdt}
    if core_ids:
        body['core_ids'] = [str(core) for core in sorted(core_ids)]
    if task_ids:
        body['task_ids'] = [str(task) for task in task_ids]
    if plugins:
        body['plugins'] = plugins
    return body


def is_as_asked(found: values.Workload, body: Mapping[str, Any]) -> bool:
    """Tell whether a workload on record is the one of ``body``."""
    cache, mba = body['rdt']['cache'], body['rdt'].get('mba', {})
    return (
        found.uuid == body['uuid']
        and found.core_ids == frozenset(map(int, body.get('core_ids', ())))
        and found.task_ids == tuple(body.get('task_ids', ()))
        and (found.max_ways, found.min_ways) == (cache['max'], cache['min'])
        and ({found.mba.unit: found.mba.value} if found.mba else {}) == mba
        and found.plugins == body.get('plugins', {})
    )
