# SPDX-License-Identifier: Apache-2.0

"""Every metric: its name, help text and labels, and how series add up. Pure.

Names follow the conventions of Prometheus ("Metric and label naming"): base
units, the unit at the end of the name, ``_total`` for counters. Prometheus
refuses a whole scrape that has the same series twice, or text that is not
UTF-8. Names of flavors come from outside.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from prometheus_client import core

PREFIX = 'nova_ext_resources_'

#: The most characters that a label's value has.
MAX_LENGTH = 128

#: Name of the metric, value, labels. Without a value there is no series.
Series: TypeAlias = tuple[str, float | None, tuple[str, ...]]

_PLACE = ('provider', 'resource_class')
_SERVER = ('server', 'flavor', 'project')
_CACHE = (*_SERVER, 'provider')
_PART = ('part', 'plugin')
_ALARM = ('name', 'severity')

#: Name without the prefix -> help text and labels.
_Table: TypeAlias = dict[str, tuple[str, tuple[str, ...]]]

_GAUGES: _Table = {
    'inventory_units': ('All units of a resource provider.', _PLACE),
    'inventory_reserved_units': (
        'Units that the host keeps, or that other software uses.',
        _PLACE,
    ),
    'inventory_used_units': ('Units that servers hold.', _PLACE),
    'inventory_free_units': ('Units that are free, in total.', _PLACE),
    'inventory_largest_units': (
        'The most units that one server could get now, such as the longest '
        'run of free cache ways.',
        _PLACE,
    ),
    'assigned_units': ('Units that a server holds.', (*_SERVER, *_PLACE)),
    'servers': (
        'Servers that hold resources, by the state of their entry in the '
        'ledger: claimed, applied, held or releasing.',
        ('state',),
    ),
    'servers_left_out': (
        'Servers that have no series of their own because of max_servers.',
        (),
    ),
    'llc_occupancy_bytes': (
        "Size of a server's data in a last-level cache.",
        _CACHE,
    ),
    'cpu_frequency_hertz': (
        'Mean frequency of the CPUs that a server is pinned to.',
        _SERVER,
    ),
    'sweep_duration_seconds': ('Duration of the last sweep.', ()),
    'unmeasured_servers': (
        'Servers that could not be measured, or only in part.',
        (),
    ),
    'rmids': ('Monitoring ids that the CPU has.', ()),
    'rmids_used': ('Monitoring ids in use, by any software.', ()),
    'part_last_success_timestamp_seconds': (
        'When a part of the service last worked, as Unix time; 0: not since '
        'the start.',
        _PART,
    ),
    'part_failing': ('1 while a part of the service does not work.', _PART),
    'pool_read_timestamp_seconds': (
        'When this host last read a pool of several hosts, as Unix time; 0: '
        'not since the start.',
        ('pool',),
    ),
    'status': (
        '1 for the status of the host: ok, degraded or failing.',
        ('is',),
    ),
    'alarm': (
        '1 while an alarm is raised, otherwise 0; every alarm has a series.',
        _ALARM,
    ),
    'alarm_subjects': (
        'Number of subjects, such as servers, for which an alarm is raised.',
        _ALARM,
    ),
}

#: Names without ``_total``, which is added.
_COUNTERS: _Table = {
    'memory_bandwidth_bytes': (
        'Data that a server has moved from and to memory.',
        _CACHE,
    ),
    'memory_bandwidth_local_bytes': (
        'Data that a server has moved from and to memory of the same node.',
        _CACHE,
    ),
    'tuning_changes': (
        'Changes that fine tuning has made.',
        ('resource_class',),
    ),
}


def make_metrics(series: Iterable[Series]) -> Iterator[core.Metric]:
    """Return every metric; values with the same labels are added up."""
    values: dict[str, dict[tuple[str, ...], float]] = {
        name: {} for name in (*_GAUGES, *_COUNTERS)
    }
    for name, value, labels in series:
        if value is not None:
            key = tuple(map(clean, labels))
            values[name][key] = values[name].get(key, 0.0) + value
    for kind, table in (
        (core.GaugeMetricFamily, _GAUGES),
        (core.CounterMetricFamily, _COUNTERS),
    ):
        for name, (documentation, label_names) in table.items():
            metric = kind(f'{PREFIX}{name}', documentation, labels=label_names)
            for key, value in values[name].items():
                metric.add_metric(key, value)
            yield metric


def clean(text: object) -> str:
    """Make a label's value of anything.

    Characters that cannot be printed become question marks: control
    characters, and halves of characters that cannot be encoded.
    """
    cut = str(text)[:MAX_LENGTH]
    if cut.isprintable():
        return cut
    return ''.join(char if char.isprintable() else '?' for char in cut)
