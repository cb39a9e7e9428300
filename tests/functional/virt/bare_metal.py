# SPDX-License-Identifier: Apache-2.0

"""Nova's ironic driver, and the agent, with a double of ironic."""

from typing import Any

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.conf import reader
from nova_ext_resources.host.service import agent as agent_mod
from nova_ext_resources.objects import alarm
from tests.functional.virt import base
from tests.functional.virt import ironic

GOLD = 'CUSTOM_BAREMETAL_GOLD'
GPUS = 'CUSTOM_GPU'


def define(total: int, *nodes: str, more: str = '', name: str = GPUS) -> str:
    """Return an entry for nodes."""
    return f"""
  - name: {name}
    units: GPUs
    description: GPUs of the node.
    inventory: {{total: {total}}}
    nodes: [{', '.join(nodes)}]
    {more}
"""


class IronicTestCase(base.NovaTestCase):
    """Three nodes of one class; of two, the agent publishes GPUs."""

    compute_driver = 'ironic.IronicDriver'
    plugins = 'static'
    enforcers = ''

    def setUp(self) -> None:
        super().setUp()
        self.ironic = self.useFixture(ironic.Ironic())
        for name, value in (
            ('auth_type', 'none'),
            ('endpoint_override', self.ironic.url),
            ('api_retry_interval', 0),
        ):
            self.flags(**{name: value}, group='ironic')
        self.plain, self.small, self.big = (
            self.ironic.enroll(uuid, 'baremetal.gold', ['CUSTOM_RACK_A'])
            for uuid in (uuids.plain, uuids.small, uuids.big)
        )
        self.compute = self._start_compute('ironic1')
        self.write(define(2, self.small), define(4, self.big))
        self.agent = self.start_agent()

    def _write_conf(self) -> None:
        super()._write_conf()
        self.path = self.folder / 'definitions.yaml'
        with (self.folder / 'ext.conf').open('a') as conf:
            conf.write(
                f'[ext_resources_static]\ndefinitions_file = {self.path}\n'
            )

    def write(self, *entries: str) -> None:
        made = self.folder / 'new.yaml'
        made.write_text('resources:\n' + (''.join(entries) or '  []'))
        made.rename(self.path)

    def start_agent(self) -> agent_mod.HostAgent:
        (self.folder / 'controller.conf').write_text('')
        conf = reader.read_conf(
            [str(self.folder / 'ext.conf')], [], 'controller'
        )
        agent = agent_mod.HostAgent(
            conf, host='controller', node=None, state_path=str(self.folder)
        )
        self.addCleanup(agent.stop)
        agent.start()
        self.wait_until(lambda: agent.publisher.status.last_success_at)
        return agent

    def run_agent(self) -> None:
        """Have the agent look at its files, and publish."""
        self.agent.do_round()
        self.agent.publisher.run_round()
        self.assertEqual('', self.agent.publisher.status.failure)

    def run_all(self) -> None:
        """Have Nova write what it has of ironic, and then the agent."""
        self._run_periodics()
        self.run_agent()

    def list_alarms(self) -> dict[str, str]:
        """Return the alarms of nodes, by node."""
        return {
            one.subject: one.text
            for one in self.agent.metrics.read_health().alarms
            if one.name == alarm.NODE_NOT_PUBLISHED
        }

    def find(self, node: str) -> dict[str, int]:
        """Return what is published below a node, by class; {}: nothing."""
        return {
            name: inventory['total']
            for provider in self._get_all_providers()
            if provider['name'] == f'{node}_STATIC'
            for name, inventory in self._get_provider_inventory(
                provider['uuid']
            ).items()
        }

    def read_cloud(self) -> dict[str, Any]:
        """Return inventories and traits of all providers, by their names."""
        return {
            one['name']: (
                self._get_provider_inventory(one['uuid']),
                sorted(self._get_provider_traits(one['uuid'])),
            )
            for one in self._get_all_providers()
        }

    def find_node(self, server: Any) -> str:
        shown = self.admin_api.get_server(server['id'])
        return str(shown['OS-EXT-SRV-ATTR:hypervisor_hostname'])

    def make_node_flavor(
        self, gpus: int = 0, *, node: str = GOLD, **more: Any
    ) -> str:
        amounts = {node: 1, GPUS: gpus}
        return self.make_flavor(
            resources__VCPU=0,
            resources__MEMORY_MB=0,
            resources__DISK_GB=0,
            **{f'resources__{k}': v for k, v in amounts.items() if v},
            **more,
        )
