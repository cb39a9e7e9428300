# SPDX-License-Identifier: Apache-2.0


"""Moving an allocation in real placement."""

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources import exception
from nova_ext_resources.placement import allocations
from nova_ext_resources.placement import tree
from tests.functional.placement import hosts


class MoveAllocationTest(hosts.HostTestCase):
    def setUp(self) -> None:
        super().setUp()
        writer = tree.TreeWriter(self.client)
        writer.publish(hosts.NODE, hosts.make_host(ways=8))
        self.allocate(
            {hosts.NODE.uuid: {'VCPU': 2}, hosts.L3_0: {hosts.WAYS: 4}}
        )

    def move(self) -> None:
        allocations.move_allocation(
            self.client,
            uuids.server,
            from_rp_uuid=hosts.L3_0,
            to_rp_uuid=hosts.L3_1,
            resource_class=hosts.WAYS,
        )

    def read_resources(self) -> object:
        return self.client.get_allocations(uuids.server).resources

    def test_it_moves_and_everything_else_stays(self) -> None:
        before = self.client.get_allocations(uuids.server)

        self.move()

        after = self.client.get_allocations(uuids.server)
        self.assertEqual(
            {hosts.NODE.uuid: {'VCPU': 2}, hosts.L3_1: {hosts.WAYS: 4}},
            after.resources,
        )
        self.assertEqual(
            (before.project_id, before.user_id, before.consumer_type),
            (after.project_id, after.user_id, after.consumer_type),
        )

    def test_moving_twice_is_moving_once(self) -> None:
        self.move()
        self.move()

        self.assertEqual(
            {hosts.NODE.uuid: {'VCPU': 2}, hosts.L3_1: {hosts.WAYS: 4}},
            self.read_resources(),
        )

    def test_it_adds_to_what_is_there_and_leaves_other_classes(self) -> None:
        self.allocate(
            {
                hosts.L3_0: {hosts.WAYS: 4},
                hosts.L3_1: {hosts.WAYS: 2},
                hosts.RDT: {hosts.CLOS: 1},
            }
        )

        self.move()

        self.assertEqual(
            {hosts.L3_1: {hosts.WAYS: 6}, hosts.RDT: {hosts.CLOS: 1}},
            self.read_resources(),
        )

    def test_a_change_in_between_is_kept(self) -> None:
        self.app.before_next(
            'PUT',
            uuids.server,
            lambda: self.allocate(
                {hosts.NODE.uuid: {'VCPU': 3}, hosts.L3_0: {hosts.WAYS: 5}}
            ),
        )

        self.move()

        self.assertEqual(
            {hosts.NODE.uuid: {'VCPU': 3}, hosts.L3_1: {hosts.WAYS: 5}},
            self.read_resources(),
        )

    def test_what_does_not_fit_there_stays_where_it_is(self) -> None:
        self.allocate({hosts.L3_1: {hosts.WAYS: 6}}, uuids.another)

        self.assertRaises(exception.AllocationRejected, self.move)

        self.assertEqual(
            {hosts.NODE.uuid: {'VCPU': 2}, hosts.L3_0: {hosts.WAYS: 4}},
            self.read_resources(),
        )

    def test_a_server_that_holds_none_of_it_is_reported(self) -> None:
        self.allocate({hosts.NODE.uuid: {'VCPU': 2}})

        error = self.assertRaises(exception.NotFound, self.move)

        self.assertIn(uuids.server, str(error))
