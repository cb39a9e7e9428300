# SPDX-License-Identifier: Apache-2.0

"""What operators define for bare-metal nodes, rightly and wrongly."""

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.objects import alarm
from tests.functional.virt import bare_metal

GOLD, GPUS = bare_metal.GOLD, bare_metal.GPUS


class DefinitionsTest(bare_metal.IronicTestCase):
    """What operators write."""

    def test_a_node_that_nova_does_not_have_yet(self) -> None:
        self.write(
            bare_metal.define(8, uuids.late), bare_metal.define(1, self.small)
        )
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

        self.write(bare_metal.define(8, kvm))
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
            bare_metal.define(8, self.big),
            bare_metal.define(1, self.big, self.small, name=silver),
            bare_metal.define(1, uuids.silver, name=GOLD),
        )

        self.run_all()

        self.assertEqual({GPUS: 8}, self.find(self.big))
        self.assertEqual({}, self.find(self.small))
        self.assertEqual({}, self.find(uuids.silver))
        self.assertEqual(
            {self.big, self.small, uuids.silver}, {*self.list_alarms()}
        )
        self.assertIn(
            f'{silver} is left out, because it is the class of a node',
            self.list_alarms()[self.big],
        )
        server = self.boot(self.make_node_flavor(node=silver))
        self.assertEqual(uuids.silver, self.find_node(server))

    def test_a_class_becomes_that_of_a_node(self) -> None:
        taken = 'CUSTOM_BAREMETAL_LATER'
        self.write(bare_metal.define(1, self.big, name=taken))
        self.run_agent()
        self.assertEqual({taken: 1}, self.find(self.big))

        self.ironic.nodes[self.big]['resource_class'] = 'baremetal.later'
        self.run_all()

        self.assertEqual({}, self.find(self.big))
        self.assertEqual([self.big], [*self.list_alarms()])

    def test_a_trait_that_ironic_does_not_have(self) -> None:
        fast = 'CUSTOM_GPU_FAST'
        self.write(bare_metal.define(4, self.big, more=f'traits: [{fast}]'))
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
        self.write(bare_metal.define(7, self.big))
        self.flags(compute_driver='ext_resources.FakeDriver')

        service = self.start_host('host1')

        # All hosts may have the file: each of them would write all nodes.
        self.assertEqual({GPUS: 4}, self.find(self.big))
        self.assertEqual({}, service.driver._ext.host.view.tracked)
        service.driver._ext.periodic.run_round()
        problems = service.driver._ext.metrics.read_health().alarms
        self.assertEqual(
            [(alarm.NODE_NOT_PUBLISHED, self.big)],
            [(one.name, one.subject) for one in problems],
        )

    def test_two_definitions_of_the_same(self) -> None:
        self.write(
            bare_metal.define(4, self.big),
            bare_metal.define(8, self.big, self.small),
        )

        self.run_agent()

        self.assertEqual({GPUS: 4}, self.find(self.big))
        self.assertEqual({GPUS: 8}, self.find(self.small))
        alarms = {one.name for one in self.agent.metrics.read_health().alarms}
        self.assertIn(alarm.RESOURCES_LEFT_OUT, alarms)
        self.assertIn(
            f'STATIC of {self.big} already', self.stdlog.logger.output
        )

    def test_a_node_is_taken_out_while_a_server_has_it(self) -> None:
        server = self.boot(self.make_node_flavor(3))
        self.write(bare_metal.define(2, self.small))
        for start in (self.run_agent, self.restart_agent):
            start()
            self.assertEqual({GPUS: 4}, self.find(self.big))
            inventory = self._get_provider_inventory(
                self._get_provider_uuid_by_name(f'{self.big}_STATIC')
            )
            self.assertEqual(4, inventory[GPUS]['reserved'])
            alarms = {
                one.name for one in self.agent.metrics.read_health().alarms
            }
            self.assertIn(alarm.PROVIDER_IN_USE, alarms)

        self._delete_server(server)
        self.ironic.finish_cleaning(self.big)
        self.run_all()

        self.assertEqual({}, self.find(self.big))
        self.assertEqual((), self.agent.metrics.read_health().alarms)
        self.boot(self.make_node_flavor(3), 'ERROR')
        self.assertEqual({GPUS: 2}, self.find(self.small))

    def restart_agent(self) -> None:
        self.agent.stop()
        self.agent = self.start_agent()
        self.run_agent()

    def test_a_node_is_taken_out_while_the_agent_does_not_run(self) -> None:
        self.agent.stop()
        self.write(bare_metal.define(2, self.small))

        self.restart_agent()

        self.assertEqual({}, self.find(self.big))
        self.write(
            bare_metal.define(2, self.small), bare_metal.define(6, self.big)
        )
        self.run_all()
        self.assertEqual({GPUS: 6}, self.find(self.big))
        self.write()
        self.run_all()
        self.assertEqual({}, self.find(self.big))
        self.assertEqual({}, self.find(self.small))
        # It is there: Nova may remember it.
        self.assertIn(f'{self.big}_STATIC', self.read_cloud())
        self.boot(self.make_node_flavor())
