# SPDX-License-Identifier: Apache-2.0

"""The agent beside Nova's ironic driver: many nodes of one nova-compute."""

from typing import Any

from openstack import exceptions as sdk_exc
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.conf import reader
from nova_ext_resources.host import agent as agent_mod
from nova_ext_resources.objects import alarm
from tests.functional.virt import base
from tests.functional.virt import commands
from tests.functional.virt import ironic
from tests.unit.cmd.osc import shells

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

    def start_agent(self) -> agent_mod.Agent:
        (self.folder / 'controller.conf').write_text('')
        conf = reader.read_conf(
            [str(self.folder / 'ext.conf')], [], 'controller'
        )
        agent = agent_mod.Agent(
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
            for one in self.agent.read_health().alarms
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


class IronicTest(IronicTestCase):
    def test_a_server_gets_the_node_that_has_what_its_flavor_asks(
        self,
    ) -> None:
        server = self.boot(self.make_node_flavor(3))

        self.assertEqual(self.big, self.find_node(server))
        held = self._get_allocations_by_server_uuid(server['id'])
        big = self._get_provider_uuid_by_name(f'{self.big}_STATIC')
        self.assertEqual({GOLD: 1}, held[self.big]['resources'])
        self.assertEqual({GPUS: 3}, held[big]['resources'])

    def test_no_node_has_it(self) -> None:
        server = self.boot(self.make_node_flavor(5), 'ERROR')

        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )

    def test_no_node_is_had_twice(self) -> None:
        first = self.boot(self.make_node_flavor(1))
        second = self.boot(self.make_node_flavor(1))

        # There are free GPUs on both nodes, and the third has none.
        self.boot(self.make_node_flavor(1), 'ERROR')
        third = self.boot(self.make_node_flavor())
        self.boot(self.make_node_flavor(), 'ERROR')

        nodes = [self.find_node(one) for one in (first, second)]
        self.assertEqual({self.small, self.big}, {*nodes})
        self.assertEqual(self.plain, self.find_node(third))

    def test_a_server_without_gpus_has_its_node_alone(self) -> None:
        for _ in range(3):
            self.boot(self.make_node_flavor())

        self.boot(self.make_node_flavor(1), 'ERROR')

        self.assertEqual(
            3,
            len({one['instance_uuid'] for one in self.ironic.nodes.values()}),
        )

    def test_a_flavor_without_the_class_of_the_node(self) -> None:
        self.boot(self.make_node_flavor(3))
        self.boot(self.make_node_flavor(1))
        self._run_periodics()
        before = {u: dict(one) for u, one in self.ironic.nodes.items()}

        # Placement offers a GPU of nodes that are in use; Nova's driver knows.
        self.boot(
            self.make_flavor(
                resources__VCPU=0,
                resources__MEMORY_MB=0,
                resources__DISK_GB=0,
                resources__CUSTOM_GPU=1,
            ),
            'ERROR',
        )

        self.assertEqual(before, self.ironic.nodes)

    def test_several_at_once(self) -> None:
        flavor = self.make_node_flavor(2)
        body = self._build_server(flavor_id=flavor, networks='none')
        body.update(min_count=2, max_count=2)

        self.api.post_server({'server': body})

        servers = self.api.get_servers()
        for one in servers:
            self._wait_for_state_change(one, 'ACTIVE')
        self.assertEqual(
            {self.small, self.big}, {self.find_node(one) for one in servers}
        )

    def test_a_node_is_free_again_when_it_is_clean(self) -> None:
        flavor = self.make_node_flavor(3)
        server = self.boot(flavor)
        self._run_periodics()
        self._delete_server(server)
        self.run_all()
        self.boot(flavor, 'ERROR')

        self.ironic.finish_cleaning(self.big)
        self.run_all()

        self.assertEqual(self.big, self.find_node(self.boot(flavor)))

    def test_a_node_in_maintenance_gets_no_server(self) -> None:
        self.ironic.nodes[self.big]['maintenance'] = True
        self.run_all()

        self.boot(self.make_node_flavor(3), 'ERROR')

        self.assertEqual({GPUS: 4}, self.find(self.big))

    def test_what_nova_and_the_agent_write_stays(self) -> None:
        server = self.boot(self.make_node_flavor(3))
        self.run_all()
        before = self.read_cloud()
        reserved = before[self.big][0][GOLD]['reserved']
        self.assertEqual(1, reserved)

        for _ in range(2):
            self.run_all()
        self.compute.manager.rt.reportclient.clear_provider_cache()
        self.run_all()
        self.compute = self.restart_compute_service(self.compute)
        self.run_all()

        self.assertEqual(before, self.read_cloud())
        self.assertIn('CUSTOM_RACK_A', before[self.big][1])
        self.assertEqual(
            {GPUS: 3}, self.read_used(f'{self.big}_STATIC'), server
        )

    def read_used(self, name: str) -> dict[str, int]:
        uuid = self._get_provider_uuid_by_name(name)
        return dict(self._get_provider_usages(uuid))

    def test_a_node_that_ironic_no_longer_has(self) -> None:
        gone = self.ironic.nodes.pop(self.big)
        self.run_all()
        self.run_all()
        self.assertEqual({}, self.find(self.big))
        self.assertEqual([self.big], [*self.list_alarms()])
        self.assertIn('Nova has no such node', self.list_alarms()[self.big])
        names = [one['name'] for one in self._get_all_providers()]
        self.assertEqual([], [one for one in names if self.big in one])

        self.ironic.nodes[self.big] = gone
        self.run_all()

        self.assertEqual({GPUS: 4}, self.find(self.big))
        self.assertEqual({}, self.list_alarms())
        server = self.boot(self.make_node_flavor(3))
        self.assertEqual(self.big, self.find_node(server))

    def test_nodes_move_to_another_nova_compute(self) -> None:
        server = self.boot(self.make_node_flavor(1))
        self.run_all()
        before = self.read_cloud()
        self.compute.stop()
        self.api.put_service_force_down(
            self.compute.service_ref.uuid, forced_down=True
        )
        self.computes.clear()

        self.flags(host='ironic2')
        self._start_compute('ironic2')
        self.run_all()

        self.assertEqual(before, self.read_cloud())
        free = {self.small, self.big} - {self.find_node(server)}
        other = self.boot(self.make_node_flavor(1))
        self.assertEqual(free, {self.find_node(other)})
        shown = self.admin_api.get_server(other['id'])
        self.assertEqual('ironic2', shown['OS-EXT-SRV-ATTR:host'])
        self.boot(self.make_node_flavor(1), 'ERROR')

    def test_ironic_is_away(self) -> None:
        before = self.read_cloud()
        self.ironic.is_away = True

        for total in (2, 1):
            self.write(define(total, self.small), define(4, self.big))
            self.assertRaises(sdk_exc.HttpException, self._run_periodics)
            self.run_agent()

        self.assertEqual({GPUS: 1}, self.find(self.small))
        self.write(define(2, self.small), define(4, self.big))
        self.ironic.is_away = False
        self.run_all()
        self.assertEqual(before, self.read_cloud())
        self.boot(self.make_node_flavor(3))


class DefinitionsTest(IronicTestCase):
    """What operators write."""

    def test_a_node_that_nova_does_not_have_yet(self) -> None:
        self.write(define(8, uuids.late), define(1, self.small))
        self.run_agent()
        self.assertEqual([uuids.late], [*self.list_alarms()])
        self.assertEqual({GPUS: 1}, self.find(self.small))
        self.assertEqual('', self.agent.publisher.status.failure)

        self.ironic.enroll(uuids.late, 'baremetal.gold')
        self.run_all()

        self.assertEqual({}, self.list_alarms())
        server = self.boot(self.make_node_flavor(8))
        self.assertEqual(uuids.late, self.find_node(server))

    def test_a_hypervisor_is_no_bare_metal_node(self) -> None:
        self.flags(compute_driver='fake.MediumFakeDriver')
        self._start_compute('kvm1')
        kvm = self._get_provider_uuid_by_name('kvm1')

        self.write(define(8, kvm))
        self.run_agent()

        self.assertEqual([kvm], [*self.list_alarms()])
        self.assertEqual(
            [kvm],
            [one['uuid'] for one in self._get_all_rps_in_a_tree(kvm)],
        )

    def test_the_class_of_a_node_itself(self) -> None:
        self.ironic.enroll(uuids.silver, 'baremetal.silver')
        silver = 'CUSTOM_BAREMETAL_SILVER'
        self.write(
            define(8, self.big),
            define(1, self.big, self.small, name=silver),
            define(1, uuids.silver, name=GOLD),
        )

        self.run_all()

        self.assertEqual({GPUS: 8}, self.find(self.big))
        self.assertEqual({}, self.find(self.small))
        self.assertEqual({}, self.find(uuids.silver))
        self.assertEqual(
            {self.big, self.small, uuids.silver}, {*self.list_alarms()}
        )
        self.assertIn(
            f'{silver} is the resource class of a node itself',
            self.list_alarms()[self.big],
        )
        server = self.boot(self.make_node_flavor(node=silver))
        self.assertEqual(uuids.silver, self.find_node(server))

    def test_a_class_becomes_that_of_a_node(self) -> None:
        taken = 'CUSTOM_BAREMETAL_LATER'
        self.write(define(1, self.big, name=taken))
        self.run_agent()
        self.assertEqual({taken: 1}, self.find(self.big))

        self.ironic.nodes[self.big]['resource_class'] = 'baremetal.later'
        self.run_all()

        self.assertEqual({}, self.find(self.big))
        self.assertEqual([self.big], [*self.list_alarms()])

    def test_a_trait_that_ironic_does_not_have(self) -> None:
        fast = 'CUSTOM_GPU_FAST'
        self.write(define(4, self.big, more=f'traits: [{fast}]'))
        self.run_agent()
        self.assertIn(
            f'baremetal node add trait {self.big} {fast}',
            self.list_alarms()[self.big],
        )
        _inventory, traits = self.read_cloud()[f'{self.big}_STATIC']
        self.assertNotIn(fast, traits)
        # Placement must know a trait that a flavor requires.
        self.ironic.nodes[self.plain]['traits'].append(fast)
        self.run_all()
        flavors = [
            self.make_node_flavor(1, trait__CUSTOM_GPU_FAST='required'),
            self.make_node_flavor(
                resources_GPU__CUSTOM_GPU=1,
                trait_GPU__CUSTOM_GPU_FAST='required',
                group_policy='none',
            ),
        ]
        for one in flavors:
            self.boot(one, 'ERROR')
        self.assertIsNone(self.ironic.nodes[self.big]['instance_uuid'])

        self.ironic.nodes[self.big]['traits'].append(fast)
        self.run_all()

        self.assertEqual({}, self.list_alarms())
        for one in flavors:
            server = self.boot(one)
            self.assertEqual(self.big, self.find_node(server))
            self._delete_server(server)
            self.ironic.finish_cleaning(self.big)
            self.run_all()

    def test_a_nova_compute_of_this_package_has_the_file(self) -> None:
        self.agent.stop()
        self.write(define(7, self.big))
        self.flags(compute_driver='ext_resources.FakeDriver')

        service = self.start_host('host1')

        self.assertEqual({GPUS: 7}, self.find(self.big))
        # Of that host itself it is nothing.
        self.assertEqual({}, service.driver._ext.host.view.tracked)
        server = self.boot(self.make_node_flavor(7))
        self.assertEqual(self.big, self.find_node(server))

    def test_two_definitions_of_the_same(self) -> None:
        self.write(define(4, self.big), define(8, self.big, self.small))

        self.run_agent()

        self.assertEqual({GPUS: 4}, self.find(self.big))
        self.assertEqual({GPUS: 8}, self.find(self.small))
        alarms = {one.name for one in self.agent.read_health().alarms}
        self.assertIn(alarm.RESOURCES_LEFT_OUT, alarms)
        self.assertIn(
            f'STATIC of {self.big} has it', self.stdlog.logger.output
        )

    def test_a_node_is_taken_out_while_a_server_has_it(self) -> None:
        server = self.boot(self.make_node_flavor(3))
        self.write(define(2, self.small))
        for start in (self.run_agent, self.restart_agent):
            start()
            self.assertEqual({GPUS: 4}, self.find(self.big))
            inventory = self._get_provider_inventory(
                self._get_provider_uuid_by_name(f'{self.big}_STATIC')
            )
            self.assertEqual(4, inventory[GPUS]['reserved'])
            alarms = {one.name for one in self.agent.read_health().alarms}
            self.assertIn(alarm.PROVIDER_IN_USE, alarms)

        self._delete_server(server)
        self.ironic.finish_cleaning(self.big)
        self.run_all()

        self.assertEqual({}, self.find(self.big))
        self.assertEqual((), self.agent.read_health().alarms)
        self.boot(self.make_node_flavor(3), 'ERROR')
        self.assertEqual({GPUS: 2}, self.find(self.small))

    def restart_agent(self) -> None:
        self.agent.stop()
        self.agent = self.start_agent()
        self.run_agent()

    def test_a_node_is_taken_out_while_the_agent_does_not_run(self) -> None:
        self.agent.stop()
        self.write(define(2, self.small))

        self.restart_agent()

        self.assertEqual({}, self.find(self.big))
        self.write(define(2, self.small), define(6, self.big))
        self.run_all()
        self.assertEqual({GPUS: 6}, self.find(self.big))
        self.write()
        self.run_all()
        self.assertEqual({}, self.find(self.big))
        self.assertEqual({}, self.find(self.small))
        # It is there: Nova may remember it.
        self.assertIn(f'{self.big}_STATIC', self.read_cloud())
        self.boot(self.make_node_flavor())


class CommandsTest(commands.Commands, IronicTestCase):
    """Each node is a host of its own for the commands."""

    def setUp(self) -> None:
        super().setUp()
        self.install()

    def run_command(self, *words: str) -> str:
        status, output, errors = shells.run(['extended', 'resource', *words])
        self.assertEqual(0, status, errors)
        return ' '.join(output.split())

    def test_what_they_say_of_nodes(self) -> None:
        flavor = self.make_node_flavor(3)
        self.boot(flavor)
        self.run_all()

        for word in (
            f'{GOLD} of {self.big}: 1 requested: all '
            'of it is reserved, as Nova does with the class of a',
            f'{self.small}: does not fit {GPUS} of STATIC: 3 requested',
            f'{self.plain}: does not fit {GPUS}: 3 requested: no provider',
        ):
            self.assertIn(
                word, self.run_command('explain', '--flavor', flavor)
            )
        self.assertIn(
            '1 more servers',
            self.run_command('simulate', '--flavor', self.make_node_flavor(1)),
        )
        self.assertIn(
            f'{GPUS}: 4 total, 0 reserved, 3 used',
            self.run_command('host', 'show', self.big),
        )
        self.assertEqual('[]', self.run_command('audit', '-f', 'json'))
