# SPDX-License-Identifier: Apache-2.0

"""The agent beside Nova's ironic driver: many nodes of one nova-compute."""

from openstack import exceptions as sdk_exc

from tests.functional.virt import bare_metal
from tests.functional.virt import commands
from tests.unit.cmd.osc import shells

GOLD, GPUS = bare_metal.GOLD, bare_metal.GPUS


class IronicTest(bare_metal.IronicTestCase):
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
        alone = self.make_flavor(
            resources__VCPU=0,
            resources__MEMORY_MB=0,
            resources__DISK_GB=0,
            resources__CUSTOM_GPU=1,
        )
        # Placement offers GPUs, and Nova wants its own provider among them.
        self.boot(alone, 'ERROR')
        self.boot(self.make_node_flavor(3))
        self.boot(self.make_node_flavor(1))
        self._run_periodics()
        before = {u: dict(one) for u, one in self.ironic.nodes.items()}

        self.boot(alone, 'ERROR')

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
        self.assertIn('no provider of this node', self.list_alarms()[self.big])
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
            self.write(
                bare_metal.define(total, self.small),
                bare_metal.define(4, self.big),
            )
            self.assertRaises(sdk_exc.HttpException, self._run_periodics)
            self.run_agent()

        self.assertEqual({GPUS: 1}, self.find(self.small))
        self.write(
            bare_metal.define(2, self.small), bare_metal.define(4, self.big)
        )
        self.ironic.is_away = False
        self.run_all()
        self.assertEqual(before, self.read_cloud())
        self.boot(self.make_node_flavor(3))


class CommandsTest(commands.Commands, bare_metal.IronicTestCase):
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
            f'{GOLD} of {self.big}: 1 requested, 0 available: all units are '
            'reserved; Nova reserves the class of a',
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
        other = self.make_flavor(
            resources__VCPU=0,
            resources__MEMORY_MB=0,
            resources__DISK_GB=0,
            **{f'resources__{GPUS}': 1},
        )
        self.assertIn(
            'requests nothing of the compute node itself',
            self.run_command('explain', '--flavor', other),
        )
        self.assertIn(
            '0 more servers',
            self.run_command('simulate', '--flavor', other),
        )
        self.assertIn(
            f'{GPUS}: 4 total, 0 reserved, 3 used',
            self.run_command('host', 'show', self.big),
        )
        self.assertEqual('[]', self.run_command('audit', '-f', 'json'))
