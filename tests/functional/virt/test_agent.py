# SPDX-License-Identifier: Apache-2.0

"""The agent beside nova-computes that know nothing of this package."""

import contextlib
from typing import Any

from oslo_config import cfg
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.conf import reader
from nova_ext_resources import exception
from nova_ext_resources.host.ledger import ledger
from nova_ext_resources.host.service import agent as agent_mod
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.publish import provider_tree_cache
from nova_ext_resources.placement.publish import tree_writer
from tests.functional.virt import backends


_FILE = """\
meta: {schema_version: '1.0'}
providers:
  - identification: {uuid: $COMPUTE_NODE}
    inventories: {additional: [{CUSTOM_SEAT: {total: 6}}]}
"""


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
        node = host_provider.Node(
            uuid=self._get_provider_uuid_by_host(host),
            hypervisor_hostname=host,
        )
        agent = agent_mod.HostAgent(
            conf, host=host, node=node, state_path=str(self.folder)
        )
        self.addCleanup(agent.stop)
        self.agents[host] = agent
        agent.start()
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

        self.wait_until_used(host1=0, host2=4)
        self.boot(flavor, host='host1')

    def test_what_the_compute_node_itself_has_is_closed(self) -> None:
        files = self.folder / 'files'
        files.mkdir()
        (files / 'seats.yaml').write_text(_FILE)
        self.flags(provider_config_location=str(files), group='compute')

        self.start_host('host3')

        below = self._get_provider_inventory(self.find_seats('host3'))
        seats = below['CUSTOM_SEAT']
        self.assertEqual((6, 6), (seats['total'], seats['reserved']))
        agent = self.agents['host3']
        agent.do_round()
        [problem] = [
            one
            for one in agent.metrics.read_health().alarms
            if one.name == alarm.OLD_INVENTORY
        ]
        self.assertEqual('CUSTOM_SEAT', problem.subject)
        self.assertIn('disable its plugin', problem.text)

    def test_a_file_of_nova_that_comes_later_is_an_alarm(self) -> None:
        files = self.folder / 'files'
        files.mkdir()
        with (self.folder / 'ext.conf').open('a') as conf:
            conf.write(f'[compute]\nprovider_config_location = {files}\n')
        agent = self.restart_agent('host1')
        path = files / 'seats.yaml'
        text = _FILE.replace('uuid: $COMPUTE_NODE', 'name: host1_STATIC')
        path.write_text(text)

        agent.do_round()

        [problem] = [
            one
            for one in agent.metrics.read_health().alarms
            if one.name == alarm.PROVIDER_CONFIG
        ]
        self.assertEqual('host1_STATIC CUSTOM_SEAT', problem.subject)
        self.assertIn(f'{path}, line 4: provider host1_STATIC', problem.text)
        error = self.assertRaises(
            exception.InvalidConfiguration, self.restart_agent, 'host1'
        )
        self.assertIn('host1_STATIC', str(error))
        path.unlink()
        self.restart_agent('host1')

    def restart_agent(self, host: str) -> Any:
        self.agents[host].stop()
        self.start_agent(host)
        return self.agents[host]

    def test_what_nobody_checks_here_is_refused(self) -> None:
        required, preferred = (
            self.make_flavor(
                resources__CUSTOM_SEAT=1,
                resource__CUSTOM_SEAT__numa_affinity=affinity,
            )
            for affinity in ('required', 'preferred')
        )

        self.boot(required, 'ERROR')

        used = [self.count_used(host) for host in self.services]
        self.assertEqual([0, 0], used)
        self.boot(preferred)

    def test_servers_move_with_what_they_have(self) -> None:
        server = self.boot(self.make_own_flavor(4), host='host1')

        self._live_migrate(server, server_expected_state='ACTIVE')

        self.wait_until_used(host1=0, host2=4)
        self._migrate_server(server)
        self._confirm_resize(server)
        self.wait_until_used(host1=4, host2=0)

    def wait_until_used(self, **wanted: int) -> None:
        """Wait until so much is allocated; a move frees the source last."""
        self.wait_until(
            lambda: all(
                self.count_used(host) == number
                for host, number in wanted.items()
            )
        )

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

    def test_what_it_has_published_is_remembered(self) -> None:
        host = self.agents['host1'].host

        remembered = provider_tree_cache.Memory(host.ledger_path).read(
            host.node.uuid
        )

        self.assertEqual({self.find_seats('host1')}, {*remembered})

    def define(self, name: str) -> None:
        """Have the agent of host1 publish a provider of this key alone."""
        text = (self.folder / 'definitions.yaml').read_text()
        text = text.replace(
            'units: seats', f'units: seats\n    provider: {name}'
        )
        (self.folder / f'{name}.yaml').write_text(text)
        (self.folder / f'{name}.yaml').rename(self.folder / 'definitions.yaml')
        self.agents['host1'].do_round()
        self.agents['host1'].publisher.run_round()

    def test_nova_does_not_miss_a_provider_that_the_agent_no_longer_wants(
        self,
    ) -> None:
        service = self.services['host1']
        client = service.manager.rt.reportclient
        client.clear_provider_cache()
        self._run_periodics()
        self.assertTrue(client._provider_tree.exists('host1_STATIC'))

        self.define('LATTER')

        self.assertEqual(
            {}, self._get_provider_inventory(self.find_seats('host1'))
        )
        self._run_periodics()
        self.boot(self.make_own_flavor(4), host='host1')
        self.boot(self.make_own_flavor(4), 'ERROR', host='host1')

    def test_what_others_have_published_stays(self) -> None:
        agent = self.agents['host1']
        other = host_provider.Provider(
            rp_uuid=host_provider.make_rp_uuid(agent.host.node.uuid, 'OTHER'),
            name='host1_OTHER',
            parent_uuid=agent.host.node.uuid,
            inventories={'CUSTOM_OTHER': class_inventory.Inventory(total=3)},
        )
        writer = tree_writer.TreeWriter(agent.publisher._writer._client)
        writer.publish(agent.host.node, [other], may_delete=False)

        agent.publisher.run_round()

        found = self._get_provider_inventory(other.rp_uuid)
        self.assertEqual(3, found['CUSTOM_OTHER']['total'])

    def test_where_servers_have_units_by_the_driver_it_refuses(self) -> None:
        agent = self.agents['host1']
        path = agent.host.ledger_path
        agent.stop()
        with contextlib.closing(ledger.Ledger(path)) as opened:
            opened.replace(
                [],
                [assignment.Entry(consumer_uuid=uuids.server, assignments=())],
            )

        error = self.assertRaises(
            exception.InvalidConfiguration, self.start_agent, 'host1'
        )

        self.assertIn('units of 1 servers', str(error))
        # It is not left open.
        ledger.Ledger(path).close()
