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

"""From one value with all that is known of a host to metrics. Pure.

Names follow the conventions of Prometheus ("Metric and label naming"): base
units, the unit at the end of the name, ``_total`` for what only grows. Of the
labels, only those with servers could grow without end, so they are bounded.
"""

from collections.abc import Collection, Iterator, Mapping
import dataclasses

from prometheus_client import core

from nova_ext_resources import alarms
from nova_ext_resources.metrics import family as family_mod
from nova_ext_resources.monitoring import sample as sample_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import health as health_obj
from nova_ext_resources.objects import server as server_obj
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources import rdt
from nova_ext_resources.resctrl import monitoring

#: Stands for all servers that have no series of their own.
OTHER = 'other'

_PLACE = ('provider', 'resource_class')
_SERVER = ('server', 'flavor', 'project')
_PART = ('part', 'plugin')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that is known of a host at one moment.

    :ivar entries: what each server holds; those that came first come first
    :ivar servers: of those that Nova has here
    :ivar sweep: what was measured last; None where nothing is
    :ivar tuning_changes: resource class -> how many changes fine tuning has
        made since the start
    """

    health: health_obj.Snapshot
    view: view_obj.HostView
    entries: Mapping[str, assignment.Entry]
    servers: Mapping[str, server_obj.ServerInfo] = dataclasses.field(
        default_factory=dict
    )
    sweep: sample_mod.Sweep | None = None
    tuning_changes: Mapping[str, int] = dataclasses.field(default_factory=dict)


def choose_shown(
    snapshot: Snapshot, max_servers: int, before: Collection[str] = ()
) -> frozenset[str]:
    """Choose the servers that have series of their own.

    Who has them keeps them, so that no series goes because another server
    comes. Places that are left go to those that hold something first.

    :param max_servers: how many there are at most; 0: all
    :param before: who has had them at the last scrape
    """
    everybody = dict.fromkeys(
        [*snapshot.entries, *sorted(_list_measured_servers(snapshot))]
    )
    by_right = sorted(everybody, key=lambda uuid: uuid not in before)
    return frozenset(by_right[: max_servers or None])


def list_families(
    snapshot: Snapshot, shown: Collection[str]
) -> Iterator[core.Metric]:
    """Give every metric.

    :param shown: servers that have series of their own
    """
    naming = _Naming(snapshot, shown)
    for families in (
        _list_inventory(snapshot.view),
        _list_servers(snapshot, naming),
        _list_measured(snapshot, naming),
        _list_health(snapshot.health),
        _list_alarms(snapshot.health),
        _list_tuning(snapshot.tuning_changes),
    ):
        for one in families:
            yield one.make()


def _list_measured_servers(snapshot: Snapshot) -> Collection[str]:
    return snapshot.sweep.servers if snapshot.sweep else ()


class _Naming:
    """Who has labels of its own, and which."""

    def __init__(self, snapshot: Snapshot, shown: Collection[str]) -> None:
        everybody = {*snapshot.entries, *_list_measured_servers(snapshot)}
        self._servers = snapshot.servers
        self._shown = frozenset(shown)
        self.left_out = len(everybody - self._shown)

    def is_shown(self, consumer_uuid: str) -> bool:
        return consumer_uuid in self._shown

    def label(self, consumer_uuid: str) -> tuple[str, str, str]:
        """Give server, flavor and project."""
        if not self.is_shown(consumer_uuid):
            return OTHER, '', ''
        info = self._servers.get(consumer_uuid, _UNKNOWN)
        return consumer_uuid, info.flavor, info.project_id


_UNKNOWN = server_obj.ServerInfo()


def _list_inventory(view: view_obj.HostView) -> Iterator[family_mod.Family]:
    total = family_mod.Family(
        'inventory_units', 'Units that a provider has in all.', _PLACE
    )
    reserved = family_mod.Family(
        'inventory_reserved_units',
        'Units that the host keeps, or that others than its servers use.',
        _PLACE,
    )
    used = family_mod.Family(
        'inventory_used_units', 'Units that servers hold.', _PLACE
    )
    free = family_mod.Family(
        'inventory_free_units', 'Units that are left in all.', _PLACE
    )
    largest = family_mod.Family(
        'inventory_largest_units',
        'The most units that one server could get now, such as the longest '
        'run of free cache ways.',
        _PLACE,
    )
    for (rp_uuid, resource_class), tracked in view.tracked.items():
        place = view.keys.get(rp_uuid, rp_uuid), resource_class
        if tracked.inventory is not None:
            total.add(tracked.inventory.total, *place)
            reserved.add(tracked.inventory.reserved, *place)
        used.add(tracked.state.used, *place)
        free.add(tracked.state.free, *place)
        largest.add(_find_largest(tracked), *place)
    yield from (total, reserved, used, free, largest)


def _find_largest(tracked: view_obj.Tracked) -> int:
    """Give what one server could get: placement gives no more at once."""
    available = tracked.state.available
    if tracked.inventory is None:
        return available
    return min(available, tracked.inventory.max_unit)


def _list_servers(
    snapshot: Snapshot, naming: _Naming
) -> Iterator[family_mod.Family]:
    assigned = family_mod.Family(
        'assigned_units', 'Units that a server holds.', (*_SERVER, *_PLACE)
    )
    states = family_mod.Family(
        'servers',
        'Servers that hold something, by how far they are: claimed, applied '
        '(in force) or releasing.',
        ('state',),
    )
    left_out = family_mod.Family(
        'servers_left_out',
        'Servers that have no series of their own, see max_servers.',
    )
    for state in assignment.State:
        states.add(0, state.value)
    for uuid, entry in snapshot.entries.items():
        states.add(1, entry.state.value)
        for one in entry.assignments:
            assigned.add(
                one.amount,
                *naming.label(uuid),
                one.rp_key,
                one.resource_class,
            )
    left_out.add(naming.left_out)
    yield from (assigned, states, left_out)


def _list_measured(
    snapshot: Snapshot, naming: _Naming
) -> Iterator[family_mod.Family]:
    if snapshot.sweep is None:
        return
    yield from _list_caches(snapshot.sweep, naming)
    yield from _list_frequencies(snapshot.sweep, naming)
    duration = family_mod.Family(
        'sweep_duration_seconds', 'How long the last measuring took.'
    )
    duration.add(snapshot.sweep.duration)
    unmeasured = family_mod.Family(
        'unmeasured_servers',
        'Servers that could not be measured, or not fully.',
    )
    unmeasured.add(len(snapshot.sweep.problems))
    yield from (duration, unmeasured)
    if snapshot.sweep.ids is not None:
        yield from _list_ids(snapshot.sweep.ids)


def _list_caches(
    sweep: sample_mod.Sweep, naming: _Naming
) -> Iterator[family_mod.Family]:
    labels = (*_SERVER, 'provider')
    occupancy = family_mod.Family(
        'llc_occupancy_bytes',
        'What a server has in a last-level cache.',
        labels,
    )
    total = family_mod.Family(
        'memory_bandwidth_bytes',
        'What a server has moved from and to memory.',
        labels,
        is_counter=True,
    )
    local = family_mod.Family(
        'memory_bandwidth_local_bytes',
        'What a server has moved from and to memory of the same node.',
        labels,
        is_counter=True,
    )
    for uuid, server in sweep.servers.items():
        # The sum of counters of servers that come and go is no counter.
        counted = (total, local) if naming.is_shown(uuid) else ()
        for one in server.caches:
            # A host with many caches has a server in few of them.
            if not _is_anything(one.counters):
                continue
            series = *naming.label(uuid), rdt.make_l3_key(one.domain.cache)
            _add_known(occupancy, one.counters.occupancy, series)
            for counter, value in zip(
                counted, (one.counters.total, one.counters.local), strict=False
            ):
                _add_known(counter, value, series)
    yield from (occupancy, total, local)


def _is_anything(counters: monitoring.Counters) -> bool:
    """A CPU may lack one of them, which says nothing about the others."""
    return any((counters.occupancy, counters.total, counters.local))


def _add_known(
    family: family_mod.Family, value: float | None, labels: tuple[str, ...]
) -> None:
    if value is not None:
        family.add(value, *labels)


def _list_frequencies(
    sweep: sample_mod.Sweep, naming: _Naming
) -> Iterator[family_mod.Family]:
    frequency = family_mod.Family(
        'cpu_frequency_hertz',
        'Mean of the CPUs that a server is pinned to.',
        _SERVER,
    )
    for uuid, server in sweep.servers.items():
        # A mean cannot be summed up.
        if naming.is_shown(uuid):
            _add_known(frequency, server.frequency, naming.label(uuid))
    yield frequency


def _list_ids(ids: sample_mod.Ids) -> Iterator[family_mod.Family]:
    total = family_mod.Family('rmids', 'Monitoring ids that the CPU has.')
    total.add(ids.total)
    used = family_mod.Family(
        'rmids_used', 'Monitoring ids that groups of anybody have.'
    )
    used.add(ids.used)
    yield from (total, used)


def _list_health(
    health: health_obj.Snapshot,
) -> Iterator[family_mod.Family]:
    worked = family_mod.Family(
        'part_last_success_timestamp_seconds',
        'When a part last worked, as Unix time; 0: never since the start.',
        _PART,
    )
    failing = family_mod.Family(
        'part_failing', '1 while a part does not work.', _PART
    )
    for one in health.parts:
        at = one.last_success_at
        worked.add(at.timestamp() if at else 0, one.part, one.name)
        failing.add(one.failing_since is not None, one.part, one.name)
    status = family_mod.Family(
        'status', '1 for what the host is: ok, degraded or failing.', ('is',)
    )
    for each in health_obj.Status:
        status.add(each is health.status, each.value)
    yield from (worked, failing, status)


def _list_alarms(
    health: health_obj.Snapshot,
) -> Iterator[family_mod.Family]:
    labels = ('name', 'severity')
    raised = family_mod.Family(
        'alarm', '1 while an alarm is raised; every alarm is here.', labels
    )
    subjects = family_mod.Family(
        'alarm_subjects', 'For how many an alarm is raised.', labels
    )
    names = [one.name for one in health.alarms]
    for kind in alarms.KINDS.values():
        count = names.count(kind.name)
        raised.add(count > 0, kind.name, kind.severity)
        subjects.add(count, kind.name, kind.severity)
    yield from (raised, subjects)


def _list_tuning(
    changes: Mapping[str, int],
) -> Iterator[family_mod.Family]:
    family = family_mod.Family(
        'tuning_changes',
        'Changes that fine tuning has made.',
        ('resource_class',),
        is_counter=True,
    )
    for resource_class, count in changes.items():
        family.add(count, resource_class)
    yield family
