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

"""The collector that ``prometheus_client`` asks at each scrape."""

from collections.abc import Callable, Iterable

import prometheus_client
from prometheus_client import core
from prometheus_client import registry as registry_mod

from nova_ext_resources.metrics import families


class Collector(registry_mod.Collector):
    """Makes metrics of what is known at the time; measures nothing.

    :param read: gives all that is known, without I/O
    :param max_servers: how many servers have series of their own; 0: all
    """

    def __init__(
        self, read: Callable[[], families.Snapshot], max_servers: int = 0
    ) -> None:
        self._read = read
        self._max_servers = max_servers
        # Scrapes come in threads: the last one that ends is remembered.
        self._shown: frozenset[str] = frozenset()

    def collect(self) -> Iterable[core.Metric]:
        snapshot = self._read()
        self._shown = shown = families.choose_shown(
            snapshot, self._max_servers, self._shown
        )
        return families.list_families(snapshot, shown)

    def describe(self) -> Iterable[core.Metric]:
        """Say nothing beforehand: a registry would ask for a scrape."""
        return ()


def make_registry(
    collector: Collector,
) -> prometheus_client.CollectorRegistry:
    """Make a registry of its own: the global one belongs to the process."""
    registry = prometheus_client.CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry
