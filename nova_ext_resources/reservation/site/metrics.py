# SPDX-License-Identifier: Apache-2.0

"""Writes what is reserved into a file, for the node exporter of Prometheus.

Its textfile collector reads it. So nothing listens here, whoever may read
metrics of the machine may read these, and ``--once`` can write them, too.
"""

from collections.abc import Iterator

import prometheus_client
from prometheus_client import core
from prometheus_client import registry as registry_mod

from nova_ext_resources.reservation import figures as figures_mod

PREFIX = 'nova_ext_resources_reservation'

_KIND = ('zone', 'resource_class')

#: Name of a field -> help text of its metric.
_AMOUNTS = {
    'total': 'Units that the inventories allow.',
    'used': 'Units that servers without a place in a reservation hold.',
    'promised': 'Units that are reserved now.',
    'taken': 'Units of places in reservations that servers have taken.',
    'available': 'Units that are left now.',
    'lent': 'Units that are promised from now on but not free: their holders '
    'must leave before.',
    'degraded': 'Units of places of reservations that are degraded.',
}


def write(path: str, figures: figures_mod.Figures) -> None:
    """Write all metrics at once; whoever reads sees the old or the new ones.

    :raises OSError: the file cannot be written
    """
    registry = prometheus_client.CollectorRegistry(auto_describe=False)
    registry.register(_Collector(figures))
    prometheus_client.write_to_textfile(path, registry)


class _Collector(registry_mod.Collector):
    def __init__(self, figures: figures_mod.Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[core.Metric]:
        yield from _list_amounts(self._figures)
        states = core.GaugeMetricFamily(
            f'{PREFIX}s',
            'Reservations that are not over, by their state.',
            labels=('state',),
        )
        for state, number in self._figures.reservations.items():
            states.add_metric((str(state),), number)
        yield states
        places = core.GaugeMetricFamily(
            f'{PREFIX}_places',
            'Places of reservations that have started: taken by servers, or '
            'free.',
            labels=('state',),
        )
        for name in ('taken', 'free'):
            places.add_metric((name,), getattr(self._figures, name))
        yield places
        yield core.GaugeMetricFamily(
            f'{PREFIX}_measured_timestamp_seconds',
            'Time at which all this was read, as Unix time.',
            value=self._figures.measured_at,
        )


def _list_amounts(figures: figures_mod.Figures) -> Iterator[core.Metric]:
    for name, text in _AMOUNTS.items():
        metric = core.GaugeMetricFamily(
            f'{PREFIX}_{name}_units', text, labels=_KIND
        )
        for kind, figure in sorted(figures.kinds.items()):
            metric.add_metric(kind, getattr(figure, name))
        yield metric
