# SPDX-License-Identifier: Apache-2.0

"""Hosts with devices that servers hold by name."""

from typing import Any

from tests.functional.virt import base

#: CPUs of each NUMA node, as Nova's fake driver has them here.
NODES = ((*range(12), *range(24, 36)), (*range(12, 24), *range(36, 48)))


class DevicesTestCase(base.NovaTestCase):
    """Starts its hosts; ``plugins`` names what finds their devices."""

    enforcers = ''
    HOSTS: tuple[str, ...] = ('host1', 'host2')

    def setUp(self) -> None:
        super().setUp()
        self.services = {host: self.start_host(host) for host in self.HOSTS}

    def find_host(self, host: str) -> Any:
        return self.services[host].driver._ext.host

    def list_held(self) -> list[tuple[str, str]]:
        """Return host and name of each function that a server holds."""
        return sorted(
            (host, name)
            for host in self.services
            for entry in self.find_host(host).entries.values()
            for one in entry.assignments
            for name in one.units['names']
        )

    def list_alarms(self, host: str) -> list[tuple[str, str]]:
        found = self.services[host].driver._ext.health.snapshot().alarms
        return [(one.name, one.subject) for one in found]

    def publish_all(self) -> None:
        for service in self.services.values():
            self.publish(service)
