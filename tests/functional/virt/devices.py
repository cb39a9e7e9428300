# SPDX-License-Identifier: Apache-2.0

"""Hosts with devices that servers hold by name."""

from typing import Any

from nova_ext_resources.testing import sriov
from tests.functional.virt import base

#: CPUs of each NUMA node, as Nova's fake driver has them here.
NODES = ((*range(12), *range(24, 36)), (*range(12, 24), *range(36, 48)))

VF = 'SRIOV_NET_VF'
PF = '0000:3b:00.0'

#: Virtual functions of each host.
COUNT = 2

_PHYSNET = 'CUSTOM_PHYSNET_PHYSNET1'


class CardsTestCase(base.NovaTestCase):
    """Hosts with a card of two virtual functions each."""

    plugins = 'sriov'

    def _write_conf(self) -> None:
        super()._write_conf()
        self.trees: dict[str, sriov.Sysfs] = {}
        self.names: dict[str, list[str]] = {}

    def plug_in(self, tree: sriov.Sysfs) -> list[str]:
        """Plug in all cards of a host; return their functions."""
        tree.add_card(PF, interfaces=['ens1f0'])
        return tree.enable(PF, COUNT)

    def start_host(self, host: str, **settings: Any) -> Any:
        tree = sriov.Sysfs(str(self.folder / host / 'sys'), NODES)
        self.trees[host] = tree
        self.names[host] = self.plug_in(tree)
        self.host_options = (
            '[ext_resources_sriov]\n'
            f'path = {tree.path}\n'
            'physical_networks = physnet1:ens1f0, physnet1:ens2f0\n'
            f'[ext_resources_hostdev]\npath = {tree.path}\n'
        )
        return super().start_host(host, **settings)

    def make_vf_flavor(self, amount: int = 1, **specs: Any) -> str:
        return self.make_flavor(
            **{
                f'resources_VF__{VF}': amount,
                f'trait_VF__{_PHYSNET}': 'required',
                **specs,
            }
        )


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
