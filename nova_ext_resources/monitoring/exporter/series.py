# SPDX-License-Identifier: Apache-2.0

"""From one value with all that is known of a host to metrics. Pure.

Of the labels, only those with servers could grow without end, so the number
of servers that have series of their own is bounded.
"""

from collections.abc import Collection, Iterator, Mapping
import dataclasses

from prometheus_client import core

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.facts import server as server_obj
from nova_ext_resources.monitoring.exporter import catalogue
from nova_ext_resources.monitoring import sample
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_health
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import pool

#: Stands for all servers that have no series of their own.
OTHER = 'other'

_UNKNOWN = server_obj.NovaServer()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostSnapshot:
    """All that is known of a host at one moment.

    :ivar entries: server -> what it holds; the first that came comes first
    :ivar servers: server -> what Nova reports of it
    :ivar sweep: the latest measurement; None where nothing is measured
    :ivar tuning_changes: resource class -> number of changes that fine
        tuning has made since the start
    :ivar pools: those of several hosts that this one reaches
    """

    health: host_health.HostHealth
    view: host_view.HostView
    entries: Mapping[str, assignment.Entry]
    servers: Mapping[str, server_obj.NovaServer] = dataclasses.field(
        default_factory=dict
    )
    sweep: sample.Sweep | None = None
    tuning_changes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    pools: tuple[pool.SharedPool, ...] = ()

    def list_servers(self) -> list[str]:
        """Return the servers that hold or use something, holders first."""
        measured = sorted(self.sweep.servers) if self.sweep else ()
        return list(dict.fromkeys([*self.entries, *measured]))


def choose_shown(
    snapshot: HostSnapshot, max_servers: int, before: Collection[str] = ()
) -> frozenset[str]:
    """Choose the servers that have series of their own.

    Servers that have them keep them, so that no series ends because another
    server comes. Free places go to servers that hold something first.

    :param max_servers: the most that are chosen; 0: no limit
    :param before: servers that had them at the last scrape
    """
    ranked = sorted(
        snapshot.list_servers(), key=lambda uuid: uuid not in before
    )
    return frozenset(ranked[: max_servers or None])


def list_families(
    snapshot: HostSnapshot, shown: Collection[str]
) -> Iterator[core.Metric]:
    """Return every metric.

    :param shown: servers that have series of their own
    """
    return catalogue.make_metrics(_list_series(snapshot, shown))


def _list_series(
    snapshot: HostSnapshot, shown: Collection[str]
) -> Iterator[catalogue.Series]:
    labels = _make_labels(snapshot, shown)
    yield from _list_inventory(snapshot.view)
    yield from _list_servers(snapshot.entries, labels)
    left_out = len(labels.keys() - shown)
    yield 'servers_left_out', left_out, ()
    if snapshot.sweep is not None:
        yield from _list_measured(snapshot.sweep, labels, shown)
    yield from _list_health(snapshot.health)
    yield from _list_alarms(snapshot.health)
    for one in filter(lambda each: each.is_read, snapshot.pools):
        read_at = one.reading.read_at.timestamp() if one.reading else 0
        yield 'pool_read_timestamp_seconds', read_at, (one.name,)
    for resource_class, count in snapshot.tuning_changes.items():
        yield 'tuning_changes', count, (resource_class,)


def _make_labels(
    snapshot: HostSnapshot, shown: Collection[str]
) -> dict[str, tuple[str, str, str]]:
    """Return server -> the labels server, flavor and project."""
    labels = dict.fromkeys(snapshot.list_servers(), (OTHER, '', ''))
    for uuid in labels.keys() & shown:
        info = snapshot.servers.get(uuid, _UNKNOWN)
        labels[uuid] = uuid, info.flavor, info.project_id
    return labels


def _list_inventory(view: host_view.HostView) -> Iterator[catalogue.Series]:
    for (rp_uuid, resource_class), tracked in view.tracked.items():
        place = view.keys.get(rp_uuid, rp_uuid), resource_class
        largest = tracked.state.available
        if tracked.inventory is not None:
            yield 'inventory_units', tracked.inventory.total, place
            yield 'inventory_reserved_units', tracked.inventory.reserved, place
            # Placement allocates no more than this at once.
            largest = min(largest, tracked.inventory.max_unit)
        yield 'inventory_used_units', tracked.state.used, place
        yield 'inventory_free_units', tracked.state.free, place
        yield 'inventory_largest_units', largest, place


def _list_servers(
    entries: Mapping[str, assignment.Entry],
    labels: Mapping[str, tuple[str, ...]],
) -> Iterator[catalogue.Series]:
    for state in assignment.State:
        yield 'servers', 0, (state.value,)
    for uuid, entry in entries.items():
        yield 'servers', 1, (entry.state.value,)
        for one in entry.assignments:
            place = one.rp_key, one.resource_class
            yield 'assigned_units', one.amount, (*labels[uuid], *place)


def _list_measured(
    sweep: sample.Sweep,
    labels: Mapping[str, tuple[str, ...]],
    shown: Collection[str],
) -> Iterator[catalogue.Series]:
    for uuid, server in sweep.servers.items():
        for one in server.caches:
            read = one.counters
            # A host with many caches has a server in few of them. A CPU may
            # lack some of the counters.
            if not any((read.occupancy, read.total, read.local)):
                continue
            cache = *labels[uuid], classes.make_l3_key(one.domain.cache)
            yield 'llc_occupancy_bytes', read.occupancy, cache
            # The sum of counters of servers that come and go is no counter.
            if uuid in shown:
                yield 'memory_bandwidth_bytes', read.total, cache
                yield 'memory_bandwidth_local_bytes', read.local, cache
        # Means cannot be added up.
        if uuid in shown:
            yield 'cpu_frequency_hertz', server.frequency, labels[uuid]
    yield 'sweep_duration_seconds', sweep.duration, ()
    yield 'unmeasured_servers', len(sweep.problems), ()
    if sweep.ids is not None:
        yield 'rmids', sweep.ids.total, ()
        yield 'rmids_used', sweep.ids.used, ()


def _list_health(health: host_health.HostHealth) -> Iterator[catalogue.Series]:
    for one in health.parts:
        labels = one.part, one.name
        at = one.last_success_at
        worked_at = at.timestamp() if at else 0
        yield 'part_last_success_timestamp_seconds', worked_at, labels
        yield 'part_failing', one.failing_since is not None, labels
    for each in host_health.HealthStatus:
        yield 'status', each is health.status, (each.value,)


def _list_alarms(health: host_health.HostHealth) -> Iterator[catalogue.Series]:
    names = [one.name for one in health.alarms]
    for kind in alarm.KINDS.values():
        count = names.count(kind.name)
        labels = [(kind.name, kind.severity.value)]
        if kind.name in alarm.FORMER_NAMES:
            # A severity of its own: sums by severity count the alarm once.
            labels.append((alarm.FORMER_NAMES[kind.name], 'alias'))
        for one in labels:
            yield 'alarm', count > 0, one
            yield 'alarm_subjects', count, one
