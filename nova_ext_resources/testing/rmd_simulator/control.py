# SPDX-License-Identifier: Apache-2.0

"""The simulator's own paths, below ``/-/``, which RMD does not have.

``GET /-/groups``
    All control groups, in the words of resctrl: what is really applied.
``POST /-/groups`` ``{"name": ..., "ways": {"0": "1-2"}, "cpus": "5"}``
    Make a group as other software would; ``cpus`` may be left out.
``DELETE /-/groups/NAME``
    Remove such a group.
``GET /-/faults``, ``POST /-/faults``, ``DELETE /-/faults``
    List, add and clear faults. The body has the fields of
    :class:`.faults.Fault`, such as ``{"kind": "hang", "methods": ["POST"]}``.
``POST /-/lie`` ``{"lie": true, "calls": ["bandwidth"]}``
    Let libpqos fail: answer 201 and enforce nothing, 200 and release nothing.
    With ``calls``, only these: ``mask``, ``cpus`` and ``bandwidth`` of POST,
    ``free_cpus`` and ``free_mask`` of DELETE.
``POST /-/restart`` ``{"keep_database": true, "down_for": 2.5}``
    Restart after the answer, optionally staying away for some seconds.
``POST /-/remount``
    Mount resctrl anew: the kernel has nothing, and RMD goes on.
``POST /-/workloads``
    Put a workload on record as RMD's own Nova listener does.
``GET /-/requests``
    Method and path of every request so far.

A mistake is answered 400 with a sentence.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
import dataclasses
import json
from typing import Any, Protocol

from nova_ext_resources.testing.rmd_simulator import allocation
from nova_ext_resources.testing.rmd_simulator import cores
from nova_ext_resources.testing.rmd_simulator import daemon as daemon_mod
from nova_ext_resources.testing.rmd_simulator import enforcement
from nova_ext_resources.testing.rmd_simulator import faults as faults_mod
from nova_ext_resources.testing.rmd_simulator import gojson
from nova_ext_resources.testing.rmd_simulator import masks
from nova_ext_resources.testing.rmd_simulator import messages
from nova_ext_resources.testing.rmd_simulator import validation

PREFIX = '/-/'

#: Seconds between the answer to a restart and the restart; on a busy machine,
#: the answer is on its way for some of them.
RESTART_DELAY = 0.5


class Controlled(Protocol):
    """What a simulator lets its control do."""

    daemon: daemon_mod.Daemon
    faults: faults_mod.Faults
    requests: list[tuple[str, str]]

    def list_groups(self) -> list[dict[str, Any]]: ...

    def add_foreign_group(
        self, name: str, ways: Mapping[int, int], cpus: Iterable[int] = ()
    ) -> None: ...

    def remove_foreign_group(self, name: str) -> None: ...

    def add_workload(self, body: Mapping[str, Any]) -> None: ...

    def lie(
        self,
        is_lying: bool = True,
        calls: Collection[str] = enforcement.CALLS,
    ) -> None: ...

    def remount(self) -> None: ...

    def restart_later(
        self, *, keep_database: bool, delay: float, down_for: float
    ) -> None: ...


def respond(rmd: Controlled, request: messages.Request) -> messages.Response:
    """Carry out a request to the simulator itself."""
    what, _, name = request.path.removeprefix(PREFIX).partition('/')
    action = _ACTIONS.get((request.method, what))
    if action is None:
        return messages.text(404, f'{request.method} /-/{what}: unknown\n')
    try:
        data = json.loads(request.body or '{}')
        if not isinstance(data, Mapping):
            raise ValueError('the body is not an object')
        return messages.entity(action(rmd, name, data))
    except (
        KeyError,
        ValueError,
        TypeError,
        allocation.CannotEnforce,
        validation.Refused,
        cores.Panic,
    ) as err:
        return messages.text(400, f'{type(err).__name__}: {err}\n')


def _list_groups(rmd: Controlled, _name: str, _data: Mapping[str, Any]) -> Any:
    return rmd.list_groups()


def _add_group(rmd: Controlled, _name: str, data: Mapping[str, Any]) -> Any:
    ways = {
        int(cache_id): sum(1 << way for way in masks.parse_ranges(text))
        for cache_id, text in data['ways'].items()
    }
    cpus = masks.parse_ranges(data.get('cpus', ''))
    rmd.add_foreign_group(data['name'], ways, cpus)
    return rmd.list_groups()


def _remove_group(rmd: Controlled, name: str, _data: Mapping[str, Any]) -> Any:
    rmd.remove_foreign_group(name)
    return rmd.list_groups()


def _list_faults(rmd: Controlled, _name: str, _data: Mapping[str, Any]) -> Any:
    return [dataclasses.asdict(fault) for fault in rmd.faults.list_faults()]


def _add_fault(rmd: Controlled, name: str, data: Mapping[str, Any]) -> Any:
    rmd.faults.add(faults_mod.from_dict(data))
    return _list_faults(rmd, name, data)


def _clear_faults(
    rmd: Controlled, _name: str, _data: Mapping[str, Any]
) -> Any:
    rmd.faults.clear()
    rmd.lie(False)
    return []


def _lie(rmd: Controlled, _name: str, data: Mapping[str, Any]) -> Any:
    calls = data.get('calls', enforcement.CALLS)
    rmd.lie(bool(data.get('lie', True)), calls)
    return {}


def _restart(rmd: Controlled, _name: str, data: Mapping[str, Any]) -> Any:
    # The thread that answers cannot stop the server that waits for it.
    rmd.restart_later(
        keep_database=bool(data.get('keep_database', True)),
        delay=RESTART_DELAY,
        down_for=float(data.get('down_for', 0.0)),
    )
    return {}


def _remount(rmd: Controlled, _name: str, _data: Mapping[str, Any]) -> Any:
    rmd.remount()
    return rmd.list_groups()


def _add_workload(rmd: Controlled, _name: str, data: Mapping[str, Any]) -> Any:
    # Numbers must be as the daemon's own decoder gives them.
    rmd.add_workload(gojson.decode(json.dumps(data)))
    return [record.to_body() for record in rmd.daemon.list_records()]


def _list_requests(
    rmd: Controlled, _name: str, _data: Mapping[str, Any]
) -> Any:
    return [list(request) for request in rmd.requests]


_ACTIONS: dict[
    tuple[str, str],
    Callable[[Controlled, str, Mapping[str, Any]], Any],
] = {
    ('GET', 'groups'): _list_groups,
    ('POST', 'groups'): _add_group,
    ('DELETE', 'groups'): _remove_group,
    ('GET', 'faults'): _list_faults,
    ('POST', 'faults'): _add_fault,
    ('DELETE', 'faults'): _clear_faults,
    ('POST', 'lie'): _lie,
    ('POST', 'restart'): _restart,
    ('POST', 'remount'): _remount,
    ('POST', 'workloads'): _add_workload,
    ('GET', 'requests'): _list_requests,
}
