# SPDX-License-Identifier: Apache-2.0

"""The agent beside nova-computes that know nothing of this package."""

from typing import Any

from oslo_config import cfg

from nova_ext_resources.conf import reader
from nova_ext_resources.host import agent as agent_mod
from nova_ext_resources.objects import provider
from tests.functional.virt import backends


class AgentTest(backends.Static):
    """Two hosts with six seats each, which an agent reports."""

    compute_driver = 'fake.MediumFakeDriver'

    def start_host(self, host: str, **settings: Any) -> Any:
        service = self._start_compute(host)
        (self.folder / f'{host}.conf').write_text('')
        self.agents = getattr(self, 'agents', {})
        self.start_agent(host)
        return service

    def start_agent(self, host: str) -> None:
        conf: cfg.ConfigOpts = reader.read_conf(
            [str(self.folder / 'ext.conf')], [], host
        )
        node = provider.Node(
            uuid=self._get_provider_uuid_by_host(host),
            hypervisor_hostname=host,
        )
        agent = agent_mod.Agent(
            conf, host=host, node=node, state_path=str(self.folder)
        )
        self.addCleanup(agent.stop)
        agent.start()
        self.agents[host] = agent
        self.wait_until(lambda: agent.publisher.status.last_success_at)

    def find_seats(self, host: str) -> str:
        return str(self._get_provider_uuid_by_name(f'{host}_STATIC'))

    def count_used(self, host: str) -> int:
        usages = self._get_provider_usages(self.find_seats(host))
        return int(usages['CUSTOM_SEAT'])

    def test_no_more_servers_than_there_are_seats(self) -> None:
        flavor = self.make_own_flavor(4)
        server = self.boot(flavor, host='host1')
        self.boot(flavor, 'ERROR', host='host1')
        self.assertEqual(4, self.count_used('host1'))

        self.boot(flavor, host='host2')
        self._delete_server(server)

        self.assertEqual(0, self.count_used('host1'))
        self.assertEqual(4, self.count_used('host2'))
        self.boot(flavor, host='host1')

    def test_servers_move_with_what_they_have(self) -> None:
        server = self.boot(self.make_own_flavor(4), host='host1')

        self._live_migrate(server, server_expected_state='ACTIVE')

        self.assertEqual(0, self.count_used('host1'))
        self.assertEqual(4, self.count_used('host2'))
        self._migrate_server(server)
        self._confirm_resize(server)
        self.assertEqual(4, self.count_used('host1'))
        self.assertEqual(0, self.count_used('host2'))

    def test_what_nova_and_the_agent_write_stays(self) -> None:
        server = self.boot(self.make_own_flavor(4), host='host1')
        before = self._get_provider_inventory(self.find_seats('host1'))

        for _ in range(2):
            self._run_periodics()
            self.agents['host1'].publisher.run_round()
        self.restart_compute_service(self.services['host1'])
        self._run_periodics()

        self.assertEqual(
            before, self._get_provider_inventory(self.find_seats('host1'))
        )
        self.assertEqual(4, self.count_used('host1'))
        self.assertEqual('', self.agents['host1'].publisher.status.failure)
        self._delete_server(server)

    def test_the_agent_is_gone_and_comes_back(self) -> None:
        self.agents['host1'].stop()
        server = self.boot(self.make_own_flavor(4), host='host1')

        self.start_agent('host1')

        self.assertEqual(4, self.count_used('host1'))
        self._reboot_server(server, hard=True)
        self.boot(self.make_own_flavor(4), 'ERROR', host='host1')
