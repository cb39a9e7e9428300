# SPDX-License-Identifier: Apache-2.0

"""The collector that ``prometheus_client`` calls at each scrape."""

from collections.abc import Callable, Iterable

import prometheus_client
from prometheus_client import core
from prometheus_client import registry as registry_mod

from nova_ext_resources.monitoring.exporter import series


class Collector(registry_mod.Collector):
    """Makes metrics of what is known already; measures nothing.

    :param read: returns all that is known of the host, without I/O
    :param max_servers: most servers with series of their own; 0: no limit
    """

    def __init__(
        self, read: Callable[[], series.HostSnapshot], max_servers: int = 0
    ) -> None:
        self._read = read
        self._max_servers = max_servers
        # Scrapes run in threads: the one that ends last is remembered.
        self._shown: frozenset[str] = frozenset()

    def collect(self) -> Iterable[core.Metric]:
        snapshot = self._read()
        self._shown = shown = series.choose_shown(
            snapshot, self._max_servers, self._shown
        )
        return series.list_families(snapshot, shown)

    def describe(self) -> Iterable[core.Metric]:
        """Return nothing: otherwise a registry would scrape to find out."""
        return ()


def make_registry(
    collector: Collector,
) -> prometheus_client.CollectorRegistry:
    """Make a registry of its own: the global one belongs to the process."""
    registry = prometheus_client.CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry
