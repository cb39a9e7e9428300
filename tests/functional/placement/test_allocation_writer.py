# SPDX-License-Identifier: Apache-2.0

"""Placement follows a claim of several caches."""

from nova_ext_resources import worker
from tests.unit.host import with_host
import types
from typing import Any

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources import exception
from nova_ext_resources.host.claims import allocation_writer
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_view
from nova_ext_resources.placement.publish import tree_writer
from tests.functional.placement import hosts
from tests.unit import builders

WAYS = hosts.WAYS

#: A third cache, which is the one that placement has chosen.
THIRD = hosts.make_wanted('L3_2', 'RDT', CUSTOM_LLC_WAYS=8)
FOURTH = hosts.make_wanted('L3_3', 'RDT', CUSTOM_LLC_WAYS=8)


class FollowTest(hosts.HostTestCase):
    """The server has CPUs of the first two caches."""

    def setUp(self) -> None:
        super().setUp()
        self.writer = tree_writer.TreeWriter(self.client)
        self.writer.publish(hosts.NODE, (*hosts.make_host(ways=8), THIRD))
        self.node = {hosts.NODE.uuid: {'VCPU': 2}}
        self.give({THIRD.rp_uuid: {WAYS: 4}})
        self.undone: list[assignment.Entry] = []
        self.settled: list[assignment.Entry] = []
        keys = {
            hosts.L3_0: 'L3_0',
            hosts.L3_1: 'L3_1',
            THIRD.rp_uuid: 'L3_2',
            FOURTH.rp_uuid: 'L3_3',
        }
        host: Any = types.SimpleNamespace(
            host='host1',
            view=host_view.HostView(
                keys=keys,
                constraints=host_constraints.Constraints(spreads_pins=True),
            ),
            undo=self.undone.append,
            settle=self.settled.append,
            entries={},
            is_starting=lambda _uuid: False,
        )
        self.follower = allocation_writer.AllocationWriter(
            host, with_host.COMPUTE, self.client, loops=worker.WorkerGroup()
        )

    def give(self, given: dict[str, dict[str, int]]) -> None:
        """Allocate to the server, as the scheduler or a killed host has."""
        self.given = {**self.node, **given}
        self.allocate(self.given)

    def follow(self) -> None:
        held = (
            builders.make_assignment(rp_uuid=rp_uuid)
            for rp_uuid in (hosts.L3_0, hosts.L3_1)
        )
        request = builders.make_request(
            self.given, cpus=(0, 4), asked={WAYS: 4}
        )
        self.entry = request.make_entry(tuple(held))
        self.follower.follow(request, self.entry)

    def read(self) -> Any:
        return self.client.get_allocations(uuids.server).resources

    def test_it_has_both(self) -> None:
        self.follow()

        self.assertEqual(
            {**self.node, hosts.L3_0: {WAYS: 4}, hosts.L3_1: {WAYS: 4}},
            self.read(),
        )
        self.assertEqual([], self.undone)
        self.assertEqual([self.entry], self.settled)

    def test_what_it_has_of_another_host_stays(self) -> None:
        """As in an evacuation; the other flavor's amount, or the same."""
        self.make_root(uuids.elsewhere, 'host2')
        self.client.set_inventories(
            uuids.elsewhere, {WAYS: class_inventory.Inventory(total=8)}, 0
        )
        for amount in (4, 6):
            foreign = {uuids.elsewhere: {WAYS: amount}}
            self.give({THIRD.rp_uuid: {WAYS: 4}, **foreign})

            self.follow()

            self.assertEqual(
                {
                    **self.node,
                    **foreign,
                    hosts.L3_0: {WAYS: 4},
                    hosts.L3_1: {WAYS: 4},
                },
                self.read(),
            )

    def test_of_two_others_it_gets_both_or_none(self) -> None:
        """It had those before a rebuild on other CPUs."""
        self.writer.publish(
            hosts.NODE, (*hosts.make_host(ways=8), THIRD, FOURTH)
        )
        self.give({one.rp_uuid: {WAYS: 4} for one in (THIRD, FOURTH)})
        for rp_uuid in (hosts.L3_0, hosts.L3_1):
            self.allocate({rp_uuid: {WAYS: 6}}, uuids.another)

            self.assertRaises(exception.CapacityExceeded, self.follow)

            self.assertEqual(self.given, self.read())

    def test_its_own_are_not_in_its_way(self) -> None:
        self.give({hosts.L3_0: {WAYS: 4}})
        self.allocate(
            {hosts.L3_0: {WAYS: 4}, hosts.L3_1: {WAYS: 6}}, uuids.another
        )

        error = self.assertRaises(exception.CapacityExceeded, self.follow)

        self.assertEqual(
            [('L3_1', 4, 2)],
            [(o.rp_key, o.requested, o.available) for o in error.shortfalls],
        )

    def test_a_rule_of_placement_is_no_lack(self) -> None:
        found = self.client.get_provider(hosts.L3_1)
        assert found.generation is not None
        limited = class_inventory.Inventory(total=8, max_unit=2)
        self.client.set_inventories(
            hosts.L3_1, {WAYS: limited}, found.generation
        )

        self.assertRaises(exception.AllocationRejected, self.follow)

        self.assertEqual(self.given, self.read())
        self.assertEqual([self.entry], self.undone)

    def test_of_either_it_says_what_is_missing(self) -> None:
        for rp_uuid, key in ((hosts.L3_0, 'L3_0'), (hosts.L3_1, 'L3_1')):
            self.allocate({rp_uuid: {WAYS: 6}}, uuids.another)

            error = self.assertRaises(exception.CapacityExceeded, self.follow)

            (one,) = error.shortfalls
            self.assertEqual(
                (key, WAYS, 4, 2),
                (one.rp_key, one.resource_class, one.requested, one.available),
            )
            self.assertIn('host1', str(error))
            self.assertEqual(self.given, self.read())
        self.assertEqual([self.entry] * 2, self.undone)

    def test_a_server_that_nova_has_given_up_gets_nothing(self) -> None:
        self.allocate(self.node)

        self.assertRaises(exception.NotFound, self.follow)

        self.assertEqual(self.node, self.read())
